"""The front end without a screen, over an agent that plays a list of events."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codeagent.core.acts import Act, Answer, Refused, Stop
from codeagent.core.approval_events import (
    ApprovalRequested,
    EffectsFound,
    ListedEffect,
    PlannedCall,
)
from codeagent.core.display import QuestionBlock
from codeagent.core.event_json import event_json
from codeagent.core.events import (
    BatchPlanned,
    KnownEvent,
    LimitReached,
    Notice,
    RunFinished,
    TextDelta,
    ToolResultAdded,
)
from codeagent.core.messages import ErrorInfo, Usage
from codeagent.core.notices import RunNotBegun, SessionNotSaved
from codeagent.core.policy import Decision
from codeagent.core.redact import Redactor
from codeagent.core.runtime import Session
from codeagent.headless import (
    BROKEN_PIPE,
    NOBODY,
    NOBODY_FOR_HOSTS,
    Headless,
    Output,
    Streams,
    write_all_to,
)
from tests.fakes import FakeSkills
from tests.session.eventlogs import SESSION, Log, finished_run
from tests.table import for_each
from tests.tui.scripts import Recording


class PlayedAgent:
    """An AgentHandle that plays events; an abort ends the play with `run.finished(interrupted)`."""

    session_id = SESSION

    def __init__(self, events: Iterable[KnownEvent], wait_at: str = "") -> None:
        """Before the first event of the type `wait_at` it waits for an abort."""
        self._events = list(events)
        self._wait_at = wait_at
        self.aborted: list[str] = []
        self.answers: list[tuple[str, Decision]] = []
        self.waiting = asyncio.Event()
        self._stop = asyncio.Event()

    async def run(self, prompt: str) -> AsyncIterator[KnownEvent]:
        self._stop.clear()
        for event in self._events:
            if event.type == self._wait_at:
                self.waiting.set()
                await self._stop.wait()
            if self._stop.is_set():
                break
            yield event
            await asyncio.sleep(0)
        else:
            return
        log = Log()
        log.end("interrupted")
        yield log.events[0]

    def do(self, act: Act) -> Refused | None:
        match act:
            case Stop(reason):
                self.aborted.append(reason)
                self._stop.set()
            case Answer(approval_id, decision):
                self.answers.append((approval_id, decision))
            case _:
                raise AssertionError(f"no play does {act}")
        return None

    def observe(self, observer: Callable[[KnownEvent], None]) -> None:
        raise AssertionError("no play does this")

    async def close(self) -> None:
        return None


class Printed:
    """What reached the two streams."""

    def __init__(self) -> None:
        self.out = b""
        self.err = b""

    def streams(self, *, terminal: bool = False) -> Streams:
        return Streams(self._out, self._err, terminal)

    def _out(self, data: bytes) -> None:
        self.out += data

    def _err(self, data: bytes) -> None:
        self.err += data

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


def runtime_of(agent: Any) -> Session:
    """All a front end without a screen looks at is the agent."""
    nothing: Any = None
    return Session(
        agent=agent,
        sandbox=None,
        sandbox_info=None,
        outputs=nothing,
        next_request=nothing,
        close=agent.close,
        skills=FakeSkills(),
    )


async def play(
    events: Iterable[KnownEvent] | PlayedAgent,
    *,
    output: Output = "text",
    approve: bool = False,
    streams: Streams | None = None,
    environment: dict[str, str] | None = None,
    terminal: bool = False,
) -> tuple[int, Printed]:
    printed = Printed()
    agent = events if isinstance(events, PlayedAgent) else PlayedAgent(events)
    front = Headless(
        streams or printed.streams(terminal=terminal),
        Redactor(environment or {}),
        output=output,
        approve=approve,
    )
    try:
        code = await front.run(runtime_of(agent), "go")
    finally:
        await front.close()
    return code, printed


def ended(reason: str, error: str | None = None) -> list[KnownEvent]:
    log = Log()
    log.run()
    log.add(
        RunFinished,
        reason=reason,
        text="",
        usage=Usage(),
        turns=0,
        calls=0,
        error=error,
        duration_ms=1,
    )
    return log.events


def asked(name: str = "bash", proposal: str = "") -> list[KnownEvent]:
    log = Log()
    log.run()
    log.add(
        ApprovalRequested,
        approval_id="a1",
        call_id="c1",
        name=name,
        target="rm x",
        reason="asks",
        blocks=(),
        binding="0" * 64,
        proposal=proposal,
    )
    log.end()
    return log.events


async def test_text_prints_what_the_assistant_said_and_nothing_else_on_standard_output() -> None:
    code, printed = await play(finished_run())
    assert (code, printed.out) == (0, b"fixed\n")


async def test_text_reports_each_call_and_the_end_on_standard_error() -> None:
    lines = (await play(finished_run()))[1].err.decode().splitlines()
    assert [line.split()[:3] for line in lines[:2]] == [
        ["✓", "read", "a.py"],
        ["✓", "read", "a.py"],
    ]
    assert lines[2].startswith("done · 1 turn, 1 call · ") and SESSION in lines[2]


@pytest.mark.parametrize(
    ("cost", "said"),
    [(0.5, "7 out, $0.5000 · "), (None, "7 out, no price known · "), (0.0, "7 out · ")],
)
async def test_the_end_names_the_cost_or_says_that_no_price_is_known(
    cost: float | None, said: str
) -> None:
    log = Log()
    log.run()
    usage = Usage(input_tokens=5, output_tokens=7, cost_usd=cost)
    log.add(RunFinished, reason="done", text="bye", usage=usage, turns=1, calls=0, duration_ms=1)
    assert said in (await play(log.events))[1].err.decode()


async def test_a_failed_call_is_reported_with_its_kind_target_and_reason() -> None:
    log = Log()
    log.run()
    planned = PlannedCall(call_id="c1", name="read", target="rm -rf build", permission="deny")
    log.add(BatchPlanned, batch=1, calls=(planned,))
    log.finish(
        "c1",
        "no",
        ErrorInfo(kind="denied", message="denied by the rule bash(rm *)"),
        executed=False,
    )
    log.end("denied")
    code, printed = await play(log.events)
    assert code == 4
    assert printed.err.decode().splitlines()[0].split() == (
        ["✗", "read", "rm", "-rf", "build", "denied", "by", "the", "rule", "bash(rm", "*)"]
    )


async def test_notices_and_limits_are_lines_on_standard_error() -> None:
    log = Log()
    log.run()
    log.add(Notice, level="warning", code="sandbox.unavailable", text="no sandbox\nhere")
    log.add(LimitReached, limit="max_turns", maximum=3)
    log.end("limit")
    code, printed = await play(log.events)
    assert code == 3
    assert printed.err.decode().splitlines()[:2] == [
        "warning: no sandbox here",
        "the limit max_turns = 3 is reached",
    ]


async def test_jsonl_prints_every_event_as_the_log_holds_it_deltas_included() -> None:
    log = Log()
    log.run()
    log.add(TextDelta, text="fi")
    log.add(TextDelta, text="xed")
    log.end()
    code, printed = await play(log.events, output="jsonl")
    assert code == 0
    assert printed.objects == [json.loads(event_json(event, Redactor({}))) for event in log.events]
    assert printed.err == b""


async def test_what_a_command_changed_is_said_and_is_an_event_of_the_jsonl() -> None:
    log = Log()
    log.run()
    change = ListedEffect(path="src/a", what="modified", added=1, removed=2)
    log.add(
        EffectsFound,
        call_id="c1",
        changes=(change,),
        ignored={"build/": 3},
        permission="auto",
        source="rule",
        reason="allowed by effects(src/**)",
    )
    log.add(
        ToolResultAdded,
        call_id="c2",
        name="bash",
        content=(),
        is_error=False,
        executed=True,
        details={"exit_code": 0, "files_changed": 0},
    )
    log.end()
    _, text = await play(log.events)
    said = "± it changed M src/a, build/ (3 ignored): taken, allowed by effects(src/**)\n"
    assert said in text.err.decode()
    assert "✓ changed nothing\n" in text.err.decode()
    _, lines = await play(log.events, output="jsonl")
    (found,) = [each for each in lines.objects if each["type"] == "effects.found"]
    assert found["changes"] == [{"path": "src/a", "what": "modified", "added": 1, "removed": 2}]
    assert (found["ignored"], found["truncated"]) == ({"build/": 3}, False)


async def test_json_prints_one_object_at_the_end() -> None:
    code, printed = await play(finished_run(), output="json")
    [report] = printed.objects
    assert code == 0
    assert (report["text"], report["reason"], report["session"]) == ("bye", "done", SESSION)
    assert report["usage"]["input_tokens"] == 0
    assert report["tool_stats"]["total_calls"] == 2
    assert report["tool_stats"]["tools"]["read"]["successful"] == 2


@for_each(
    ("reason", "code"),
    [("done", 0), ("failed", 1), ("limit", 3), ("denied", 4), ("interrupted", 130)],
)
@for_each("output", ["text", "json", "jsonl"])
async def test_the_exit_code_says_how_the_run_ended(reason: str, code: int, output: Output) -> None:
    assert (await play(ended(reason), output=output))[0] == code


@for_each("output", ["text", "json", "jsonl"])
async def test_an_end_that_could_not_be_saved_is_a_failure_and_said_on_standard_error(
    output: Output,
) -> None:
    log = Log()
    log.run()
    log.end("done")
    log.add(SessionNotSaved, text="the session log could not be written")
    code, printed = await play(log.events, output=output)
    assert code == 1
    assert printed.err.decode().splitlines()[-1] == "warning: the session log could not be written"


async def test_a_failure_is_explained_on_standard_error() -> None:
    _, printed = await play(ended("failed", "the model did not answer"))
    assert printed.err.decode().startswith("failed: the model did not answer · ")


async def test_without_a_user_a_question_is_answered_no_with_the_way_out() -> None:
    agent = PlayedAgent(asked())
    await play(agent)
    assert agent.answers == [("a1", Decision("deny", NOBODY, source="auto"))]
    agent = PlayedAgent(asked("network"))
    await play(agent)
    assert agent.answers == [("a1", Decision("deny", NOBODY_FOR_HOSTS, source="auto"))]
    agent = PlayedAgent(asked("effects", proposal="effects(src/**)"))
    await play(agent)
    why = "nobody to ask; --allow 'effects(src/**)' takes it"
    assert agent.answers == [("a1", Decision("deny", why, source="auto"))]


async def test_yes_answers_once_and_never_in_the_name_of_the_user() -> None:
    agent = PlayedAgent(asked())
    await play(agent, approve=True)
    assert agent.answers == [("a1", Decision("once", source="flag"))]


@pytest.mark.parametrize("output", ["text", "json", "jsonl"])
async def test_no_secret_of_the_environment_is_printed(output: Output) -> None:
    log = Log()
    log.run()
    log.user("go")
    log.assistant("the key is sk-canary-0123456789")
    log.add(Notice, code="x", text="also sk-canary-0123456789")
    log.add(
        RunFinished,
        reason="failed",
        text="sk-canary-0123456789",
        usage=Usage(),
        turns=1,
        calls=0,
        error="sk-canary-0123456789",
        duration_ms=1,
    )
    _, printed = await play(
        log.events, output=output, environment={"MY_API_KEY": "sk-canary-0123456789"}
    )
    assert b"canary" not in printed.out + printed.err
    assert b"[secret MY_API_KEY]" in printed.out


async def test_on_a_terminal_nothing_the_model_says_acts() -> None:
    log = Log()
    log.run()
    log.assistant("\x1b]0;owned\x07 hello")
    log.end()
    assert (await play(log.events, terminal=True))[1].out == b"\\x1b]0;owned\\x07 hello\n"
    assert (await play(log.events, terminal=False))[1].out == b"\x1b]0;owned\x07 hello\n"


async def test_standard_error_never_acts() -> None:
    log = Log()
    log.run()
    log.add(Notice, code="x", text="\x1b[2J\nsecond line")
    log.end()
    assert (await play(log.events))[1].err.startswith(b"info: \\x1b[2J second line\n")


async def test_a_reader_that_goes_away_aborts_the_run_and_lets_it_end_properly() -> None:
    def broken(data: bytes) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    agent = PlayedAgent(finished_run(), wait_at="run.finished")
    printed = Printed()
    code, _ = await play(agent, output="jsonl", streams=Streams(broken, printed.streams().err))
    assert (code, agent.aborted, printed.err) == (BROKEN_PIPE, ["standard output was closed"], b"")


async def test_a_full_disk_under_standard_output_is_a_failure_that_is_said() -> None:
    def full(data: bytes) -> None:
        raise OSError(28, "No space left on device")

    printed = Printed()
    agent = PlayedAgent(finished_run(), wait_at="run.finished")
    code, _ = await play(agent, output="jsonl", streams=Streams(full, printed.streams().err))
    assert code == 1
    assert "No space left on device" in printed.err.decode()


async def test_a_broken_standard_error_does_not_disturb_the_run() -> None:
    def broken(data: bytes) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    printed = Printed()
    code, _ = await play(finished_run(), streams=Streams(printed.streams().out, broken))
    assert (code, printed.out) == (0, b"fixed\n")


async def test_closed_streams_are_no_error() -> None:
    assert (await play(finished_run(), output="jsonl", streams=Streams(None, None)))[0] == 0


async def test_a_reader_that_stalls_holds_up_neither_signals_nor_the_event_loop() -> None:
    go_on = threading.Event()

    def stalled(data: bytes) -> None:
        go_on.wait(20)

    log = Log()
    log.run()
    for _ in range(40):
        log.add(TextDelta, text="x" * 100_000)
    log.end()
    agent = PlayedAgent(log.events)
    playing = asyncio.create_task(play(agent, output="jsonl", streams=Streams(stalled, None)))
    for _ in range(200):
        await asyncio.sleep(0)
    os.kill(os.getpid(), signal.SIGINT)
    while not agent.aborted:  # noqa: ASYNC110  # a signal sets it
        await asyncio.sleep(0.01)
    assert agent.aborted == ["stopped by SIGINT"]
    assert not playing.done()
    go_on.set()
    assert (await playing)[0] == 130


@for_each(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGQUIT, 131)],
)
async def test_a_signal_aborts_the_run_which_then_ends_properly(
    number: signal.Signals, code: int
) -> None:
    agent = PlayedAgent(finished_run(), wait_at="tool.started")
    playing = asyncio.create_task(play(agent, output="jsonl"))
    await agent.waiting.wait()
    os.kill(os.getpid(), number)
    ended_with, printed = await playing
    assert ended_with == code
    assert agent.aborted == [f"stopped by {number.name}"]
    assert printed.objects[-1]["reason"] == "interrupted"


async def test_a_hangup_that_is_ignored_on_purpose_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        agent = PlayedAgent(finished_run(), wait_at="tool.started")
        playing = asyncio.create_task(play(agent))
        await agent.waiting.wait()
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0.05)
        assert agent.aborted == []
        os.kill(os.getpid(), signal.SIGTERM)
        assert (await playing)[0] == 143
    finally:
        signal.signal(signal.SIGHUP, before)


async def test_signals_are_given_back_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM)
    await play(finished_run())
    assert signal.getsignal(signal.SIGTERM) == before


async def test_a_large_result_is_written_whole_into_a_pipe(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    collected: list[bytes] = []

    def collect() -> None:
        with os.fdopen(read_end, "rb") as file:
            collected.append(file.read())

    reader = threading.Thread(target=collect)
    reader.start()
    log = Log()
    log.run()
    log.assistant("y" * 3_000_000)
    log.end()
    await play(log.events, streams=Streams(write_all_to(write_end), None))
    os.close(write_end)
    reader.join()
    assert len(collected[0]) == 3_000_001


@pytest.mark.parametrize("approve", [False, True])
async def test_the_agents_own_questions_are_answered_with_no_user_even_with_yes(
    approve: bool,
) -> None:
    log = Log()
    log.run()
    log.add(
        ApprovalRequested,
        approval_id="c1.1",
        call_id="c1",
        name="ask_user",
        target="Which?",
        reason="asks",
        blocks=(QuestionBlock(question="Which?"),),
        binding="0" * 64,
    )
    log.end()
    agent = PlayedAgent(log.events)
    await play(agent, approve=approve)
    assert agent.answers == [("c1.1", Decision("deny", "no user", source="auto"))]


async def test_a_prompt_that_a_hook_denied_ends_as_denied_with_the_reason() -> None:
    why = "the prompt was not sent: a hook denied it: not on a Friday"
    denied = RunNotBegun(seq=1, ts=1.0, session=SESSION, text=why, prompt="go")
    code, printed = await play([denied], output="json")
    (report,) = printed.objects
    assert (code, report["reason"], report["error"], report["text"]) == (4, "denied", why, "")
    code, printed = await play([denied], output="text")
    assert (code, printed.out, printed.err.decode()) == (4, b"", f"warning: {why}\n")


async def test_on_a_terminal_a_live_line_says_what_is_awaited_and_is_gone_when_anything_else_is_printed() -> (
    None
):
    printed = Printed()
    streams = replace(printed.streams(), err_is_terminal=True)
    await play(
        PlayedAgent(Recording().run("hi").stream("Hel").answer("Hello.").finish("done").events),
        streams=streams,
    )
    shown = printed.err.decode()
    assert "\r\x1b[K\x1b[2mwaiting for claude-sonnet-4-5 · " in shown
    before, _, last = shown.rpartition("\r\x1b[K")
    assert last.startswith("done · ") and "done ·" not in before


async def test_without_a_terminal_nothing_is_drawn_again() -> None:
    _, printed = await play(
        Recording().run("hi").stream("Hel").answer("Hello.").finish("done").events
    )
    assert b"\x1b" not in printed.err and b"\r" not in printed.err
