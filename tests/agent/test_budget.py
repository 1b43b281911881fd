"""The budget that the user sets, what the next request takes of it, and the same call over and
over."""

import asyncio
from typing import Any

import pytest

from codeagent.agent.approvals import Approvals
from codeagent.agent.batches import PauseGate
from codeagent.agent.emitter import Emitter
from codeagent.agent.hooks.hook import Hooks
from codeagent.agent.jobs.store import Jobs
from codeagent.agent.limits import BudgetMeter, Limits
from codeagent.core.acts import Answer, Prompt, Resume, SetBudget, Steer, Stop
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.budget import Budget
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import ConfigError
from codeagent.core.events import LimitReached, RunFinished, ToolResultAdded, ToolStarted
from codeagent.core.messages import Usage, text_of
from codeagent.core.notices import RunPaused
from codeagent.core.policy import Decision, Policy, Rule
from codeagent.core.tool import Preview
from tests.agent.doubles import MemoryJournal, Scene, Turn, do, of, scene
from tests.agent.watching import heard, notices, paused, to_the_end, until, watched
from tests.table import for_each


def working(turns: int, **fields: object) -> Scene:
    """An agent whose model asks for something else each time; a request takes 12 tokens and a
    cent."""
    calls = [Turn("", (do(f"step {number}"),)) for number in range(turns)]
    return scene(*calls, Turn("done"), attended=True, **fields)  # type: ignore[arg-type]  # passed on by name


@for_each(
    ("text", "budget", "shown"),
    [
        ("$2", Budget("usd", 2), "$2"),
        ("2.50 usd", Budget("usd", 2.5), "$2.5"),
        ("200k tokens", Budget("tokens", 200_000), "200k tokens"),
        ("1.5M tokens", Budget("tokens", 1_500_000), "1500k tokens"),
        ("30 min", Budget("seconds", 1800), "30 min"),
        ("45s", Budget("seconds", 45), "45 s"),
        ("2 hours", Budget("seconds", 7200), "120 min"),
        ("10 batches", Budget("batches", 10), "10 batches"),
    ],
)
def test_a_budget_is_written_as_people_write_it(text: str, budget: Budget, shown: str) -> None:
    assert Budget.parse(text) == budget
    assert str(budget) == shown


@for_each(
    "text", ["", "2", "$", "-1 tokens", "0 min", "ten batches", "5 calls", "$1e9x", "2 weeks"]
)
def test_what_is_no_budget_is_an_error_that_shows_what_one_looks_like(text: str) -> None:
    with pytest.raises(ConfigError, match="use \\$2, 200k tokens, 30 min or 10 batches"):
        Budget.parse(text)


async def test_the_run_pauses_before_the_request_that_would_pass_the_budget() -> None:
    s = working(5)
    watched(s)
    s.act(SetBudget(Budget.parse("30 tokens")))
    s.act(Prompt("go"))
    await until(lambda: paused(s))
    assert len(s.model.requests) == 2
    assert paused(s)[0].why == "budget"
    assert paused(s)[0].text == "the next request would exceed the budget of 30 tokens"
    s.act(Stop())
    await to_the_end(s)


async def test_reaching_the_budget_is_in_the_log() -> None:
    s = working(5)
    watched(s)
    s.act(SetBudget(Budget.parse("30 tokens")))
    s.act(Prompt("go"))
    await until(lambda: paused(s))
    assert [(event.limit, event.maximum) for event in of(s.events, LimitReached)] == [
        ("budget_tokens", 30.0)
    ]
    s.act(Stop())
    await to_the_end(s)


async def test_where_nobody_is_there_the_run_ends_before_the_request_that_would_pass_its_cost() -> (
    None
):
    turns = [Turn("", (do(f"step {number}"),)) for number in range(5)]
    s = scene(*turns, Turn("done"), limits=Limits(max_cost_usd=0.025))
    events = await s.run()
    assert len(s.model.requests) == 2
    assert of(events, RunFinished)[0].reason == "limit"


async def test_going_on_allows_as_much_again() -> None:
    s = working(5)
    watched(s)
    s.act(SetBudget(Budget.parse("2 batches")))
    s.act(Prompt("go"))
    await until(lambda: paused(s))
    assert len(of(s.events, ToolStarted)) == 2
    s.act(Resume())
    await until(lambda: len(paused(s)) == 2)
    assert len(of(s.events, ToolStarted)) == 4
    assert notices(s, "budget.changed")[-1].left == "0 batches of 4 batches left"
    s.act(Resume())
    await to_the_end(s)
    assert of(s.events, RunFinished)[0].reason == "done"


async def test_what_is_typed_while_the_budget_waits_goes_with_the_next_request() -> None:
    s = working(3)
    watched(s)
    s.act(SetBudget(Budget.parse("1 batch")))
    s.act(Prompt("go"))
    await until(lambda: paused(s))
    s.act(Steer("be quick"))
    s.act(SetBudget(None))
    s.act(Resume())
    await to_the_end(s)
    assert text_of(s.model.requests[1].messages[-1].content) == "be quick"


async def test_a_budget_holds_from_one_run_to_the_next() -> None:
    s = working(1)
    watched(s)
    s.act(SetBudget(Budget.parse("$0.025")))
    s.act(Prompt("go"))
    await to_the_end(s)
    s.events.clear()
    s.act(Prompt("again"))
    await until(lambda: paused(s))
    s.act(SetBudget(None))
    s.act(Resume())
    await to_the_end(s)
    assert s.agent.budget is None


