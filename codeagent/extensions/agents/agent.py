"""The `agent` tool: gives a task to another agent and waits for its answer."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any

from codeagent.core.agents import AgentDefinition
from codeagent.core.json_types import JsonValue
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import one_line
from codeagent.core.tool import (
    EXCLUSIVE,
    SHARED,
    Access,
    InvalidArgs,
    Preview,
    Tool,
    ToolArgs,
    ToolContext,
    ToolResult,
)
from codeagent.extensions.agents.children import Children
from codeagent.tools.arguments import written
from codeagent.tools.schema_check import faults_of, problems_of

if TYPE_CHECKING:  # which starts agents
    from codeagent.extensions.agents.children import Children

_ABOUT = (
    "Give a task to an agent that knows only what task says; its last message is the result. output_format: words, or "
    "a JSON Schema. Agents:\n"
)
_ROOM = 2_000
"""Characters for the lines of all agents, which every request repeats."""
_NARROWEST = 24
"""Characters of a description that are enough to choose an agent by; a longer one is never cut
below this."""
_NAMES_ROOM = 1_000
"""Characters for the names of agents that have no line of their own."""
_TARGET = 200
_FENCE = re.compile(r"\A```[A-Za-z]*\n(.*)\n```\Z", re.DOTALL)


class AgentArgs(ToolArgs):
    name: Annotated[str, written("name")]
    task: Annotated[str, written("task")]
    output_format: str | dict[str, JsonValue] = ""


class AgentTool(Tool[AgentArgs]):
    """Does not need approval: each call of the agent that it starts is checked like any other."""

    name = "agent"
    label = "Agent"
    Args = AgentArgs
    permission = "auto"
    effect = "nothing"
    starts_agents = True

    def __init__(
        self, agents: Children, only_reads: Callable[[AgentDefinition], bool] = lambda agent: False
    ) -> None:
        """`only_reads`: whether none of the agent's tools may change anything."""
        self._agents = agents
        self._only_reads = only_reads

    @property
    def description(self) -> str:  # type: ignore[override]  # the agents that it names change with their files
        return f"{_ABOUT}{_lines(self._agents.definitions)}"

    @property
    def documentation(self) -> str:  # type: ignore[override]  # as above
        whole = "\n".join(_line(one, len(one.description)) for one in self._agents.definitions)
        return "" if whole == _lines(self._agents.definitions) else whole

    def access(self, args: AgentArgs, workspace: Workspace) -> Access:
        found = next((one for one in self._agents.definitions if one.name == args.name), None)
        beside = found is None or found.parallel or found.worktree or self._only_reads(found)
        return SHARED if beside else EXCLUSIVE

    def approval_key(self, args: AgentArgs) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=(args.name,))

    def target(self, args: AgentArgs) -> str:
        return one_line(f"{args.name}: {args.task}", _TARGET)

    def proposal(self, args: AgentArgs) -> str:
        return f"{self.name}({args.name})"

    async def preview(self, args: AgentArgs, ctx: ToolContext) -> Preview:
        preview = await super().preview(args, ctx)
        return Preview(self.target(args), preview.blocks)

    async def run(self, args: AgentArgs, ctx: ToolContext) -> ToolResult:
        schema = _schema(args.output_format)
        if schema is None:
            wanted = (
                f"\n\nThe format of your answer: {args.output_format}" if args.output_format else ""
            )
            return await self._agents.run(args.name, args.task + wanted, lambda text: "", ctx)
        if problems := problems_of(schema):
            raise InvalidArgs(
                f"output_format is not a JSON Schema that can be checked: {problems[0]}"
            )
        said = json.dumps(schema, ensure_ascii=False)
        task = f"{args.task}\n\nYour last message must be nothing but JSON that fits this JSON Schema:\n{said}"
        return await self._agents.run(args.name, task, lambda text: _misfit(schema, text), ctx)


def _lines(agents: Sequence[AgentDefinition]) -> str:
    """Return a line for each agent, with as much of its description as there is room for."""
    least = accumulate(len(_line(one, _NARROWEST)) + 1 for one in agents)
    named = agents[: sum(size <= _ROOM for size in least)]
    room = _ROOM - sum(len(_line(one, 0)) + 1 for one in named)
    width = _shared(room, [len(one.description) for one in named])
    lines = [_line(one, width) for one in named]
    return "\n".join([*lines, _rest(agents[len(named) :])] if len(named) < len(agents) else lines)


def _line(agent: AgentDefinition, width: int) -> str:
    return f"- {agent.name}: {one_line(agent.description, width) if width else ''}"


def _shared(room: int, lengths: Sequence[int]) -> int:
    """Return the width to which texts of these lengths are cut to fit together; shorter ones stay
    whole."""
    left = room
    for at, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - at)
        if length > share:
            return share
        left -= length
    return max(lengths, default=0)


def _rest(agents: Sequence[AgentDefinition]) -> str:
    """Return a line with the names of the agents that have none of their own; no name is cut."""
    head = f"- and {len(agents)} more, which info describes: "
    names = ", ".join(one.name for one in agents)
    room = _NAMES_ROOM - len(head)
    if len(names) > room:
        names = f"{names[: room - len('…')].rpartition(', ')[0]}, …"
    return f"{head}{names}"


def _schema(wanted: str | Mapping[str, JsonValue]) -> dict[str, Any] | None:
    """Return the JSON Schema that was given; None if the format is described in words."""
    if not isinstance(wanted, str):
        return dict(wanted)
    try:
        found = json.loads(wanted)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _misfit(schema: Mapping[str, Any], text: str) -> str:
    """Return why an answer does not match the schema, for the agent that gave it; empty if it
    does."""
    bare = text.strip()
    fenced = _FENCE.match(bare)
    try:
        value = json.loads(fenced[1] if fenced else bare)
    except (ValueError, RecursionError) as error:
        return f"it is not JSON ({error})"
    return "; ".join(fault.in_words("the answer") for fault in faults_of(schema, value))
