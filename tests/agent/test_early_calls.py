"""Calls that only read begin while their answer is still coming, and nothing else does."""

import asyncio
import errno
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from codeagent.agent import batches
from codeagent.agent.hooks.hook import Hook, Hooks
from codeagent.agent.limits import Limits
from codeagent.core.acts import Act, Interrupt, Pause, Prompt, Resume, SkipCall, Step, Stop
from codeagent.core.errors import ModelError
from codeagent.core.events import (
    BatchFinished,
    BatchPlanned,
    KnownEvent,
    RunFinished,
    ToolResultAdded,
    ToolStarted,
)
from codeagent.core.messages import AssistantMessage, ToolCall, Usage
from codeagent.core.model import (
    CallClosed,
    FellBack,
    ModelAnswer,
    ModelEvent,
    ModelRequest,
    Retrying,
)
from codeagent.core.policy import ApprovalKey, Policy, Rule
from codeagent.core.tool import Tool
from codeagent.session.transcript import ToolDetails
from tests.agent.doubles import Do, Reading, Scene, Turn, TurnsModel, do, of, scene
from tests.agent.test_invariants import check
from tests.agent.watching import heard, paused, to_the_end, until, watched
from tests.table import for_each

READ = do("ok", "reading")
LONG = do("sleep", "reading")
HOLD = "hold"
"""The answer stays where it is until `HeldModel.go_on`."""


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "GRACE", 0.0)


class HeldModel(TurnsModel):
    """Its first answer is made of calls, holds, events and errors; its others are those of
    TurnsModel."""

    def __init__(self, *things: Any, stop: Any = "tool_calls", certain: bool = True) -> None:
        super().__init__(Turn())
        self._things = things
        self._stop = stop
        self._certain = certain
        self._gate = asyncio.Event()
        self.holds = 0

    def go_on(self) -> None:
        self._gate.set()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if self.requests:
            async for event in super().stream(request):
                yield event
            return
        self.requests.append(request)
        calls: list[ToolCall] = []
        for number, thing in enumerate(self._things, 1):
            match thing:
                case "hold":
                    self.holds += 1
                    await self._gate.wait()
                    self._gate.clear()
                case Exception():
                    raise thing
                case Retrying() | FellBack():
                    calls.clear()
                    yield thing
                case name, arguments:
                    calls.append(ToolCall(id=f"call_{number}", name=name, arguments=arguments))
                    yield CallClosed(calls[-1], self._certain)
        yield ModelAnswer(
            AssistantMessage(calls=tuple(calls), stop=self._stop, model=self.name), Usage()
        )


async def held(s: Scene, holds: int = 1) -> list[str]:
    """Wait until the answer is held, and for what may begin then; return the ids of the calls that
    have."""
    assert isinstance(s.model, HeldModel)
    model = s.model
    await until(lambda: model.holds == holds)
    for _ in range(20):
        await asyncio.sleep(0)
    return [event.call_id for event in of(s.events, ToolStarted)]


def begin(*things: Any, stop: Any = "tool_calls", certain: bool = True, **options: Any) -> Scene:
    s = scene(model=HeldModel(*things, stop=stop, certain=certain), **options)
    watched(s)
    s.act(Prompt("go"))
    return s


async def finish(s: Scene) -> None:
    assert isinstance(s.model, HeldModel)
    s.model.go_on()
    await to_the_end(s)
    check(s)


class Timed(Reading):
    name = "timed"
    repeatable = True


class Twice(Reading):
    name = "twice"
    max_calls = 2


class Asker(Reading):
    name = "asker"
    waits_for_user = True


class Job(Reading):
    name = "job"
    mode = "background"


class Elsewhere(Reading):
    name = "elsewhere"

    def approval_key(self, args: Do) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=(args.what,), server="example.org")


async def let_pass(call: ToolCall) -> bool:
    return True


