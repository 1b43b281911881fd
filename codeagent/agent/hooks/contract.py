"""What a hook program reads and what it may answer: the models its JSON is checked against (FEATURES F11)."""

import json
from functools import cache
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from codeagent.agent.hooks.hook import PromptSource
from codeagent.core.events import RunReason
from codeagent.core.messages import ErrorInfo, ToolCall, Usage
from codeagent.core.policy import HookEvent
from codeagent.core.sanitize import one_line


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class CallResult(_Strict):
    """The outcome of a call."""

    content: str
    """The text the model gets."""
    is_error: bool
    executed: bool
    error: ErrorInfo | None


class ToldBeforeTool(_Strict):
    event: Literal["before_tool"] = "before_tool"
    call: ToolCall
    """`arguments` is text: the model's JSON, as the hooks before this one left it."""


class ToldAfterTool(_Strict):
    event: Literal["after_tool"] = "after_tool"
    call: ToolCall
    result: CallResult


class ToldBeforeUpdate(_Strict):
    event: Literal["before_update"] = "before_update"
    call: ToolCall
    text: str
    """A piece of live output."""


class ToldAfterUpdate(_Strict):
    event: Literal["after_update"] = "after_update"
    call: ToolCall
    text: str


class ToldPromptSubmit(_Strict):
    event: Literal["prompt_submit"] = "prompt_submit"
    text: str
    source: PromptSource
    """`prompt` begins a run; the others were typed during one."""


class ToldRunFinished(_Strict):
    event: Literal["run_finished"] = "run_finished"
    session: str
    reason: RunReason
    text: str
    """The last thing the model said."""
    usage: Usage
    error: str | None
    turns: int
    calls: int
    duration_ms: int


class ToldSessionStart(_Strict):
    event: Literal["session_start"] = "session_start"
    session: str
    workspace: str
    resumed: bool


class ToldSessionEnd(_Strict):
    event: Literal["session_end"] = "session_end"
    session: str
    workspace: str
    resumed: bool


Told = (
    ToldBeforeTool
    | ToldAfterTool
    | ToldBeforeUpdate
    | ToldAfterUpdate
    | ToldPromptSubmit
    | ToldRunFinished
    | ToldSessionStart
    | ToldSessionEnd
)


class AnswerAllow(_Strict):
    """The same as no output at all."""

    decision: Literal["allow"]


class AnswerDeny(_Strict):
    decision: Literal["deny"]
    reason: str = ""
    """What the model or the user reads."""


class AnswerModify(_Strict):
    """Run with other arguments; they are validated again."""

    decision: Literal["modify"]
    arguments: dict[str, JsonValue]
    """All of them, not only the changed ones."""


class AnswerContext(_Strict):
    """Allow, and add text that the model reads after the prompt."""

    decision: Literal["context"]
    text: str


ProgramAnswer = AnswerAllow | AnswerDeny | AnswerModify | AnswerContext
_Decision = Field(discriminator="decision")
ANSWERS: dict[HookEvent, Any] = {
    "before_tool": Annotated[AnswerAllow | AnswerDeny | AnswerModify, _Decision],
    "before_update": Annotated[AnswerAllow | AnswerDeny, _Decision],
    "prompt_submit": Annotated[AnswerAllow | AnswerDeny | AnswerContext, _Decision],
}
"""The valid answers, for each event that a hook judges; output for the other events is ignored."""
TOLD: dict[HookEvent, type[BaseModel]] = {kind.model_fields["event"].default: kind for kind in get_args(Told)}


def parse_answer(event: HookEvent, printed: bytes) -> ProgramAnswer:
    """The program's answer to the event; no output allows. Raises ValueError, in one line, where it is not valid."""
    if not printed.strip():
        return AnswerAllow(decision="allow")
    try:
        value = json.loads(printed, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
        return _adapter(event).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"its answer is not valid: {place}{': ' * bool(place)}{first['msg'].lower()}") from error
    except (ValueError, RecursionError) as error:
        shown = one_line(printed.decode(errors="replace"), 80)
        raise ValueError(f"its answer is not a valid JSON object: {error}: {shown!r}") from error


@cache
def _adapter(event: HookEvent) -> TypeAdapter[ProgramAnswer]:
    return TypeAdapter(ANSWERS[event])


def contract_schema() -> dict[str, Any]:
    """JSON Schema of both sides: for each event what the program reads, and what it may answer."""
    inputs: list[Any] = [((event, "told"), "validation", TypeAdapter(told)) for event, told in TOLD.items()]
    inputs += [((event, "answer"), "validation", _adapter(event)) for event in ANSWERS]
    schemas, rest = TypeAdapter.json_schemas(inputs)
    events: dict[str, Any] = {event: {"type": "object", "properties": {}} for event in TOLD}
    for ((event, side), _), schema in schemas.items():
        events[event]["properties"][side] = schema
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Hook programs of codeagent",
        "description": "For each event: what the program reads on standard input, and what it may print.",
        "type": "object",
        "properties": events,
        "$defs": rest["$defs"],
    }


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")
