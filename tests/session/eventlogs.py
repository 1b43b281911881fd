"""Event logs for the session's tests: written by hand, or drawn at random in the order an agent
emits them."""

from collections.abc import Iterable
from typing import Any, get_args

from hypothesis import strategies as st

from codeagent.core.acts import QueueKind
from codeagent.core.approval_events import ApprovalRequested, ApprovalResolved
from codeagent.core.events import (
    KnownEvent,
    MessageAdded,
    RunFinished,
    RunStarted,
    SteerDelivered,
    SteerQueued,
    ToolCallAdded,
    ToolFinished,
    ToolResultAdded,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from codeagent.core.messages import (
    AssistantMessage,
    ErrorInfo,
    TextPart,
    ToolCall,
    Usage,
    UserMessage,
    UserSource,
)

SESSION = "20260102-030405-0a1b2c3d"


class Log:
    """Collects events and numbers them."""

    def __init__(self) -> None:
        self.events: list[KnownEvent] = []
        self.seq = 0

    def add(self, kind: Any, /, **fields: Any) -> None:
        self.seq += 1
        self.events.append(kind(seq=self.seq, ts=1000.0 + self.seq, session=SESSION, **fields))

    def run(self) -> None:
        self.add(
            RunStarted,
            model="m",
            workspace="/w",
            mode="ask",
            strategy="parallel",
            codeagent="0.1.0",
        )

    def user(self, text: str, source: UserSource = "prompt") -> None:
        self.add(MessageAdded, message=UserMessage.from_text(text, source))

    def assistant(self, text: str, *ids: str) -> None:
        calls = tuple(ToolCall(id=call_id, name="read", arguments="{}") for call_id in ids)
        self.add(MessageAdded, message=AssistantMessage(text=text, calls=calls))

    def announce(self, *ids: str) -> None:
        for call_id in ids:
            self.add(ToolCallAdded, call_id=call_id, name="read", arguments="{}")

    def start(self, call_id: str) -> None:
        self.add(ToolStarted, call_id=call_id, name="read", target="a.py", arguments={})

    def finish(
        self, call_id: str, text: str = "ok", error: ErrorInfo | None = None, executed: bool = True
    ) -> None:
        if executed:
            self.add(
                ToolFinished,
                call_id=call_id,
                name="read",
                is_error=error is not None,
                duration_ms=5,
            )
        self.add(
            ToolResultAdded,
            call_id=call_id,
            name="read",
            content=(TextPart(text=text),),
            error=error,
            is_error=error is not None,
            executed=executed,
            details={"path": "a.py"},
            duration_ms=5,
        )

    def shell(self, call_id: str, *, shared: bool, text: str = "out") -> None:
        """A command of the user's own, from its start to its result."""
        arguments = {"command": "make", "shared": shared}
        self.add(ToolStarted, call_id=call_id, name="shell", target="make", arguments=arguments)
        self.add(ToolFinished, call_id=call_id, name="shell", is_error=False, duration_ms=1)
        self.add(
            ToolResultAdded,
            call_id=call_id,
            name="shell",
            content=(TextPart(text=text),),
            is_error=False,
            executed=True,
            details={**arguments, "exit_code": 0},
        )

    def end(self, reason: str = "done") -> None:
        self.add(
            RunFinished, reason=reason, text="bye", usage=Usage(), turns=1, calls=1, duration_ms=1
        )


def finished_run() -> list[KnownEvent]:
    """One prompt, one turn of two calls, one answer."""
    log = Log()
    log.run()
    log.user("fix it")
    log.add(TurnStarted, turn=1)
    log.announce("c1", "c2")
    log.assistant("", "c1", "c2")
    log.start("c1")
    log.start("c2")
    log.finish("c2", "second")
    log.finish("c1", "first")
    log.add(
        TurnFinished,
        turn=1,
        stop="tool_calls",
        usage=Usage(input_tokens=10, output_tokens=2, cost_usd=0.5),
    )
    log.add(TurnStarted, turn=2)
    log.assistant("fixed")
    log.add(
        TurnFinished,
        turn=2,
        stop="end",
        usage=Usage(input_tokens=20, output_tokens=3, cost_usd=0.25),
    )
    log.end()
    return log.events


@st.composite
def logs(draw: st.DrawFn) -> list[KnownEvent]:
    """A log as an agent writes it: several runs, parallel results in any order, steering, denials,
    discarded calls.

    The first calls of an answer may begin, and end, before it is complete.
    """
    log = Log()
    ids = iter(f"c{number}" for number in range(1000))
    queued = iter(f"q{number}" for number in range(1000))
    commands = iter(f"shell-{number}" for number in range(1000))
    for _ in range(draw(st.integers(1, 3))):
        log.run()
        log.user(draw(st.text(max_size=5)))
        for turn in range(draw(st.integers(0, 3))):
            log.add(TurnStarted, turn=turn + 1)
            _steering(draw, log, queued)
            _turn(draw, log, ids)
            log.add(TurnFinished, turn=turn + 1, stop="end", usage=Usage(input_tokens=1))
        early = draw(st.booleans())
        if draw(st.booleans()) and early:
            log.shell(next(commands), shared=draw(st.booleans()))
        log.end(draw(st.sampled_from(["done", "failed", "interrupted"])))
        if draw(st.booleans()) and not early:
            log.shell(next(commands), shared=draw(st.booleans()))
    return log.events


def _steering(draw: st.DrawFn, log: Log, queued: Iterable[str]) -> None:
    if not draw(st.booleans()):
        return
    queued_id, text = next(iter(queued)), draw(st.text(max_size=5))
    kind: QueueKind = draw(st.sampled_from(get_args(QueueKind)))
    log.add(SteerQueued, id=queued_id, kind=kind, text=text)
    taken_back = draw(st.booleans())
    log.add(SteerDelivered, id=queued_id, kind=kind, taken_back=taken_back)
    if not taken_back:
        log.user(text, kind)


def _turn(draw: st.DrawFn, log: Log, ids: Iterable[str]) -> None:
    calls = [next(iter(ids)) for _ in range(draw(st.integers(0, 4)))]
    log.announce(*calls)
    early = calls[: draw(st.integers(0, len(calls)))]
    ended = early[: draw(st.integers(0, len(early)))]
    for call_id in early:
        log.start(call_id)
    for call_id in ended:
        log.finish(call_id)
    broke_off = ErrorInfo(kind="cancelled", message="broke off")
    if draw(st.booleans()) and calls:
        for call_id in calls[len(ended) :]:
            log.finish(call_id, "broke off", broke_off, executed=call_id in early)
        return
    log.assistant("text", *calls)
    for call_id in early[len(ended) :]:
        log.finish(call_id)
    for call_id in draw(st.permutations(calls[len(early) :])):
        how = draw(st.sampled_from(["ran", "denied", "asked"]))
        if how == "asked":
            log.add(
                ApprovalRequested,
                approval_id=f"{call_id}.1",
                call_id=call_id,
                name="read",
                target="a.py",
                reason="asks",
                blocks=(),
                binding="0" * 64,
            )
            log.add(
                ApprovalResolved,
                approval_id=f"{call_id}.1",
                call_id=call_id,
                answer="once",
                source="user",
            )
        if how == "denied":
            log.finish(call_id, "no", ErrorInfo(kind="denied", message="no"), executed=False)
        else:
            log.start(call_id)
            log.finish(call_id)
