"""The toolsets of a conversation: the model or the user turns them on and off, as far as there is
room for their tools."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from codeagent.core.errors import CodeagentError
from codeagent.core.json_types import JsonValue
from codeagent.core.patterns import AllowList
from codeagent.core.sanitize import one_line
from codeagent.core.tool import Failed, InvalidArgs, NotFound, Tool, ToolDefinition
from codeagent.core.toolbox import ToolProblem, ToolsetSummary
from codeagent.tools.available import START_SECONDS, AvailableToolsets, Toolset
from codeagent.tools.choices import Choice, Choices
from codeagent.tools.faults import nearest_or_all
from codeagent.tools.schema import Definitions, shown_schema
from codeagent.tools.source_runs import SourceRuns

if TYPE_CHECKING:
    from codeagent.tools.grouping import ToolGroup  # needed only for a configuration with groups
    from codeagent.tools.source import ListedTool, ToolSource  # many conversations have no source

MOST_AT_ONCE = 30
"""The largest toolset that the model can turn on as a whole; of a larger one it names the tools it
wants."""
MOST_IN_USE = 128
"""The most tools of all toolsets that can be on together, as providers do not accept more."""
_FIRST_SECONDS = 10.0
"""Seconds that the first request waits for toolsets that were turned on beforehand."""


class Toolsets:
    """The toolsets of a conversation. What is on changes only when the catalog updates, at a
    boundary."""

    def __init__(
        self,
        sources: "Iterable[ToolSource]" = (),
        choices: Iterable[Choice] = (),
        allow: AllowList | None = None,
        groups: Iterable["ToolGroup"] = (),
    ) -> None:
        """`choices` are on from the start, in this order. `allow`: no other tools may be used; if
        `toolset_use` is not among them, the allowed tools of toolsets are on from the start.
        """
        self.allow = allow or AllowList()
        self.sources = SourceRuns(self._note, self._wanted_sources)
        """Where their tools come from."""
        self.available = AvailableToolsets(self.sources, self.allow, groups)
        """The toolsets that can be turned on, or are."""
        self.definitions = Definitions()
        """How definitions are bounded, by the window of the model in use."""
        self.waited = False
        """Whether `first_ready` was called."""
        self.moved = False
        """Whether the catalog has to update."""
        self._choices = Choices(choices)
        self._held: dict[Tool[Any], str] = {}
        self._others: frozenset[str] = frozenset()
        for source in sources:
            self.sources.add(source)

    async def first_ready(self) -> None:
        """Wait once, for a short time, for the toolsets that were turned on before the first
        request."""
        if self.waited:
            return
        self.waited = True
        await self.sources.settled(self._wanted_sources(), _FIRST_SECONDS)

    def facts(self) -> tuple[ToolsetSummary, ...]:
        on = {(source, tool.name) for tool, source in self._held.items()}
        return tuple(
            ToolsetSummary(
                name=one.name,
                state=one.state,
                about=one.about,
                tools=len(one.tools),
                in_use=sum((one.source, tool.name) in on for tool in one.tools),
                reason=one.reason,
            )
            for one in self.available.all().values()
        )

    def problems(self) -> tuple[ToolProblem, ...]:
        """Return the problems of sources, and of choices and groups that turned out to be wrong."""
        found = self.available.all()
        lost = (
            ToolProblem(name, f"unknown toolset{nearest_or_all(name, found)}")
            for name in self._choices.beyond({*found, *self.available.to_come()})
        )
        return (*self.sources.problems(), *lost, *self.available.problems())

    async def use(
        self, name: str, tools: Sequence[str] = ()
    ) -> tuple[Choice, "tuple[ListedTool, ...]"]:
        """Turn on a toolset, or only these of its tools, from the next boundary on. Raises
        ToolError."""
        toolset = await self.available.ready(name)
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
        self._choices.add(choice)
        self.moved = True
        return choice, picked

    def turn_off(self, name: str, tools: Sequence[str] = ()) -> Choice:
        """Turn off a toolset, or only these of its tools, from the next boundary on. Raises
        ToolError."""
        toolset = self.available.get(name)
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
        if not on and not self._choices.turned_on(name):
            raise Failed(f"nothing of {name} is on; nothing was changed")
        self._choices.add(choice)
        self.moved = True
        return choice

    async def shown(self, name: str, tools: Sequence[str]) -> tuple[ToolDefinition, ...]:
        """Return the whole definitions of some tools of a toolset, on or not. Raises ToolError."""
        toolset = await self.available.ready(name)
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

    def _refuse_too_long(self, toolset: Toolset, picked: Sequence["ListedTool"]) -> None:
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
        if self._choices.restore(details):
            self.moved = True

    def candidates(self) -> tuple[dict[Tool[Any], str], tuple[ToolProblem, ...]]:
        """Return the tools to use, each with the name of its source, and why others cannot be used.

        Tools that are on keep their order, and their place while their source is not available; new
        ones come last.
        """
        found = self.available.all()
        wanted = self._choices.chosen(found, all_on=self._all_on)
        tools: dict[Tool[Any], str] = {}
        problems: list[ToolProblem] = []
        for held, source in self._held.items():
            away = self.sources.listing(source).state != "ready"
            if away or (source, held.name) in wanted:
                wanted.pop((source, held.name), None)
                if not self._choices.is_off(found, source, held.name):
                    tools[held if away else self._get(source, held.name, problems) or held] = source
        for source, name in wanted:
            if self._choices.is_off(found, source, name):
                continue
            if len(tools) >= MOST_IN_USE:
                text = f"at most {MOST_IN_USE} tools of sets can be on: {name} is not"
                problems.append(ToolProblem(source, text, partial=True))
                break
            if (tool := self._get(source, name, problems)) is not None:
                tools[tool] = source
        kept, too_long = self.definitions.fitting(tools)
        return kept, (*problems, *too_long)

    async def lend(self, names: Iterable[str], known: Collection[str]) -> tuple[Tool[Any], ...]:
        """Return the tools of toolsets that match these names or patterns, on or not; starts their
        sources and waits.

        They are for a child agent, so nothing changes here. `known`: names that are taken. `*`
        alone matches nothing. Raises CodeagentError if their definitions do not fit together.
        """
        wanted = AllowList((tuple(name for name in names if name != "*"),))
        missing = wanted.unknown({*known, *self.sources.tool_names()})
        asked = [
            one
            for one in self.available.all().values()
            if missing or any(wanted.allows(tool.name) for tool in one.tools)
        ]
        sources = {one.source for one in asked if one.state != "ready"}
        await self.sources.settled(sources, START_SECONDS)
        lent: dict[str, Tool[Any]] = {}
        for one in self.available.all().values():
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
        self._held = tools
        self._others = frozenset(others)

    @property
    def held(self) -> Mapping[Tool[Any], str]:
        """Return the tools in use, in order, each with the name of its source."""
        return self._held

    def _get(self, source: str, name: str, problems: list[ToolProblem]) -> Tool[Any] | None:
        try:
            tool = self.sources.get(source, name)
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
        found = self.available.all()
        named = map(self.available.source_of, self._choices.toolsets_on())
        wanted = {source for source in named if source in self.sources}
        if self._all_on:
            wanted |= {one.source for one in found.values() if one.tools}
            if self.allow.unknown({*self._others, *self.sources.tool_names()}):
                wanted |= {one.source for one in found.values() if one.state != "ready"}
        return wanted

    def _note(self) -> None:
        self.moved = True
