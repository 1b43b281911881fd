"""Steer, interrupt, follow-up, abort: when each is delivered and what is skipped."""

import asyncio
from collections.abc import Callable
from typing import Literal

import pytest

from codeagent.agent.hooks.hook import Deny, Hook, Hooks, SubmittedPrompt, TextAnswer
from codeagent.agent.queue import Delivery
from codeagent.core.acts import Act, FollowUp, Interrupt, Queued, Steer, Stop, TakeBack
from codeagent.core.events import (
    RunFinished,
    SteerDelivered,
    SteerQueued,
    ToolResultAdded,
    ToolStarted,
)
from codeagent.core.messages import ProviderContent, StopReason, UserMessage, text_of
from codeagent.session.fold import History, fold
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


@pytest.mark.parametrize(
    ("strategy", "executed"), [("sequential", 1), ("parallel", 3), ("batched:2", 2)]
)
async def test_an_interrupt_skips_what_lies_behind_the_next_boundary(
    strategy: str, executed: int
) -> None:
    s = scene(Turn("", THREE), Turn("stopped"), strategy=strategy)
    at_first_start(s, lambda: s.act(Interrupt("stop")))
    events = await s.run()
    results = of(events, ToolResultAdded)
    assert sum(r.executed for r in results) == executed
    assert all(
        "stop" in text_of(r.content) and r.error.kind == "skipped"
        for r in results
        if not r.executed
    )
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


async def test_steering_waits_while_the_providers_own_tools_are_at_work_and_nobody_nudges_the_model() -> (
    None
):
    s = scene(Turn("I look.", stop="paused"), Turn("Found."), Turn("ok"))

    def steer_once(event: object) -> None:
        if getattr(event, "type", "") == "text.delta" and len(s.model.requests) == 1:
            s.act(Steer("also this"))

    s.agent.observe(steer_once)
    events = await s.run()
    assert [request.messages[-1].role for request in s.model.requests] == [
        "user",
        "assistant",
        "user",
    ]
    assert text_of(s.model.requests[2].messages[-1].content) == "also this"
    assert of(events, RunFinished)[0].turns == 3


@pytest.mark.parametrize("stop", ["end", "paused"])
async def test_a_model_that_answers_nothing_after_its_providers_tools_paused_is_nudged(
    stop: StopReason,
) -> None:
    s = scene(Turn("I look.", stop="paused"), Turn("", stop=stop), Turn("ok"))
    await s.run()
    last = s.model.requests[2].messages[-1]
    assert isinstance(last, UserMessage) and "Your answer was empty" in text_of(last.content)


async def test_steering_waits_for_a_search_that_waits_for_the_results_of_calls() -> None:
    search = ProviderContent(
        origin="o", items=({"type": "server_tool_use", "id": "s"}, {"type": "tool_use"})
    )
    found = ProviderContent(
        origin="o", items=({"type": "web_search_tool_result", "tool_use_id": "s"},)
    )
    s = scene(
        Turn("", THREE[:1], content=search), Turn("Found.", THREE[:1], content=found), Turn("ok")
    )
    at_first_start(s, lambda: s.act(Steer("also this")))
    await s.run()
    assert [request.messages[-1].role for request in s.model.requests] == ["user", "tool", "user"]
    assert text_of(s.model.requests[2].messages[-1].content) == "also this"


async def test_queued_text_is_logged_before_it_is_delivered() -> None:
    s = scene(Turn("", THREE), Turn("ok"))
    at_first_start(s, lambda: s.act(Steer("also this")))
    order = names(await s.run())
    assert (
        order.index("steer.queued")
        < order.index("steer.delivered")
        < order.index("message.added", 20)
    )


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


async def test_what_is_queued_when_the_agent_is_closed_waits_for_the_next_process() -> None:
    s = scene(Turn("", (do("sleep"),)))
    closing: list[asyncio.Task[None]] = []

    def act() -> None:
        s.act(FollowUp("and then this"))
        closing.append(asyncio.create_task(s.agent.close()))

    at_first_start(s, act)
    events = await s.run()
    await closing[0]
    assert of(events, RunFinished)[0].reason == "interrupted"
    assert of(events, SteerDelivered) == []
    assert [queued.text for queued in fold(events).undelivered] == ["and then this"]


async def test_what_a_dead_process_had_queued_is_delivered_by_the_next() -> None:
    s = scene(
        Turn("ok"), restored=History(undelivered=(Queued("q1", "steer", "typed before the crash"),))
    )
    events = await s.run()
    assert of(events, SteerQueued) == []
    assert [e.id for e in of(events, SteerDelivered)] == ["q1"]