def ruled(permission: Any) -> Policy:
    return Policy(rules=(Rule.parse("reading", permission),))


MORE: tuple[Tool[Any], ...] = (Timed(), Twice(), Asker(), Job(), Elsewhere())


@for_each(
    "calls, begun, options",
    [
        ((READ, do("nap", "reading"), do("ok", "asking"), READ), 2, {}),
        ((READ,), 1, {"policy": Policy(mode="plan")}),
        ((READ,), 1, {"hooks": Hooks((Hook("other", let_pass, tools="do"),))}),
        ((READ, READ), 1, {"strategy": "sequential"}),
        ((READ, READ, READ), 2, {"strategy": "batched:2"}),
        ((READ, READ), 1, {"limits": Limits(max_calls=1)}),
        ((do("ok"), READ), 0, {}),
        ((do("ok", "asking"), READ), 0, {}),
        ((("nothing", "{}"), READ), 0, {}),
        ((("reading", "{"), READ), 0, {}),
        ((READ,), 0, {"policy": ruled("deny")}),
        ((READ,), 0, {"policy": ruled("prompt"), "attended": True}),
        ((READ,), 0, {"hooks": Hooks((Hook("first", let_pass),))}),
        ((READ,), 0, {"early_reads": False}),
        ((READ,), 0, {"certain": False}),
        *(((do("ok", tool.name),), 0, {"more": MORE}) for tool in MORE),
    ],
)
async def test_what_begins_early(
    calls: Sequence[tuple[str, str]], begun: int, options: dict[str, Any]
) -> None:
    s = begin(*calls, HOLD, **options)
    assert await held(s) == [f"call_{number}" for number in range(1, begun + 1)]
    s.act(Stop())
    await finish(s)


class Unreadable(Reading):
    name = "unreadable"

    def approval_key(self, args: Do) -> ApprovalKey:
        raise OSError(errno.EROFS, "Read-only file system")


async def test_a_call_that_cannot_be_judged_waits_for_its_turn() -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    s = begin(do("ok", "unreadable"), HOLD, more=(Unreadable(),))
    assert await held(s) == []
    await finish(s)
    (result,) = of(s.events, ToolResultAdded)
    assert result.is_error
    assert reported == []


@for_each("act", [Step(True), Pause(), Interrupt("no, wait")])
async def test_nothing_begins_once_the_user_wants_to_step_in(act: Act) -> None:
    s = begin(HOLD, READ, HOLD)
    await held(s)
    s.act(act)
    s.model.go_on()
    assert await held(s, holds=2) == []
    s.model.go_on()
    if not isinstance(act, Interrupt):
        await until(lambda: paused(s))
        assert paused(s)[0].calls == ("call_2",)
        s.act(Step(False))
        s.act(Resume())
    await to_the_end(s)
    check(s)


async def test_the_third_answer_in_a_row_with_the_same_call_waits_to_be_judged() -> None:
    s = scene(*(Turn("", (READ,), rest=9) for _ in range(3)))
    await s.run()
    kinds = [
        event.type for event in s.journal.events if event.type in ("tool.started", "batch.planned")
    ]
    assert kinds == [
        "tool.started",
        "batch.planned",
        "tool.started",
        "batch.planned",
        "batch.planned",
    ]
    check(s)


async def test_each_call_runs_once_and_the_model_reads_the_results_in_order() -> None:
    s = begin(do("ok", "reading", "a"), do("fail", "reading"), HOLD, do("ok", "keyed"))
    await held(s)
    await finish(s)
    assert s.tools["reading"].log == ["start ok a", "end ok a", "start fail", "end fail"]
    assert heard(s) == ["did ok", "it failed", "did ok"]
    assert [(done.executed, done.skipped) for done in of(s.events, BatchFinished)] == [(3, 0)]
    assert [len(planned.calls) for planned in of(s.events, BatchPlanned)] == [3]


