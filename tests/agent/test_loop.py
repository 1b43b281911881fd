"""One prompt, step by step: the order of events, and why a run ends."""

from collections.abc import AsyncIterator
from typing import ClassVar

import pytest

from codeagent.agent.limits import Limits
from codeagent.core.acts import Answer
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.errors import ModelError, SessionWriteError
from codeagent.core.events import (
    KnownEvent,
    LimitReached,
    MessageAdded,
    Notice,
    RunFinished,
    RunStarted,
    ToolResultAdded,
    ToolStarted,
    TurnFinished,
)
from codeagent.core.history import BranchingHistory
from codeagent.core.messages import (
    AssistantMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    text_of,
    transcript_problems,
)
from codeagent.core.model import ModelEvent, ModelRequest, Retrying, TextPiece
from codeagent.core.notices import TypedNotice
from codeagent.core.policy import Decision, Mode, Policy, Rule
from codeagent.session.fold import History
from tests.agent.doubles import Doing, Turn, TurnsModel, do, names, of, scene
from tests.table import for_each

GONE = ModelError("it is gone", kind="server")


class AttemptsModel(TurnsModel):
    """Streams a text, says that it begins again, and does so with the turn."""

    def __init__(self, text: str, turn: Turn) -> None:
        super().__init__(turn)
        self._first = text

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextPiece(self._first)
        yield Retrying("the connection broke", 2, 0.0)
        async for event in super().stream(request):
            yield event


async def test_a_prompt_without_calls_is_one_turn() -> None:
    s = scene(Turn("hello"))
    events = await s.run("hi")
    assert names(events) == [
        "run.started",
        "message.added",
        "turn.started",
        "text.delta",
        "message.added",
        "turn.finished",
        "run.finished",
    ]
    assert of(events, RunFinished)[0].reason == "done"
    assert of(events, RunFinished)[0].text == "hello"


async def test_a_call_runs_between_two_turns_and_every_event_is_in_order() -> None:
    s = scene(Turn("look", (do("ok"),)), Turn("fine"))
    events = await s.run()
    assert [name for name in names(events) if name != "text.delta"] == [
        "run.started",
        "message.added",
        "turn.started",
        "tool.call",
        "message.added",
        "batch.planned",
        "tool.started",
        "tool.finished",
        "tool.result",
        "batch.finished",
        "turn.finished",
        "turn.started",
        "message.added",
        "turn.finished",
        "run.finished",
    ]
    assert [event.seq for event in events] == sorted({event.seq for event in events})
    assert s.journal.events == [event for event in events if event.durable]


async def test_results_follow_their_answer_in_source_order_whichever_ended_first() -> None:
    s = scene(Turn("", (do("nap"), do("ok"))), Turn("done"))
    events = await s.run()
    assert [result.call_id for result in of(events, ToolResultAdded)] == ["call_2", "call_1"]
    assert [m.call_id for m in s.agent.history if isinstance(m, ToolMessage)] == [
        "call_1",
        "call_2",
    ]


async def test_usage_adds_up_over_the_turns() -> None:
    events = await scene(Turn("", (do("ok"),)), Turn("done")).run()
    usage = of(events, RunFinished)[0].usage
    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd) == (20, 4, 0.02)


async def test_an_answer_cut_by_the_output_limit_executes_no_call() -> None:
    s = scene(Turn("", (do("ok"), do("ok")), stop="length"), Turn("smaller"))
    events = await s.run()
    assert of(events, ToolStarted) == []
    assert [(r.executed, r.error.kind) for r in of(events, ToolResultAdded)] == [
        (False, "skipped")
    ] * 2
    assert of(events, RunFinished)[0].reason == "done"


async def test_calls_that_are_cut_off_again_and_again_end_the_run_with_every_call_answered() -> (
    None
):
    s = scene(*[Turn("", (do("ok"),), stop="length")] * 9)
    finished = of(await s.run(), RunFinished)[0]
    assert (finished.reason, len(s.model.requests)) == ("failed", 4)
    assert "was cut off by the output limit, several times over" in finished.error
    assert transcript_problems(s.agent.history) == [] and s.tools["do"].log == []


USELESS = [
    (Turn(), "was empty"),
    (Turn(" "), "was empty"),
    (Turn(stop="length"), "was cut off by the output limit"),
    (Turn("half a sen", stop="length"), "was cut off by the output limit"),
    (Turn(stop="content_filter"), "was stopped by the provider because of its content"),
    (Turn("I can", stop="content_filter"), "was stopped by the provider because of its content"),
]


