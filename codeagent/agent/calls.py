"""Calls: their checked arguments, who allowed it, and its one result."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

from codeagent.agent.emitter import Emitter
from codeagent.core.dataclass import dataclass
from codeagent.core.deferred import BaseModel, ConfigDict, JsonValue
from codeagent.core.display import DiffBlock, HunkAnswer
from codeagent.core.errors import (
    MissingPath,
    OutsideWorkspace,
    ProtectedPath,
    RunCancelled,
    SandboxUnavailable,
    WorkspaceError,
)
from codeagent.core.event_json import to_json
from codeagent.core.memory import OutputStore
from codeagent.core.messages import (
    ContentPart,
    ErrorInfo,
    ErrorKind,
    TextPart,
    ToolCall,
    ToolMessage,
    text_of,
)
from codeagent.core.notices import RunStopped
from codeagent.core.policy import ApprovalKey, ApprovalSource
from codeagent.core.tool import BaseChanged, Failed, Tool, ToolError, ToolResult

CallKind = Literal["read", "change"]
"""Whether a call only reads, or may change something."""
_HEAD_SHARE = 0.6
_LONG_LINE = 2000
_NOT_HAD: frozenset[ErrorKind] = frozenset({"denied", "unavailable"})
_PREFIX: dict[ErrorKind, str] = {
    "invalid_args": "Invalid arguments: ",
    "not_found": "",
    "unavailable": "",
    "failed": "",
}


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
    """How the model's arguments were corrected, and which were dropped; see `tools.arguments`."""

    @cached_property
    def key(self) -> ApprovalKey:
        """What rules are matched against; a copy of the call makes it again."""
        return self.tool.approval_key(self.args)

    @property
    def arguments(self) -> dict[str, Any]:
        return self.args.model_dump(mode="json", exclude_unset=True)

    @property
    def kind(self) -> CallKind:
        return "read" if self.tool.effect == "nothing" or self.key.reads == "freely" else "change"

    @property
    def reads_here(self) -> bool:
        """Whether it only reads, on this machine, and its result does not depend on when exactly it
        runs."""
        tool = self.tool
        timed = (
            tool.repeatable
            or tool.waits_for_user
            or tool.starts_agents
            or tool.in_background(self.args)
        )
        return self.kind == "read" and not timed and not self.key.answered_by

    @property
    def may_change_files(self) -> bool:
        return self.kind == "change" and self.key.reads != "if asked"

    @property
    def runs_commands(self) -> bool:
        """Whether it runs commands that may change files, itself or in a user-defined function."""
        tool = self.tool
        unseen = tool.sandboxed or (tool.effect == "anything" and tool.source != "builtin")
        return self.kind == "change" and tool.may_write and unseen

    @property
    def prints(self) -> bool:
        """Whether its output can be read while it runs; such a call asks no questions once it has
        begun."""
        return self.tool.sandboxed or self.tool.source == "python"

    def limit(self, general: float | None) -> float | None:
        """Seconds it may take; `general`, the run's own limit, applies to calls that are
        awaited."""
        if self.tool.waits_for_user or self.tool.starts_agents:
            return None
        limits = (
            self.tool.time_limit(self.args),
            None if self.tool.in_background(self.args) else general,
        )
        return min((seconds for seconds in limits if seconds is not None), default=None)

    @property
    def acts_as(self) -> tuple[str, ...]:
        """Return the names of the tools whose rules apply: its own, and those of the tools that it
        calls."""
        return tuple(dict.fromkeys((self.tool.name, *[call.tool for call in self.key.does])))

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths that rules are matched against."""
        return self.key.parts if self.key.kind == "path" else ()

    @property
    def json(self) -> str:
        """Return the arguments as JSON, for the user to edit."""
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True)
class Permit:
    """Who allowed a call, and what exactly."""

    source: ApprovalSource
    base: str | None = None
    hunks: tuple[HunkAnswer, ...] | None = None
    rule: str | None = None
    hosts: tuple[str, ...] = ()
    """The hosts that the user allowed with the call, whose question named them."""
    later: str = ""
    """See `Verdict.later`."""
    tried: bool = False
    """See `Verdict.tried`."""


class CallRefused(Exception):
    """The call will not run; holds its result, and who refused it."""

    def __init__(
        self, result: ToolResult, source: ApprovalSource | None, rule: str | None = None
    ) -> None:
        super().__init__()
        self.result = result
        self.source = source
        self.rule = rule


class _CheckedResult(BaseModel):
    """Validates a result and everything in it."""

    model_config = ConfigDict(extra="forbid", revalidate_instances="always", defer_build=True)

    result: ToolResult
    details: dict[str, JsonValue]


class StopReport:
    """Collects the results of one run, to report what stopping it did."""

    def __init__(self, jobs: Callable[[], int]) -> None:
        """`jobs`: how many jobs are running; stopping a run leaves them alone."""
        self._jobs = jobs
        self.stream_closed = False
        """Whether the model was still answering when the run was stopped."""
        self._killed = 0
        self._not_run = 0
        self._left_running = 0
        self._edits: dict[str, None] = {}

    def add(self, results: Iterable[ToolResult], *, stopped: bool) -> None:
        """Add the results of one answer; `stopped`: the run was cancelled while its calls ran."""
        for result in results:
            self._left_running += _count(result, "left_running")
            if result.error is None:
                self._edits |= {
                    block.path: None for block in result.blocks if isinstance(block, DiffBlock)
                }
            if stopped and result.error is not None and result.error.kind == "cancelled":
                self._killed += _count(result, "killed")
                self._not_run += not result.executed

    def tell(self, emitter: Emitter) -> None:
        """Emit `run.stopped`."""
        emitter.emit(
            RunStopped(
                text=self._text(),
                stream_closed=self.stream_closed,
                killed=self._killed,
                edits_kept=tuple(self._edits),
                not_run=self._not_run,
                left_running=self._left_running,
                jobs_running=self._jobs(),
            )
        )

    def _text(self) -> str:
        edits, jobs = len(self._edits), self._jobs()
        parts = [
            "the answer was cut off" if self.stream_closed else "",
            f"{self._killed} process{'es' * (self._killed != 1)} killed" if self._killed else "",
            f"{edits} edited file{'s' * (edits != 1)} kept" if edits else "",
            f"{self._not_run} call{'s' * (self._not_run != 1)} not run" if self._not_run else "",
            f"{self._left_running} left running in the background" if self._left_running else "",
            f"{jobs} job{'s' * (jobs != 1)} still running" if jobs else "",
        ]
        return "stopped: " + (", ".join(part for part in parts if part) or "nothing was running")


class Denials:
    """Keeps the kinds of calls that were denied, or could not run anywhere, without a success in a
    later answer."""

    def __init__(self, question: str) -> None:
        """`question`: the tool by which the model asks the user; an unanswered question is not a
        denial."""
        self._question = question
        self.kinds: set[CallKind] = set()

    def note(
        self,
        calls: Sequence[ToolCall],
        settled: Mapping[str, ToolResult],
        kind: Callable[[ToolCall], CallKind],
        *,
        planning: bool,
    ) -> None:
        """Record one answer; a success clears its kind, a change clears both. Denied changes are
        expected in plan mode.

        `settled` is keyed by call id.
        """
        refused = [call for call in calls if _denied(settled[call.id])]
        if not (self.kinds or refused):
            return
        denied = {kind(call) for call in refused if call.name != self._question}
        done = {kind(call) for call in calls if not (settled[call.id].is_error or call in refused)}
        made_up = {"read", "change"} if "change" in done else done
        expected = {"change"} if planning else set()
        self.kinds = (self.kinds - made_up) | (denied - expected)


def _denied(result: ToolResult) -> bool:
    """Whether the call, or a call of the agent that it started, was denied or had no place to
    run."""
    if result.error is not None:
        return result.error.kind in _NOT_HAD
    return result.child_session is not None and result.details.get("denied") is True


def tool_message(call: ToolCall, result: ToolResult) -> ToolMessage:
    """Return the message that tells the model of a result."""
    return ToolMessage(
        call_id=call.id, name=call.name, content=result.content, is_error=result.is_error
    )


def result_of_refusal(error: ToolError | RunCancelled) -> ToolResult:
    """Return the error result of a call that did not run."""
    return result_of_error(error, executed=False)


def result_of_error(
    error: Exception, *, executed: bool, cancelled_because: str | None = None
) -> ToolResult:
    """Return the error result for anything that a call may raise; `cancelled_because` is the reason
    of its token."""
    match error:
        case ToolError():
            return _of_tool_error(error, executed, cancelled_because)
        case RunCancelled():
            return _plain(_kind_of_cancel(str(error)), _cancel_text(str(error)), executed)
        case BaseChanged():
            text = "What was approved has changed since; nothing was applied. Look at it again."
            return _plain("failed", text, executed)
        case MissingPath():
            return _plain("not_found", str(error), executed)
        case OutsideWorkspace() | ProtectedPath():
            return _plain("denied", str(error), executed)
        case WorkspaceError():
            return _plain("failed", str(error), executed)
        case SandboxUnavailable():
            return _plain("unavailable", f"{error}; {error.remedy}", executed=False)
        case _:
            return _plain("failed", f"{type(error).__name__}: {error}", executed)


def _of_tool_error(error: ToolError, executed: bool, cancelled_because: str | None) -> ToolResult:
    kind = error.kind
    message = _PREFIX.get(kind, "") + str(error)
    if kind == "cancelled" and cancelled_because is not None:
        kind = _kind_of_cancel(cancelled_because)
        message = f"{_cancel_text(cancelled_because)}; {error}"
    content = error.content or (TextPart(text=message),)
    if error.content and kind in ("cancelled", "timeout"):
        content = (*error.content, TextPart(text=message))
    return ToolResult(
        content=content,
        blocks=error.blocks,
        details=error.details,
        error=ErrorInfo(kind=kind, message=message),
        executed=executed,
    )


def _plain(kind: ErrorKind, text: str, executed: bool) -> ToolResult:
    return ToolResult.from_text(text, error=ErrorInfo(kind=kind, message=text), executed=executed)


def _kind_of_cancel(reason: str) -> ErrorKind:
    return "timeout" if reason.startswith("timeout") else "cancelled"


def _cancel_text(reason: str) -> str:
    match _kind_of_cancel(reason):
        case "timeout":
            return f"Timed out {reason.removeprefix('timeout ')}"
        case _ if reason in ("cancelled", "interrupted"):
            return "Cancelled"
        case _:
            return f"Cancelled: {reason}"


def checked(result: ToolResult) -> ToolResult:
    """Return the tool's result with lists converted to tuples.

    Raises Failed if it could not be logged: a tool may be user-defined, and its result may hold
    anything.
    """
    if not isinstance(result, ToolResult):
        raise Failed(f"the tool returned {type(result).__name__} in place of a ToolResult")
    from pydantic import ValidationError  # no start has a result

    try:
        found = _CheckedResult(result=result, details=dict(result.details)).result
        to_json(
            replace(found, content=())
        )  # else details too deep, or numbers too long, would only fail in the log
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        raise Failed(
            f"the tool returned a result that cannot be used: {place}: {first['msg'].lower()}"
        ) from None
    except ValueError as error:
        raise Failed(f"the tool returned a result that cannot be used: {error}") from None
    return found


def with_notes(result: ToolResult, notes: Sequence[str]) -> ToolResult:
    """Return the result with notes for the model at its end."""
    told = tuple(TextPart(text=f"[{note}]") for note in notes)
    return replace(result, content=(*result.content, *told)) if told else result


def as_edited(result: ToolResult, arguments: str) -> ToolResult:
    """Return the result of a call that ran with the user's arguments (JSON); it begins by saying
    so."""
    told = TextPart(text=f"(The user edited this call before it ran. It ran with: {arguments})")
    return replace(
        result,
        content=(told, *result.content),
        details={**result.details, "edited_arguments": arguments},
    )


def as_read(result: ToolResult, read_as: tuple[str, ...], dropped: tuple[str, ...]) -> ToolResult:
    """Return the result of a call whose arguments were corrected; the model reads which were
    dropped."""
    lines = "\n".join(f"({line})" for line in dropped)
    told = (TextPart(text=lines),) if dropped else ()
    details = {**result.details, "arguments_read": [*read_as, *dropped]}
    return replace(result, content=(*told, *result.content), details=details)


def _whole_lines(head: str, tail: str) -> tuple[str, str]:
    """Return both parts without the line that the cut divides, unless that line is long."""
    end, start = head.rfind("\n") + 1, tail.find("\n") + 1
    return head[: end if len(head) - end < _LONG_LINE else None], tail[
        start if start <= _LONG_LINE else 0 :
    ]


def kept_text(outputs: OutputStore, name: str, text: str) -> str:
    """Keep a whole text, and return its handle."""
    sink = outputs.create(name)
    sink.write(text)
    sink.close()
    return sink.handle


def cap_output(
    result: ToolResult, limit: int | None, outputs: OutputStore, call_id: str
) -> ToolResult:
    """Return the result with its text cut to `limit` characters, head and tail; `outputs` keeps the
    whole text.

    Done once, when the result is made: changing it later would break the provider's cache.
    """
    text = text_of(result.content)
    if limit is None or len(text) <= limit:
        return result
    handle = kept_text(outputs, call_id, text)
    room = int(limit * _HEAD_SHARE)
    head, tail = _whole_lines(text[:room], text[room - limit :])
    left_out = len(text) - len(head) - len(tail)
    gap = "" if head.endswith("\n") else "\n"
    marker = f'{gap}[… {left_out} characters left out; output_read(id="{handle}") shows them …]\n'
    others: tuple[ContentPart, ...] = tuple(
        part for part in result.content if not isinstance(part, TextPart)
    )
    return replace(result, content=(TextPart(text=head + marker + tail), *others))


def _count(result: ToolResult, name: str) -> int:
    value = result.details.get(name)
    return value if isinstance(value, int) else 0
