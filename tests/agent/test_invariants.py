"""Every call gets exactly one result and the transcript stays valid, whatever happens."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.agent import batches
from codeagent.agent.hooks.hook import Deny, Hook, Hooks, Modify
from codeagent.agent.limits import Limits
from codeagent.core.acts import (
    Answer,
    CancelCall,
    EditCall,
    FollowUp,
    Interrupt,
    Pause,
    Refused,
    Resume,
    RunShell,
    SetMode,
    SkipCall,
    Steer,
    Step,
    Stop,
)
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.errors import ModelError
from codeagent.core.events import (
    KnownEvent,
    MessageAdded,
    RunFinished,
    ToolCallAdded,
    ToolFinished,
    ToolResultAdded,
    ToolStarted,
    TurnStarted,
)
from codeagent.core.messages import (
    AssistantMessage,
    ToolCall,
    ToolMessage,
    text_of,
    transcript_problems,
)
from codeagent.core.notices import CallMarked, ModelRetried, RunPaused
from codeagent.core.policy import Decision
from codeagent.session.fold import fold
from codeagent.session.recording import Recording
from codeagent.session.repair import check_recording, closing_events
from tests.agent.doubles import Scene, Turn, do, of, scene
from tests.effort import part, times
from tests.fakes import FakeSandbox

call = st.one_of(
    st.builds(
        do,
        st.sampled_from(
            ["ok", "fail", "crash", "nap", "update", "deny", "misfit", "outside", "gone", "changed"]
        ),
        st.sampled_from(["do", "asking", "reading", "reading", "reading", "alone", "keyed"]),
        st.sampled_from("ab"),
    ),
    st.sampled_from([("nothing", "{}"), ("do", "{"), ("do", '{"x": 1}'), ("do", "")]),
)
turn = st.builds(
    Turn,
    text=st.sampled_from(["", "a word or two"]),
    calls=st.lists(call, max_size=4).map(tuple),
    stop=st.sampled_from(["end", "end", "end", "length"]),
    retry_first=st.booleans(),
    rest=st.sampled_from([0, 3, 9]),
    error=st.sampled_from([None, None, None, ModelError("gone", kind="server")]),
)


@pytest.fixture(autouse=True, scope="module")
def no_grace() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "GRACE", 0.0)
        yield


ACTS = (
    "steer",
    "interrupt",
    "follow_up",
    "abort",
    "cancel_call",
    "pause",
    "go_on",
    "mode",
    "shell",
    "cancel_shell",
)
act = st.tuples(st.integers(1, 40), st.sampled_from(ACTS))


def random_hooks(choices: list[str]) -> Hooks:
    answers = iter(choices)

    async def before(call: ToolCall) -> Any:
        match next(answers, "pass"):
            case "veto":
                return Deny("no")
            case "crash":
                raise RuntimeError("hook")
            case "modify":
                return Modify({"what": "ok"})
            case _:
                return True

    return Hooks((Hook("random", before),))


@given(
    st.lists(turn, max_size=4),
    st.sampled_from(["sequential", "parallel", "batched:2"]),
    st.lists(act, max_size=4),
    st.lists(st.sampled_from(["once", "session", "deny"]), max_size=6),
    st.one_of(
        st.just([]),
        st.lists(st.sampled_from(["pass", "pass", "veto", "crash", "modify"]), max_size=6),
    ),
    st.integers(1, 6),
)
@settings(max_examples=times(25), deadline=None)
def test_random_errors_denials_vetoes_steering_interrupts_and_aborts(
    turns: list[Turn],
    strategy: str,
    acts: list[tuple[int, str]],
    answers: list[str],
    vetoes: list[str],
    max_calls: int,
) -> None:
    s = scene(
        *turns,
        strategy=strategy,
        hooks=random_hooks(vetoes) if vetoes else None,
        limits=Limits(max_calls=max_calls, max_turns=8),
        sandbox=FakeSandbox([("stdout", b"out\n"), 0.001]),
    )
    commands: set[asyncio.Task[Refused | None]] = set()
    decisions = iter(answers)
    counted = iter(range(1, 10_000))

    def on_event(event: KnownEvent) -> None:
        number = next(counted)
        for when, what in acts:
            if when == number:
                perform(s, what, commands)
        if isinstance(event, ApprovalRequested):
            answer: Any = next(decisions, "once")
            s.agent.do(Answer(event.approval_id, Decision(answer)))

    async def to_the_end() -> None:
        on(
            s,
            "run.paused",
            lambda: asyncio.get_running_loop().call_soon(lambda: s.agent.do(Resume())),
        )
        await s.run(on_event=on_event)
        if commands:
            await asyncio.wait(commands)

    asyncio.run(to_the_end())
    check(s)
    assert check_recording(Recording(tuple(s.journal.events))).problems == ()
    for at in range(len(s.journal.events)):
        assert_closes(s.journal.events[:at])


at_a_pause = st.tuples(
    st.lists(
        st.tuples(
            st.sampled_from(["skip", "because", "unskip", "edit", "misfit"]), st.integers(0, 3)
        )
    ),
    st.sampled_from(["go_on", "go_on", "go_on", "steer", "interrupt", "abort"]),
)


@given(
    st.lists(call, min_size=1, max_size=4).map(tuple),
    st.sampled_from(["sequential", "parallel", "batched:2"]),
    st.lists(at_a_pause, min_size=1, max_size=3),
)
@settings(max_examples=times(25), deadline=None)
def test_any_sequence_of_skips_undone_skips_and_edits_leaves_each_call_the_result_it_shows(
    calls: tuple[tuple[str, str], ...],
    strategy: str,
    pauses: list[tuple[list[tuple[str, int]], str]],
) -> None:
    s = scene(Turn("", calls), Turn("done"), strategy=strategy)
    planned = iter(pauses)
    skipped: dict[str, str] = {}

    def at_the_pause(ids: tuple[str, ...]) -> None:
        steps, end = next(planned, ([], "go_on"))
        for what, place in steps:
            if place >= len(ids):
                continue
            match what:
                case "skip" | "because":
                    skipped[ids[place]] = f"skipped by user{': no' * (what == 'because')}"
                    s.agent.do(SkipCall(ids[place], "no" * (what == "because")))
                case "unskip":
                    skipped.pop(ids[place], None)
                    s.agent.do(SkipCall(ids[place], on=False))
                case _:
                    given = EditCall(ids[place], '{"what": "ok"}' if what == "edit" else "{")
                    if s.agent.do(given) is None:
                        skipped.pop(ids[place], None)
        if end != "go_on":
            perform(s, end, set())
        s.agent.do(Resume())

    def on_event(event: KnownEvent) -> None:
        if isinstance(event, RunPaused):
            asyncio.get_running_loop().call_soon(at_the_pause, event.calls)
        if isinstance(event, ApprovalRequested):
            s.agent.do(Answer(event.approval_id, Decision("once")))

    s.agent.do(Step(True))
    asyncio.run(s.run(on_event=on_event))
    check(s)
    results = {
        event.call_id: text_of(event.content) for event in of(s.journal.events, ToolResultAdded)
    }
    assert {
        each: said for each, said in results.items() if said.startswith("skipped by")
    } == skipped
    for at in range(len(s.journal.events)):
        assert_closes(s.journal.events[:at])
        assert_marks_outlive_the_process(s.journal.events[:at])


def on(s: Scene, code: str, act: Callable[[], object]) -> None:
    s.agent.observe(lambda event: act() if getattr(event, "code", "") == code else None)


def assert_closes(prefix: list[KnownEvent]) -> None:
    """A process that ended here leaves a log that is sound once it is closed."""
    closed = [*prefix, *closing_events(prefix, "s1", 9999, 1.0)]
    report = check_recording(Recording(tuple(closed)))
    assert report.problems == () and all("queued text" in repair for repair in report.repairs)
    assert transcript_problems(fold(closed).messages) == []
    assert_executed_is_started(closed)


def assert_marks_outlive_the_process(prefix: list[KnownEvent]) -> None:
    """What the user had marked when the process ended counts as skipped, with the reason."""
    answered = {event.call_id for event in of(prefix, ToolResultAdded)}
    marks = {event.call_id: event for event in of(prefix, CallMarked)}
    wanted = {
        call_id: f"skipped by user{': ' * bool(mark.reason)}{mark.reason}"
        for call_id, mark in marks.items()
        if mark.skipped and call_id not in answered
    }
    closing = closing_events(prefix, "s1", 9999, 1.0)
    results = {event.call_id: text_of(event.content) for event in of(closing, ToolResultAdded)}
    heard = {
        message.call_id: text_of(message.content)
        for message in fold(prefix).messages
        if isinstance(message, ToolMessage)
    }
    for said in (results, heard):
        skips = {each: text for each, text in said.items() if text.startswith("skipped by")}
        assert {each: skips.get(each) for each in wanted} == wanted
    assert {each for each, text in results.items() if text.startswith("skipped by")} == {*wanted}


def assert_executed_is_started(events: list[KnownEvent]) -> None:
    ran = {e.call_id for e in of(events, ToolResultAdded) if e.executed}
    assert ran == {e.call_id for e in of(events, ToolStarted)}


def perform(s: Scene, what: str, commands: set[asyncio.Task[Refused | None]]) -> None:
    match what:
        case "pause":
            s.agent.do(Pause())
        case "go_on":
            s.agent.do(Resume())
        case "mode":
            s.agent.do(SetMode("plan" if s.journal.events[-1].seq % 2 else "auto"))
        case "shell":
            shared = s.journal.events[-1].seq % 2 == 0
            commands.add(asyncio.ensure_future(s.agent.finish(RunShell("make", shared=shared))))
        case "cancel_shell":
            for event in of(s.journal.events, ToolStarted):
                if event.name == "shell":
                    s.agent.do(CancelCall(event.call_id))
        case "abort":
            s.agent.do(Stop())
        case "cancel_call":
            s.agent.do(CancelCall("call_1"))
        case "steer" | "interrupt" | "follow_up":
            s.agent.do(
                {"steer": Steer, "interrupt": Interrupt, "follow_up": FollowUp}[what]("a word")
            )


def check(s: Scene) -> None:
    events = s.journal.events
    commands = [e.call_id for e in of(events, ToolStarted) if e.name == "shell"]
    announced = [e.call_id for e in of(events, ToolCallAdded)] + commands
    answered = [e.call_id for e in of(events, ToolResultAdded)]
    assert Counter(answered) == Counter(announced), "exactly one result for every call"
    answers = [
        e.message for e in of(events, MessageAdded) if isinstance(e.message, AssistantMessage)
    ]
    assert {call.id for answer in answers for call in answer.calls} <= set(announced)
    assert transcript_problems(s.agent.history) == []
    started = [e.call_id for e in of(events, ToolStarted)]
    assert sorted(started) == sorted(e.call_id for e in of(events, ToolFinished))
    assert_executed_is_started(events)
    assert_early_calls_are_the_first(events)
    assert len(of(events, RunFinished)) == 1
    after = events[events.index(of(events, RunFinished)[0]) + 1 :]
    typed = [
        e
        for e in after
        if getattr(e, "name", "") != "shell" and getattr(e, "code", "") != "mode.changed"
    ]
    assert {e.type for e in typed} <= {"steer.queued"}, (
        "only what the user did too late comes after the end"
    )
    assert [e.seq for e in events] == sorted({e.seq for e in events})


def assert_early_calls_are_the_first(events: list[KnownEvent]) -> None:
    """What began before its answer was complete only reads, and so does every call that was asked
    for before it."""
    asked: list[ToolCallAdded] = []
    begun: set[str] = set()
    for event in events:
        match event:
            case TurnStarted() | ModelRetried():
                asked = []
            case ToolCallAdded():
                asked.append(event)
            case ToolStarted() if asked and event.name != "shell":
                begun.add(event.call_id)
                first = asked[: [call.call_id for call in asked].index(event.call_id) + 1]
                assert {call.name for call in first} == {"reading"} and begun >= {
                    call.call_id for call in first
                }
            case MessageAdded(message=AssistantMessage()):
                asked = []
            case _:
                pass


async def aborted_after(turns: tuple[Turn, ...], stop_at: int) -> Scene:
    """Run the scene, aborting after `stop_at` passes of the event loop."""
    s = scene(*turns)
    running = asyncio.ensure_future(s.run())
    steps = 0
    while not running.done():
        if steps == stop_at:
            s.agent.do(Stop())
        steps += 1
        await asyncio.sleep(0)
    await running
    return s


TURNS = (
    Turn("let me look", (do("ok"), do("partial"), do("ok", "asking"), do("update", "alone"))),
    Turn(
        "and once more",
        (do("crash"), do("ok", "keyed", "a"), do("ok", "keyed", "a")),
        retry_first=True,
    ),
    Turn(
        "now look",
        (do("ok", "reading"), do("partial", "reading"), do("ok")),
        retry_first=True,
        rest=3,
    ),
    Turn("done"),
)


@pytest.mark.soak(tried=149)
@pytest.mark.parametrize("wait", ["ok", "partial"])
def test_an_abort_at_every_step_of_the_event_loop_leaves_everything_answered(wait: str) -> None:
    turns = tuple(
        replace(t, calls=tuple((c[0], c[1].replace("partial", wait)) for c in t.calls))
        for t in TURNS
    )

    async def sweep() -> None:
        for step in part(range(1, 150), 50):
            check(await asyncio.wait_for(aborted_after(turns, step), 10))

    asyncio.run(sweep())


def test_cancelling_the_task_that_reads_leaves_everything_answered() -> None:
    async def cut() -> Scene:
        s = scene(Turn("", (do("sleep"), do("sleep"), do("ok", "alone"))))
        reading = asyncio.ensure_future(s.run())
        s.agent.observe(lambda event: reading.cancel() if isinstance(event, ToolStarted) else None)
        await asyncio.wait({reading})
        return s

    check(asyncio.run(cut()))
