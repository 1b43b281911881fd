"""Recorded sessions as event lists, with frozen time: what reducer and snapshot tests show."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from codeagent.core.approval_events import ApprovalRequested, ApprovalResolved, PlannedCall
from codeagent.core.display import DiffBlock, DisplayBlock, TerminalBlock
from codeagent.core.event_json import event_json, parse_event_json
from codeagent.core.events import (
    BatchFinished,
    BatchPlanned,
    CheckpointCreated,
    CheckpointRestored,
    JobFinished,
    JobStarted,
    JobUpdated,
    KnownEvent,
    LimitReached,
    MessageAdded,
    Notice,
    ReasoningDelta,
    RunFinished,
    RunStarted,
    SteerDelivered,
    SteerQueued,
    TextDelta,
    ToolFinished,
    ToolResultAdded,
    ToolStarted,
    ToolUpdated,
    TurnFinished,
    TurnStarted,
)
from codeagent.core.memory import TodoChanged, TodoItem, TodoState
from codeagent.core.messages import (
    AssistantMessage,
    ErrorInfo,
    ErrorKind,
    TextPart,
    Thinking,
    Usage,
    UserMessage,
)
from codeagent.core.policy import Permission
from codeagent.core.redact import Redactor

START = 1_790_000_000.0
"""When every recording begins, in seconds since the epoch."""


class Recording:
    """Writes events one after the other; each `after` seconds later than the one before."""

    def __init__(self) -> None:
        self.events: list[KnownEvent] = []
        self.now = START
        self._seq: Iterator[int] = itertools.count(1)
        self._batch = 0

    def add(self, kind: type[KnownEvent], /, *, after: float = 0.0, **fields: Any) -> None:
        self.now += after
        head = {"seq": next(self._seq), "ts": self.now, "session": "20261120-120000-0badcafe"}
        self.events.append(kind(**{**head, **fields}))

    def run(
        self, prompt: str, *, model: str = "anthropic/claude-sonnet-4-5", mode: str = "ask"
    ) -> "Recording":
        self.add(
            RunStarted,
            model=model,
            workspace="/home/ada/acme-api",
            mode=mode,
            strategy="parallel",
            codeagent="1",
        )
        self.add(MessageAdded, message=UserMessage.from_text(prompt))
        self.add(TurnStarted, turn=1)
        return self

    def think(self, text: str, *, seconds: float = 3.0) -> "Recording":
        self.add(ReasoningDelta, text=text)
        self.now += seconds
        return self

    def stream(self, text: str) -> "Recording":
        self.add(TextDelta, text=text)
        return self

    def answer(self, text: str, *, thinking: str = "", usage: Usage | None = None) -> "Recording":
        thoughts = (Thinking(text=thinking),) if thinking else ()
        self.add(MessageAdded, message=AssistantMessage(text=text, thinking=thoughts))
        if usage is not None:
            self.add(TurnFinished, turn=1, stop="end", usage=usage)
        return self

    def todo(self, *items: tuple[TodoState, str]) -> "Recording":
        self.add(
            TodoChanged, items=tuple(TodoItem(text=text, state=state) for state, text in items)
        )
        return self

    def plan(self, *calls: tuple[str, str, str, Permission]) -> "Recording":
        """Calls as (id, name, target, permission)."""
        self._batch += 1
        planned = [
            PlannedCall(call_id=call_id, name=name, target=target, permission=permission)
            for call_id, name, target, permission in calls
        ]
        self.add(BatchPlanned, batch=self._batch, calls=tuple(planned))
        return self

    def start(self, call_id: str, name: str, target: str, **arguments: Any) -> "Recording":
        self.add(ToolStarted, call_id=call_id, name=name, target=target, arguments=arguments)
        return self

    def output(self, call_id: str, name: str, text: str, *, after: float = 0.0) -> "Recording":
        self.add(ToolUpdated, after=after, call_id=call_id, name=name, text=text, stream="stdout")
        return self

    def result(
        self,
        call_id: str,
        name: str,
        text: str = "ok",
        *,
        error: tuple[ErrorKind, str] | None = None,
        blocks: tuple[DisplayBlock, ...] = (),
        details: dict[str, Any] | None = None,
        seconds: float = 0.4,
        executed: bool = True,
    ) -> "Recording":
        duration = round(seconds * 1000)
        if executed:
            self.add(
                ToolFinished,
                after=seconds,
                call_id=call_id,
                name=name,
                is_error=error is not None,
                duration_ms=duration,
            )
        self.add(
            ToolResultAdded,
            call_id=call_id,
            name=name,
            content=(TextPart(text=text),),
            is_error=error is not None,
            executed=executed,
            error=None if error is None else ErrorInfo(kind=error[0], message=error[1]),
            blocks=blocks,
            details=details or {},
            duration_ms=duration,
        )
        return self

    def end_batch(self, *, executed: int, skipped: int = 0, duration_ms: int = 400) -> "Recording":
        self.add(
            BatchFinished,
            batch=self._batch,
            executed=executed,
            skipped=skipped,
            duration_ms=duration_ms,
        )
        return self

    def ask(
        self,
        call_id: str,
        name: str,
        target: str,
        *blocks: DisplayBlock,
        reason: str = "this tool asks",
        **beyond: Any,
    ) -> "Recording":
        """`beyond`: `arguments`, `proposal`, `by_hunk`."""
        self.add(
            ApprovalRequested,
            approval_id=f"{call_id}.1",
            call_id=call_id,
            name=name,
            target=target,
            reason=reason,
            blocks=blocks,
            binding="0" * 64,
            **beyond,
        )
        return self

    def resolve(
        self, call_id: str, answer: str, reason: str = "", *, after: float = 2.0
    ) -> "Recording":
        self.add(
            ApprovalResolved,
            after=after,
            approval_id=f"{call_id}.1",
            call_id=call_id,
            answer=answer,
            source="user",
            reason=reason,
        )
        return self

    def queue(self, queued_id: str, kind: str, text: str) -> "Recording":
        self.add(SteerQueued, id=queued_id, kind=kind, text=text)
        return self

    def deliver(self, queued_id: str, kind: str, *, taken_back: bool = False) -> "Recording":
        self.add(SteerDelivered, id=queued_id, kind=kind, taken_back=taken_back)
        return self

    def notice(self, code: str, text: str, *, level: str = "info", **data: Any) -> "Recording":
        """As a log would tell of it: what a reader acts on becomes a type of its own."""
        self.add(Notice, code=code, text=text, level=level, data=data)
        self.events[-1] = parse_event_json(event_json(self.events[-1], Redactor({})))
        return self

    def limit(self, name: str, maximum: float) -> "Recording":
        self.add(LimitReached, limit=name, maximum=maximum)
        return self

    def checkpoint(self, checkpoint_id: str, cause: str, label: str) -> "Recording":
        self.add(
            CheckpointCreated,
            checkpoint_id=checkpoint_id,
            snapshot="0" * 40,
            cause=cause,
            label=label,
        )
        return self

    def restored(
        self, checkpoint_id: str, kind: str, files: Sequence[str], *, conversation: bool = False
    ) -> "Recording":
        self.add(
            CheckpointRestored,
            checkpoint_id=checkpoint_id,
            kind=kind,
            files=tuple(files),
            conversation=conversation,
            before="k-before",
        )
        return self

    def job(
        self,
        job_id: str,
        call_id: str,
        title: str,
        *,
        name: str = "bash",
        after: float = 0.0,
        **fields: Any,
    ) -> "Recording":
        """`fields`: `promoted`, `takes_input`."""
        self.add(
            JobStarted,
            after=after,
            job_id=job_id,
            call_id=call_id,
            name=name,
            title=title,
            **fields,
        )
        return self

    def job_output(self, job_id: str, text: str, *, after: float = 0.0) -> "Recording":
        self.add(JobUpdated, after=after, job_id=job_id, text=text, stream="stdout")
        return self

    def end_job(
        self,
        job_id: str,
        call_id: str,
        title: str,
        status: str,
        *,
        name: str = "bash",
        seconds: float = 0.0,
        **fields: Any,
    ) -> "Recording":
        """`seconds` after it was started. `fields`: `summary`, `tail`, `exit_code`, `lines`."""
        started = (
            event.ts
            for event in self.events
            if isinstance(event, JobStarted) and event.job_id == job_id
        )
        self.now = max(self.now, next(started, self.now) + seconds)
        self.add(
            JobFinished,
            job_id=job_id,
            call_id=call_id,
            name=name,
            title=title,
            status=status,
            duration_ms=round(seconds * 1000),
            **{"summary": "", "tail": "", **fields},
        )
        return self

    def finish(
        self,
        reason: str = "done",
        *,
        text: str = "",
        error: str | None = None,
        after: float = 1.0,
        calls: int = 0,
    ) -> "Recording":
        self.add(
            RunFinished,
            after=after,
            reason=reason,
            text=text,
            usage=Usage(),
            turns=1,
            calls=calls,
            error=error,
            duration_ms=round((self.now - START) * 1000),
        )
        return self


MOVES: tuple[Callable[[Recording], object], ...] = (
    lambda r: r.notice("compaction.begun", "compacting the conversation", cause="window"),
    lambda r: r.notice(
        "compaction.summary", "", summary="# Done", usage={}, asked=True, replaces=4
    ),
    lambda r: r.notice(
        "compaction.failed", "not compacted: it was stopped", level="warning", cause="window"
    ),
    lambda r: r.think("hm "),
    lambda r: r.stream("word "),
    lambda r: r.answer("All of it."),
    lambda r: r.plan(("c1", "bash", "make", "prompt")),
    lambda r: r.ask("c1", "bash", "make"),
    lambda r: r.resolve("c1", "once"),
    lambda r: r.start("c1", "bash", "make"),
    lambda r: r.output("c1", "bash", "ok\n"),
    lambda r: r.result("c1", "bash"),
    lambda r: r.end_batch(executed=1),
    lambda r: r.queue("q1", "steer", "also this"),
    lambda r: r.deliver("q1", "steer"),
    lambda r: r.job("j1", "c1", "make"),
    lambda r: r.job_output("j1", "more\n"),
    lambda r: r.end_job("j1", "c1", "make", "done"),
    lambda r: r.limit("turns", 5),
    lambda r: r.notice("model.retry", "again", reason="overloaded", attempt=2, delay_s=4.0),
    lambda r: r.notice("mode.changed", "plan", mode="plan"),
    lambda r: r.notice("step.changed", "on", on=True),
    lambda r: r.add(TurnStarted, turn=2),
)
"""What may happen between two key presses while a run goes on."""

BEFORE = """def days(y):
    return 366 if y % 4 == 0 else 365


