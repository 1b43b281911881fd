"""Toolsets: groups of tools from sources, which the model or the user turns on; sources run in the
background."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_not
from typing import TYPE_CHECKING, Any

from codeagent.config.extensions import built_in_sets
from codeagent.core.allow import AllowList
from codeagent.core.errors import CodeagentError
from codeagent.core.json_types import JsonValue
from codeagent.core.sanitize import one_line
from codeagent.core.tool import Failed, InvalidArgs, NotFound, Tool, ToolDefinition
from codeagent.core.toolbox import ToolProblem, ToolsetFacts
from codeagent.tools.faults import nearest_or_all
from codeagent.tools.schema import Definitions, shown_schema
from codeagent.tools.source import (
    BuiltInSet,
    Choice,
    ListedTool,
    Listing,
    SourceRun,
    Toolset,
    ToolSource,
)

if TYPE_CHECKING:
    from codeagent.tools.grouping import ToolGroup  # needed only for a configuration with groups

MOST_AT_ONCE = 30
"""The largest toolset that the model can turn on as a whole; of a larger one it names the tools it
wants."""
MOST_IN_USE = 128
"""The most tools of all toolsets that can be on together, as providers do not accept more."""
_START_SECONDS = 30.0
"""Seconds that a call waits for a source that is starting."""
_FIRST_SECONDS = 10.0
"""Seconds that the first request waits for toolsets that were turned on beforehand."""


class Toolsets:
    """The toolsets of a conversation. What is on changes only when the catalog updates, at a
    boundary."""

    def __init__(
        self,
        sources: Iterable[ToolSource] = (),
        choices: Iterable[Choice] = (),
        allow: AllowList | None = None,
        groups: Iterable["ToolGroup"] = (),
    ) -> None:
        """`choices` are on from the start, in this order. `allow`: no other tools may be used; if
        `toolset_use` is not among them, the allowed tools of toolsets are on from the start.
        """
        self.allow = allow or AllowList()
        self._runs: dict[str, SourceRun] = {}
        self._choices = list(choices)
        self.definitions = Definitions()
        """How definitions are bounded, by the window of the model in use."""
        self.waited = False
        """Whether `first_ready` was called."""
        self._held: dict[Tool[Any], str] = {}
        self._others: frozenset[str] = frozenset()
        self._begun = False
        self._later: asyncio.TimerHandle | None = None
        self.moved = False
        """Whether the catalog has to update."""
        self._doubled: list[ToolProblem] = []
        self._own = {group.name: group for group in groups}
        self._defined: tuple[ToolGroup, ...] = ()
        """The groups of tool files."""
        self._groups = self._own
        """The groups in use; of several with one name, the user's own, else the first."""
        self._seen: list[Listing] = []
        self._found: Mapping[str, Toolset] = {}
        """The toolsets of the latest listings."""
        for source in sources:
            self.add(source)

    def __bool__(self) -> bool:
        return bool(self._runs)

    def add(self, source: ToolSource) -> None:
        """Add a source, and start it if the others run. If its name is taken, it is a problem and
        is not used."""
        if source.name in built_in_sets() and not isinstance(source, BuiltInSet):
            text = "a built-in set has this name, so it is not used; give it another name"
            self._doubled.append(ToolProblem(source.name, text))
            self.moved = True
            return
        if source.name in self._runs:
            self._doubled.append(
                ToolProblem(source.name, "two sources of tools have this name: the first is used")
            )
            self.moved = True
            return
        self._runs[source.name] = run = SourceRun(source, self._note)
        if self._begun:
            self._begin(run)

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

    async def restart(self, name: str) -> None:
        """Restart a source; return before it has started."""
        await self._runs[name].restart()

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

    async def first_ready(self) -> None:
        """Wait once, for a short time, for the toolsets that were turned on before the first
        request."""
        if self.waited:
            return
        self.waited = True
        await asyncio.gather(
            *(self._runs[source].settled(_FIRST_SECONDS) for source in self._wanted_sources())
        )

    async def all_started(self, seconds: float) -> None:
        """Start every source that does not wait until it is needed, and wait until all have started
        or failed."""
        self._begin_all()
        starting = [run for run in self._runs.values() if run.listing.state == "starting"]
        await asyncio.gather(*(run.settled(seconds) for run in starting))

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

    def all(self) -> Mapping[str, Toolset]:
        """Return every toolset by name, with its allowed tools: whole sources, then groups of their
        tools.

        The same object as before if no listing changed.
        """
        listings = [run.listing for run in self._runs.values()]
        if len(listings) != len(self._seen) or any(map(is_not, listings, self._seen)):
            self._seen, self._found = (
                listings,
                self._sets(dict(zip(self._runs, listings, strict=True))),
            )
        return self._found

    def _sets(self, listings: Mapping[str, Listing]) -> Mapping[str, Toolset]:
        found = {name: _whole(name, listing, self.allow) for name, listing in listings.items()}
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

    def facts(self) -> tuple[ToolsetFacts, ...]:
        on = {(source, tool.name) for tool, source in self._held.items()}
        return tuple(
            ToolsetFacts(
                name=one.name,
                state=one.state,
                about=one.about,
                tools=len(one.tools),
                in_use=sum((one.source, tool.name) in on for tool in one.tools),
                reason=one.reason,
            )
            for one in self.all().values()
        )

    def problems(self) -> tuple[ToolProblem, ...]:
        """Return the problems of sources, and of choices that turned out to be wrong."""
        found = self.all()
        to_come = {
            one.name
            for one in self._groups.values()
            if one.source in found and found[one.source].state != "ready"
        }
        lost = {
            choice.toolset: None
            for choice in self._choices
            if choice.toolset not in {*found, *to_come}
        }
        missing = [
            ToolProblem(name, f"there is no such toolset{nearest_or_all(name, found)}")
            for name in lost
        ]
        for group in (*self._own.values(), *self._defined):
            if (
                group.source not in self._runs and not group.digest
            ):  # a split is stored for any conversation that has its source
                text = f"there is no source of tools named {group.source}{nearest_or_all(group.source, self._runs)}"
                missing.append(_problem_of(group, text))
            elif (
                group.name in self._runs.keys() | built_in_sets()
                or self._groups[group.name] is not group
            ):
                missing.append(
                    _problem_of(group, f"another toolset is named {group.name}, and is used")
                )
        told = (problem for run in self._runs.values() for problem in run.listing.problems)
        return (*told, *self._doubled, *missing)

    @property
    def names_known(self) -> bool:
        """Whether every source has listed its tools."""
        return not any(self._unlisted())

    def may_have(self, name: str) -> bool:
        """Whether a name or pattern may match a tool of a source that has not listed its tools."""
        from codeagent.tools.misnamed import may_begin  # few conversations have a list of tools

        return any(may_begin(name, listing.prefix) for listing in self._unlisted())

    def _unlisted(self) -> Iterator[Listing]:
        for listing in (run.listing for run in self._runs.values()):
            if listing.state != "ready" and not (listing.state == "waiting" and listing.tools):
                yield listing

    @property
    def known(self) -> frozenset[str]:
        """Return the names of all toolsets, including those whose source has not listed its tools
        yet."""
        return frozenset((*self._runs, *self._groups))

    def names(self) -> Iterator[str]:
        """Yield the names of all known tools, allowed or not."""
        return (tool.name for run in self._runs.values() for tool in run.listing.tools)

    def listing(self, source: str) -> Listing:
        """Return everything that the source has now, allowed or not."""
        return self._runs[source].listing

    def parts(self, source: str) -> tuple[str, ...]:
        """Return the names of the toolsets into which a model divided the source's current
        tools."""
        digested = {
            one.name for one in self._groups.values() if one.source == source and one.digest
        }
        return tuple(name for name in self.all() if name in digested)

    def where(self, tool: str) -> Toolset | None:
        """Return the smallest toolset with the tool, on or not."""
        having = (
            one for one in self.all().values() if any(tool == listed.name for listed in one.tools)
        )
        return min(having, key=lambda one: len(one.tools), default=None)

    async def ready(self, name: str) -> Toolset:
        """Return the toolset once it has started or failed; a failed one is tried again. Raises
        NotFound."""
        group = self._groups.get(name)
        if name not in self.all() and group is not None and group.source in self._runs:
            await self._runs[group.source].settled(
                _START_SECONDS
            )  # a split is valid only for the tools that it was made for
        toolset = self.all().get(name)
        if toolset is not None and toolset.state != "ready":
            run = self._runs[toolset.source]
            run.try_again()
            await run.settled(_START_SECONDS)
            toolset = self.all().get(name)
        if toolset is None:
            raise NotFound(
                f"there is no toolset {one_line(name, 100)!r}{nearest_or_all(name, self.all())}"
            )
        return toolset

    async def use(
        self, name: str, tools: Sequence[str] = ()
    ) -> tuple[Choice, tuple[ListedTool, ...]]:
        """Turn on a toolset, or only these of its tools, from the next boundary on. Raises
        ToolError."""
        toolset = await self.ready(name)
        if toolset.state != "ready":
            why = f": {toolset.reason}" if toolset.reason else ""
            raise Failed(
                f"{name} is {'not available' if toolset.state == 'failed' else 'still starting'}{why}"
            )
        by_name = {tool.name: tool for tool in toolset.tools}
        if (unknown := next((tool for tool in tools if tool not in by_name), None)) is not None:
            raise NotFound(
                f"{name} has no tool {one_line(unknown, 100)!r}{nearest_or_all(unknown, by_name)}"
            )
        if not tools and len(by_name) > MOST_AT_ONCE:
            many = f"{name} has {len(by_name)} tools"
            raise InvalidArgs(
                f"{many}: name at most {MOST_AT_ONCE} of them in tools; toolset_list shows them"
            )
        choice = Choice(name, tuple(dict.fromkeys(tools)))
        picked = tuple(by_name[tool] for tool in choice.tools) or toolset.tools
        new = {tool.name for tool in picked} - {tool.name for tool in self._held}
        if len(self._held) + len(new) > MOST_IN_USE:
            raise Failed(
                f"{len(self._held)} tools of toolsets are on, and at most {MOST_IN_USE} can be: name fewer"
            )
        self._refuse_too_long(toolset, picked)
        self._choices.append(choice)
        self.moved = True
        return choice, picked

    def turn_off(self, name: str, tools: Sequence[str] = ()) -> Choice:
        """Turn off a toolset, or only these of its tools, from the next boundary on. Raises
        ToolError."""
        found = self.all()
        toolset = found.get(name)
        if toolset is None:
            raise NotFound(
                f"there is no toolset {one_line(name, 100)!r}{nearest_or_all(name, found)}"
            )
        choice = Choice(name, tuple(dict.fromkeys(tools)), on=False)
        on = [
            tool.name
            for tool, source in self._held.items()
            if choice.covers(toolset, source, tool.name)
        ]
        if (unknown := next((tool for tool in tools if tool not in on), None)) is not None:
            raise NotFound(
                f"{name} has no tool {one_line(unknown, 100)!r} that is on{nearest_or_all(unknown, on)}"
            )
        if not on and not any(one.on and one.toolset == name for one in self._choices):
            raise Failed(f"nothing of {name} is on; nothing was changed")
        self._choices.append(choice)
        self.moved = True
        return choice

    async def shown(self, name: str, tools: Sequence[str]) -> tuple[ToolDefinition, ...]:
        """Return the whole definitions of some tools of a toolset, on or not. Raises ToolError."""
        toolset = await self.ready(name)
        known = [tool.name for tool in toolset.tools]
        if (unknown := next((tool for tool in tools if tool not in known), None)) is not None:
            raise NotFound(
                f"{name} has no tool {one_line(unknown, 100)!r}{nearest_or_all(unknown, known)}"
            )
        problems: list[ToolProblem] = []
        found = [self._get(toolset.source, tool, problems) for tool in tools]
        if problems:
            raise Failed(str(problems[0]))
        return tuple(self.definitions.whole(tool) for tool in found if tool is not None)

    def fit(self, window: int | None) -> None:
        """Fit the definitions to this window of the model, in tokens, from the next boundary on."""
        if window != self.definitions.window:
            self.definitions = Definitions(window)
            self.moved = True

    def _refuse_too_long(self, toolset: Toolset, picked: Sequence[ListedTool]) -> None:
        """Raise Failed if the definitions do not fit beside those in use."""
        held = {
            (source, tool.name): self.definitions.size(tool) for tool, source in self._held.items()
        }
        left = self.definitions.room - sum(held.values())
        names = [tool.name for tool in picked if (toolset.source, tool.name) not in held]
        found = [self._get(toolset.source, name, []) for name in names]
        size = sum(self.definitions.size(tool) for tool in found if tool is not None)
        if size > left:
            room = f"{max(left, 0):,} of {self.definitions.room:,} are left"
            remedy = "name fewer tools" + (
                ', or turn others off with do="off"' if self._held else ""
            )
            raise Failed(
                f"the definitions of {toolset.name} take {size:,} bytes, and {room}: {remedy}"
            )

    def taken(self, toolset: Toolset, tool: str) -> bool:
        """Return whether another tool in use has this name."""
        return tool in self._others or any(
            source != toolset.source for held, source in self._held.items() if held.name == tool
        )

    def restore(self, details: Mapping[str, JsonValue]) -> None:
        """Turn on or off again what a logged `toolset_use`, or the user, turned on or off."""
        match details:
            case {"toolset": str(name), "tools": list(tools)}:
                names = tuple(tool for tool in tools if isinstance(tool, str))
                self._choices.append(Choice(name, names, on=details.get("on") is not False))
                self.moved = True
            case _:
                return

    def candidates(self) -> tuple[dict[Tool[Any], str], tuple[ToolProblem, ...]]:
        """Return the tools to use, each with the name of its source, and why others cannot be used.

        Tools that are on keep their order, and their place while their source is not available; new
        ones come last.
        """
        found = self.all()
        choices = [
            *(one for one in self._choices if one.on),
            *(map(Choice, found) if self._all_on else ()),
        ]
        wanted = {
            (one.source, name): None for choice in choices for one, name in _chosen(choice, found)
        }
        tools: dict[Tool[Any], str] = {}
        problems: list[ToolProblem] = []
        for held, source in self._held.items():
            away = self._runs[source].listing.state != "ready"
            if away or (source, held.name) in wanted:
                wanted.pop((source, held.name), None)
                if not self._is_off(source, held.name):
                    tools[held if away else self._get(source, held.name, problems) or held] = source
        for source, name in wanted:
            if self._is_off(source, name):
                continue
            if len(tools) >= MOST_IN_USE:
                text = f"at most {MOST_IN_USE} tools of sets can be on: {name} is not"
                problems.append(ToolProblem(source, text, partial=True))
                break
            if (tool := self._get(source, name, problems)) is not None:
                tools[tool] = source
        kept, too_long = self.definitions.fitting(tools)
        return kept, (*problems, *too_long)

    def _is_off(self, source: str, tool: str) -> bool:
        """Whether the latest choice about the tool turned it off."""
        if all(choice.on for choice in self._choices):
            return False
        found = self.all()
        about = (
            choice
            for choice in reversed(self._choices)
            if choice.toolset in found and choice.covers(found[choice.toolset], source, tool)
        )
        latest = next(about, None)
        return latest is not None and not latest.on

    async def lend(self, names: Iterable[str], known: Collection[str]) -> tuple[Tool[Any], ...]:
        """Return the tools of toolsets that match these names or patterns, on or not; starts their
        sources and waits.

        They are for a child agent, so nothing changes here. `known`: names that are taken. `*`
        alone matches nothing. Raises CodeagentError if their definitions do not fit together.
        """
        wanted = AllowList((tuple(name for name in names if name != "*"),))
        missing = wanted.unknown({*known, *self.names()})
        asked = [
            one
            for one in self.all().values()
            if missing or any(wanted.allows(tool.name) for tool in one.tools)
        ]
        sources = {one.source for one in asked if one.state != "ready"}
        await asyncio.gather(*(self._runs[source].settled(_START_SECONDS) for source in sources))
        lent: dict[str, Tool[Any]] = {}
        for one in self.all().values():
            for tool in one.tools if one.state == "ready" else ():
                if tool.name in known or tool.name in lent or not wanted.allows(tool.name):
                    continue
                if (found := self._get(one.source, tool.name, [])) is not None and len(
                    lent
                ) < MOST_IN_USE:
                    lent[tool.name] = found
        _, too_long = self.definitions.fitting(dict.fromkeys(lent.values(), "its tools"))
        if too_long:
            raise CodeagentError(
                f"{too_long[0].text}; name fewer in the agent's file, nothing was started"
            )
        return tuple(lent.values())

    def hold(self, tools: dict[Tool[Any], str], others: Iterable[str]) -> None:
        """Record what is in use now: the tools of toolsets with their sources, and the names of the
        others."""
        self._held, self._others = tools, frozenset(others)

    @property
    def held(self) -> Mapping[Tool[Any], str]:
        """Return the tools in use, in order, each with the name of its source."""
        return self._held

    def _get(self, source: str, name: str, problems: list[ToolProblem]) -> Tool[Any] | None:
        try:
            tool = self._runs[source].source.get(name)
            schema = {"type": "object"} if tool in self._held else shown_schema(tool)
            if schema.get("type") != "object" or not isinstance(schema.get("properties", {}), dict):
                raise ValueError(
                    "the schema of its arguments is not that of an object"
                )  # it would break every request
        except Exception as error:  # a plug-in may raise anything
            text = f"{name} cannot be used: {one_line(str(error), 400)}"
            problems.append(ToolProblem(source, text, partial=True))
            return None
        if tool.name == name:
            return tool
        text = (
            f"it lists {name}, which calls itself {one_line(tool.name, 64)!r}, and so is not in use"
        )
        problems.append(ToolProblem(source, text, partial=True))
        return None

    @property
    def _all_on(self) -> bool:
        """Whether everything allowed is on, because the model cannot turn it on itself."""
        return not self.allow.allows("toolset_use")

    def _wanted_sources(self) -> set[str]:
        """Return the sources of what is on, or will be once they have listed their tools."""
        found = self.all()
        sources = {group.name: group.source for group in self._groups.values()}
        sources |= {one.name: one.source for one in found.values()}
        on: dict[str, None] = {}
        for choice in self._choices:
            if choice.on:
                on[choice.toolset] = None
            elif not choice.tools:
                on.pop(choice.toolset, None)
        wanted = {sources.get(name, "") for name in on} & self._runs.keys()
        if self._all_on:
            wanted |= {one.source for one in found.values() if one.tools}
            if self.allow.unknown({*self._others, *self.names()}):
                wanted |= {one.source for one in found.values() if one.state != "ready"}
        return wanted

    def _begin_all(self) -> None:
        self._begun = True
        for run in self._runs.values():
            self._begin(run)

    def _begin(self, run: SourceRun) -> None:
        if run.listing.state != "waiting" or run.source.name in self._wanted_sources():
            run.begin()

    def _note(self) -> None:
        self.moved = True


def _problem_of(group: "ToolGroup", text: str) -> ToolProblem:
    """Return a warning if a tool file defines the group, whose source perhaps only other people
    have; else an error."""
    return ToolProblem(group.origin or group.name, text, "warning" if group.origin else "error")


def _whole(name: str, listing: Listing, allow: AllowList) -> Toolset:
    """Return the toolset of all allowed tools of a source."""
    reason = listing.problems[0].text if listing.state == "failed" and listing.problems else ""
    tools = (
        tuple(tool for tool in listing.tools if allow.allows(tool.name)) if allow else listing.tools
    )
    return Toolset(
        name, listing.state, listing.about, tools, name, one_line(reason, 200), listing.instructions
    )


def _chosen(choice: Choice, found: Mapping[str, Toolset]) -> Iterator[tuple[Toolset, str]]:
    """Yield the tools that the choice turns on, if its toolset is ready."""
    toolset = found.get(choice.toolset)
    if toolset is None or toolset.state != "ready":
        return
    for tool in toolset.tools:
        if not choice.tools or tool.name in choice.tools:
            yield toolset, tool.name
