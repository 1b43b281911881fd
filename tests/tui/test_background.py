"""What runs in the background shows on the state: on its card, in the list of jobs, and in the
status."""

from codeagent.core.events import JobFinished, MessageAdded
from codeagent.core.messages import UserMessage
from codeagent.core.notes import job_note
from codeagent.tui.reduce import Reducer
from codeagent.tui.state import UiState
from codeagent.tui.transcript.blocks import CallCard, Remark
from tests.tui.job_scenes import background, every_state, promoted, takes_long, two_take_long
from tests.tui.scripts import Recording, looked_around


def show(recording: Recording, *, recorded: bool = False) -> UiState:
    state = UiState()
    reducer = Reducer(state, live=not recorded)
    for event in recording.events:
        reducer.apply(event)
    if recorded:
        reducer.end_recording()
    return state


def card(state: UiState, call_id: str) -> CallCard:
    found = state.document.find_card(call_id)
    assert found is not None
    return found


def remarks(state: UiState) -> list[str]:
    return [block.text for block in state.document.blocks if isinstance(block, Remark)]


def test_a_call_that_goes_on_as_a_job_says_so_on_its_card_and_its_placeholder_does_not_end_it() -> (
    None
):
    state = show(background())

    assert (card(state, "c4").state, card(state, "c4").job) == ("background", "job-1")
    assert card(state, "c5").state == "running"
    assert (state.jobs.running, state.status.now.work.jobs) == (1, 1)


def test_a_placeholder_that_comes_before_its_job_is_started_leaves_nothing_behind() -> None:
    recording = looked_around().plan(("c4", "bash", "make", "auto")).start("c4", "bash", "make")
    recording.result("c4", "bash", "job-1 started", details={"exit_code": 0}, seconds=2.0).job(
        "job-1", "c4", "make"
    )

    found = card(show(recording), "c4")
    assert (found.state, found.note, found.duration_ms) == ("background", "", 0)


def test_what_a_promoted_call_had_printed_goes_over_to_its_job() -> None:
    state = show(promoted())

    row = state.jobs.get("job-1")
    assert row is not None and row.promoted
    assert list(state.jobs.output("job-1").lines()) == ["tests/integration/test_api.py ......"]
    assert (card(state, "c4").state, card(state, "c4").output) == ("background", None)


def test_what_a_job_prints_changes_nothing_in_the_conversation() -> None:
    recording, state = background(), UiState()
    reducer = Reducer(state, live=True)
    for event in recording.events:
        reducer.apply(event)
    state.document.take_changes()
    before = len(recording.events)
    recording.job_output("job-1", "GET /\n" * 1_000)
    for event in recording.events[before:]:
        reducer.apply(event)

    assert state.document.take_changes() == frozenset()
    row = state.jobs.get("job-1")
    assert row is not None and row.lines == 1_005


def test_each_end_has_its_word_on_the_card_and_one_line_in_the_conversation() -> None:
    state = show(every_state())

    states = {row.id: (row.status, card(state, row.call_id).state) for row in state.jobs.rows}
    assert states == {
        "job-1": ("running", "background"),
        "job-2": ("done", "done"),
        "job-3": ("failed", "failed"),
        "job-4": ("stopped", "stopped"),
        "job-5": ("lost", "lost"),
        "job-6": ("running", "background"),
    }
    assert remarks(state)[-4:] == [
        "job-4 stopped after 12 s: tail -f log/server.log · stopped by the user",
        "job-2 done after 31 s: make docs · exit code 0",
        "job-3 failed after 2 min 5 s: pytest -q --slow tests/integration && m… · exit code 1",
        "job-5 lost: cargo build --release · the process that ran it is gone",
    ]
    assert card(state, "c7").note == "job-3 · exit 1"


def test_a_port_is_said_once_and_stays_with_its_job() -> None:
    state = show(background())

    row = state.jobs.get("job-1")
    assert row is not None and row.ports == (8000,)
    assert remarks(state) == ["job-1 listens on port 8000, inside the sandbox"]


def test_in_a_recording_that_ended_jobs_that_ran_are_lost() -> None:
    state = show(background(), recorded=True)

    assert [row.status for row in state.jobs.rows] == ["lost"]
    assert (
        card(state, "c4").state,
        state.status.now.work.jobs,
        state.status.now.run.waits_since,
    ) == ("lost", 0, None)


def test_the_end_of_a_job_is_known_without_its_beginning() -> None:
    state = show(Recording().end_job("job-7", "c9", "make", "lost"))

    assert [(row.id, row.status) for row in state.jobs.rows] == [("job-7", "lost")]
    assert remarks(state) == ["job-7 lost: make"]


def test_the_call_that_is_waited_for_longest_is_the_one_that_counts() -> None:
    recording = two_take_long()
    state = show(recording)
    first, second = state.document.running_calls()
    assert state.status.now.run.waits_since == first.began

    recording.result("c4", "bash", seconds=0.0)
    assert show(recording).status.now.run.waits_since == second.began


def test_nothing_is_waited_for_once_the_call_went_to_the_background_or_the_run_ended() -> None:
    assert show(takes_long()).status.now.run.waits_since is not None
    assert show(promoted()).status.now.run.waits_since is None
    assert show(takes_long().finish("interrupted")).status.now.run.waits_since is None


def test_a_command_of_the_users_own_is_not_offered() -> None:
    recording = Recording().start("shell-1", "shell", "sleep 600", command="sleep 600", shared=True)
    state = show(recording)
    assert (state.status.now.run.waits_since, state.document.running_calls()) == (None, ())


def test_a_stage_that_never_had_a_job_can_lose_them() -> None:
    state = UiState()
    Reducer(state, live=False).end_recording()
    assert state.jobs.rows == ()


def test_what_the_model_is_told_of_an_end_is_not_shown_a_second_time() -> None:
    recording = every_state()
    ended = recording.events[-1]
    assert isinstance(ended, JobFinished)
    recording.add(MessageAdded, message=job_note(ended))
    recording.add(
        MessageAdded, message=UserMessage.from_text("(the user undid batch 2)", source="note")
    )

    state = UiState()
    first = Reducer(state, live=False)
    for event in recording.events[:-2]:
        first.apply(event)
    then = Reducer(state, live=True)  # the session goes on with another reader
    for event in recording.events[-2:]:
        then.apply(event)
    told = [
        block.text
        for block in state.document.blocks
        if isinstance(block, Remark) and block.level == "told"
    ]
    assert told == ["the user undid batch 2"]
