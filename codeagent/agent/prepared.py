"""A call on its way: what it works on, what it is once its arguments are known to fit, what it may do once allowed."""

import json
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from codeagent.agent.hooks.hook import Hooks
from codeagent.agent.limits import Limits
from codeagent.agent.permissions import Objection
from codeagent.core.hunks import HunkAnswer
from codeagent.core.messages import ToolCall
from codeagent.core.policy import ApprovalSource, Policy
from codeagent.core.ports import OutputStore, RuleBook, Sandbox, Workspace
from codeagent.core.scratchpad import Scratchpad
from codeagent.core.tool import Tool, ToolResult
from codeagent.core.toolbox import ToolSet

CallKind = Literal["read", "change"]
"""What a call is for: only to read, or something that may change things."""


@dataclass(frozen=True)
class Surroundings:
    """What calls work on; the same for every call of a run."""

    tools: ToolSet
    workspace: Workspace
    sandbox: Sandbox | None
    sandbox_kind: Literal["docker", "host"] | None
    outputs: OutputStore
    policy: Policy
    limits: Limits
    hooks: Hooks
    attended: bool = False
    """A person can be asked at any time."""
    book: RuleBook | None = None
    """Where rules are kept beyond the session."""
    objection: Objection = lambda rule: None
    """Why an answer must not become this rule."""
    scratchpad: Scratchpad | None = None
    """The agent's notes of this session."""


@dataclass(frozen=True)
class Circumstances:
    """What is special about a call, besides what it asks for."""

    edited: bool = False
    """Its arguments are the person's, not the model's."""
    repeated: int = 1
    """So often in a row the model asked for this very call."""


@dataclass(frozen=True)
class Prepared:
    """A call whose arguments are known to fit."""

    call: ToolCall
    tool: Tool[Any]
    args: BaseModel
    edited: bool = False
    """The arguments are the person's, not the model's."""
    read_as: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    """What was made of the model's arguments; see `tools.arguments`."""

    @property
    def arguments(self) -> dict[str, Any]:
        return self.args.model_dump(mode="json", exclude_unset=True)

    @property
    def kind(self) -> CallKind:
        reads = self.tool.effect == "nothing" or self.tool.approval_key(self.args).reads_only
        return "read" if reads else "change"

    @property
    def runs_commands(self) -> bool:
        """Commands that may change files, its own or those of the function that it is."""
        tool = self.tool
        return self.kind == "change" and (tool.sandboxed or (tool.effect == "anything" and tool.source != "builtin"))

    @property
    def paths(self) -> tuple[str, ...]:
        """Those the rules are matched against."""
        key = self.tool.approval_key(self.args)
        return key.parts if key.kind == "path" else ()

    @property
    def json(self) -> str:
        """The arguments, for a person to edit."""
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True)
class Permit:
    """Who allowed a call, and what exactly."""

    source: ApprovalSource
    base: str | None = None
    hunks: tuple[HunkAnswer, ...] | None = None
    rule: str | None = None


class Refused(Exception):
    """The call will not run; carries its result and who refused it."""

    def __init__(self, result: ToolResult, source: ApprovalSource | None, rule: str | None = None) -> None:
        super().__init__()
        self.result = result
        self.source = source
        self.rule = rule
