"""Stepping in between batches: what waits, what the user can do to it, and what the model reads of
it."""

import asyncio
import json

import pytest

from codeagent.agent.hooks.hook import Allow, Deny, Hook, Hooks, Modify
from codeagent.core.acts import (
    AllowRule,
    Answer,
    EditCall,
    Interrupt,
    Prompt,
    Resume,
    RevokeRule,
    SkipCall,
    Step,
    Stop,
)
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.events import (
    BatchFinished,
    BatchPlanned,
    KnownEvent,
    RunFinished,
    ToolResultAdded,
    ToolStarted,
)
from codeagent.core.messages import ToolCall, text_of
from codeagent.core.notices import CallMarked, StepModeChanged
from codeagent.core.policy import Decision
from tests.agent.doubles import Scene, Turn, do, of, scene
from tests.agent.watching import heard, paused, to_the_end, until, watched

THREE = (do("one"), do("two"), do("three"))


async def step_to_the_boundary(s: Scene) -> None:
    watched(s)
    s.act(Step(True))
    s.act(Prompt("go"))
    await until(lambda: paused(s))


async def test_step_mode_shows_the_batch_and_runs_nothing_until_told() -> None:
    s = scene(Turn("", THREE), Turn("done"))
    await step_to_the_boundary(s)
    planned = of(s.events, BatchPlanned)[0]
    assert [call.target for call in planned.calls] == ["one", "two", "three"]
    assert (paused(s)[0].batch, paused(s)[0].why) == (1, "step")
    assert paused(s)[0].calls == tuple(call.call_id for call in planned.calls)
    assert not of(s.events, ToolStarted)
    s.act(Resume())
    await to_the_end(s)
    assert len(of(s.events, ToolStarted)) == 3


async def test_one_of_three_is_skipped_another_edited_and_the_log_and_the_model_say_so() -> None:
    s = scene(Turn("", THREE), Turn("done"))
    await step_to_the_boundary(s)
    first, second, third = (call.call_id for call in of(s.events, BatchPlanned)[0].calls)
    s.act(SkipCall(first, "not that one"))
    s.act(EditCall(second, '{"what": "other", "key": ""}'))
    s.act(Resume())
    await to_the_end(s)
    results = {event.call_id: event for event in of(s.events, ToolResultAdded)}
    assert (results[first].error.kind, results[first].executed, results[first].approval) == (
        "skipped",
        False,
        "user",
    )
    assert [event.target for event in of(s.events, ToolStarted)] == ["other", "three"]
    assert heard(s) == [
        "skipped by user: not that one",
        '(The user edited this call before it ran. It ran with: {"what": "other", "key": ""})\ndid other',
        "did three",
    ]
    assert results[third].details.get("edited_arguments") is None
    assert of(s.events, BatchFinished)[0].executed == 2


async def test_a_skip_is_settled_only_when_the_pause_ends_and_can_be_undone_until_then() -> None:
    s = scene(Turn("", THREE), Turn("done"))
    await step_to_the_boundary(s)
    first, second, third = paused(s)[0].calls
    for call in (first, second, third):
        s.act(SkipCall(call, "no"))
    s.act(SkipCall(second, on=False))
    s.act(EditCall(third, '{"what": "other", "key": ""}'))
    assert not of(s.events, ToolResultAdded)
    assert [(mark.call_id, mark.skipped) for mark in of(s.events, CallMarked)] == [
        (first, True),
        (second, True),
        (third, True),
        (second, False),
        (third, False),
    ]
    s.act(Resume())
    await to_the_end(s)
    assert [event.target for event in of(s.events, ToolStarted)] == ["two", "other"]
    assert heard(s)[0] == "skipped by user: no"


async def test_an_edit_that_does_not_fit_changes_nothing_and_says_everything_that_is_wrong() -> (
    None
):
    s = scene(Turn("", (do("one"),)), Turn("done"))
    await step_to_the_boundary(s)
    call = of(s.events, BatchPlanned)[0].calls[0].call_id
    refusal = s.refusal(EditCall(call, '{"key": 1}'))
    assert "Argument 'key' for tool 'do' should be a valid string" in refusal
    s.act(Resume())
    await to_the_end(s)
    assert heard(s) == ["did one"]


async def test_a_call_that_runs_already_can_neither_be_skipped_nor_edited() -> None:
    s = scene(Turn("", (do("one"),)), Turn("done"))
    watched(s)
    s.act(Prompt("go"))
    await to_the_end(s)
    assert "no longer paused" in s.refusal(SkipCall("call_1", "late"))
    assert "no longer pending" in s.refusal(EditCall("call_1", "{}"))


async def test_every_call_skipped_is_a_batch_all_the_same() -> None:
    s = scene(Turn("", THREE), Turn("done"))
    await step_to_the_boundary(s)
    for call in of(s.events, BatchPlanned)[0].calls:
        s.act(SkipCall(call.call_id))
    s.act(Resume())
    await to_the_end(s)
    assert heard(s) == ["skipped by user"] * 3
    assert of(s.events, RunFinished)[0].reason == "done"


async def test_a_correction_at_the_boundary_skips_the_batch_and_is_read_next() -> None:
    s = scene(Turn("", THREE), Turn("done"))
    await step_to_the_boundary(s)
    s.act(Interrupt("use the helper"))
    s.act(Resume())
    await to_the_end(s)
    assert not of(s.events, ToolStarted)
    assert heard(s) == ["Skipped: the user interrupted with “use the helper”"] * 3
    assert text_of(s.model.requests[-1].messages[-1].content) == "use the helper"


