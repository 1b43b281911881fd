"""Sources of further tools: one small interface for servers, documents, packages and built-in extra
sets."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from codeagent.core.dataclass import dataclass
from codeagent.core.sanitize import one_line
from codeagent.core.tool import NotFound, Tool
from codeagent.core.toolbox import SourceState, ToolProblem

_WILD = ("*", "?")
_CLOSE_SECONDS = 10.0
_FIRST_DELAY, _LONGEST_DELAY = 5.0, 300.0
"""Seconds from each failure to the next attempt."""


@dataclass(frozen=True)
class ListedTool:
    """A tool as an entry of a list, before it is made."""

    name: str
    summary: str
    """One line; empty if it is not known before the source was started."""
    tags: tuple[str, ...] = ()
    path: str = ""
    """The path of its operation, such as `/users/{id}`; empty if it has none."""


@dataclass(frozen=True)
class Listing:
    """What a source offers now."""

    tools: tuple[ListedTool, ...] = ()
    problems: tuple[ToolProblem, ...] = ()
    state: SourceState = "ready"
    about: str = ""
    """One line for the model that says what these tools are good for."""
    instructions: Callable[[str], str] | None = None
    """Returns, once for each agent, instructions for using the tools; see `extensions.mcp.source`."""
    prefix: str = ""
    """The prefix of the names of all its tools, including those not listed yet; empty if that is
    unknown."""

    def may_match(self, entry: str) -> bool:
        """Whether a name or pattern can match a tool whose name has the prefix."""
        wild = min((at for one in _WILD if (at := entry.find(one)) >= 0), default=len(entry))
        head = entry[:wild]
        return head.startswith(self.prefix) or (head != entry and self.prefix.startswith(head))


class ToolSource(Protocol):
    """Tools of one origin. If it cannot reach something, it does not raise, but reports a problem
    in its listing.

    `SourceRuns` starts it during the first request or, while its listing says `waiting`, when it is
    needed; starts it again, at growing intervals, while the listing says `failed`; and closes it
    with the conversation. While the listing does not say `ready`, its tools stay in use, and
    their calls fail by themselves.
    """

    @property
    def name(self) -> str:
        """Its name for the user and the model, such as `github`, `petstore` or `web`; unique in a
        conversation."""

    async def start(self, changed: Callable[[], None]) -> None:
        """Start, and return once the first listing is available or has failed; called again after a
        failure.

        `changed` is called on the event loop whenever `list` would return something else than
        before.
        """

    def list(self) -> Listing:
        """Return the current listing; the same object as before if nothing changed. Does not
        block."""

    def get(self, name: str) -> Tool[Any]:
        """Return the tool of that name in the listing, the same object until it changes. Raises
        NotFound."""

    async def close(self) -> None:
        """End everything that was started. Also called if `start` never was."""


class BuiltInSet:
    """A source of built-in tools that are imported and made on first use."""

    def __init__(
        self, name: str, about: str, names: Sequence[str], make: Callable[[], Sequence[Tool[Any]]]
    ) -> None:
        """`make` returns the tools called `names`, in that order; it runs in a thread and imports
        what it needs.

        With `names`, rules and allow lists can be checked, and calls answered, before anything is
        imported.
        """
        self.name = name
        self.make = make
        self._tools: dict[str, Tool[Any]] = {}
        self._listing = Listing(
            tuple(ListedTool(one, "") for one in names), state="waiting", about=about
        )

    async def start(self, changed: Callable[[], None]) -> None:
        """Raises whatever `make` raises."""
        about = self._listing.about
        tools = await asyncio.to_thread(self.make)
        self._tools = {tool.name: tool for tool in tools}
        self._listing = Listing(tuple(listed(tool) for tool in tools), about=about)
        changed()

    def list(self) -> Listing:
        return self._listing

    def get(self, name: str) -> Tool[Any]:
        if name not in self._tools:
            raise NotFound(f"the toolset {self.name} has no tool {name}")
        return self._tools[name]

    async def close(self) -> None:
        return None


class ToolsByName(Mapping[str, Tool[Any]]):
    """The built-in tools that a file may narrow, by name; a set is made when one of its tools is
    first looked up."""

    def __init__(self, tools: Sequence[Tool[Any]], sets: Sequence[BuiltInSet] = ()) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._sets = {
            one.name: made
            for made in sets
            for one in made.list().tools
            if one.name not in self._tools
        }

    def __getitem__(self, name: str) -> Tool[Any]:
        if name in self._tools or name not in self._sets:
            return self._tools[name]
        self._tools |= {
            tool.name: tool for tool in self._sets[name].make() if tool.name in self._sets
        }
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._tools, *self._sets)))

    def __len__(self) -> int:
        return len(self._tools.keys() | self._sets.keys())


_STARTING = Listing(state="starting")


class LateSource:
    """A source that is imported and made in a thread once it is started."""

    def __init__(
        self, name: str, make: Callable[[], ToolSource], listing: Listing = _STARTING
    ) -> None:
        """`listing` is what is known before that; in the state `waiting` the source is made only
        when it is needed."""
        self.name = name
        self._make = make
        self._source: ToolSource | None = None
        self._started = False
        self._listing = listing

    async def start(self, changed: Callable[[], None]) -> None:
        """Raises whatever `make` raises."""
        if self._source is None:
            self._source = await asyncio.to_thread(self._make)
        await self._source.start(changed)
        self._started = True

    def list(self) -> Listing:
        return self._source.list() if self._source is not None and self._started else self._listing

    def get(self, name: str) -> Tool[Any]:
        if self._source is None or not self._started:
            raise NotFound(f"the toolset {self.name} is still starting")
        return self._source.get(name)

    async def close(self) -> None:
        if self._source is not None:
            await self._source.close()


class SourceRun:
    """Runs a source: starts it in the background, and again, at growing intervals, while it
    fails."""

    def __init__(self, source: ToolSource, changed: Callable[[], None]) -> None:
        self.source = source
        self._changed = changed
        self._broken: Listing | None = None
        self._task: asyncio.Task[None] | None = None
        self._started = asyncio.Event()
        self._moved = asyncio.Event()
        self._again = asyncio.Event()
        self._ending = asyncio.Lock()
        self._closed = False

    @property
    def listing(self) -> Listing:
        """The source's own listing; a failed one if `list` raises, and while a failed start is
        tried again."""
        if self._broken is not None:
            return self._broken
        try:
            return self.source.list()
        except Exception as error:
            return self._failed(error)

    def begin(self) -> None:
        """Start the source, unless it was started or closed before; needs a running event loop."""
        if self._task is None and not self._closed:
            self._task = asyncio.create_task(
                self._keep_going(), name=f"tools of {self.source.name}"
            )

    def try_again(self) -> None:
        """If the source has failed, start it now instead of after the delay."""
        if self._started.is_set() and self.listing.state == "failed":
            self._started.clear()
            self._again.set()

    async def restart(self) -> None:
        """Close the source and start it again."""
        async with self._ending:
            await self._end()
            self._task = None
            self._broken = None
            self._started.clear()
            self.begin()

    async def settled(self, seconds: float) -> None:
        """Return once the source has started or failed, or after that many seconds."""
        self.begin()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._started.wait()

    async def close(self) -> None:
        """Close the source for good."""
        self._closed = True
        async with self._ending:
            await self._end()

    async def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=_CLOSE_SECONDS)
        with suppress(Exception):  # a plug-in's; there is nobody left to tell
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.source.close()

    async def _keep_going(self) -> None:
        delay = _FIRST_DELAY
        while True:
            await self._start()
            while self.listing.state != "failed" or not await self._failed_for(delay):
                delay = _FIRST_DELAY
                self._moved.clear()
                await self._moved.wait()
            delay = min(2 * delay, _LONGEST_DELAY)

    async def _failed_for(self, seconds: float) -> bool:
        """Wait that long, or until `try_again`; return whether the source has still failed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._again.wait()
        self._again.clear()
        if self.listing.state == "failed":
            return True
        self._started.set()  # it recovered by itself, so it need not be started again
        return False

    async def _start(self) -> None:
        self._started.clear()
        if self.listing.state == "failed":
            self._broken = self.listing  # until more is known, so that the problem is reported once
        broken: Listing | None = None
        try:
            await self.source.start(self._tell)
        except Exception as error:
            broken = self._failed(error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            broken = self._failed(RuntimeError("its start was cancelled from within"))
        self._broken = broken
        self._started.set()
        self._tell()

    def _failed(self, error: Exception) -> Listing:
        text = one_line(str(error), 400) or type(error).__name__
        return Listing(problems=(ToolProblem(self.source.name, text),), state="failed")

    def _tell(self) -> None:
        self._moved.set()
        self._changed()


def listed(tool: Tool[Any], *tags: str) -> ListedTool:
    """Return the list entry of a tool."""
    return ListedTool(tool.name, tool.description.strip().partition("\n")[0], tags)
