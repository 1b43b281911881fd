"""The toolsets that there are, on or not: sources as a whole, and groups of their tools."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from operator import is_not
from typing import TYPE_CHECKING

from codeagent.config.extensions import built_in_sets
from codeagent.core.dataclass import dataclass
from codeagent.core.patterns import AllowList
from codeagent.core.sanitize import one_line
from codeagent.core.tool import NotFound
from codeagent.core.toolbox import SourceState, ToolProblem
from codeagent.tools.faults import nearest_or_all
from codeagent.tools.source_runs import SourceRuns

if TYPE_CHECKING:
    from codeagent.tools.grouping import ToolGroup  # needed only for a configuration with groups
    from codeagent.tools.source import ListedTool, Listing  # many conversations have no source

START_SECONDS = 30.0
"""Seconds that a call waits for a source that is starting."""


@dataclass(frozen=True)
class Toolset:
    """A toolset as it is now."""

    name: str
    state: SourceState
    about: str
    tools: "tuple[ListedTool, ...]"
    source: str
    """The name of the source that its tools come from."""
    reason: str = ""
    """Why the source failed, in one line."""
    instructions: Callable[[str], str] | None = None
    """See `Listing`."""


class AvailableToolsets:
    """Finds the toolsets in what the sources list: each source is one, and so is each group of a
    source's tools."""

    def __init__(
        self, sources: SourceRuns, allow: AllowList, groups: Iterable["ToolGroup"] = ()
    ) -> None:
        """`allow`: toolsets have no other tools. `groups`: those that the user defined or had
        made."""
        self._sources = sources
        self._allow = allow
        self._own = {group.name: group for group in groups}
        self._defined: tuple[ToolGroup, ...] = ()
        """The groups of tool files."""
        self._groups = self._own
        """The groups in use; of several with one name, the user's own, else the first."""
        self._seen: list[Listing] = []
        self._found: Mapping[str, Toolset] = {}
        """The toolsets of the latest listings."""

    def define(self, groups: "tuple[ToolGroup, ...]") -> None:
        """Use exactly these groups of tool files. If a name is taken, the group is a problem and is
        not used."""
        if groups == self._defined:
            return
        self._defined = groups
        self._groups = dict(self._own)
        for group in groups:
            self._groups.setdefault(group.name, group)
        self._seen = []

    def all(self) -> Mapping[str, Toolset]:
        """Return every toolset by name, with its allowed tools: whole sources, then groups of their
        tools.

        The same object as before if no listing changed.
        """
        by_name = self._sources.listings()
        listings = list(by_name.values())
        if len(listings) != len(self._seen) or any(map(is_not, listings, self._seen)):
            self._seen = listings
            self._found = self._sets(by_name)
        return self._found

    def _sets(self, listings: Mapping[str, "Listing"]) -> Mapping[str, Toolset]:
        found = {name: _whole(name, listing, self._allow) for name, listing in listings.items()}
        digests: dict[str, str] = {}
        for source in {
            group.source
            for group in self._groups.values()
            if group.digest and group.source in found
        }:
            from codeagent.tools.grouping import digest_of  # only if a model divided one

            digests[source] = digest_of(listings[source].tools)
        taken = found.keys() | built_in_sets()
        groups = (
            one for one in self._groups.values() if one.source in found and one.name not in taken
        )
        parts: dict[str, Toolset] = {}
        for group in groups:
            if group.digest in ("", digests.get(group.source)):
                whole = found[group.source]
                tools = tuple(filter(group.selects, whole.tools))
                parts[group.name] = replace(
                    whole, name=group.name, about=group.about or whole.about, tools=tools
                )
        return found | parts

    def get(self, name: str) -> Toolset:
        """Return a toolset as it is now. Raises NotFound, which names the closest."""
        found = self.all()
        if name not in found:
            raise NotFound(f"unknown toolset {one_line(name, 100)!r}{nearest_or_all(name, found)}")
        return found[name]

    async def ready(self, name: str) -> Toolset:
        """Return the toolset once it has started or failed; a failed one is tried again. Raises
        NotFound."""
        group = self._groups.get(name)
        if name not in self.all() and group is not None and group.source in self._sources:
            # A split is valid only for the tools that it was made for.
            await self._sources.settled((group.source,), START_SECONDS)
        toolset = self.all().get(name)
        if toolset is not None and toolset.state != "ready":
            self._sources.try_again(toolset.source)
            await self._sources.settled((toolset.source,), START_SECONDS)
        return self.get(name)

    def where(self, tool: str) -> Toolset | None:
        """Return the smallest toolset with the tool, on or not."""
        having = (
            one for one in self.all().values() if any(tool == listed.name for listed in one.tools)
        )
        return min(having, key=lambda one: len(one.tools), default=None)

    def parts(self, source: str) -> tuple[str, ...]:
        """Return the names of the toolsets into which a model divided the source's current
        tools."""
        digested = {
            one.name for one in self._groups.values() if one.source == source and one.digest
        }
        return tuple(name for name in self.all() if name in digested)

    @property
    def known(self) -> frozenset[str]:
        """Return the names of all toolsets, including those whose source has not listed its tools
        yet."""
        return frozenset((*self._sources, *self._groups))

    def to_come(self) -> frozenset[str]:
        """Return the names of the groups whose source is not ready."""
        found = self.all()
        return frozenset(
            one.name
            for one in self._groups.values()
            if one.source in found and found[one.source].state != "ready"
        )

    def source_of(self, name: str) -> str:
        """Return the name of the source of a toolset, which may be still to come; empty if it is
        unknown."""
        if (toolset := self.all().get(name)) is not None:
            return toolset.source
        return self._groups[name].source if name in self._groups else ""

    def problems(self) -> tuple[ToolProblem, ...]:
        """Return why groups cannot be used: nothing has their source's name, or something else has
        theirs."""
        problems = []
        for group in (*self._own.values(), *self._defined):
            # A split is stored for any conversation that has its source.
            if group.source not in self._sources and not group.digest:
                text = f"there is no source of tools named {group.source}{nearest_or_all(group.source, self._sources)}"
                problems.append(_problem_of(group, text))
            elif (
                group.name in self._sources
                or group.name in built_in_sets()
                or self._groups[group.name] is not group
            ):
                problems.append(
                    _problem_of(group, f"another toolset is named {group.name}, and is used")
                )
        return tuple(problems)


def _problem_of(group: "ToolGroup", text: str) -> ToolProblem:
    """Return a warning if a tool file defines the group, whose source perhaps only other people
    have; else an error."""
    return ToolProblem(group.origin or group.name, text, "warning" if group.origin else "error")


def _whole(name: str, listing: "Listing", allow: AllowList) -> Toolset:
    """Return the toolset of all allowed tools of a source."""
    reason = listing.problems[0].text if listing.state == "failed" and listing.problems else ""
    tools = (
        tuple(tool for tool in listing.tools if allow.allows(tool.name)) if allow else listing.tools
    )
    return Toolset(
        name=name,
        state=listing.state,
        about=listing.about,
        tools=tools,
        source=name,
        reason=one_line(reason, 200),
        instructions=listing.instructions,
    )
