"""Every event shows on the state, live or recorded."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.agent.prompt import NO_PLAN, PLAN
from codeagent.core.acts import Queued
from codeagent.core.display import DiffBlock, TerminalBlock, TextBlock
from codeagent.core.events import MessageAdded, ProviderToolUsed, ToolCallDelta, UnknownEvent
from codeagent.core.messages import AssistantMessage, UserMessage, WebSource
from codeagent.tui.reduce import Reducer
from codeagent.tui.state import UiState
from codeagent.tui.transcript.blocks import (
    AnswerBlock,
    Batch,
    CommandBlock,
    Ending,
    PromptBlock,
    Remark,
    Thoughts,
)
from tests.table import for_each
from tests.tui.scripts import (
    EDIT,
    MOVES,
    START,
    USAGE,
    Recording,
    after_failing_tests,
    asks_to_edit,
    looked_around,
    running_tests,
)

UNDO_HINT = "/undo takes the last batch back"


def show(recording: Recording, *, live: bool = True) -> UiState:
    state = UiState()
    reducer = Reducer(state, live=live)
    for event in recording.events:
        reducer.apply(event)
    return state


def test_a_run_begins_with_what_the_user_said() -> None:
    state = show(Recording().run("fix it"))

    assert [type(block) for block in state.document.blocks] == [PromptBlock]
    assert state.document.blocks[0].text == "fix it"
    assert (state.status.now.run.phase, state.status.now.run.since) == ("asking", START)
    assert state.status.now.conversation.model == "anthropic/claude-sonnet-4-5"


def test_a_job_that_asks_for_a_host_still_waits_for_the_user_once_the_run_is_over() -> None:
    recording = (
        running_tests().job("j1", "c4", "pytest -q").ask("c4", "network", "pypi.org").finish("done")
    )
    state = show(recording)
    assert ([asked.target for asked in state.approvals.waiting], state.status.now.run.phase) == (
        ["pypi.org"],
        "waiting",
    )
    state = show(recording.resolve("c4", "once"))
    assert (state.approvals.waiting, state.status.now.run.phase) == ((), "idle")


def test_the_level_of_the_network_shows_in_the_status() -> None:
    level = "open"
    state = show(Recording().notice("network.changed", "network open from now on", network=level))
    assert (state.status.now.conversation.network, state.status.now.screen.notice) == (
        level,
        "network open from now on",
    )


def test_streamed_pieces_make_one_answer_after_one_thought() -> None:
    state = show(Recording().run("hi").think("Let me ").think("see.").stream("Hel").stream("lo"))

    thoughts, answer = state.document.blocks[1:]
    assert isinstance(thoughts, Thoughts) and isinstance(answer, AnswerBlock)
    assert (thoughts.text, thoughts.open) == ("Let me see.", False)
    assert (answer.text, answer.open) == ("Hello", True)
    assert state.status.now.run.phase == "answering"


def batches(state: UiState) -> list[tuple[int, list[tuple[str, str]]]]:
    found = (block for block in state.document.blocks if isinstance(block, Batch))
    return [(batch.number, [(card.call_id, card.state) for card in batch.cards]) for batch in found]


def test_calls_that_began_before_their_batch_was_planned_are_its_first_ones_below_the_answer() -> (
    None
):
    recording = (
        Recording()
        .run("hi")
        .answer("Look.")
        .plan(("c1", "read", "a.py", "auto"))
        .start("c1", "read", "a.py")
    )
    recording.result("c1", "read").end_batch(executed=1)
    recording.stream("I look ").start("c2", "read", "b.py").result("c2", "read").start(
        "c3", "read", "c.py"
    )
    recording.stream("again.")
    assert batches(show(recording)) == [
        (1, [("c1", "done")]),
        (0, [("c2", "done"), ("c3", "running")]),
    ]

    recording.answer("I look again.")
    recording.plan(
        ("c2", "read", "b.py", "auto"),
        ("c3", "read", "c.py", "auto"),
        ("c4", "write", "d.py", "prompt"),
    )
    state = show(recording)
    assert batches(state)[1] == (2, [("c2", "done"), ("c3", "running"), ("c4", "planned")])
    assert [type(block) for block in state.document.blocks[3:]] == [AnswerBlock, Batch]


def test_calls_of_an_attempt_that_failed_stay_apart_from_those_of_the_next() -> None:
    recording = Recording().run("hi").start("c1", "read", "a.py").result("c1", "read")
    recording.notice("model.retry", "again", reason="cut", attempt=2, delay_s=0.0, attempts=6)
    recording.start("c2", "read", "a.py").answer("").plan(("c2", "read", "a.py", "auto"))
    assert batches(show(recording)) == [(0, [("c1", "done")]), (1, [("c2", "running")])]


def test_a_run_waits_for_its_model_until_the_first_piece_came_and_says_what_comes_then() -> None:
    recording, phases = Recording().run("hi"), list[str]()
    phases.append(show(recording).status.now.run.phase)
    phases.append(show(recording.think("hm")).status.now.run.phase)
    recording.add(ToolCallDelta, call_id="c1", name="write", text='{"path": "a", "content": "')
    recording.add(ToolCallDelta, call_id="c1", name="write", text="é" * 2048)
    state = show(recording)
    phases.append(state.status.now.run.phase)

    assert phases == ["asking", "thinking", "writing"]
    assert state.pulse.words(recording.now) == "writing 4 KB"


def test_the_time_of_a_run_does_not_count_on_while_a_card_waits() -> None:
    recording = (
        Recording().run("hi").plan(("c1", "bash", "make", "prompt")).ask("c1", "bash", "make")
    )
    recording.now += 100
    assert show(recording.resolve("c1", "once")).status.now.run.since == START + 102


def test_the_whole_answer_replaces_what_was_streamed() -> None:
    state = show(Recording().run("hi").stream("Hel").answer("Hello."))

    assert state.document.last_answer() == "Hello."
    assert [type(block) for block in state.document.blocks] == [PromptBlock, AnswerBlock]


def test_a_recorded_answer_brings_its_thoughts_which_no_delta_showed() -> None:
    state = show(Recording().run("hi").answer("Hello.", thinking="A greeting."), live=False)

    assert [type(block) for block in state.document.blocks] == [PromptBlock, Thoughts, AnswerBlock]


def test_streamed_thoughts_are_not_shown_twice() -> None:
    state = show(
        Recording().run("hi").think("A greeting.").answer("Hello.", thinking="A greeting.")
    )

    assert sum(isinstance(block, Thoughts) for block in state.document.blocks) == 1


@pytest.mark.parametrize("streamed", [True, False], ids=["live", "recorded"])
def test_what_the_provider_did_is_shown_above_the_answer_it_did_it_for(streamed: bool) -> None:
    page = WebSource(title="Size\x1b[2J", url="https://example.org/size")
    recording = Recording().run("hi")
    if streamed:
        recording.think("Let me see.").stream("I look. ")
    recording.add(ProviderToolUsed, tool="web_search", target="how large", sources=(page,))
    if streamed:
        recording.stream("Large.")
    state = show(recording.answer("I look. Large."))

    blocks = [block for block in state.document.blocks if not isinstance(block, Thoughts)]
    assert [type(block) for block in blocks] == [PromptBlock, Remark, AnswerBlock]
    assert [block.key for block in state.document.blocks] == list(range(len(state.document.blocks)))
    assert blocks[1].text.splitlines() == [
        "web_search: how large",
        "  https://example.org/size  Size\x1b[2J",
    ]
    assert (blocks[1].level, blocks[2].text) == ("provider", "I look. Large.")


def test_a_batch_is_shown_as_planned_and_its_cards_say_how_they_ended() -> None:
    state = show(looked_around())

    batch = state.document.blocks[-1]
    assert isinstance(batch, Batch)
    assert [(card.name, card.state, card.note) for card in batch.cards] == [
        ("read", "done", "212 lines"),
        ("read", "done", "88 lines"),
        ("search", "done", "4 matches in 2 files"),
    ]
    assert batch.finished and batch.duration_ms == 400


def test_a_read_of_a_file_that_the_model_still_has_is_shown_as_unchanged() -> None:
    recording = (
        Recording()
        .run("hi")
        .answer("Look.")
        .plan(("c1", "read", "a.py", "auto"))
        .start("c1", "read", "a.py")
    )
    text = (
        "[a.py is unchanged since line 1 of your last read, which is still above. Lines 1-9 of 9.]"
    )
    batch = show(recording.result("c1", "read", text, details={"unchanged": "c0"})).document.blocks[
        -1
    ]
    assert isinstance(batch, Batch)
    assert batch.cards[0].note == "unchanged"


def test_a_running_command_shows_its_output_as_it_comes() -> None:
    state = show(running_tests())

    batch = state.document.blocks[-1]
    assert isinstance(batch, Batch)
    card = batch.cards[0]
    assert card.state == "running" and card.output is not None
    assert card.output.last(2) == [
        "....F",
        "FAILED tests/test_dates.py::test_leap - AssertionError",
    ]


def test_a_failed_command_says_its_exit_code_and_keeps_its_output() -> None:
    state = show(after_failing_tests())

    batch = state.document.blocks[-1]
    assert isinstance(batch, Batch)
    card = batch.cards[0]
    assert (card.state, card.note) == ("failed", "exit 1")
    assert card.output is not None and card.output.last(1) == ["1 failed, 4 passed"]


def test_lines_that_a_result_leaves_out_are_counted_as_printed() -> None:
    shown = "first\n" + "[… about 9 of 99 characters left out …]\n" + "last\n"
    block = TerminalBlock(command="seq 1000", output=shown, exit_code=0)
    recording = running_tests().result(
        "c4", "bash", shown, blocks=(block,), details={"lines_left_out": 998}
    )
    batch = show(recording).document.blocks[-1]
    assert isinstance(batch, Batch)
    output = batch.cards[0].output
    assert output is not None and (output.total, output.last(1)) == (1_000, ["last"])


def test_a_job_that_has_ended_says_how_many_lines_came_before_those_of_its_end() -> None:
    recording = (
        running_tests()
        .job("j1", "c4", "seq 5000")
        .end_job("j1", "c4", "seq 5000", "done", tail="last\n", lines=5_000)
    )
    batch = show(recording).document.blocks[-2]
    assert isinstance(batch, Batch)
    output = batch.cards[0].output
    assert output is not None and (output.total, output.last(2)) == (5_000, ["last"])


def test_a_question_waits_on_the_desk_until_it_is_answered() -> None:
    recording = asks_to_edit()
    state = show(recording)

    (waiting,) = state.approvals.waiting
    assert (waiting.name, waiting.target, waiting.ts) == ("edit", "src/dates.py", recording.now)
    assert waiting.blocks == (
        DiffBlock(path="src/dates.py", before=EDIT.before, after=EDIT.after, start_line=41),
    )
    assert state.status.now.run.phase == "waiting"

    state = show(recording.resolve("c5", "once"))
    assert state.approvals.waiting == ()
    assert state.status.now.run.phase == "working"


def test_a_question_about_what_a_command_left_leaves_its_call_as_it_was() -> None:
    recording = (
        Recording().run("x").plan(("c1", "bash", "make", "auto")).start("c1", "bash", "make")
    )
    recording.result("c1", "bash").ask("c1", "write", ".envrc")

    state = show(recording.resolve("c1", "deny"))
    batch = state.document.blocks[-1]
    assert isinstance(batch, Batch)
    assert batch.cards[0].state == "done"


@for_each(
    ("kind", "becomes"),
    [
        ("denied", "denied"),
        ("skipped", "skipped"),
        ("cancelled", "cancelled"),
        ("timeout", "timeout"),
        ("failed", "failed"),
        ("not_found", "failed"),
        ("invalid_args", "failed"),
    ],
)
def test_each_kind_of_error_has_its_state(kind: str, becomes: str) -> None:
    recording = Recording().run("x").plan(("c1", "write", "a.py", "prompt"))
    state = show(recording.result("c1", "write", "no", error=(kind, "because"), executed=False))

    batch = state.document.blocks[-1]
    assert isinstance(batch, Batch)
    assert (batch.cards[0].state, batch.cards[0].error) == (becomes, "because")


def test_queued_text_stands_in_its_lane_until_it_is_delivered() -> None:
    recording = (
        Recording()
        .run("x")
        .queue("q1", "steer", "also cover 1900")
        .queue("q2", "follow_up", "then commit")
    )
    state = show(recording)
    assert [(item.kind, item.text) for item in state.queue.items] == [
        ("steer", "also cover 1900"),
        ("follow_up", "then commit"),
    ]

    state = show(recording.deliver("q1", "steer"))
    assert [item.id for item in state.queue.items] == ["q2"]


@pytest.mark.parametrize(("live", "given"), [(True, ["also 1900"]), (False, [])])
def test_what_is_taken_back_returns_to_the_composer_only_live(live: bool, given: list[str]) -> None:
    state = UiState()
    returned: list[str] = []
    state.give_back = returned.append
    reducer = Reducer(state, live=live)
    recording = (
        Recording()
        .run("x")
        .queue("q1", "steer", "also 1900")
        .deliver("q1", "steer", taken_back=True)
    )
    for event in recording.events:
        reducer.apply(event)

    assert returned == given
    assert state.queue.items == ()


def test_usage_adds_up_and_the_context_is_that_of_the_last_request() -> None:
    state = show(Recording().run("x").answer("a", usage=USAGE).answer("b", usage=USAGE))

    now = state.status.now
    assert (now.usage.context_tokens, now.usage.input_tokens, now.usage.cache_read_tokens) == (
        18_612,
        36_400,
        29_848,
    )
    assert now.usage.cost_usd == pytest.approx(0.082)


def broken_off() -> Recording:
    recording = Recording().run("x").stream("half an ans")
    return recording.notice(
        "model.retry", "overloaded; attempt 2 in 4 s", reason="overloaded", attempt=2, delay_s=4.0
    )


def answers(state: UiState) -> list[tuple[str, bool, bool]]:
    """Of each answer that shows anything: its text, whether it is cut, and whether the next attempt
    replaces it."""
    found = (
        block for block in state.document.blocks if isinstance(block, AnswerBlock) and block.text
    )
    return [(block.text, block.cut, block.stale) for block in found]


def test_a_retry_marks_what_was_shown_of_the_answer_and_counts_down() -> None:
    state = show(broken_off())

    assert answers(state) == [("half an ans", False, True)]
    now = state.status.now
    assert (now.run.phase, state.pulse.retry_at, now.run.retry_reason) == (
        "retrying",
        START + 4.0,
        "overloaded",
    )


def test_the_next_attempt_replaces_what_was_shown_whatever_it_brings() -> None:
    assert answers(show(broken_off().stream("whole"))) == [("whole", False, False)]
    assert answers(show(broken_off().stream("whole").answer("whole"))) == [("whole", False, False)]
    assert answers(show(broken_off().think("hm"))) == []
    assert answers(show(broken_off().answer("whole"))) == [("whole", False, False)]
    assert answers(show(broken_off().plan(("c1", "bash", "ls", "auto")))) == []


def test_what_is_kept_of_an_answer_that_never_came_is_shown_as_interrupted() -> None:
    recording = broken_off()
    recording.add(MessageAdded, message=AssistantMessage(text="half an ans", stop="cut"))
    state = show(recording.finish("interrupted"))

    assert answers(state) == [("half an ans", True, False)]


def test_another_model_that_takes_over_is_named_and_begins_the_answer_again() -> None:
    fallback = {"reason": "overloaded", "model": "openai/other"}
    recording = Recording().run("x").stream("half an ans")
    recording.notice(
        "model.fallback", "overloaded; continuing with openai/other", level="warning", **fallback
    )
    state = show(recording.stream("whole"))

    assert answers(state) == [("whole", False, False)]
    assert state.status.now.conversation.model == "openai/other"
    (remark,) = (block for block in state.document.blocks if isinstance(block, Remark))
    assert (remark.text, remark.level) == ("overloaded; continuing with openai/other", "warning")


def test_a_stopped_run_says_what_was_closed_killed_kept_and_not_run() -> None:
    recording = running_tests()
    recording.notice(
        "run.stopped",
        "stopped",
        stream_closed=False,
        killed=2,
        edits_kept=["a.py"],
        not_run=1,
        left_running=0,
    )
    state = show(recording.finish("interrupted"))

    ending = state.document.blocks[-1]
    assert isinstance(ending, Ending) and ending.reason == "interrupted"
    assert ending.lines == (
        "2 processes killed",
        "1 changed file kept: a.py",
        "1 call not run",
        UNDO_HINT,
    )
    assert state.status.now.run.phase == "idle"


def test_a_run_that_made_calls_ends_with_how_long_the_machine_worked() -> None:
    recording = (
        Recording().run("hi").plan(("c1", "bash", "make", "prompt")).ask("c1", "bash", "make")
    )
    recording.now += 100
    state = show(recording.resolve("c1", "once").answer("done").finish(calls=1))

    ending = state.document.blocks[-1]
    assert isinstance(ending, Ending) and ending.reason == "done"
    assert ending.text == "1.0 s · 1 call"


def test_a_run_without_calls_that_is_done_ends_without_a_word() -> None:
    state = show(Recording().run("x").answer("done").finish())

    assert not any(isinstance(block, Ending) for block in state.document.blocks)
    assert state.status.now.run.phase == "idle"


def test_a_failed_run_says_why() -> None:
    state = show(Recording().run("x").finish("failed", error="the provider refused the key"))

    ending = state.document.blocks[-1]
    assert isinstance(ending, Ending)
    assert (ending.reason, ending.text) == ("failed", "the provider refused the key")


@pytest.mark.parametrize(
    ("error", "next_step"),
    [
        (
            "anthropic/x: key refused by anthropic: no",
            "/model to change it · Up brings your prompt back",
        ),
        (
            "x: the conversation is too long for the model: 9 tokens > 8",
            "/rewind to before what is too long, or /new · Up brings your prompt back",
        ),
        (
            "anthropic/x: cannot reach api.anthropic.com: are you offline?",
            "Up brings your prompt back",
        ),
    ],
)
def test_a_failed_run_says_the_next_step(error: str, next_step: str) -> None:
    state = show(Recording().run("x").finish("failed", error=error))

    ending = state.document.blocks[-1]
    assert isinstance(ending, Ending)
    assert ending.lines == (next_step,)


def test_a_question_that_was_open_when_the_run_ended_no_longer_waits() -> None:
    state = show(asks_to_edit().finish("interrupted"))

    assert state.approvals.waiting == ()


def test_queued_text_that_was_rewritten_stays_in_its_place() -> None:
    recording = Recording().run("x").queue("q1", "steer", "one").queue("q2", "steer", "two")
    state = show(recording.queue("q1", "steer", "one and a half"))

    assert state.queue.items == (
        Queued("q1", "steer", "one and a half"),
        Queued("q2", "steer", "two"),
    )


@given(st.lists(st.sampled_from(["q1", "q2", "q3", "q9"])))
def test_any_order_of_the_queue_keeps_all_that_waits(ids: list[str]) -> None:
    recording = Recording().run("x")
    for queued_id in ("q1", "q2", "q3"):
        recording.queue(queued_id, "follow_up", queued_id)
    shown = [item.id for item in show(recording.notice("queue.ordered", "", ids=ids)).queue.items]

    assert sorted(shown) == ["q1", "q2", "q3"]
    places = {queued_id: place for place, queued_id in enumerate(ids)}
    named = [places[queued_id] for queued_id in shown if queued_id in places]
    assert named == sorted(named)


def test_a_new_order_of_the_queue_is_no_remark() -> None:
    state = show(
        Recording().run("x").notice("queue.ordered", "the queue has another order", ids=["q1"])
    )

    assert not any(isinstance(block, Remark) for block in state.document.blocks)


def test_pause_mode_and_model_show_in_the_status() -> None:
    recording = (
        Recording()
        .run("x")
        .notice("run.paused", "paused", batch=3, why="asked", calls=[])
        .notice("mode.changed", "plan", mode="plan")
    )
    now = show(recording.notice("model.changed", "demo", model="demo", api_base=None)).status.now

    assert (now.run.halt, now.run.batch, now.conversation.mode, now.conversation.model) == (
        "paused",
        3,
        "plan",
        "demo",
    )


def test_a_pause_that_was_asked_for_shows_until_it_comes_or_is_taken_back() -> None:
    asked = Recording().run("x").notice("run.pausing", "pausing at the next boundary")
    assert show(asked).status.now.run.halt == "pausing"
    assert show(asked.notice("run.resumed", "the run continues")).status.now.run.halt == ""
    assert (
        show(
            asked.notice("run.paused", "paused", batch=1, why="asked", calls=[])
        ).status.now.run.halt
        == "paused"
    )
    assert show(asked.finish()).status.now.run.halt == ""


@settings(max_examples=50)
@given(
    st.lists(st.sampled_from(MOVES), max_size=5),
    st.sampled_from([("run.pausing", "pausing"), ("run.paused", "paused"), (None, "stopping")]),
    st.lists(st.sampled_from(MOVES), max_size=10),
)
def test_nothing_that_happens_in_a_run_makes_esc_forget_that_it_was_pressed(
    before: list[Callable[[Recording], object]],
    pressed: tuple[str | None, str],
    after: list[Callable[[Recording], object]],
) -> None:
    recording = Recording().run("x")
    for move in before:
        move(recording)
    state = UiState()
    reducer = Reducer(state, live=True)
    for event in recording.events:
        reducer.apply(event)
    code, halt = pressed
    seen = len(recording.events)
    if code is None:
        state.status.set(halt="stopping")  # as the conversation does when it stops the run
    else:
        recording.notice(code, "as the user said", batch=1, why="asked", calls=[])
    for move in after:
        move(recording)
    for event in recording.events[seen:]:
        reducer.apply(event)
        assert state.status.now.run.halt == halt


def test_other_notices_and_limits_are_remarks() -> None:
    recording = (
        Recording()
        .run("x")
        .notice("sandbox.unavailable", "no sandbox", level="warning")
        .limit("turns", 5)
    )
    remarks = [block for block in show(recording).document.blocks if isinstance(block, Remark)]

    assert [(remark.level, remark.text) for remark in remarks] == [
        ("warning", "no sandbox"),
        ("warning", "the limit turns = 5 is reached"),
    ]


def test_a_command_of_the_users_own_is_a_block_of_its_own() -> None:
    recording = Recording().start("shell-1", "shell", "git log", command="git log", shared=True)
    assert "Esc stops it" in show(recording).status.now.screen.notice
    state = show(
        recording.output("shell-1", "shell", "a commit\n").result("shell-1", "shell", "a commit")
    )

    (block,) = state.document.blocks
    assert isinstance(block, CommandBlock)
    assert (block.shared, block.card.state, block.card.target) == (True, "done", "git log")
    assert state.document.running_commands() == ()
    assert state.status.now.screen.notice == ""


def test_an_event_of_a_newer_version_is_said_and_hurts_nothing() -> None:
    state = UiState()
    Reducer(state, live=False).apply(UnknownEvent(type="moon.phase", seq=1, ts=START, session="s"))

    (remark,) = state.document.blocks
    assert isinstance(remark, Remark) and "moon.phase" in remark.text


def test_events_of_another_agent_do_not_mix_with_the_main_one() -> None:
    recording = Recording().run("x")
    other = [replace(event, agent="main/2") for event in recording.events]
    state = UiState()
    for event in other:
        Reducer(state, live=True).apply(event)

    assert state.document.blocks == []


def test_a_block_the_screen_does_not_know_is_shown_by_its_type() -> None:
    recording = (
        Recording()
        .run("x")
        .plan(("c1", "write", "a", "prompt"))
        .ask("c1", "write", "a", TextBlock(text="new"))
    )
    assert show(recording).approvals.waiting[0].blocks[0].text == "new"  # type: ignore[union-attr]  # it is a TextBlock


def test_what_the_user_answered_in_words_stays_with_the_call() -> None:
    recording = (
        Recording()
        .run("go")
        .plan(("c1", "ask_user", "Which?", "auto"), ("c2", "bash", "rm x", "prompt"))
    )
    recording.ask("c1", "ask_user", "Which?").resolve("c1", "once", "blue")
    recording.ask("c2", "bash", "rm x").resolve("c2", "deny", "it is still needed")
    state = show(recording)
    said = [state.document.card(call_id, "").said for call_id in ("c1", "c2")]
    assert said == ["you answered: blue", "you said no: it is still needed"]


def test_what_only_the_model_is_told_shows_as_one_short_line() -> None:
    recording = Recording().run("go")
    for text in (PLAN, NO_PLAN):
        recording.add(MessageAdded, message=UserMessage.from_text(text, source="note"))
    state = show(recording)
    told = [
        block.text
        for block in state.document.blocks
        if isinstance(block, Remark) and block.level == "told"
    ]
    assert told == ["plan mode is on: nothing may be changed", "plan mode is over"]
    assert [block.text for block in state.document.blocks if isinstance(block, PromptBlock)] == [
        "go"
    ]


def test_an_act_that_failed_after_it_was_begun_is_a_line_of_the_conversation() -> None:
    recording = Recording().notice(
        "act.failed", "rules cannot be saved here", level="error", act="AllowRule"
    )
    [line] = show(recording).document.blocks
    assert isinstance(line, Remark) and (line.text, line.level) == (
        "rules cannot be saved here",
        "error",
    )


def test_a_run_that_did_not_plan_ends_without_a_plan_though_plan_mode_was_just_chosen() -> None:
    recording = Recording().run("hi").answer("Hello.").finish(text="Hello.")
    state = UiState()
    reducer = Reducer(state, live=True)
    for event in recording.events[:-1]:
        reducer.apply(event)
    state.status.set(mode="plan")
    reducer.apply(recording.events[-1])
    assert state.boundary.now is None
