"""Steer, interrupt, follow-up, abort: when each is delivered and what is skipped (FEATURES F9)."""

from collections.abc import Callable

import pytest

from codeagent.core.acts import FollowUp, Interrupt, Queued, Steer, Stop, TakeBack
from codeagent.core.events import RunFinished, SteerDelivered, SteerQueued, ToolResultAdded, ToolStarted
from codeagent.core.messages import ProviderContent, StopReason, UserMessage, text_of
from codeagent.session.fold import History
from tests.agent.doubles import Scene, Turn, do, names, of, scene

THREE = (do("nap"), do("nap"), do("nap"))


def at_first_start(s: Scene, act: Callable[[], object]) -> None:
    """Act the moment the first tool starts, before anything else can happen."""
    done: list[bool] = []

    def observe(event: object) -> None:
        if isinstance(event, ToolStarted) and not done:
            done.append(True)
            act()

    s.agent.observe(observe)


@pytest.mark.parametrize(("strategy", "executed"), [("sequential", 1), ("parallel", 3), ("batched:2", 2)])
async def test_an_interrupt_skips_what_lies_behind_the_next_boundary(strategy: str, executed: int) -> None:
    s = scene(Turn("", THREE), Turn("stopped"), strategy=strategy)
    at_first_start(s, lambda: s.act(Interrupt("stop")))
    events = await s.run()
    results = of(events, ToolResultAdded)
    assert sum(r.executed for r in results) == executed
    assert all("stop" in text_of(r.content) and r.error.kind == "skipped" for r in results if not r.executed)
    last = s.model.requests[1].messages[-1]
    assert isinstance(last, UserMessage)
    assert (text_of(last.content), last.source) == ("stop", "interrupt")


@pytest.mark.parametrize("strategy", ["sequential", "parallel", "batched:2"])
async def test_steering_skips_nothing_and_arrives_after_the_results(strategy: str) -> None:
    s = scene(Turn("", THREE), Turn("ok"), strategy=strategy)
    at_first_start(s, lambda: s.act(Steer("also this")))
    events = await s.run()
    assert [r.executed for r in of(events, ToolResultAdded)] == [True] * 3
    assert text_of(s.model.requests[1].messages[-1].content) == "also this"


async def test_steering_waits_while_the_providers_own_tools_are_at_work_and_nobody_nudges_the_model() -> None:
    s = scene(Turn("I look.", stop="paused"), Turn("Found."), Turn("ok"))

    def steer_once(event: object) -> None:
        if getattr(event, "type", "") == "text.delta" and len(s.model.requests) == 1:
            s.act(Steer("also this"))

    s.agent.observe(steer_once)
    events = await s.run()
    assert [request.messages[-1].role for request in s.model.requests] == ["user", "assistant", "user"]
    assert text_of(s.model.requests[2].messages[-1].content) == "also this"
    assert of(events, RunFinished)[0].turns == 3


@pytest.mark.parametrize("stop", ["end", "paused"])
async def test_a_model_that_answers_nothing_after_its_providers_tools_paused_is_nudged(stop: StopReason) -> None:
    s = scene(Turn("I look.", stop="paused"), Turn("", stop=stop), Turn("ok"))
    await s.run()
    last = s.model.requests[2].messages[-1]
    assert isinstance(last, UserMessage) and "Your answer was empty" in text_of(last.content)


async def test_steering_waits_for_a_search_that_waits_for_the_results_of_calls() -> None:
    search = ProviderContent(origin="o", items=({"type": "server_tool_use", "id": "s"}, {"type": "tool_use"}))
    found = ProviderContent(origin="o", items=({"type": "web_search_tool_result", "tool_use_id": "s"},))
    s = scene(Turn("", THREE[:1], content=search), Turn("Found.", THREE[:1], content=found), Turn("ok"))
    at_first_start(s, lambda: s.act(Steer("also this")))
    await s.run()
    assert [request.messages[-1].role for request in s.model.requests] == ["user", "tool", "user"]
    assert text_of(s.model.requests[2].messages[-1].content) == "also this"


async def test_queued_text_is_logged_before_it_is_delivered() -> None:
    s = scene(Turn("", THREE), Turn("ok"))
    at_first_start(s, lambda: s.act(Steer("also this")))
    order = names(await s.run())
    assert order.index("steer.queued") < order.index("steer.delivered") < order.index("message.added", 20)


async def test_a_follow_up_waits_until_the_agent_would_stop() -> None:
    s = scene(Turn("", (do("ok"),)), Turn("first done"), Turn("second done"))
    at_first_start(s, lambda: s.act(FollowUp("and then this")))
    await s.run()
    assert text_of(s.model.requests[1].messages[-1].content) == "did ok"
    assert text_of(s.model.requests[2].messages[-1].content) == "and then this"


async def test_text_queued_during_the_last_answer_becomes_the_next_turn() -> None:
    s = scene(Turn("all done now"), Turn("that too"))

    def steer_once(event: object) -> None:
        if getattr(event, "type", "") == "text.delta" and len(s.model.requests) == 1:
            s.act(Steer("wait"))

    s.agent.observe(steer_once)
    await s.run()
    assert len(s.model.requests) == 2


async def test_what_is_taken_back_is_not_delivered() -> None:
    s = scene(Turn("", THREE), Turn("ok"))

    def never_mind() -> None:
        s.act(Steer("never mind"))
        s.act(TakeBack(s.agent.queued[0].id))

    at_first_start(s, never_mind)
    events = await s.run()
    assert s.agent.queued == ()
    assert [e.taken_back for e in of(events, SteerDelivered)] == [True]
    assert len(s.model.requests[1].messages) == 5


async def test_abort_cancels_now_and_gives_the_queues_back() -> None:
    s = scene(Turn("", (do("sleep"), do("sleep", "alone"))))

    def act() -> None:
        s.act(Steer("one"))
        s.act(FollowUp("two"))
        s.act(Stop())

    at_first_start(s, act)
    events = await s.run()
    assert of(events, RunFinished)[0].reason == "interrupted"
    assert [(r.error.kind, r.executed) for r in of(events, ToolResultAdded)] == [
        ("cancelled", True),
        ("cancelled", False),
    ]
    assert [e.taken_back for e in of(events, SteerDelivered)] == [True, True]
    # Each is put in front of what came back before it, so the newest comes first.
    assert [e.kind for e in of(events, SteerDelivered)] == ["follow_up", "steer"]
    assert len(of(events, ToolStarted)) == 1, "no prepared call starts after an abort"


async def test_what_a_dead_process_had_queued_is_delivered_by_the_next() -> None:
    s = scene(Turn("ok"), restored=History(undelivered=(Queued("q1", "steer", "typed before the crash"),)))
    events = await s.run()
    assert of(events, SteerQueued) == []
    assert [e.id for e in of(events, SteerDelivered)] == ["q1"]
