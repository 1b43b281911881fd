"""From what a call raised or returned to the one result it gets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from codeagent.core.errors import (
    MissingPath,
    OutsideWorkspace,
    ProtectedPath,
    RunCancelled,
    SandboxUnavailable,
    WorkspaceError,
)
from codeagent.core.messages import ContentPart, ErrorInfo, ErrorKind, TextPart, ToolMessage, text_of
from codeagent.core.ports import OutputStore
from codeagent.core.tool import BaseChanged, Failed, ToolError, ToolResult

_HEAD_SHARE = 0.6
_LONG_LINE = 2000
_PREFIX: dict[ErrorKind, str] = {"invalid_args": "Invalid arguments: ", "not_found": "", "failed": ""}


class _Returned(BaseModel):
    """A result, checked all through."""

    model_config = ConfigDict(extra="forbid", revalidate_instances="always", defer_build=True)

    result: ToolResult
    details: dict[str, JsonValue]


@dataclass(frozen=True)
class Settled:
    """A call's result and the message the model gets of it."""

    message: ToolMessage
    result: ToolResult


def result_of_refusal(error: ToolError | RunCancelled) -> ToolResult:
    """The result of a call that did not run."""
    return result_of_error(error, executed=False)


def result_of_error(error: Exception, *, executed: bool, cancelled_because: str | None = None) -> ToolResult:
    """The error result of anything a call may raise; `cancelled_because` is its token's reason."""
    match error:
        case ToolError():
            return _of_tool_error(error, executed, cancelled_because)
        case RunCancelled():
            return _plain(_kind_of_cancel(str(error)), _cancel_text(str(error)), executed)
        case BaseChanged():
            text = "What was approved has changed meanwhile; nothing was applied. Look at it again."
            return _plain("failed", text, executed)
        case MissingPath():
            return _plain("not_found", str(error), executed)
        case OutsideWorkspace() | ProtectedPath():
            return _plain("denied", str(error), executed)
        case WorkspaceError():
            return _plain("failed", str(error), executed)
        case SandboxUnavailable():
            return _plain("failed", f"{error}. {error.remedy}", executed)
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
    """What a tool returned, with lists where tuples belong taken as such.

    Raises Failed for what could not be logged: a tool may be anybody's, and its result may hold anything.
    """
    if not isinstance(result, ToolResult):
        raise Failed(f"the tool returned {type(result).__name__} in place of a ToolResult")
    try:
        return _Returned(result=result, details=dict(result.details)).result
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        raise Failed(f"the tool returned a result that cannot be used: {place}: {first['msg'].lower()}") from None


def with_notes(result: ToolResult, notes: Sequence[str]) -> ToolResult:
    """The result with what was found around the call, for the model."""
    told = tuple(TextPart(text=f"[{note}]") for note in notes)
    return replace(result, content=(*result.content, *told)) if told else result


def as_edited(result: ToolResult, arguments: str) -> ToolResult:
    """The result of a call that ran with arguments (JSON) of the person's: the model is told so."""
    told = TextPart(text=f"(The user edited this call before it ran. It ran with: {arguments})")
    return replace(result, content=(told, *result.content), details={**result.details, "edited_arguments": arguments})


def as_read(result: ToolResult, read_as: tuple[str, ...], dropped: tuple[str, ...]) -> ToolResult:
    """The result of a call whose arguments were not taken as written: the log says how, the model what was dropped."""
    lines = "\n".join(f"({line})" for line in dropped)
    told = (TextPart(text=lines),) if dropped else ()
    details = {**result.details, "arguments_read": [*read_as, *dropped]}
    return replace(result, content=(*told, *result.content), details=details)


def _whole_lines(head: str, tail: str) -> tuple[str, str]:
    """Both without the line they cut through, unless it is a long one."""
    end, start = head.rfind("\n") + 1, tail.find("\n") + 1
    return head[: end if len(head) - end < _LONG_LINE else None], tail[start if start <= _LONG_LINE else 0 :]


def cap_output(result: ToolResult, limit: int | None, outputs: OutputStore, call_id: str) -> ToolResult:
    """The result with its text cut to `limit` characters, head and tail; all of it is kept in `outputs`.

    Done once, when the result is made: rewriting it later would break the provider's cache.
    """
    text = text_of(result.content)
    if limit is None or len(text) <= limit:
        return result
    sink = outputs.create(call_id)
    sink.write(text)
    sink.close()
    room = int(limit * _HEAD_SHARE)
    head, tail = _whole_lines(text[:room], text[room - limit :])
    left_out = len(text) - len(head) - len(tail)
    gap = "" if head.endswith("\n") else "\n"
    marker = f'{gap}[… {left_out} characters left out; output_read(id="{sink.handle}") shows them …]\n'
    others: tuple[ContentPart, ...] = tuple(part for part in result.content if not isinstance(part, TextPart))
    return replace(result, content=(TextPart(text=head + marker + tail), *others))