async def test_a_stop_at_the_boundary_answers_every_call() -> None:
    s = scene(Turn("", THREE), Turn("done"))
    await step_to_the_boundary(s)
    s.act(Stop())
    await to_the_end(s)
    assert [event.error.kind for event in of(s.events, ToolResultAdded)] == ["cancelled"] * 3
    assert of(s.events, RunFinished)[0].reason == "interrupted"
    assert len(of(s.events, BatchFinished)) == len(of(s.events, BatchPlanned)) == 1


async def test_leaving_step_mode_lets_the_next_batches_run() -> None:
    s = scene(Turn("", (do("one"),)), Turn("", (do("two"),)), Turn("done"))
    await step_to_the_boundary(s)
    s.act(Step(False))
    s.act(Resume())
    await to_the_end(s)
    assert len(paused(s)) == 1
    assert [event.on for event in of(s.events, StepModeChanged)] == [True, False]


async def answered(s: Scene, *decisions: Decision) -> list[ApprovalRequested]:
    """Run to the end, giving these answers in turn; what was asked."""
    left = list(decisions)

    def answer(event: KnownEvent) -> None:
        if isinstance(event, ApprovalRequested):
            asyncio.get_running_loop().call_soon(s.act, Answer(event.approval_id, left.pop(0)))

    s.agent.observe(answer)
    watched(s)
    s.act(Prompt("go"))
    await to_the_end(s)
    return of(s.events, ApprovalRequested)


async def test_an_edited_call_is_shown_again_and_runs_as_it_was_shown() -> None:
    s = scene(Turn("", (do("one", "asking"),)), Turn("done"))
    arguments = json.dumps({"what": "other", "key": ""})
    first, second = await answered(s, Decision("edit", arguments=arguments), Decision("once"))
    assert json.loads(first.arguments) == {"what": "one", "key": ""}
    assert (second.target, second.reason) == ("other", "edited by you")
    assert first.binding != second.binding
    assert heard(s)[0].startswith("(The user edited this call before it ran.")


async def test_an_edit_of_the_user_s_that_does_not_fit_is_asked_about_as_it_was() -> None:
    s = scene(Turn("", (do("one", "asking"),)), Turn("done"))
    _, second = await answered(s, Decision("edit", arguments="{"), Decision("deny"))
    assert second.target == "one"
    assert second.reason.startswith("your edit does not fit, so this is the call as it was: ")
    assert not of(s.events, ToolStarted)


def hooks_about(answers: dict[str, Deny | Modify]) -> Hooks:
    """A hook that answers so to a call with this `what`."""

    async def before_tool(call: ToolCall) -> bool | Allow | Deny | Modify:
        return answers.get(json.loads(call.arguments)["what"], True)

    return Hooks((Hook("gate", before_tool),))


async def test_an_edit_of_the_user_s_that_a_hook_denies_is_asked_about_as_it_was() -> None:
    hooks = hooks_about({"other": Deny("not that")})
    s = scene(Turn("", (do("one", "asking"),)), Turn("done"), hooks=hooks)
    arguments = json.dumps({"what": "other", "key": ""})
    _, second = await answered(s, Decision("edit", arguments=arguments), Decision("deny"))
    assert second.target == "one"
    assert second.reason == "your edit is not allowed (not that), so this is the call as it was"


async def test_an_edit_of_the_user_s_that_a_hook_changes_is_shown_as_it_then_is() -> None:
    hooks = hooks_about({"other": Modify({"what": "third", "key": ""})})
    s = scene(Turn("", (do("one", "asking"),)), Turn("done"), hooks=hooks)
    arguments = json.dumps({"what": "other", "key": ""})
    _, second = await answered(s, Decision("edit", arguments=arguments), Decision("once"))
    assert (second.target, second.reason) == ("third", "edited by you")


async def test_a_rule_of_the_user_s_allows_its_like_for_the_session() -> None:
    s = scene(
        Turn("", (do("one", "asking"),)), Turn("", (do("once more", "asking"),)), Turn("done")
    )
    asked = await answered(s, Decision("rule", rule="asking(one*)"), Decision("deny"))
    assert [question.target for question in asked] == ["one", "once more"]
    assert [str(rule) for rule in s.agent.rules] == ["asking(one*)"]
    assert of(s.events, ToolResultAdded)[0].rule == "asking(one*)"


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("asking", "asking would allow every call of the tool; write asking(pattern)"),
        (
            "asking(two*)",
            "asking(two*) does not allow all of this call; answer it once, or write another rule",
        ),
        ("asking(", "not a rule: 'asking('; write tool or tool(pattern), as in bash(git status*)"),
    ],
)
async def test_a_rule_that_is_none_or_does_not_fit_allows_nothing_and_is_asked_about(
    rule: str, why: str
) -> None:
    s = scene(Turn("", (do("one", "asking"),)), Turn("done"))
    _, second = await answered(s, Decision("rule", rule=rule), Decision("deny"))
    assert second.reason == why
    assert s.agent.rules == ()
    assert not of(s.events, ToolStarted)


async def test_a_rule_is_revoked_and_asks_again() -> None:
    s = scene(Turn("", (do("one", "asking"),)), Turn("done"))
    assert await s.agent.finish(AllowRule("asking(one)")) is None
    assert await s.agent.finish(RevokeRule(s.agent.rules[0])) is None
    assert len(await answered(s, Decision("deny"))) == 1


async def test_an_answer_by_hunk_to_what_has_none_allows_nothing_and_is_asked_about() -> None:
    s = scene(Turn("", (do("one", "asking"),)), Turn("done"))
    _, second = await answered(s, Decision("once", hunks=(False,)), Decision("deny"))
    assert second.reason == "this cannot be answered hunk by hunk: allow or deny the whole of it"
    assert not of(s.events, ToolStarted)
