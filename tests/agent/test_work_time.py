"""Work time is the machine's: what a card waited for the user counts in no call, batch or run."""

from typing import Any

import pytest

from codeagent.agent import work_time
from codeagent.agent.work_time import WorkTime
from codeagent.core.acts import Answer, Resume, Step
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.events import BatchFinished, KnownEvent, RunFinished, ToolFinished
from codeagent.core.notices import RunPaused
from codeagent.core.policy import Decision
from codeagent.core.tool import ToolContext, ToolResult
from tests.agent.doubles import Do, Doing, Scene, Turn, do, of, scene


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(work_time.WorkTime.__init__, "__defaults__", (None, clock))
    return clock


class Working(Doing):
    """Works for ten seconds."""

    name = "working"
    clock: Clock

    async def run(self, args: Do, ctx: ToolContext) -> ToolResult:
        self.clock.seconds += 10
        return ToolResult.from_text("done")


class WorkingOnceAllowed(Working):
    name = "allowed"
    permission = "prompt"


def working(clock: Clock, *turns: Turn) -> Scene:
    tools: list[Any] = [Working(), WorkingOnceAllowed()]
    for tool in tools:
        tool.clock = clock
    return scene(*turns, more=tuple(tools), attended=True)


def durations(s: Scene) -> list[list[int]]:
    return [
        [event.duration_ms for event in of(s.events, kind)]
        for kind in (ToolFinished, BatchFinished, RunFinished)
    ]


async def test_a_card_that_waited_counts_in_neither_call_nor_batch_nor_run(clock: Clock) -> None:
    s = working(clock, Turn("", (do("x", "allowed"),)), Turn("done"))

    def dally(event: KnownEvent) -> None:
        if isinstance(event, ApprovalRequested):
            clock.seconds += 100

    await s.run(on_event=dally)
    assert durations(s) == [[10_000], [10_000], [10_000]]


async def test_a_question_of_the_model_counts_nothing_while_it_waits(clock: Clock) -> None:
    question = ("ask_user", '{"question": "Which?", "options": ["a", "b"]}')
    s = working(clock, Turn("", (question,)), Turn("done"))

    def dally(event: KnownEvent) -> None:
        if isinstance(event, ApprovalRequested):
            clock.seconds += 100
            s.act(Answer(event.approval_id, Decision("once", "a")))

    await s.run(on_event=dally)
    assert durations(s) == [[0], [0], [0]]


async def test_a_pause_before_a_batch_counts_nothing(clock: Clock) -> None:
    s = working(clock, Turn("", (do("x", "working"),)), Turn("done"))
    s.act(Step(True))

    def dally(event: KnownEvent) -> None:
        if isinstance(event, RunPaused):
            clock.seconds += 100
            s.act(Resume())

    await s.run(on_event=dally)
    assert durations(s) == [[10_000], [10_000], [10_000]]


async def test_without_a_card_all_of_it_counts(clock: Clock) -> None:
    s = working(clock, Turn("", (do("x", "working"), do("y", "working"))), Turn("done"))
    await s.run()
    assert durations(s)[1:] == [[20_000], [20_000]]


def test_a_batch_counts_while_one_of_its_calls_works_although_another_waits() -> None:
    clock = Clock()
    batch = WorkTime(clock=clock)
    asking, busy = WorkTime(batch, clock), WorkTime(batch, clock)
    with asking.waiting():
        clock.seconds += 5
        busy.close()
        clock.seconds += 100
    clock.seconds += 2
    asking.close()
    assert (asking.seconds, batch.seconds) == (2, 7)


def test_a_child_that_waits_stops_the_call_that_started_it_and_everything_above() -> None:
    clock = Clock()
    run = WorkTime(clock=clock)
    call = WorkTime(run, clock)
    child = WorkTime(call, clock)
    clock.seconds += 3
    with child.waiting():
        clock.seconds += 100
    assert (child.seconds, call.seconds, run.seconds) == (3, 3, 3)
    with child.waiting():
        child.close()
        clock.seconds += 4  # what is over holds up nothing
        assert (call.seconds, run.seconds) == (7, 7)