async def test_a_change_waits_for_a_call_that_began_before_it() -> None:
    s = begin(do("nap", "reading", "a"), HOLD, do("ok", "alone"))
    await held(s)
    await finish(s)
    ends = [event.call_id for event in of(s.events, ToolResultAdded)]
    assert ends == ["call_1", "call_3"]


async def test_a_call_that_has_begun_can_not_be_skipped_and_the_others_can() -> None:
    s = begin(LONG, HOLD, READ)
    await held(s)
    s.act(Pause())
    s.model.go_on()
    await until(lambda: paused(s))
    assert paused(s)[0].calls == ("call_3",)
    s.refusal(SkipCall("call_1", "too late"))
    s.act(SkipCall("call_3", "no need"))
    s.agent.do(Resume())
    s.act(Stop())
    await to_the_end(s)
    check(s)


async def test_an_interrupt_skips_what_has_not_begun() -> None:
    s = begin(READ, HOLD, READ)
    await held(s)
    s.act(Interrupt("no"))
    await finish(s)
    assert heard(s) == ["did ok", "Skipped: the user interrupted with “no”"]
    assert [(done.executed, done.skipped) for done in of(s.events, BatchFinished)] == [(1, 1)]


async def test_of_an_answer_that_was_cut_off_only_what_had_begun_has_run() -> None:
    s = begin(READ, HOLD, READ, stop="length")
    await held(s)
    await finish(s)
    assert [result.executed for result in of(s.events, ToolResultAdded)] == [True, False]


async def test_what_had_begun_of_an_answer_that_was_cut_off_counts_as_a_call() -> None:
    s = begin(READ, HOLD, READ, stop="length")
    await held(s)
    await finish(s)
    (finished,) = of(s.events, RunFinished)
    assert finished.calls == 1


@dataclass
class Forgetting:
    """Takes note of the results that are left each time that something is forgotten."""

    left: list[tuple[ToolDetails, ...]]

    def of(self, s: Scene) -> "Forgetting":
        s.agent._context.compaction.in_context._forget = lambda left: self.left.append(tuple(left))
        return self


@for_each(
    "then",
    [
        (Retrying("the connection broke", 2, 0.0), READ),
        (FellBack("overloaded", "another"), READ),
        (ModelError("the connection broke", kind="cut"),),
    ],
)
async def test_what_ran_for_an_answer_that_broke_off_is_logged_stopped_and_forgotten(
    then: tuple[Any, ...],
) -> None:
    s = begin(do("ok", "reading", "a"), LONG, HOLD, *then)
    await held(s)
    forgetting = Forgetting([]).of(s)
    await finish(s)
    assert forgetting.left == [()]
    assert of(s.events, RunFinished)[0].calls == 1 + len(then)
    void = {event.call_id: event for event in of(s.events, ToolResultAdded)}
    assert void["call_1"].error is None and void["call_1"].executed
    assert void["call_2"].error.kind == "cancelled" and void["call_2"].executed
    assert void["call_2"].error.message == "Cancelled: the answer broke off before it was complete"
    assert {
        call.id for m in s.agent.history if isinstance(m, AssistantMessage) for call in m.calls
    } == ({"call_5"} if len(then) > 1 else set())


async def test_a_stop_ends_what_had_begun_and_says_so() -> None:
    s = begin(do("partial", "reading"), HOLD)
    await held(s)
    s.act(Stop())
    await to_the_end(s)
    check(s)
    (stopped,) = [event for event in s.events if getattr(event, "code", "") == "run.stopped"]
    assert stopped.text == "stopped: the answer was cut off, 2 processes killed"


async def test_an_answer_that_ends_right_away_runs_its_calls_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "GRACE", 60.0)
    s = scene(Turn("", (READ, READ), rest=9))
    events: list[KnownEvent] = await s.run()
    types = [event.type for event in events]
    assert types.index("batch.planned") < types.index("tool.started")
