"""A call on its way: what it works on, what it is once its arguments fit, and what it may do once allowed."""

import json
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from codeagent.agent.hooks.hook import Hooks
from codeagent.agent.limits import Limits
from codeagent.agent.permissions import Objection
from codeagent.core.display import HunkAnswer
from codeagent.core.messages import ToolCall
from codeagent.core.policy import ApprovalSource, Policy
from codeagent.core.ports import OutputStore, RuleBook, Sandbox, Scratchpad, Workspace
from codeagent.core.tool import Tool, ToolResult
from codeagent.core.toolbox import ToolSet

CallKind = Literal["read", "change"]
"""Whether a call only reads, or may change something."""


@dataclass(frozen=True)
class ToolEnvironment:
    """What tools work with; the same for every call of a conversation."""

    tools: ToolSet
    workspace: Workspace
    sandbox: Sandbox | None
    sandbox_kind: Literal["docker", "host"] | None
    outputs: OutputStore
    policy: Policy
    limits: Limits
    hooks: Hooks
    attended: bool = False
    """Whether there is a user to ask."""
    book: RuleBook | None = None
    """Keeps rules beyond the session; None where they cannot be kept."""
    objection: Objection = lambda rule: None
    """Why an answer must not become this rule."""
    scratchpad: Scratchpad | None = None
    """The model's notes of this session."""


@dataclass(frozen=True)
class CallFlags:
    """What the loop knows about a call beside its arguments."""

    edited: bool = False
    """The user edited its arguments."""
    repeated: int = 1
    """How many answers in a row contain this call."""


@dataclass(frozen=True)
class PreparedCall:
    """A call whose tool exists and whose arguments are valid."""

    call: ToolCall
    tool: Tool[Any]
    args: BaseModel
    edited: bool = False
    """The user edited the arguments."""
    read_as: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    """How the model's arguments were read, and which were dropped; see `tools.arguments`."""

    @property
    def arguments(self) -> dict[str, Any]:
        return self.args.model_dump(mode="json", exclude_unset=True)

    @property
    def kind(self) -> CallKind:
        reads = self.tool.effect == "nothing" or self.tool.approval_key(self.args).reads_only
        return "read" if reads else "change"

    @property
    def runs_commands(self) -> bool:
        """Whether it runs commands that may change files, itself or in a user-defined function."""
        tool = self.tool
        return self.kind == "change" and (tool.sandboxed or (tool.effect == "anything" and tool.source != "builtin"))

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that rules are matched against."""
        key = self.tool.approval_key(self.args)
        return key.parts if key.kind == "path" else ()

    @property
    def json(self) -> str:
        """The arguments as JSON, for the user to edit."""
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True)
class Permit:
    """Who allowed a call, and what exactly."""

    source: ApprovalSource
    base: str | None = None
    hunks: tuple[HunkAnswer, ...] | None = None
    rule: str | None = None


class CallRefused(Exception):
    """The call will not run; holds its result, and who refused it."""

    def __init__(self, result: ToolResult, source: ApprovalSource | None, rule: str | None = None) -> None:
        super().__init__()
        self.result = result
        self.source = source
        self.rule = rule