@for_each("turn, what", USELESS)
async def test_the_model_is_told_of_an_answer_that_is_no_use(turn: Turn, what: str) -> None:
    s = scene(turn, Turn("fine"))
    events = await s.run()
    assert [note.text for note in of(events, Notice)] == [
        f"the answer {what}: the model was asked to go on"
    ]
    assert (of(events, RunFinished)[0].reason, len(s.model.requests)) == ("done", 2)
    assert text_of(s.model.requests[1].messages[-1].content).startswith("(Your answer was ")


@for_each("turn, what", USELESS)
async def test_the_user_is_told_if_that_did_not_help(turn: Turn, what: str) -> None:
    s = scene(turn, turn)
    events = await s.run()
    finished, notices = of(events, RunFinished)[0], of(events, Notice)
    assert len(s.model.requests) == 2
    if turn.text.strip():
        assert (finished.reason, notices[-1].code) == ("done", "model.incomplete")
        assert f"the answer {what} again, and is not complete: ask for" in notices[-1].text
    else:
        assert finished.reason == "failed"
        assert f"the answer {what}, several times over; the session is kept: ask" in finished.error
        assert not any(isinstance(m, AssistantMessage) for m in s.agent.history)


async def test_a_useful_answer_in_between_begins_the_count_again() -> None:
    s = scene(Turn(), Turn("", (do("ok"),)), Turn(), Turn("fine"))
    assert of(await s.run(), RunFinished)[0].reason == "done"


async def test_a_failing_model_ends_the_run_and_keeps_the_text() -> None:
    s = scene(
        Turn("I was about to", (do("ok"),), error=ModelError("the provider is gone", kind="server"))
    )
    events = await s.run()
    assert of(events, RunFinished)[0].reason == "failed"
    assert of(events, RunFinished)[0].error == "the provider is gone"
    assert s.agent.history[-1] == AssistantMessage(text="I was about to ", stop="cut")
    assert of(events, ToolStarted) == []
    assert [(r.call_id, r.executed, r.error.kind) for r in of(events, ToolResultAdded)] == [
        ("call_1", False, "cancelled")
    ]


async def test_a_retry_forgets_the_text_and_the_calls_of_the_first_attempt() -> None:
    s = scene(Turn("go", (do("ok"),), retry_first=True), Turn("done"))
    events = await s.run()
    assert [note.code for note in of(events, TypedNotice)] == ["model.retry"]
    assert [(r.call_id, r.executed) for r in of(events, ToolResultAdded)] == [
        ("call_1", False),
        ("call_1_2", True),
    ]
    assert of(events, MessageAdded)[1].message.text == "go"


@for_each("after", [Turn(error=GONE), Turn("half", error=GONE)])
async def test_what_came_last_of_an_answer_that_never_came_is_kept_once(after: Turn) -> None:
    """Whether the last attempt brought anything or not."""
    model = AttemptsModel("half", after)
    s = scene(model=model)
    await s.run()
    assert [m.text.strip() for m in s.agent.history[1:]] == ["half"]


async def test_a_call_id_used_before_gets_a_new_one() -> None:
    said = (
        UserMessage.from_text("before"),
        AssistantMessage(calls=(ToolCall(id="call_1", name="do"),)),
        ToolMessage(call_id="call_1", name="do", content=()),
    )
    restored = History(line=BranchingHistory(said), call_ids=frozenset({"call_1"}))
    s = scene(Turn("", (do("ok"),)), Turn("done"), restored=restored)
    events = await s.run()
    assert [result.call_id for result in of(events, ToolResultAdded)] == ["call_1_2"]
    assert of(events, RunStarted)[0].resumed


async def test_the_limit_of_turns_stops_with_every_call_answered() -> None:
    s = scene(*[Turn("", (do("ok"),))] * 5, limits=Limits(max_turns=2))
    events = await s.run()
    assert of(events, RunFinished)[0].reason == "limit"
    assert [(e.limit, e.maximum) for e in of(events, LimitReached)] == [("max_turns", 2)]
    assert len(of(events, ToolResultAdded)) == 2


async def test_calls_past_the_limit_are_skipped_and_answered() -> None:
    s = scene(Turn("", (do("ok"), do("ok"), do("ok"))), limits=Limits(max_calls=2))
    events = await s.run()
    assert [r.executed for r in of(events, ToolResultAdded)] == [True, True, False]
    assert of(events, RunFinished)[0].reason == "limit"


async def test_exactly_the_limit_of_calls_is_within_it() -> None:
    events = await scene(
        Turn("", (do("ok"), do("ok"))), Turn("done"), limits=Limits(max_calls=2)
    ).run()
    assert of(events, RunFinished)[0].reason == "done"


async def test_the_cost_limit_stops_before_the_next_request() -> None:
    s = scene(Turn("", (do("ok"),)), Turn("done"), limits=Limits(max_cost_usd=0.005))
    events = await s.run()
    assert of(events, RunFinished)[0].reason == "limit"
    assert len(s.model.requests) == 1


