"""Agents that calls start: what they share with their parent, how they end, and what comes back."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.agent.calls import PreparedCall
from codeagent.agent.hooks.hook import Deny, Hook, Hooks
from codeagent.agent.limits import Limits
from codeagent.agent.permissions import NarrowedPermissions
from codeagent.changes.keys import paths_key
from codeagent.core.acts import Answer, CancelCall, Pause, Resume, SetBudget, Step, Stop
from codeagent.core.agents import AgentDefinition
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.budget import Budget
from codeagent.core.errors import ModelError
from codeagent.core.events import (
    CheckpointCreated,
    KnownEvent,
    MessageAdded,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCallAdded,
    ToolResultAdded,
    ToolStarted,
)
from codeagent.core.messages import ToolCall, Usage, text_of
from codeagent.core.notices import AgentStarted, RunPaused
from codeagent.core.policy import Decision, Policy, Rule
from codeagent.session.recording import Recording
from codeagent.session.repair import check_recording
from codeagent.tools.builtin.write import Write, WriteArgs
from codeagent.tools.edit.reads import ReadTracker
from codeagent.workspace.files import LocalWorkspace
from tests.agent.doubles import Asking, Do, Turn, do, of, scene
from tests.agent.memory_checkpoints import MemoryCheckpoints
from tests.agent.watching import until
from tests.effort import times
from tests.extensions.agents.family import HELPER, ChildJournal, Family, ask, family
from tests.table import for_each

OTHER = AgentDefinition("other", "helps otherwise", parallel=True)


def only(f: Family) -> ToolResultAdded:
    (result,) = f.results()
    return result


def why(f: Family) -> tuple[str, str]:
    error = only(f).error
    assert error is not None
    return error.kind, error.message


def prompts(f: Family, child: int = 0) -> list[str]:
    """What the child was told."""
    told = of(f.born[child].journal.events, MessageAdded)
    return [text_of(event.message.content) for event in told if event.message.role == "user"]


async def test_the_last_text_of_a_child_is_the_result_of_its_call() -> None:
    f = family(
        Turn(calls=(ask(task="count"),)), helper=[Turn("well", calls=(do("ok"),)), Turn("it is 42")]
    )
    await f.run()
    assert (text_of(only(f).content), only(f).error) == ("it is 42", None)
    assert prompts(f) == ["count"]
    assert f.born[0].journal.closed


async def test_parent_and_child_are_linked_in_both_logs() -> None:
    f = family(Turn(calls=(ask(),)), helper=[Turn("done")])
    await f.run()
    own, childs = (
        of(journal.events, AgentStarted)[0] for journal in (f.parent.journal, f.born[0].journal)
    )
    for link in (own, childs):
        assert (link.call_id, link.child, link.child_session, link.parent_session) == (
            "call_1",
            "helper.1",
            "s1.1",
            "s1",
        )
    assert f.born[0].journal.events[0] == childs
    assert only(f).child_session == "s1.1"


async def test_the_events_of_a_child_are_in_its_own_log_and_seen_by_whoever_watches_its_parent() -> (
    None
):
    f = family(Turn(calls=(ask(),)), helper=[Turn("two words", calls=(do("ok"),)), Turn("done")])
    seen: list[KnownEvent] = []
    f.parent.agent.observe(seen.append)
    read = await f.run()
    assert {event.agent for event in f.parent.journal.events} == {"main"}
    assert {event.agent for event in f.born[0].journal.events} == {"helper.1"}
    for events in (seen, read):
        childs = [event for event in events if event.agent == "helper.1" and event.durable]
        assert childs == f.born[0].journal.events
        assert all(event.session == "s1.1" for event in childs)
    assert of(read, RunFinished)[-1].agent == "main"


async def test_pieces_of_two_children_are_never_merged_into_one() -> None:
    f = family(
        Turn(calls=(ask(), ask("other"))),
        agents=(HELPER, OTHER),
        helper=[Turn("a a a a")],
        other=[Turn("b b b b")],
    )
    await f.run()
    texts = {
        name: "".join(e.text for e in of(f.parent.events, TextDelta) if e.agent == name)
        for name in ("helper.1", "other.2")
    }
    assert texts == {"helper.1": "a a a a ", "other.2": "b b b b "}


async def test_an_unknown_agent_is_an_error_that_lists_those_there_are() -> None:
    f = family(Turn(calls=(ask("nobody"),)))
    await f.run()
    assert why(f) == ("not_found", "Agent not found: nobody; there are helper")
    assert f.born == []


async def test_a_child_has_no_agent_tool() -> None:
    f = family(Turn(calls=(ask(),)), helper=[Turn(calls=(ask(),)), Turn("I could not")])
    await f.run()
    (refused,) = of(f.born[0].journal.events, ToolResultAdded)
    assert refused.error is not None and refused.error.kind == "not_found"


async def test_depth_is_counted_even_where_a_child_has_the_tool() -> None:
    f = family(Turn(calls=(ask(),)), depth=1, helper=[Turn("deeper")])
    await f.run()
    assert why(f) == ("failed", "Not started: agents nest at most 1 deep. Do the task yourself.")
    assert f.born == []


_TURNS = "reached its limit max_turns = 2 before it was done"
_NOTHING = "failed: the answer was empty, several times over; the session is kept: ask again, or choose another model"


@for_each(
    ("turns", "limits", "kind", "message"),
    [
        ([Turn(error=ModelError("no credit", kind="auth"))], {}, "failed", "failed: no credit"),
        ([Turn("", calls=(do("ok"),)), Turn(), Turn(), Turn()], {}, "failed", _NOTHING),
        (
            [Turn(calls=(do("ok"),))] * 3,
            {"max_turns": 2},
            "failed",
            "reached its limit max_turns = 2 before it was done",
        ),
        (
            [Turn(calls=(do("sleep"),))],
            {"max_seconds": 0.02},
            "timeout",
            "was not done within 0.02 s",
        ),
    ],
)
async def test_a_child_that_did_not_answer_is_an_error_and_never_an_empty_success(
    turns: list[Turn], limits: dict[str, float], kind: str, message: str
) -> None:
    helper = AgentDefinition("helper", "helps", limits=limits)
    f = family(Turn(calls=(ask(),)), agents=(helper,), helper=turns)
    await f.run()
    assert why(f) == (kind, f"The agent helper {message}")
    assert only(f).child_session == "s1.1"


async def test_what_a_child_said_before_it_failed_reaches_its_parent() -> None:
    helper = AgentDefinition("helper", "helps", limits={"max_turns": 1})
    f = family(
        Turn(calls=(ask(),)), agents=(helper,), helper=[Turn("half of it", calls=(do("ok"),))]
    )
    await f.run()
    assert text_of(only(f).content).endswith(
        "before it was done\nThe last thing it said:\nhalf of it"
    )


async def test_a_child_that_cannot_be_opened_is_an_error() -> None:
    f = family(Turn(calls=(ask(),)))

    async def broken(*_: Any) -> Any:
        raise ModelError("there is no such model", kind="bad_request")

    f.children.open_child = broken
    await f.run()
    assert why(f) == ("failed", "the agent helper was not started: there is no such model")


async def test_a_rule_of_the_parent_denies_in_the_child_and_the_denial_is_the_childs() -> None:
    policy = Policy(rules=(Rule.parse("do", "deny"),))
    f = family(
        Turn(calls=(ask(),)),
        policy=policy,
        helper=[Turn(calls=(do("ok"),)), Turn("I was not allowed")],
    )
    events = await f.run()
    (denied,) = (event for event in of(events, ToolResultAdded) if event.name == "do")
    assert (denied.agent, denied.error and denied.error.kind, denied.rule) == (
        "helper.1",
        "denied",
        "do",
    )
    assert f.born[0].tools["do"].log == []
    assert only(f).error is None
    assert text_of(only(f).content) == (
        "I was not allowed\n[a call of this agent was denied, so its answer may be incomplete]"
    )
    assert [event.reason for event in of(events, RunFinished) if event.agent == "main"] == [
        "denied"
    ]


async def test_a_child_that_was_denied_a_call_still_answers_in_the_format_that_was_asked_for() -> (
    None
):
    policy = Policy(rules=(Rule.parse("do", "deny"),))
    answers = [Turn(calls=(do("ok"),)), Turn("I was not allowed"), Turn('{"n": 1}')]
    f = family(Turn(calls=(ask(output_format={"type": "object"}),)), policy=policy, helper=answers)
    await f.run()
    assert text_of(only(f).content).partition("\n")[0] == '{"n": 1}'
    assert only(f).details["denied"] is True


async def test_the_modes_of_a_child_only_tighten() -> None:
    agents = tuple(AgentDefinition(mode, "", mode=mode) for mode in ("plan", "ask", "auto"))  # type: ignore[arg-type]  # the names of modes
    script = [Turn(calls=(do("ok", "asking"),)), Turn("end")]
    calls = tuple(ask(agent.name) for agent in agents)
    f = family(
        Turn(calls=calls),
        agents=agents,
        policy=Policy("auto"),
        plan=script,
        ask=script,
        auto=script,
    )
    await f.run()
    asked = {event.agent for event in of(f.parent.events, ApprovalRequested)}
    ran = {event.agent for event in of(f.parent.events, ToolStarted) if event.name == "asking"}
    assert (asked, ran) == ({"ask.2"}, {"ask.2", "auto.3"})
    g = family(
        Turn(calls=calls),
        agents=agents,
        policy=Policy("plan"),
        plan=script,
        ask=script,
        auto=script,
    )
    await g.run()
    assert [event for event in of(g.parent.events, ToolStarted) if event.name == "asking"] == []


async def test_a_childs_question_is_answered_through_its_parent() -> None:
    script = [Turn(calls=(do("ok", "asking"),)), Turn("end")]
    f = family(Turn(calls=(ask(), ask())), helper=script)
    await f.run()
    asked = of(f.parent.events, ApprovalRequested)
    assert {event.agent for event in asked} == {"helper.1", "helper.2"}
    assert len({event.approval_id for event in asked}) == 2, "the children's call ids are the same"
    assert [result.error for result in f.results()] == [None, None]


async def test_what_the_user_allowed_for_the_session_holds_for_parent_and_children() -> None:
    script = [Turn(calls=(do("ok", "asking"),)), Turn("end")]
    f = family(Turn(calls=(do("ok", "asking"),)), Turn(calls=(ask(),)), helper=script)
    f.parent.agent.observe(
        lambda event: (
            isinstance(event, ApprovalRequested)
            and asyncio.get_running_loop().call_soon(
                f.parent.agent.do, Answer(event.approval_id, Decision("session"))
            )
        )
    )
    events = [event async for event in f.parent.agent.run("go")]
    assert [event.agent for event in of(events, ApprovalRequested)] == ["main"]


async def test_what_the_user_allowed_in_a_worktree_does_not_hold_for_the_workspace() -> None:
    script = [Turn(calls=(do("ok", "asking"),)), Turn("end")]
    apart = AgentDefinition("helper", "", worktree=True)
    f = family(
        Turn(calls=(ask(),)), Turn(calls=(do("ok", "asking"),)), agents=(apart,), helper=script
    )
    f.parent.agent.observe(
        lambda event: (
            isinstance(event, ApprovalRequested)
            and asyncio.get_running_loop().call_soon(
                f.parent.agent.do, Answer(event.approval_id, Decision("session"))
            )
        )
    )
    events = [event async for event in f.parent.agent.run("go")]
    assert [event.agent for event in of(events, ApprovalRequested)] == ["helper.1", "main"]


async def test_in_a_worktree_only_the_built_in_tools_for_files_ask_nothing(tmp_path: Path) -> None:
    class Elsewhere(Asking):
        """Of a package, which says nothing of its source."""

        effect = "files"

    agent, workspace = scene().agent, LocalWorkspace(tmp_path)
    apart = NarrowedPermissions(
        agent._environment, agent.emitter, agent._context.permissions, None, apart=True
    )
    write = Write(workspace, ReadTracker(workspace))
    call = ToolCall(id="c", name="any", arguments="")
    asked = (
        PreparedCall(call, write, WriteArgs(path="a.txt", content="")),
        PreparedCall(call, Elsewhere(), Do(what="ok")),
    )
    assert [apart.judge(each).permission for each in asked] == ["auto", "prompt"]
    assert apart.judge_effects(paths_key(workspace, ["a.txt"])).permission == "auto"
    assert apart.judge_effects(paths_key(workspace, [".env"])).permission == "prompt"


async def test_hooks_judge_the_calls_of_a_child_but_not_its_task() -> None:
    prompted: list[str] = []

    async def judge(call: ToolCall) -> Any:
        return Deny("not today") if call.name == "do" else True

    async def prompt(submitted: Any) -> bool:
        prompted.append(submitted.text)
        return True

    hooks = Hooks((Hook("h", before_tool=judge, prompt_submit=prompt),))
    f = family(
        Turn(calls=(ask(task="secret"),)), hooks=hooks, helper=[Turn(calls=(do("ok"),)), Turn("no")]
    )
    events = await f.run()
    (denied,) = (event for event in of(events, ToolResultAdded) if event.name == "do")
    assert (denied.agent, denied.approval) == ("helper.1", "hook")
    assert prompted == ["go"]


async def test_what_a_child_used_counts_in_its_parents_run() -> None:
    used = Usage(input_tokens=1000, output_tokens=500, cost_usd=0.5)
    f = family(Turn(calls=(ask(),)), helper=[Turn("done", usage=used)])
    events = await f.run()
    total = of(events, RunFinished)[-1].usage
    assert (total.input_tokens, total.output_tokens, total.cost_usd) == (1020, 504, 0.52)
    assert only(f).details["usage"]["cost_usd"] == 0.5  # type: ignore[index,call-overload]  # it is an object


async def test_a_limit_of_the_parents_run_ends_its_child() -> None:
    used = Usage(input_tokens=1000, output_tokens=500)
    f = family(
        Turn(calls=(ask(),)),
        limits=Limits(max_tokens=1200),
        helper=[Turn("a", calls=(do("ok"),), usage=used), Turn("b")],
    )
    events = await f.run()
    assert why(f)[1] == "The agent helper reached its limit max_tokens = 1200 before it was done"
    assert of(events, RunFinished)[-1].reason == "limit"


async def test_a_budget_of_the_user_is_used_by_children_too_and_allowed_once_for_all_that_wait() -> (
    None
):
    used = Usage(input_tokens=600, output_tokens=0)
    script = [Turn("a", calls=(do("ok"),), usage=used), Turn("b", usage=used)]
    f = family(Turn(calls=(ask(), ask())), attended=True, helper=script)
    f.parent.act(SetBudget(Budget("tokens", 1000)))
    f.parent.agent.observe(f.parent.events.append)
    running = asyncio.ensure_future(f.run())
    await until(lambda: len([e for e in of(f.parent.events, RunPaused) if e.agent != "main"]) == 2)
    f.parent.act(Resume())
    await until(
        lambda: (
            f.parent.agent.budget is not None and f.parent.agent._context.spending.allowed == 2000
        )
    )
    while not running.done():
        f.parent.agent.do(Resume())
        await asyncio.sleep(0)
    assert [result.error for result in f.results()[:1]] == [None]


async def test_a_pause_holds_children_at_their_next_boundary() -> None:
    f = family(Turn(calls=(ask(),)), attended=True, helper=[Turn(calls=(do("nap"),)), Turn("end")])
    f.parent.agent.observe(f.parent.events.append)
    running = asyncio.ensure_future(f.run())
    await until(lambda: [e for e in of(f.parent.events, ToolStarted) if e.agent == "helper.1"])
    f.parent.act(Pause())
    await until(lambda: [e for e in of(f.parent.events, RunPaused) if e.agent == "helper.1"])
    f.parent.act(Resume())
    await running
    assert text_of(f.results()[0].content) == "end"


async def test_stopping_the_parent_stops_every_child_and_gives_each_call_its_result() -> None:
    f = family(Turn(calls=(ask(), ask())), helper=[Turn(calls=(do("sleep"),))])
    f.parent.agent.observe(f.parent.events.append)
    running = asyncio.ensure_future(f.parent.run())
    await until(lambda: [born.tools["do"].log for born in f.born] == [["start sleep"]] * 2)
    f.parent.act(Stop())
    await running
    assert [result.error and result.error.kind for result in f.results()[:2]] == [
        "cancelled",
        "cancelled",
    ]
    assert [of(born.journal.events, RunFinished)[-1].reason for born in f.born] == [
        "interrupted"
    ] * 2
    assert all(born.journal.closed for born in f.born)
    assert [born.tools["do"].log for born in f.born] == [["start sleep", "end sleep"]] * 2


async def test_cancelling_its_call_stops_only_that_child() -> None:
    f = family(
        Turn(calls=(ask(), ask("other"))),
        Turn("end"),
        agents=(HELPER, AgentDefinition("other", "", parallel=True)),
        helper=[Turn("still here", calls=(do("sleep"),))],
        other=[Turn(calls=(do("nap"),)), Turn("fine")],
    )
    f.parent.agent.observe(f.parent.events.append)
    running = asyncio.ensure_future(f.parent.run())
    await until(lambda: len([e for e in of(f.parent.events, ToolStarted) if e.name == "do"]) == 2)
    f.parent.act(CancelCall("call_1"))
    await running
    first, second = (
        next(r for r in f.results() if r.call_id == call) for call in ("call_1", "call_2")
    )
    assert first.error is not None and first.error.kind == "cancelled"
    assert "still here" in text_of(first.content)
    assert (text_of(second.content), first.child_session) == ("fine", "s1.1")


async def test_a_single_call_of_a_child_is_cancelled_and_the_child_goes_on() -> None:
    f = family(
        Turn(calls=(ask(),)), helper=[Turn(calls=(do("sleep"), do("nap"))), Turn("without it")]
    )
    f.parent.agent.observe(f.parent.events.append)
    running = asyncio.ensure_future(f.parent.run())
    await until(lambda: [e for e in of(f.parent.events, ToolStarted) if e.agent == "helper.1"])
    assert f.parent.agent.do(CancelCall("call_1", "nobody.1")) is not None
    f.parent.act(CancelCall("call_1", "helper.1"))
    await running
    kinds = {
        event.call_id: event.error and event.error.kind
        for event in of(f.born[0].journal.events, ToolResultAdded)
    }
    assert kinds == {"call_1": "cancelled", "call_2": None}
    assert text_of(f.results()[0].content) == "without it"


async def test_stepping_holds_a_child_before_each_of_its_batches_and_one_that_starts_later_too() -> (
    None
):
    f = family(
        Turn(calls=(ask(),)),
        Turn("end"),
        attended=True,
        helper=[Turn(calls=(do("ok"),)), Turn(calls=(do("ok"),))],
    )
    f.parent.agent.observe(f.parent.events.append)
    f.parent.act(Step(True))
    running = asyncio.ensure_future(f.run())

    def paused(agent: str, times_before: int) -> bool:
        return len([e for e in of(f.parent.events, RunPaused) if e.agent == agent]) > times_before

    await until(lambda: paused("main", 0))
    f.parent.act(Resume())
    await until(lambda: paused("helper.1", 0))
    assert f.born[0].tools["do"].log == []
    f.parent.act(Resume())
    await until(lambda: paused("helper.1", 1))
    f.parent.act(Step(False))
    f.parent.act(Resume())
    await running
    assert text_of(f.results()[0].content) == "that is all"


async def test_closing_the_parent_leaves_no_child() -> None:
    f = family(Turn(calls=(ask(),)), helper=[Turn(calls=(do("sleep"),))])
    f.parent.agent.observe(f.parent.events.append)
    running = asyncio.ensure_future(f.parent.run())
    await until(lambda: of(f.parent.events, ToolStarted) and f.born and f.born[0].tools["do"].log)
    await f.parent.agent.close()
    await running
    assert f.born[0].journal.closed and f.born[0].tools["do"].log[-1] == "end sleep"


async def test_ten_children_stay_within_the_limits_of_their_parent() -> None:
    f = family(
        Turn(calls=(ask(),) * 10),
        limits=Limits(max_concurrency=4),
        helper=[Turn(calls=(do("nap"),) * 3), Turn("end")],
    )
    running = most = 0

    def count(event: KnownEvent) -> None:
        nonlocal running, most
        if getattr(event, "name", "") == "do":
            running += {"tool.started": 1, "tool.finished": -1}.get(event.type, 0)
            most = max(most, running)

    f.parent.agent.observe(count)
    await f.run()
    assert [text_of(result.content) for result in f.results()] == ["end"] * 10
    assert (f.nursery.most_at_once, most) == (4, 4)


async def test_children_that_may_write_run_one_after_the_other_and_may_say_otherwise() -> None:
    for parallel in (False, True):
        helper = AgentDefinition("helper", "", parallel=parallel)
        f = family(
            Turn(calls=(ask(), ask())),
            agents=(helper,),
            helper=[Turn(calls=(do("nap"),)), Turn("end")],
        )
        await f.run()
        assert f.nursery.most_at_once == 1 + parallel


async def test_the_changes_of_a_child_belong_to_the_batch_of_its_parent() -> None:
    f = family(Turn(calls=(ask(),)), helper=[Turn(calls=(do("ok", "alone"),)), Turn("end")])
    f.parent.agent._context.checkpoints.store = MemoryCheckpoints()
    await f.run()
    causes = [event.cause for event in of(f.parent.journal.events, CheckpointCreated)]
    assert "batch" in causes and "after" in causes
    assert of(f.born[0].journal.events, CheckpointCreated) == []


async def test_a_format_in_words_becomes_part_of_the_task() -> None:
    f = family(Turn(calls=(ask(task="count", output_format="one number"),)), helper=[Turn("3")])
    await f.run()
    assert prompts(f) == ["count\n\nThe format of your answer: one number"]


SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("schema", [SCHEMA, '{"type": "object", "required": ["n"]}'])
async def test_an_answer_that_fits_the_schema_is_taken_as_it_is(schema: Any) -> None:
    f = family(Turn(calls=(ask(output_format=schema),)), helper=[Turn('```json\n{"n": 3}\n```')])
    await f.run()
    assert (only(f).error, text_of(only(f).content)) == (None, '```json\n{"n": 3}\n```')


async def test_an_answer_that_does_not_fit_is_repaired_once() -> None:
    f = family(Turn(calls=(ask(output_format=SCHEMA),)), helper=[Turn("three"), Turn('{"n": 3}')])
    await f.run()
    assert text_of(only(f).content) == '{"n": 3}'
    assert "Your answer is not in the format that was asked for: it is not JSON" in prompts(f)[1]
    assert only(f).details["turns"] == 2


async def test_the_repair_is_not_stopped_by_the_end_of_the_run_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def slow(journal: ChildJournal) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    monkeypatch.setattr(ChildJournal, "sync", slow)
    f = family(Turn(calls=(ask(output_format=SCHEMA),)), helper=[Turn("three"), Turn('{"n": 3}')])
    await f.run()
    assert (only(f).error, text_of(only(f).content)) == (None, '{"n": 3}')


async def test_the_repair_uses_what_is_left_of_the_limits_of_the_agent() -> None:
    helper = AgentDefinition("helper", "", limits={"max_tokens": 1000})
    used = Usage(input_tokens=900, output_tokens=100)
    f = family(
        Turn(calls=(ask(output_format=SCHEMA),)),
        agents=(helper,),
        helper=[Turn("three", usage=used), Turn('{"n": 3}', usage=used)],
    )
    await f.run()
    assert why(f)[1] == "The agent helper reached its limit max_tokens = 1000 before it was done"


async def test_an_answer_that_does_not_fit_twice_is_an_error_with_what_was_said() -> None:
    f = family(
        Turn(calls=(ask(output_format=SCHEMA),)),
        helper=[Turn("three"), Turn('{"n": "three", "m": 1}')],
    )
    await f.run()
    kind, message = why(f)
    assert (
        kind == "failed"
        and "m is not a key of the schema" in message
        and "n should be a valid integer" in message
    )
    assert '{"n": "three", "m": 1}' in text_of(only(f).content)


async def test_a_schema_that_cannot_be_checked_starts_nothing() -> None:
    f = family(Turn(calls=(ask(output_format={"type": "objekt"}),)), helper=[Turn("{}")])
    await f.run()
    assert why(f)[0] == "invalid_args" and "output_format is not a JSON Schema" in why(f)[1]
    assert f.born == []


async def test_an_agent_can_be_denied_by_a_rule_that_names_it() -> None:
    f = family(
        Turn(calls=(ask(),)),
        policy=Policy(rules=(Rule.parse("agent(help*)", "deny"),)),
        helper=[Turn("hi")],
    )
    await f.run()
    assert why(f)[0] == "denied" and f.born == []


script = st.lists(
    st.builds(
        Turn,
        text=st.sampled_from(["", "a word"]),
        calls=st.lists(
            st.builds(
                do,
                st.sampled_from(["ok", "fail", "crash", "nap"]),
                st.sampled_from(["do", "asking"]),
            ),
            max_size=3,
        ).map(tuple),
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=times(40), deadline=None)
@given(
    scripts=st.tuples(script, script),
    calls=st.lists(st.sampled_from(["helper", "other", "apart", "nobody"]), min_size=1, max_size=4),
    steps=st.lists(
        st.tuples(st.integers(0, 60), st.sampled_from(["call", "child", "stop", "pause"])),
        max_size=3,
    ),
)
def test_every_call_of_parent_and_children_has_one_result_whatever_is_stopped_when(
    scripts: tuple[list[Turn], list[Turn]], calls: list[str], steps: list[tuple[int, str]]
) -> None:
    asyncio.run(_stopped_at_random(scripts, calls, steps))


async def _stopped_at_random(
    scripts: tuple[list[Turn], list[Turn]], calls: list[str], steps: list[tuple[int, str]]
) -> None:
    helper, other = scripts
    apart = AgentDefinition("apart", "", worktree=True)
    told = Turn(calls=tuple(map(ask, calls)))
    f = family(
        told, agents=(HELPER, OTHER, apart), attended=True, helper=helper, other=other, apart=other
    )
    agent, seen = f.parent.agent, 0

    def meddle(event: KnownEvent) -> None:
        nonlocal seen
        seen += 1
        loop = asyncio.get_running_loop()
        if isinstance(event, ApprovalRequested):
            loop.call_soon(agent.do, Answer(event.approval_id, Decision("once")))
        if isinstance(event, RunPaused):
            loop.call_soon(agent.do, Resume())
        for at, what in steps:
            if seen == at:
                act = {
                    "call": CancelCall("call_1"),
                    "child": CancelCall("call_2"),
                    "pause": Pause(),
                }.get(what, Stop())
                loop.call_soon(agent.do, act)

    agent.observe(meddle)
    async with asyncio.timeout(5):
        events = [event async for event in agent.run("go")]
        await agent.close()
    for journal in (f.parent.journal, *(born.journal for born in f.born)):
        asked = [event.call_id for event in of(journal.events, ToolCallAdded)]
        answered = [event.call_id for event in of(journal.events, ToolResultAdded)]
        assert sorted(asked) == sorted(answered)
        assert len(of(journal.events, RunStarted)) == len(of(journal.events, RunFinished))
        assert check_recording(Recording(events=tuple(journal.events))).problems == ()
    assert all(born.journal.closed for born in f.born)
    assert all(born.worktree.removed for born in f.born if born.worktree is not None)
    assert events[-1].agent == "main" and isinstance(events[-1], RunFinished)
    for result in f.results():
        assert result.error is not None or text_of(result.content).strip()
    running = [line for born in f.born for tool in born.tools.values() for line in tool.log]
    assert sum(line.startswith("start") for line in running) == sum(
        line.startswith("end") for line in running
    )