def first(y):
    return date(y, 1, 1)
"""
AFTER = """def days(y):
    leap = y % 4 == 0 and (y % 100 != 0 or y % 400 == 0)
    return 366 if leap else 365


def first(y):
    return date(y, 1, 1)
"""
EDIT = DiffBlock(path="src/dates.py", before=BEFORE, after=AFTER, start_line=41)
USAGE = Usage(input_tokens=18_200, output_tokens=412, cache_read_tokens=14_924, cost_usd=0.041)


def looked_around() -> Recording:
    """A run that has read three files in its first batch."""
    recording = Recording().run("the date parser fails on leap days, fix it and add a test")
    recording.think("The parser is in src/dates.py; the tests will show what fails.")
    recording.answer("I'll look at the parser and its tests first.", usage=USAGE)
    recording.plan(
        ("c1", "read", "src/dates.py", "auto"),
        ("c2", "read", "tests/test_dates.py", "auto"),
        ("c3", "search", '"is_leap"', "auto"),
    )
    recording.start("c1", "read", "src/dates.py").start("c2", "read", "tests/test_dates.py")
    recording.start("c3", "search", '"is_leap"')
    recording.result("c1", "read", "\n".join(f"{n}\tx" for n in range(1, 213)), seconds=0.1)
    recording.result("c2", "read", "\n".join(f"{n}\tx" for n in range(1, 89)), seconds=0.1)
    recording.result("c3", "search", "", details={"matches": 4, "files": 2}, seconds=0.2)
    return recording.end_batch(executed=3)


def running_tests() -> Recording:
    """The same, with a command that is printing."""
    recording = looked_around()
    recording.plan(("c4", "bash", "pytest -q tests/test_dates.py", "auto"))
    recording.start("c4", "bash", "pytest -q tests/test_dates.py")
    return recording.output(
        "c4", "bash", "....F\nFAILED tests/test_dates.py::test_leap - AssertionError\n", after=3.1
    )


def after_failing_tests() -> Recording:
    recording = running_tests()
    block = TerminalBlock(
        command="pytest -q tests/test_dates.py",
        output="....F\nFAILED tests/test_dates.py::test_leap - AssertionError\n1 failed, 4 passed\n",
        exit_code=1,
    )
    recording.result(
        "c4",
        "bash",
        "…",
        error=("failed", "exit code 1"),
        blocks=(block,),
        details={"exit_code": 1},
        seconds=0.2,
    )
    return recording.end_batch(executed=1, duration_ms=3300)


def asks_to_edit() -> Recording:
    recording = after_failing_tests()
    recording.plan(("c5", "edit", "src/dates.py", "prompt"))
    return recording.ask("c5", "edit", "src/dates.py", EDIT)