async def test_dollars_cannot_be_counted_where_no_price_is_known() -> None:
    free = Usage(input_tokens=10, output_tokens=2)
    s = scene(Turn("", (do("one"),), usage=free), Turn("done", usage=free), attended=True)
    watched(s)
    s.act(SetBudget(Budget.parse("$5")))
    s.act(Prompt("go"))
    await until(lambda: paused(s))
    assert (
        paused(s)[0].text
        == "the price of this model is unknown, so a budget in dollars cannot be tracked"
    )
    s.act(Resume())
    await to_the_end(s)
    assert s.agent.budget is None


async def test_a_limit_pauses_where_a_user_is_there_and_ends_the_run_where_nobody_is() -> None:
    s = working(3, limits=Limits(max_turns=2))
    watched(s)
    s.act(Prompt("go"))
    await until(lambda: paused(s))
    assert (paused(s)[0].why, paused(s)[0].text) == ("limit", "the limit max_turns = 2 is reached")
    s.act(Resume())
    await to_the_end(s)
    assert of(s.events, RunFinished)[0].reason == "done"
    alone = scene(
        *[Turn("", (do(f"step {number}"),)) for number in range(3)], limits=Limits(max_turns=2)
    )
    assert of(await alone.run(), RunFinished)[0].reason == "limit"


async def test_calls_past_their_limit_are_skipped_and_more_may_be_allowed() -> None:
    s = working(4, limits=Limits(max_calls=2))
    watched(s)
    s.act(Prompt("go"))
    await until(lambda: paused(s))
    s.act(Resume())
    await to_the_end(s)
    assert [result.executed for result in of(s.events, ToolResultAdded)] == [
        True,
        True,
        False,
        True,
    ]


async def test_the_same_call_in_three_answers_in_a_row_is_asked_about() -> None:
    s = scene(
        *[Turn("", (do("same"),))] * 3,
        Turn("done"),
        attended=True,
        policy=Policy("auto", (Rule("auto", "do"),)),
    )
    reasons: list[str] = []

    def answer(event: object) -> None:
        if getattr(event, "type", "") == "approval.requested":
            reasons.append(event.reason)  # type: ignore[attr-defined]  # as its type says

    events = await s.run(on_event=answer)
    assert reasons == ["the same call 3 times in a row"]
    assert [result.approval for result in of(events, ToolResultAdded)] == ["rule", "rule", "user"]


async def test_a_call_allowed_for_the_session_is_asked_about_as_well_when_it_repeats() -> None:
    s = scene(*[Turn("", (do("same", "asking"),))] * 3, Turn("done"), attended=True)
    asked = 0

    def answer(event: object) -> None:
        nonlocal asked
        if getattr(event, "type", "") == "approval.requested":
            asked += 1
            s.act(Answer(event.approval_id, Decision("session")))  # type: ignore[attr-defined]  # as its type says

    await s.run(on_event=answer)
    assert asked == 2


async def test_where_nobody_can_be_asked_the_model_is_told_once_and_then_the_run_ends() -> None:
    s = scene(*[Turn("", (do("same"),))] * 6)
    events = await s.run()
    results = of(events, ToolResultAdded)
    assert [result.executed for result in results] == [True, True, False, False]
    assert "the same call 3 times in a row" in heard(s)[2]
    assert (of(events, LimitReached)[0].limit, of(events, RunFinished)[0].reason) == (
        "same_call",
        "limit",
    )


async def test_something_else_in_between_is_no_row() -> None:
    turns = [
        Turn("", (do("same"),)),
        Turn("", (do("same"),)),
        Turn("", (do("other"),)),
        Turn("", (do("same"),)),
    ]
    events = await scene(*turns, Turn("done")).run()
    assert all(result.executed for result in of(events, ToolResultAdded))


async def test_spelling_the_arguments_another_way_is_the_same_call() -> None:
    spellings = ['{"what": "x", "key": ""}', '{"key":"","what":"x"}', '{ "what":"x","key":"" }']
    events = await scene(*[Turn("", (("do", text),)) for text in spellings], Turn("done")).run()
    assert [result.executed for result in of(events, ToolResultAdded)] == [True, True, False]


@pytest.mark.parametrize(
    "look", [("job_list", "{}"), ("job_read", '{"id": "job_1"}'), ("job_wait", '{"id": "job_1"}')]
)
async def test_to_look_at_a_job_again_and_again_is_no_row(look: tuple[str, str]) -> None:
    s = scene(*[Turn("", (look,))] * 5, Turn("done"), jobs=Jobs())
    events = await s.run()
    assert of(events, RunFinished)[0].reason == "done"
    assert [result.executed for result in of(events, ToolResultAdded)] == [True] * 5


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


async def test_time_spent_waiting_for_the_user_is_not_counted() -> None:
    journal, clock, token = MemoryJournal(), Clock(), CancelToken()
    emitter = Emitter(journal)
    spending = BudgetMeter(emitter, clock)
    gate = PauseGate(emitter, spending)
    nobody: Any = None
    approvals = Approvals(emitter, nobody, Hooks(), spending)
    spending.set(Budget.parse("60 s"))
    spending.work()

    held = asyncio.create_task(gate.hold("asked", "paused", 1, token))
    await until(lambda: of(journal.events, RunPaused))
    clock.seconds += 50
    gate.resume()
    await held

    questions = [
        asyncio.create_task(
            approvals.ask(call_id, "bash", Preview("ls", ()), "bash asks", token, binding="")
        )
        for call_id in ("call_1", "call_2")
    ]
    await until(lambda: len(of(journal.events, ApprovalRequested)) == 2)
    for answered, question in enumerate(questions, start=1):
        clock.seconds += 50
        approvals.respond(f"call_{answered}.{answered}", Decision("once"))
        await question

    clock.seconds += 15
    assert spending.left == "45 s of 1 min left"
