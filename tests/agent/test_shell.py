"""The user's own commands: shown as tool events, read by the model only where shared, never left
running."""

import asyncio
from collections.abc import Callable

import pytest

from codeagent.core.acts import CancelCall, Prompt, Refused, RunShell, Stop
from codeagent.core.errors import CodeagentError, SandboxUnavailable
from codeagent.core.events import (
    BatchPlanned,
    KnownEvent,
    MessageAdded,
    RunFinished,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolResultAdded,
    ToolStarted,
    ToolUpdated,
)
from codeagent.core.messages import text_of, transcript_problems
from codeagent.core.sandbox import CommandResult
from codeagent.session.fold import fold
from tests.agent.doubles import Scene, Turn, do, of, scene
from tests.fakes import FakeSandbox


def result(s: Scene) -> ToolResultAdded:
    [found] = [event for event in of(s.journal.events, ToolResultAdded) if event.name == "shell"]
    return found  # type: ignore[no-any-return]  # `of` gives events of any kind


async def waiting(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  # what is waited for has no event of its own
            await asyncio.sleep(0)


async def test_a_command_is_shown_as_a_call_with_its_output_and_its_end() -> None:
    s = scene(sandbox=FakeSandbox([("stdout", b"one\n"), ("stderr", b"two\n")]))
    reader = s.agent.events()
    await s.agent.finish(RunShell("ls -l", shared=False))
    await s.agent.close()
    events = [event async for event in reader]
    assert [event.type for event in events] == [
        "tool.started",
        "tool.updated",
        "tool.updated",
        "tool.finished",
        "tool.result",
    ]
    [started] = of(events, ToolStarted)
    assert (started.name, started.target) == ("shell", "ls -l")
    assert {getattr(event, "call_id", "") for event in events} == {started.call_id}
    assert [event.text for event in of(events, ToolUpdated)] == ["one\n", "two\n"]
    assert text_of(result(s).content) == "one\ntwo"
    assert result(s).details["shared"] is False and result(s).details["exit_code"] == 0
    assert (result(s).approval, result(s).sandbox) == ("user", "docker")


async def test_ids_are_never_used_twice_in_a_session() -> None:
    s = scene(sandbox=FakeSandbox())
    for _ in range(3):
        await s.agent.finish(RunShell("true", shared=False))
    ids = [event.call_id for event in of(s.journal.events, ToolStarted)]
    assert len(set(ids)) == 3 and all(call_id.startswith("shell-") for call_id in ids)


async def test_a_shared_command_is_told_to_the_model_before_the_next_prompt() -> None:
    s = scene(
        Turn("I see"), sandbox=FakeSandbox([("stdout", b"1 failed\n")], CommandResult(exit_code=1))
    )
    await s.agent.finish(RunShell("pytest -q", shared=True))
    assert of(s.journal.events, MessageAdded) == []
    await s.run("fix that")
    note, prompt = s.model.requests[0].messages
    assert text_of(prompt.content) == "fix that"
    assert note.role == "user" and note.source == "note"
    assert text_of(note.content) == (
        "(The user ran a command in the sandbox: pytest -q\nIt ended with exit code 1. Its output:)\n"
        "> 1 failed\n> [exit code 1]"
    )
    assert fold(s.journal.events).notes == ()


async def test_a_command_that_is_not_shared_never_reaches_the_model() -> None:
    s = scene(Turn("ok"), sandbox=FakeSandbox([("stdout", b"secret\n")]))
    await s.agent.finish(RunShell("cat notes", shared=False))
    await s.run("hello")
    assert [text_of(message.content) for message in s.model.requests[0].messages] == ["hello"]


async def test_a_shared_command_during_a_run_is_told_at_the_boundary_and_alone_it_starts_no_request() -> (
    None
):
    s = scene(Turn("hm", (do("nap"),)), Turn("done"), sandbox=FakeSandbox([("stdout", b"late\n")]))
    tasks: list[asyncio.Task[Refused | None]] = []

    def act(event: object) -> None:
        if isinstance(event, TextDelta) and not tasks:
            tasks.append(asyncio.ensure_future(s.agent.finish(RunShell("date", shared=True))))

    s.agent.observe(act)
    await s.run()
    await tasks[0]
    assert "date" in text_of(s.model.requests[1].messages[-1].content)
    await s.agent.finish(RunShell("date", shared=True))
    assert len(s.model.requests) == 2


async def test_it_waits_for_a_running_call_that_may_change_something_and_says_so() -> None:
    s = scene(Turn("", (do("nap"),)), Turn("done"), sandbox=FakeSandbox())
    commands: list[asyncio.Task[Refused | None]] = []

    def act(event: object) -> None:
        if isinstance(event, ToolStarted) and event.name == "do":
            commands.append(asyncio.ensure_future(s.agent.finish(RunShell("make", shared=False))))

    s.agent.observe(act)
    events = await s.run()
    await commands[0]
    assert [event.name for event in of(s.journal.events, ToolFinished)] == ["do", "shell"]
    assert "waits" in of(events, ToolProgress)[0].text


async def test_a_call_that_may_change_something_waits_for_the_command() -> None:
    gate = asyncio.Event()

    async def wait() -> None:
        await gate.wait()

    sandbox = FakeSandbox([wait])
    s = scene(Turn("", (do("ok"),)), Turn("done"), sandbox=sandbox)
    command = asyncio.ensure_future(s.agent.finish(RunShell("make", shared=False)))
    await waiting(lambda: bool(sandbox.commands))
    s.act(Prompt("go"))
    await waiting(lambda: bool(of(s.journal.events, BatchPlanned)))
    for _ in range(100):  # enough turns of the event loop for the call to begin, if it did not wait
        await asyncio.sleep(0)
    assert s.tools["do"].log == []
    gate.set()
    await command
    await waiting(lambda: not s.agent.running)
    assert s.tools["do"].log == ["start ok", "end ok"]


async def test_an_abort_while_calls_wait_for_the_command_leaves_nothing_running_and_all_answered() -> (
    None
):
    sandbox = FakeSandbox([30.0])
    s = scene(Turn("", (do("ok"), do("ok"))), sandbox=sandbox)
    command = asyncio.ensure_future(s.agent.finish(RunShell("sleep 30", shared=False)))
    await waiting(lambda: bool(sandbox.commands))
    s.act(Prompt("go"))
    await waiting(lambda: bool(of(s.journal.events, BatchPlanned)))
    s.act(Stop())
    await command
    await waiting(lambda: not s.agent.running)
    assert of(s.journal.events, RunFinished)[0].reason == "interrupted"
    assert transcript_problems(s.agent.history) == []
    assert s.tools["do"].log == []
    error = result(s).error
    assert (
        error is not None and error.kind == "cancelled" and "2 processes stopped" in error.message
    )


async def test_one_command_can_be_cancelled_by_its_id() -> None:
    s = scene(sandbox=FakeSandbox([("stdout", b"half\n"), 30.0]))
    printed: list[KnownEvent] = []
    s.agent.observe(lambda event: printed.extend(of([event], ToolUpdated)))
    command = asyncio.ensure_future(s.agent.finish(RunShell("sleep 30", shared=True)))
    await waiting(lambda: bool(printed))
    s.act(CancelCall(of(s.journal.events, ToolStarted)[0].call_id))
    await command
    assert text_of(result(s).content).startswith("half")
    [note] = fold(s.journal.events).notes
    assert "was stopped before it ended" in text_of(note.content)


async def test_a_waiter_that_gives_up_does_not_stop_it_and_its_end_is_recorded() -> None:
    sandbox = FakeSandbox([30.0])
    s = scene(sandbox=sandbox)
    command = asyncio.ensure_future(s.agent.finish(RunShell("sleep 30", shared=False)))
    await waiting(lambda: bool(sandbox.commands))
    command.cancel()
    with pytest.raises(asyncio.CancelledError):
        await command
    assert not of(s.journal.events, ToolFinished)
    s.act(Stop())
    await s.agent.settled()
    assert len(of(s.journal.events, ToolFinished)) == 1 and result(s).is_error


async def test_closing_the_agent_stops_it() -> None:
    sandbox = FakeSandbox([30.0])
    s = scene(sandbox=sandbox)
    command = asyncio.ensure_future(s.agent.finish(RunShell("sleep 30", shared=False)))
    await waiting(lambda: bool(sandbox.commands))
    await s.agent.close()
    assert result(s).is_error
    await command


async def test_without_a_sandbox_or_a_command_it_says_so_and_logs_nothing() -> None:
    assert "without a sandbox" in scene().refusal(RunShell("ls", shared=False))
    s = scene(sandbox=FakeSandbox())
    for bad in ("", "  ", "a\0b"):
        assert "command" in s.refusal(RunShell(bad, shared=False))
    assert s.journal.events == []


async def test_a_sandbox_that_is_gone_is_a_result_with_its_remedy() -> None:
    s = scene(sandbox=FakeSandbox(result=SandboxUnavailable("the engine is gone", "start it")))
    await s.agent.finish(RunShell("ls", shared=False))
    assert "start it" in text_of(result(s).content) and result(s).is_error


async def test_what_is_too_long_is_cut_as_a_tools_output_is_and_kept_whole() -> None:
    s = scene(sandbox=FakeSandbox([("stdout", b"x" * 99 + b"\n")] * 1000))
    await s.agent.finish(RunShell("flood", shared=False))
    assert len(text_of(result(s).content)) < 40_000
    assert len(s.outputs.texts[str(result(s).details["handle"])]) == 100_000


async def test_a_log_that_cannot_be_written_runs_nothing() -> None:
    sandbox = FakeSandbox()
    s = scene(sandbox=sandbox, broken=CodeagentError("the disk is full"))
    await s.agent.finish(RunShell("rm -r .", shared=False))
    assert sandbox.commands == [] and "disk is full" in text_of(result(s).content)
