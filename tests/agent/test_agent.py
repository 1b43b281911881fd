"""The handle a screen holds: start and read, pause and go on, change the mode, say what a stop
did."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from codeagent.core.acts import (
    Answer,
    Pause,
    Prompt,
    Queued,
    Resume,
    RunShell,
    SetMode,
    Steer,
    Stop,
)
from codeagent.core.approval_events import ApprovalRequested, ApprovalResolved
from codeagent.core.display import QuestionBlock
from codeagent.core.errors import CodeagentError
from codeagent.core.events import (
    KnownEvent,
    RunFinished,
    RunStarted,
    ToolResultAdded,
    ToolStarted,
    TurnFinished,
)
from codeagent.core.messages import UserMessage, text_of, transcript_problems
from codeagent.core.notices import TypedNotice
from codeagent.core.policy import Decision, Policy
from codeagent.session.fold import History
from tests.agent.doubles import Scene, Turn, do, of, scene


def notices(s: Scene, code: str) -> list[Any]:
    return [event for event in s.journal.events if getattr(event, "code", "") == code]


def on(s: Scene, kind: type[KnownEvent], act: Callable[[], object]) -> None:
    """Act at the first event of the kind, before anything else can happen."""
    done: list[bool] = []

    def observe(event: KnownEvent) -> None:
        if isinstance(event, kind) and not done:
            done.append(True)
            act()

    s.agent.observe(observe)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  # what is waited for has no event of its own
            await asyncio.sleep(0)


async def ended(s: Scene) -> RunFinished:
    await until(lambda: of(s.journal.events, RunFinished) and not s.agent.running)
    finished: RunFinished = of(s.journal.events, RunFinished)[-1]
    return finished


async def test_events_reads_runs_that_were_started_and_what_happens_between_them() -> None:
    s = scene(Turn("one"), Turn("two"))
    reader = s.agent.events()
    s.act(Prompt("go"))
    assert s.agent.running
    await ended(s)
    s.act(SetMode("plan"))
    s.act(Prompt("again"))
    await ended(s)
    await s.agent.close()
    durable = [event for event in [event async for event in reader] if event.durable]
    assert durable == s.journal.events
    assert len(of(durable, RunFinished)) == 2


async def test_the_first_reader_gets_what_was_emitted_before_it_came_and_the_next_does_not() -> (
    None
):
    s = scene()
    s.agent.emitter.warn("sandbox.unavailable", "no sandbox")
    first, second = s.agent.events(), s.agent.events()
    await s.agent.close()
    assert [event.type async for event in first] == ["notice"]
    assert [event.type async for event in second] == []


async def test_a_second_run_is_refused_while_one_is_going_on() -> None:
    s = scene(Turn("", (do("sleep"),)))
    s.act(Prompt("go"))
    assert "already running" in s.refusal(Prompt("again"))
    with pytest.raises(CodeagentError, match="already running"):
        await anext(s.agent.run("again"))
    await s.agent.close()
    assert of(s.journal.events, RunFinished)[0].reason == "interrupted"


async def test_a_reader_of_run_finished_may_start_the_next_run_at_once() -> None:
    s = scene(Turn("one"), Turn("two"))
    reader = s.agent.events()
    s.act(Prompt("go"))
    async for event in reader:
        if isinstance(event, RunFinished):
            s.act(Prompt("again"))
            break
    await ended(s)
    assert len(of(s.journal.events, RunStarted)) == 2
    await s.agent.close()


async def test_text_typed_after_the_end_was_decided_stays_queued_and_begins_the_next_run() -> None:
    s = scene(Turn("one"), Turn("two"))
    on(s, RunFinished, lambda: s.act(Steer("too late")))
    s.act(Prompt("go"))
    await ended(s)
    assert [item.text for item in s.agent.queued] == ["too late"]
    s.act(Prompt(None))
    await ended(s)
    assert text_of(s.model.requests[1].messages[-1].content) == "too late"
    assert s.agent.queued == ()


async def test_a_follow_up_alone_can_begin_a_run_and_nothing_cannot() -> None:
    s = scene(Turn("ok"), restored=History(undelivered=(Queued("q1", "follow_up", "later"),)))
    s.act(Prompt(None))
    await ended(s)
    assert text_of(s.model.requests[0].messages[-1].content) == "later"
    assert "nothing is queued" in s.refusal(Prompt(None))


async def test_a_pause_waits_before_the_next_request_and_delivers_what_was_typed_meanwhile() -> (
    None
):
    s = scene(Turn("", (do("ok"),)), Turn("done"))
    on(s, ToolStarted, lambda: s.act(Pause()))
    s.act(Prompt("go"))
    await until(lambda: notices(s, "run.paused"))
    [held] = notices(s, "run.paused")
    assert (held.batch, held.why, held.calls) == (2, "asked", ())
    s.act(Steer("look there"))
    await asyncio.sleep(0.01)
    assert len(s.model.requests) == 1
    s.act(Resume())
    assert (await ended(s)).reason == "done"
    assert text_of(s.model.requests[1].messages[-1].content) == "look there"
    assert len(notices(s, "run.resumed")) == 1


async def test_a_pause_is_told_when_it_is_asked_for_and_when_it_is_taken_back() -> None:
    s = scene(Turn("", (do("ok"),)), Turn("done"))

    def change_their_mind() -> None:
        s.act(Pause())
        s.act(Pause())
        s.act(Resume())
        assert s.refusal(Resume()) == "nothing is paused"

    on(s, ToolStarted, change_their_mind)
    s.act(Prompt("go"))
    assert (await ended(s)).reason == "done"
    codes = [event.code for event in of(s.journal.events, TypedNotice)]
    assert codes == ["run.pausing", "run.resumed"]


async def test_a_pause_waits_before_the_next_batch_of_the_same_answer() -> None:
    s = scene(Turn("", (do("ok"), do("ok"))), Turn("done"), strategy="sequential")
    on(s, ToolStarted, lambda: s.act(Pause()))
    s.act(Prompt("go"))
    await until(lambda: notices(s, "run.paused"))
    assert len(of(s.journal.events, ToolResultAdded)) == 1
    s.act(Resume())
    await ended(s)
    assert len(of(s.journal.events, ToolResultAdded)) == 2


async def test_an_abort_during_a_pause_ends_the_run_with_every_call_answered() -> None:
    s = scene(Turn("", (do("ok"), do("ok"))), strategy="sequential")
    on(s, ToolStarted, lambda: s.act(Pause()))
    s.act(Prompt("go"))
    await until(lambda: notices(s, "run.paused"))
    s.act(Stop())
    assert (await ended(s)).reason == "interrupted"
    assert notices(s, "run.resumed") == []
    assert transcript_problems(s.agent.history) == []
    assert notices(s, "run.stopped")[0].not_run == 1


async def test_a_pause_that_was_not_reached_does_not_hold_up_the_next_run() -> None:
    s = scene(Turn("one"), Turn("two"))
    on(s, TurnFinished, lambda: s.act(Pause()))
    s.act(Prompt("go"))
    await ended(s)
    assert s.refusal(Pause()) == "nothing is running that could be paused"
    s.act(Prompt("again"))
    assert (await ended(s)).reason == "done"
    assert notices(s, "run.paused") == []


async def test_a_mode_holds_for_calls_that_are_not_judged_yet() -> None:
    s = scene(
        Turn("", (do("ok", "asking"), do("ok", "asking"))), Turn("done"), strategy="sequential"
    )
    on(s, ToolResultAdded, lambda: s.act(SetMode("auto")))
    events = await s.run()
    assert len(of(events, ApprovalRequested)) == 1
    assert notices(s, "mode.changed")[0].mode == "auto"


async def test_the_mode_can_be_changed_while_idle_and_the_next_run_says_so() -> None:
    s = scene(Turn("", (do("ok", "asking"),)), Turn("done"), policy=Policy("auto"))
    s.act(SetMode("plan"))
    s.act(SetMode("plan"))
    events = await s.run()
    assert of(events, RunStarted)[0].mode == "plan"
    assert of(events, ToolResultAdded)[0].error.kind == "denied"
    assert len(notices(s, "mode.changed")) == 1


async def test_a_stop_says_what_was_cut_off_killed_kept_and_not_run() -> None:
    s = scene(
        Turn("", (do("edit"),)), Turn("", (do("partial"), do("ok", "alone"), do("ok", "alone")))
    )

    def stop(event: KnownEvent) -> None:
        if isinstance(event, ToolStarted) and event.arguments["what"] == "partial":
            asyncio.get_running_loop().call_later(0.01, lambda: s.act(Stop()))

    s.agent.observe(stop)
    await s.run()
    [notice] = notices(s, "run.stopped")
    assert notice == replace(
        notice,
        stream_closed=False,
        killed=2,
        edits_kept=("a.py",),
        not_run=2,
        left_running=0,
        jobs_running=0,
    )
    assert notice.text == "stopped: 2 processes killed, 1 edited file kept, 2 calls not run"


async def test_a_stop_in_the_middle_of_an_answer_closes_its_stream() -> None:
    s = scene(Turn("a long answer"))
    s.agent.observe(lambda event: s.act(Stop()) if event.type == "text.delta" else None)
    await s.run()
    [notice] = notices(s, "run.stopped")
    assert notice.stream_closed and notice.text == "stopped: the answer was cut off"


@pytest.mark.parametrize(
    ("call", "decision"),
    [
        (("ask_user", '{"question": "Which one?", "options": ["a", "b"]}'), Decision("once", "b")),
        (do("ok", "asking"), Decision("deny", "use the other file")),
    ],
    ids=["what was picked", "the reason of a no"],
)
async def test_what_the_user_answered_is_in_the_log_in_their_words(
    call: tuple[str, str], decision: Decision
) -> None:
    s = scene(Turn("", (call,)), Turn("done"))

    def answer(event: KnownEvent) -> None:
        if isinstance(event, ApprovalRequested):
            s.act(Answer(event.approval_id, decision))

    await s.run(on_event=answer)
    (resolved,) = of(s.journal.events, ApprovalResolved)
    assert (resolved.answer, resolved.source, resolved.reason) == (
        decision.answer,
        "user",
        decision.reason,
    )


async def test_a_question_is_answered_with_words() -> None:
    s = scene(
        Turn("", (("ask_user", '{"question": "Which one?", "options": ["a", "b"]}'),)), Turn("done")
    )

    def answer(event: KnownEvent) -> None:
        if isinstance(event, ApprovalRequested):
            assert (event.name, event.target) == ("ask_user", "Which one?")
            assert isinstance(event.blocks[0], QuestionBlock) and event.blocks[0].options == (
                "a",
                "b",
            )
            s.act(Answer(event.approval_id, Decision("once", "neither")))

    events = await s.run(on_event=answer)
    assert text_of(of(events, ToolResultAdded)[0].content) == "neither"
    assert of(events, RunFinished)[0].reason == "done"


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (Decision("deny"), "the user did not answer"),
        (Decision("deny", "no user", source="auto"), "no user"),
        (Decision("once"), "the user did not answer"),
    ],
)
async def test_a_question_nobody_answers_is_denied_and_the_run_goes_on(
    decision: Decision, said: str
) -> None:
    s = scene(Turn("", (("ask_user", '{"question": "Which one?"}'),)), Turn("I will choose myself"))

    def answer(event: KnownEvent) -> None:
        if isinstance(event, ApprovalRequested):
            s.act(Answer(event.approval_id, decision))

    events = await s.run(on_event=answer)
    [result] = of(events, ToolResultAdded)
    assert (result.error.kind, result.error.message) == ("denied", said)
    assert of(events, RunFinished)[0].reason == "done"


async def test_the_same_question_is_asked_again_whatever_was_answered() -> None:
    question = ("ask_user", '{"question": "Go on?"}')
    s = scene(Turn("", (question,)), Turn("", (question,)), Turn("done"))
    asked: list[str] = []

    def answer(event: KnownEvent) -> None:
        if isinstance(event, ApprovalRequested):
            asked.append(event.approval_id)
            s.act(Answer(event.approval_id, Decision("session", f"answer {len(asked)}")))

    events = await s.run(on_event=answer)
    assert [text_of(result.content) for result in of(events, ToolResultAdded)] == [
        "answer 1",
        "answer 2",
    ]


async def test_notes_of_an_earlier_process_reach_the_model_before_the_prompt() -> None:
    note = UserMessage.from_text("(The user ran a command)", source="note")
    s = scene(Turn("ok"), restored=History(notes=(note,)))
    await s.run("and now")
    assert [text_of(message.content) for message in s.model.requests[0].messages] == [
        "(The user ran a command)",
        "and now",
    ]


async def test_after_the_close_nothing_begins() -> None:
    s = scene(Turn("one"))
    await s.agent.close()
    await s.agent.close()
    for act in (Prompt("go"), RunShell("ls", shared=False), Steer("too late"), SetMode("plan")):
        assert s.refusal(act) == "this conversation is closed"
    assert s.journal.events == []


async def test_an_observer_that_fails_at_the_start_leaves_the_agent_free_for_the_next_run() -> None:
    s = scene(Turn("one"))
    failing = [True]

    def fail(event: KnownEvent) -> None:
        if failing:
            failing.clear()
            raise RuntimeError("observer")

    s.agent.observe(fail)
    with pytest.raises(RuntimeError):
        s.act(Prompt("go"))
    assert not s.agent.running
    s.act(Prompt("again"))
    assert (await ended(s)).reason == "done"