def last_texts(s: Scene) -> list[list[str]]:
    """What the user said at the end of each request."""
    ends = []
    for request in s.model.requests:
        said: list[str] = []
        for message in reversed(request.messages):
            if not isinstance(message, UserMessage):
                break
            said.insert(0, text_of(message.content))
        ends.append(said)
    return ends


def typing(s: Scene, *typed: Act) -> None:
    at_first_start(s, lambda: [s.act(act) for act in typed])


@pytest.mark.parametrize(
    ("steer", "expected"),
    [("all", [["one", "two", "three"], []]), ("one", [["one"], ["two"], ["three"]])],
)
async def test_steering_is_delivered_all_at_once_or_one_text_at_each_boundary(
    steer: Literal["all", "one"], expected: list[list[str]]
) -> None:
    s = scene(Turn("", THREE), Turn("", THREE), Turn("", THREE), delivery=Delivery(steer=steer))
    typing(s, Steer("one"), Steer("two"), Steer("three"))
    await s.run()
    assert last_texts(s)[1 : 1 + len(expected)] == expected
    assert not s.agent.queued


async def test_one_text_at_a_time_is_also_one_for_each_answer_without_calls() -> None:
    s = scene(Turn("", THREE), Turn("done"), Turn("that too"), delivery=Delivery(steer="one"))
    typing(s, Steer("one"), Steer("two"))
    await s.run()
    assert last_texts(s)[1:] == [["one"], ["two"]]


async def test_a_run_that_begins_with_the_queue_sends_one_text_if_one_is_delivered_at_a_time() -> (
    None
):
    waiting = (
        Queued("q1", "steer", "one"),
        Queued("q2", "steer", "two"),
        Queued("q3", "follow_up", "three"),
    )
    s = scene(
        Turn("a"), Turn("b"), restored=History(undelivered=waiting), delivery=Delivery(steer="one")
    )
    assert [event async for event in s.agent.run(None)]
    assert last_texts(s) == [["one"], ["two"], ["three"]]


async def test_an_interrupt_takes_what_was_typed_before_it_along_and_leaves_the_rest() -> None:
    s = scene(
        Turn("", THREE), Turn("", THREE), strategy="sequential", delivery=Delivery(steer="one")
    )
    typing(s, Steer("one"), Steer("two"), Interrupt("stop"), Steer("three"))
    await s.run()
    assert last_texts(s)[1:] == [["one", "two", "stop"], ["three"]]


async def test_a_run_that_was_stopped_before_its_text_was_sent_delivers_the_next_one() -> None:
    s = scene(Turn("", THREE), Turn("b"), delivery=Delivery(steer="one"))
    delivered: list[str] = []

    def stop_first(event: object) -> None:
        if isinstance(event, SteerDelivered):
            delivered.append(event.id)
            if len(delivered) == 1:
                s.act(Stop("enough"))

    s.agent.observe(stop_first)
    typing(s, Steer("one"))
    await s.run()
    s.act(Steer("two"))
    assert [event async for event in s.agent.run(None)]
    assert (len(delivered), last_texts(s)[-1][-1]) == (2, "two")


@pytest.mark.parametrize(
    ("follow_up", "expected"), [("one", [["one"], ["two"]]), ("all", [["one", "two"]])]
)
async def test_follow_ups_get_a_turn_each_or_one_for_all(
    follow_up: Literal["all", "one"], expected: list[list[str]]
) -> None:
    s = scene(
        Turn("", THREE[:1]), Turn("a"), Turn("b"), Turn("c"), delivery=Delivery(follow_up=follow_up)
    )
    typing(s, FollowUp("one"), FollowUp("two"))
    await s.run()
    assert last_texts(s)[2:] == expected


async def test_hooks_judge_each_of_the_follow_ups_that_are_delivered_together() -> None:
    async def judge(prompt: SubmittedPrompt) -> TextAnswer:
        return Deny("not this") if prompt.text == "two" else True

    s = scene(
        Turn("", THREE[:1]),
        Turn("a"),
        Turn("b"),
        hooks=Hooks((Hook("judge", prompt_submit=judge),)),
        delivery=Delivery(follow_up="all"),
    )
    typing(s, FollowUp("one"), FollowUp("two"), FollowUp("three"))
    await s.run()
    assert last_texts(s)[2:] == [["one", "three"]]
