"""Hooks that are programs: they read JSON about the event on standard input and answer with JSON on
standard output.

A program that judges allows by exiting with 0 and printing nothing or `{"decision": "allow"}`. Any
other exit code denies, with its standard error as the reason; so does an answer that is not valid
for its event (`ANSWERS`).
"""

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from errno import ENOENT
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, assert_never, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from codeagent.agent.hooks.hook import AddContext, Allow, Deny, Hook, Modify, PromptSource
from codeagent.core.compaction import CompactionCause
from codeagent.core.dataclass import dataclass
from codeagent.core.events import RunReason
from codeagent.core.host_programs import HOOK, NOWHERE, WATCHDOG, minimal, new_mark, start_program
from codeagent.core.messages import ErrorInfo, ToolCall, Usage, text_of
from codeagent.core.policy import HookEvent, ToolHookEvent
from codeagent.core.programs import find_program
from codeagent.core.sanitize import one_line
from codeagent.sandbox.process_tree import ProcessTree, stop_all, ticks

_MOST_OUTPUT = 1024 * 1024
"""The most bytes that a program may print on either stream."""
_CHUNK = 64 * 1024
_CLEANUP_SECONDS = 1.0
_LONGEST_REASON = 500


class _Strict(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True
    )


class CallResult(_Strict):
    """The outcome of a call."""

    content: str
    """The text the model gets."""
    is_error: bool
    executed: bool
    error: ErrorInfo | None


class BeforeToolInput(_Strict):
    event: Literal["before_tool"] = "before_tool"
    call: ToolCall
    """`arguments` is text: the model's JSON, as changed by the hooks before this one."""


class AfterToolInput(_Strict):
    event: Literal["after_tool"] = "after_tool"
    call: ToolCall
    result: CallResult


class BeforeUpdateInput(_Strict):
    event: Literal["before_update"] = "before_update"
    call: ToolCall
    text: str
    """A piece of live output."""


class AfterUpdateInput(_Strict):
    event: Literal["after_update"] = "after_update"
    call: ToolCall
    text: str


class PromptSubmitInput(_Strict):
    event: Literal["prompt_submit"] = "prompt_submit"
    text: str
    source: PromptSource
    """`prompt` begins a run; the others were typed during one."""


class CompactionInput(_Strict):
    event: Literal["compaction"] = "compaction"
    cause: CompactionCause
    """The window is nearly full, the provider refused a request as too long, or the user asked for
    it."""
    hint: str
    """The user's hint for the summary."""
    messages: int
    tokens: int
    """An estimate of the whole request."""


class RunFinishedInput(_Strict):
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


class SessionStartInput(_Strict):
    event: Literal["session_start"] = "session_start"
    session: str
    workspace: str
    resumed: bool


class SessionEndInput(_Strict):
    event: Literal["session_end"] = "session_end"
    session: str
    workspace: str
    resumed: bool


Told = (
    BeforeToolInput
    | AfterToolInput
    | BeforeUpdateInput
    | AfterUpdateInput
    | PromptSubmitInput
    | CompactionInput
    | RunFinishedInput
    | SessionStartInput
    | SessionEndInput
)


def told_of(event: HookEvent, *subjects: Any) -> Told:
    """Make the JSON that a program reads about an event, from the arguments that the callbacks of a
    `Hook` get."""
    match event:
        case "before_tool":
            return BeforeToolInput(call=subjects[0])
        case "after_tool":
            call, result = subjects
            facts = {name: getattr(result, name) for name in ("is_error", "executed", "error")}
            return AfterToolInput(
                call=call, result=CallResult(content=text_of(result.content), **facts)
            )
        case "before_update":
            return BeforeUpdateInput(call=subjects[0], text=subjects[1])
        case "after_update":
            return AfterUpdateInput(call=subjects[0], text=subjects[1])
        case "prompt_submit":
            return PromptSubmitInput(text=subjects[0].text, source=subjects[0].source)
        case "compaction":
            return CompactionInput(
                **{
                    name: getattr(subjects[0], name)
                    for name in ("cause", "hint", "messages", "tokens")
                }
            )
        case "run_finished":
            told = RunFinishedInput.model_fields.keys() - {"event"}
            return RunFinishedInput(**{name: getattr(subjects[0], name) for name in told})
        case "session_start" | "session_end":
            kind = SessionStartInput if event == "session_start" else SessionEndInput
            session = subjects[0]
            return kind(session=session.id, workspace=session.workspace, resumed=session.resumed)
        case _:
            assert_never(event)