async def test_nothing_runs_when_the_log_cannot_be_written() -> None:
    s = scene(
        Turn("", (do("ok"),)), broken=SessionWriteError("disk full; events are kept in memory")
    )
    events = await s.run()
    assert of(events, RunFinished)[0].reason == "failed"
    assert "disk full" in of(events, RunFinished)[0].error
    assert s.model.requests == []


async def test_a_reader_that_stops_reading_stops_the_run() -> None:
    s = scene(Turn("", (do("sleep"),)))
    stream = s.agent.run("go")
    async for event in stream:
        if event.type == "tool.started":
            break
    await stream.aclose()
    assert of(s.journal.events, RunFinished)[0].reason == "interrupted"
    assert [r.error.kind for r in of(s.journal.events, ToolResultAdded)] == ["cancelled"]


async def test_a_second_prompt_goes_on_with_the_conversation() -> None:
    s = scene(Turn("one"), Turn("two"))
    await s.run("first")
    await s.run("second")
    texts = [text_of(m.content) if isinstance(m, UserMessage) else m.text for m in s.agent.history]
    assert texts == ["first", "one", "second", "two"]


async def test_the_prefix_of_every_request_stays_the_same() -> None:
    s = scene(*[Turn("", (do("ok"),))] * 3, Turn("done"))
    await s.run()
    for earlier, later in zip(s.model.requests, s.model.requests[1:], strict=False):
        assert later.messages[: len(earlier.messages)] == earlier.messages
        assert (later.system, later.tools) == (earlier.system, earlier.tools)


async def test_turns_are_always_finished() -> None:
    s = scene(Turn("", (do("ok"),)), Turn("x", error=ModelError("gone", kind="server")))
    events = await s.run()
    assert [e.turn for e in of(events, TurnFinished)] == [1, 2]
    assert of(events, TurnFinished)[1].stop == "cut"


class Looking(Doing):
    name: ClassVar[str] = "looking"
    effect = "nothing"


LOOK, DO, FAIL = do("ok", "looking"), do("ok"), do("fail")
NO_LOOK, NO_DO = do("no", "looking"), do("no")
ASK = ("ask_user", '{"question": "Which?"}')
Calls = tuple[tuple[str, str], ...]


async def reason_after(*answers: Calls, mode: Mode = "ask") -> str:
    """Why a run of these calls, and then a word, ends; whatever is `no` is denied."""
    rules = tuple(Rule.parse(f"{tool}(no)", "deny") for tool in ("do", "looking"))
    s = scene(
        *(Turn("", calls) for calls in answers),
        Turn("that is it"),
        policy=Policy(mode, rules),
        more=(Looking(),),
    )

    def nobody(event: KnownEvent) -> None:
        if isinstance(event, ApprovalRequested):
            s.act(Answer(event.approval_id, Decision("deny", "no user", source="auto")))

    return str(of(await s.run(on_event=nobody), RunFinished)[0].reason)


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([(NO_DO,)], id="nothing else was done"),
        pytest.param([(DO,), (NO_DO,)], id="what was done came before"),
        pytest.param([(NO_DO, DO)], id="what was done was asked for before the model knew"),
        pytest.param([(NO_DO,), (LOOK,)], id="only reading followed"),
        pytest.param([(NO_DO,), (FAIL,)], id="what followed failed"),
        pytest.param([(NO_DO,), (DO,), (NO_DO,)], id="made up for once, denied again"),
        pytest.param([(NO_LOOK,)], id="a reading call"),
        pytest.param([(NO_DO,), (ASK,)], id="a question makes up for nothing"),
    ],
)
async def test_a_run_ends_as_denied_where_no_later_answer_made_up_for_the_denied_call(
    answers: list[Calls],
) -> None:
    assert await reason_after(*answers) == "denied"


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([(NO_DO,), (DO,)], id="a change in another way"),
        pytest.param([(NO_DO,), (LOOK,), (FAIL,), (DO,)], id="after further tries"),
        pytest.param([(NO_LOOK,), (LOOK,)], id="read in another way"),
        pytest.param([(NO_LOOK,), (DO,)], id="read by something that may do more"),
        pytest.param([(FAIL,)], id="failed is not denied"),
        pytest.param([(ASK,)], id="a question that nobody answered is no work"),
    ],
)
async def test_a_run_whose_denied_work_was_done_otherwise_is_done(answers: list[Calls]) -> None:
    assert await reason_after(*answers) == "done"


async def test_in_plan_mode_a_denied_change_is_no_reason_to_end_as_denied_and_a_denied_read_is() -> (
    None
):
    assert await reason_after((DO,), mode="plan") == "done"
    assert await reason_after((NO_LOOK,), mode="plan") == "denied"
