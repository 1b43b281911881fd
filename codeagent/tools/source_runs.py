"""The sources of tools of a conversation: started in the background, restarted one by one, closed
together."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from codeagent.config.extensions import built_in_sets
from codeagent.core.tool import Tool
from codeagent.core.toolbox import ToolProblem

if TYPE_CHECKING:  # many conversations have no source
    from codeagent.tools.source import Listing, SourceRun, ToolSource


class SourceRuns:
    """Sources of tools by name, in the order in which they were added, and what they list now."""

    def __init__(self, changed: Callable[[], None], needed: Callable[[], Collection[str]]) -> None:
        """`changed` is called when a source may list something else than before. `needed` returns
        the names of the sources that start with the others although their listing says
        `waiting`."""
        self._changed = changed
        self._needed = needed
        self._runs: dict[str, SourceRun] = {}
        self._refused: list[ToolProblem] = []
        """Sources that are not used, as their name is taken."""
        self._begun = False
        self._later: asyncio.TimerHandle | None = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, name: object) -> bool:
        return name in self._runs

    def add(self, source: "ToolSource") -> None:
        """Add a source, and start it if the others run. If its name is taken, it is a problem and
        is not used."""
        from codeagent.tools.source import BuiltInSet, SourceRun  # many conversations have none

        if source.name in built_in_sets() and not isinstance(source, BuiltInSet):
            text = "a built-in set has this name, so it is not used; give it another name"
            self._refuse(source.name, text)
            return
        if source.name in self._runs:
            self._refuse(source.name, "two sources of tools have this name: the first is used")
            return
        self._runs[source.name] = run = SourceRun(source, self._changed)
        if self._begun:
            self._begin(run)

    def _refuse(self, name: str, text: str) -> None:
        self._refused.append(ToolProblem(name, text))
        self._changed()

    def begin(self, after: float = 0.0) -> None:
        """Start the sources in the background, so many seconds from now, except those that wait
        until they are needed.

        Sources that are needed earlier are started earlier. Needs a running event loop.
        """
        self._later = (
            asyncio.get_running_loop().call_later(after, self._begin_all) if after else None
        )
        if not after:
            self._begin_all()

    def _begin_all(self) -> None:
        self._begun = True
        for run in self._runs.values():
            self._begin(run)

    def _begin(self, run: "SourceRun") -> None:
        if run.listing.state != "waiting" or run.source.name in self._needed():
            run.begin()

    async def settled(self, names: Iterable[str], seconds: float) -> None:
        """Start these sources, and return once each has started or failed, or after that many
        seconds."""
        await asyncio.gather(*(self._runs[name].settled(seconds) for name in names))

    async def all_started(self, seconds: float) -> None:
        """Start every source that does not wait until it is needed, and wait until all have started
        or failed."""
        self._begin_all()
        starting = [name for name, one in self.listings().items() if one.state == "starting"]
        await self.settled(starting, seconds)

    def try_again(self, name: str) -> None:
        """If the source has failed, start it now instead of after the delay."""
        self._runs[name].try_again()

    async def restart(self, name: str) -> None:
        """Restart a source; return before it has started."""
        await self._runs[name].restart()

    async def close(self) -> None:
        """Close all sources; a cancellation takes effect once they are closed."""
        if self._later is not None:
            self._later.cancel()
        closing = asyncio.gather(*(run.close() for run in self._runs.values()))
        cancelled = False
        while not closing.done():
            try:
                await asyncio.wait({closing})
            except asyncio.CancelledError:
                cancelled = True
        if cancelled:
            raise asyncio.CancelledError

    def listing(self, name: str) -> "Listing":
        """Return everything that the source has now, allowed or not."""
        return self._runs[name].listing

    def listings(self) -> Mapping[str, "Listing"]:
        """Return what each source has now."""
        return {name: run.listing for name, run in self._runs.items()}

    def get(self, name: str, tool: str) -> Tool[Any]:
        """Return a tool of a source. Raises whatever the source raises."""
        return self._runs[name].source.get(tool)

    def tool_names(self) -> Iterator[str]:
        """Yield the names of all known tools, allowed or not."""
        return (tool.name for run in self._runs.values() for tool in run.listing.tools)

    @property
    def names_known(self) -> bool:
        """Whether every source has listed its tools."""
        return not any(self._unlisted())

    def may_have(self, name: str) -> bool:
        """Whether a name or pattern may match a tool of a source that has not listed its tools."""
        return any(listing.may_match(name) for listing in self._unlisted())

    def _unlisted(self) -> Iterator["Listing"]:
        for listing in (run.listing for run in self._runs.values()):
            if listing.state != "ready" and not (listing.state == "waiting" and listing.tools):
                yield listing

    def problems(self) -> tuple[ToolProblem, ...]:
        """Return the problems that the sources list, then those of sources that are not used."""
        told = (problem for run in self._runs.values() for problem in run.listing.problems)
        return (*told, *self._refused)