class AnswerAllow(_Strict):
    """Allow; the same as no output at all."""

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
    """Allow, and add text: after a prompt for the model to read, before a compaction what the
    summary must cover."""

    decision: Literal["context"]
    text: str


ProgramAnswer = AnswerAllow | AnswerDeny | AnswerModify | AnswerContext
_Decision = Field(discriminator="decision")
ANSWERS: dict[HookEvent, Any] = {
    "before_tool": Annotated[AnswerAllow | AnswerDeny | AnswerModify, _Decision],
    "before_update": Annotated[AnswerAllow | AnswerDeny, _Decision],
    "prompt_submit": Annotated[AnswerAllow | AnswerDeny | AnswerContext, _Decision],
    "compaction": Annotated[AnswerAllow | AnswerDeny | AnswerContext, _Decision],
}
"""The valid answers, for each event that a hook judges; output for the other events is ignored."""
TOLD: dict[HookEvent, type[BaseModel]] = {
    kind.model_fields["event"].default: kind for kind in get_args(Told)
}


def parse_answer(event: HookEvent, printed: bytes) -> ProgramAnswer:
    """Parse the program's answer to the event; no output allows. Raises ValueError, in one line, if
    it is not valid."""
    if not printed.strip():
        return AnswerAllow(decision="allow")
    try:
        value = json.loads(printed, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
        return _adapter(event).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(
            f"its answer is not valid: {place}{': ' * bool(place)}{first['msg'].lower()}"
        ) from error
    except (ValueError, RecursionError) as error:
        shown = one_line(printed.decode(errors="replace"), 80)
        raise ValueError(f"its answer is not a valid JSON object: {error}: {shown!r}") from error


@cache
def _adapter(event: HookEvent) -> TypeAdapter[ProgramAnswer]:
    return TypeAdapter(ANSWERS[event])


def contract_schema() -> dict[str, Any]:
    """Return the JSON Schema of both sides: for each event what the program reads, and what it may
    answer."""
    inputs: list[Any] = [
        ((event, "told"), "validation", TypeAdapter(told)) for event, told in TOLD.items()
    ]
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


class _ProgramFailed(Exception):
    """The program exited with a code other than 0; the text says why."""


@dataclass(frozen=True)
class CommandHook:
    """One configured program, and the event it is for."""

    event: HookEvent
    command: tuple[str, ...]
    """Program and arguments; no shell."""
    workspace: Path
    tools: str = "*"
    """A pattern over the names of the tools whose calls it is for."""
    in_workspace: bool = False
    """Whether it runs in the workspace, and not in a folder from which it can load nothing."""
    variables: tuple[str, ...] = ()
    """Names of variables of this process's that it gets, beside a minimal environment."""

    def hook(self) -> Hook:
        tools = self.tools if self.event in get_args(ToolHookEvent) else "*"
        called: dict[str, Any] = {self.event: self._ask if self.event in ANSWERS else self._tell}
        return Hook(self.command[0], tools=tools, **called)

    async def _ask(self, *subjects: Any) -> Allow | Deny | Modify | AddContext:
        """Raises OSError if the program does not start, ValueError if its answer is not valid."""
        try:
            printed = await self._run(told_of(self.event, *subjects))
        except _ProgramFailed as failure:
            return Deny(str(failure))
        answer = parse_answer(self.event, printed)
        match answer:
            case AnswerAllow():
                return Allow()
            case AnswerDeny(reason=reason):
                return Deny(reason)
            case AnswerModify(arguments=arguments):
                return Modify(arguments)
            case AnswerContext(text=text):
                return AddContext(text)
            case _:
                assert_never(answer)

    async def _tell(self, *subjects: Any) -> None:
        """Run it and ignore what it prints. Raises OSError if it does not start, _ProgramFailed if
        it fails."""
        await self._run(told_of(self.event, *subjects))

    async def _run(self, told: BaseModel) -> bytes:
        """Run it and return its standard output. Raises OSError, ValueError, _ProgramFailed."""
        output = await self._run_program(json.dumps(told.model_dump()).encode())
        if output.code != 0:
            reason = output.err.decode(errors="replace").strip()[:_LONGEST_REASON]
            raise _ProgramFailed(reason or f"the hook {self.command[0]} exited with {output.code}")
        return output.out

    async def _run_program(self, told: bytes) -> "ProgramOutput":
        """Raises OSError if it does not start, ValueError if it prints too much."""
        name, *arguments = self.command
        program = name if "/" in name else find_program(name, self.workspace)
        if program is None:
            raise FileNotFoundError(ENOENT, "not found on PATH outside the workspace", name)
        given = minimal(os.environ, outside=self.workspace)
        given |= {name: os.environ[name] for name in self.variables if name in os.environ}
        mark, since = new_mark(HOOK), ticks()
        process = await start_program(
            HOOK,
            [program, *arguments],
            folder=self.workspace if self.in_workspace else NOWHERE,
            environment=given | {"CODEAGENT_WORKSPACE": str(self.workspace)},
            mark=mark,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
        )
        output = await _talk(process, ProcessTree(process.pid, mark, since), told)
        WATCHDOG.leave(mark)
        return output


def command_hooks(hooks: Sequence[CommandHook]) -> tuple[Hook, ...]:
    """Make the hooks, in the order of the configuration; they are called in that order."""
    return tuple(hook.hook() for hook in hooks)


@dataclass(frozen=True)
class ProgramOutput:
    """The exit code of a program and everything it printed."""

    code: int
    out: bytes
    err: bytes


async def _talk(process: Process, tree: ProcessTree, told: bytes) -> ProgramOutput:
    """Write `told` to the program's standard input, and wait until it has exited and its output has
    ended.

    A caller that is cancelled kills it, with everything it has started. Raises ValueError if it
    prints too much.
    """
    reading = [
        asyncio.create_task(_read_all(stream)) for stream in (process.stdout, process.stderr)
    ]
    writing = asyncio.create_task(_write(process, told))
    try:
        out, err = await asyncio.gather(*reading)
        await writing
        return ProgramOutput(await process.wait(), out, err)
    finally:
        for task in (*reading, writing):
            task.cancel()
        await asyncio.wait((*reading, writing))
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await stop_all(process, tree)
            # Read to the end: asyncio reports an exit only once the pipes are closed.
            await asyncio.wait(
                {asyncio.ensure_future(process.communicate())}, timeout=_CLEANUP_SECONDS
            )


async def _read_all(stream: asyncio.StreamReader | None) -> bytes:
    assert stream is not None  # it is a pipe
    chunks, size = [], 0
    while chunk := await stream.read(_CHUNK):
        size += len(chunk)
        if size > _MOST_OUTPUT:
            raise ValueError(f"it printed more than {_MOST_OUTPUT // 1024} KiB")
        chunks.append(chunk)
    return b"".join(chunks)


async def _write(process: Process, told: bytes) -> None:
    """Write all of it, or as much as the program reads."""
    assert process.stdin is not None  # it is a pipe
    try:
        process.stdin.write(told)
        await process.stdin.drain()
    except (BrokenPipeError, ConnectionResetError):
        pass
    process.stdin.close()
