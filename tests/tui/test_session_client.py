"""What the user does reaches the agent, from the first moment on; what happens reaches the
state."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from codeagent.config.settings import Settings
from codeagent.core.acts import (
    Answer,
    FollowUp,
    Prompt,
    Queued,
    Refused,
    Resume,
    RunShell,
    SetMode,
    SetModel,
    Steer,
    TakeBack,
)
from codeagent.core.errors import CodeagentError, SandboxUnavailable
from codeagent.core.messages import AssistantMessage, TextPart, ToolMessage, UserMessage
from codeagent.core.model import ModelInUse, ModelRequest
from codeagent.core.notices import RunNotBegun
from codeagent.core.policy import Decision
from codeagent.core.tool import ToolDefinition
from codeagent.tui.facts import Fact, Facts
from codeagent.tui.info_pages import About
from codeagent.tui.launcher import Launcher, LaunchOptions, Missing, ModelRow
from codeagent.tui.recorded import replayed_end
from codeagent.tui.session_client import SessionClient, with_model
from codeagent.tui.state import UiState
from codeagent.tui.transcript.blocks import PromptBlock as Said
from codeagent.tui.transcript.blocks import Remark
from tests.table import for_each
from tests.tui.fake_launcher import INFO, SESSION, FakeLauncher
from tests.tui.job_scenes import TOOLBOX, background
from tests.tui.scripts import Recording, looked_around, running_tests


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  # it stands for any condition, also without an event
            await asyncio.sleep(0.001)


async def opened(
    launcher: FakeLauncher, options: LaunchOptions | None = None
) -> tuple[SessionClient, UiState, list[str]]:
    state, given_back = UiState(), []
    state.give_back = given_back.append
    port: Launcher = launcher
    client = SessionClient(port, state)
    assert await client.open(options or LaunchOptions()) is None
    return client, state, given_back


async def ready(
    launcher: FakeLauncher, options: LaunchOptions | None = None
) -> tuple[SessionClient, UiState, list[str]]:
    launcher.ready.set()
    client, state, given_back = await opened(launcher, options)
    await until(lambda: state.status.now.run.phase == "idle")
    return client, state, given_back


async def test_the_screen_knows_the_place_before_model_and_sandbox_are_ready() -> None:
    client, state, _ = await opened(FakeLauncher())

    now = state.status.now
    assert (now.run.phase, now.conversation.model, now.conversation.sandbox) == (
        "starting",
        "demo",
        "starting",
    )
    await client.close()


async def test_the_repository_is_looked_at_once_the_conversation_has_started() -> None:
    client, state, _ = await ready(FakeLauncher())

    assert state.status.now.folder.branch == ""
    await until(
        lambda: (state.status.now.folder.branch, state.status.now.folder.changes) == ("main", 3)
    )
    await client.close()


async def test_a_prompt_is_carried_out_while_the_sandbox_starts() -> None:
    launcher = FakeLauncher(starting=asyncio.Future())
    client, state, _ = await ready(launcher)

    assert client.do(Prompt("go")) is None
    assert launcher.agent.told == [Prompt("go")]
    assert state.status.now.conversation.sandbox == "starting"
    assert ("sandbox", "starting") in cells(await client.facts("status"))
    launcher.starting.set_result(INFO)
    await until(lambda: state.status.now.conversation.sandbox == "docker")
    assert ("image", f"{INFO.image} ({INFO.image_origin})") in cells(await client.facts("sandbox"))
    await client.close()


async def test_the_status_page_says_which_way_the_model_s_requests_take() -> None:
    launcher = FakeLauncher()
    client, _, _ = await ready(launcher)
    launcher.agent.model = ModelInUse("m", lane="through litellm")
    assert ("model", "demo, through litellm, the default") in cells(await client.facts("status"))
    await client.close()


def cells(facts: Facts) -> list[tuple[str, ...]]:
    return [row.cells for row in facts.rows if isinstance(row, Fact)]


@pytest.mark.parametrize(
    ("notice", "left"), [("making the image", ""), ("mode: plan", "mode: plan")]
)
async def test_only_what_the_start_of_the_sandbox_told_goes_once_it_is_there(
    notice: str, left: str
) -> None:
    launcher = FakeLauncher(starting=asyncio.Future())
    client, state, _ = await ready(launcher)
    state.status.set(notice=notice)

    launcher.starting.set_result(INFO)
    await until(lambda: state.status.now.conversation.sandbox == "docker")
    assert state.status.now.screen.notice == left
    await client.close()


async def test_the_header_says_so_if_the_sandbox_cannot_be_had_after_all() -> None:
    launcher = FakeLauncher(starting=asyncio.Future())
    client, state, _ = await ready(launcher)

    launcher.starting.set_exception(SandboxUnavailable("it failed its self-test", "run doctor"))
    await until(lambda: state.status.now.conversation.sandbox == "none")
    await client.close()


async def test_theme_and_bell_of_the_settings_reach_the_screen() -> None:
    launcher, state = FakeLauncher(theme="paper"), UiState()
    told: list[tuple[str | None, bool]] = []
    state.prefer = lambda settings: told.append((settings.theme, settings.bell))
    client = SessionClient(launcher, state)
    await client.open(LaunchOptions())

    assert told == [("paper", True)]
    await client.close()


async def test_it_has_started_once_there_is_an_agent() -> None:
    launcher = FakeLauncher()
    client, _, _ = await opened(launcher)
    assert not client.started
    launcher.ready.set()
    await client.start_up()
    assert client.started
    await client.close()


async def test_where_nothing_can_be_started_the_reason_is_said_and_what_is_sent_returns() -> None:
    launcher = FakeLauncher(refuses="no model is set")
    client, state, given_back = await opened(launcher)
    launcher.ready.set()
    with pytest.raises(CodeagentError, match="/new starts a new session"):
        await client.start_up()
    assert [block.text for block in state.document.blocks if isinstance(block, Remark)] == [
        "no model is set"
    ]
    client.do(Prompt("again"))
    assert (given_back, state.queue.items) == (["again"], ())
    await client.close()


async def test_what_is_missing_is_returned_and_nothing_is_started() -> None:
    lacks = Missing("model", "no model is set")
    client = SessionClient(FakeLauncher(lacks=lacks), UiState())

    assert await client.open(LaunchOptions()) == lacks
    assert not client.running
    await client.close()


async def test_a_session_of_another_folder_is_continued_there_and_that_is_said() -> None:
    launcher = FakeLauncher(elsewhere=Path("/home/ada/other"))
    client, state, _ = await opened(launcher, LaunchOptions(resume="2026"))
    assert state.status.now.folder.workspace == "other"
    said = [block.text for block in state.document.blocks if isinstance(block, Remark)]
    assert said == ["this session belongs to /home/ada/other: working there"]
    await client.close()


@pytest.mark.parametrize(
    ("launcher", "wanted"), [(FakeLauncher(held=4242), "2026"), (FakeLauncher(), "1999")]
)
async def test_a_session_that_cannot_be_continued_is_missing_and_the_reason_is_said(
    launcher: FakeLauncher, wanted: str
) -> None:
    state = UiState()
    client = SessionClient(launcher, state)
    missing = await client.open(LaunchOptions(resume=wanted))
    assert missing is not None and missing.kind == "session"
    assert [block.text for block in state.document.blocks if isinstance(block, Remark)] == [
        missing.text
    ]
    await client.close()


async def test_a_pause_that_a_crash_ended_is_no_longer_offered() -> None:
    recording = (
        Recording()
        .run("go")
        .notice("run.paused", "paused before batch 1", batch=1, why="asked", calls=[])
    )
    client, state, _ = await opened(
        FakeLauncher(log=recording.events), LaunchOptions(resume="2026")
    )
    assert state.boundary.now is None
    await client.close()


async def test_a_resumed_session_is_on_the_stage_before_anything_has_started() -> None:
    launcher = FakeLauncher(log=tuple(looked_around().events))
    client, state, _ = await opened(launcher, LaunchOptions(resume="2026"))

    assert isinstance(state.document.blocks[0], Said)
    await client.close()


async def test_a_mode_that_is_asked_for_goes_before_the_one_that_was_recorded() -> None:
    launcher = FakeLauncher(log=tuple(looked_around().events))
    client, state, _ = await ready(launcher, LaunchOptions(resume="2026", mode="plan"))

    assert state.status.now.conversation.mode == "plan"
    assert launcher.agent.told == []
    await client.close()


async def test_the_end_that_was_shown_first_is_gone_if_another_session_is_begun() -> None:
    state = UiState()
    state.document.show_end(replayed_end(looked_around().events))
    client = SessionClient(FakeLauncher(), state)
    await client.open(LaunchOptions())

    assert state.document.blocks == []
    await client.close()


async def test_what_opening_wrote_to_the_log_is_shown_once() -> None:
    recording = looked_around()
    launcher = FakeLauncher(log=tuple(recording.events))
    client, state, _ = await opened(launcher, LaunchOptions(resume="2026"))
    before = len(state.document.blocks)

    launcher.log = tuple(
        recording.finish("interrupted", error="the process ended before the run did").events
    )
    launcher.ready.set()
    await until(
        lambda: (
            state.status.now.run.phase == "idle"
            and state.status.now.conversation.sandbox != "starting"
        )
    )

    assert len(state.document.blocks) == before + 1
    await client.close()


async def test_events_are_drawn_as_they_come() -> None:
    launcher = FakeLauncher()
    client, state, _ = await ready(launcher)

    launcher.agent.emit(*running_tests().events)
    await until(lambda: len(state.document.blocks) >= 4)

    assert state.status.now.run.phase == "working"
    await client.close()


async def test_an_event_that_cannot_be_drawn_does_not_keep_the_next_from_being(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launcher = FakeLauncher()
    client, state, _ = await ready(launcher)
    failed: list[BaseException] = []
    state.failed = failed.append
    monkeypatch.setattr(state.document, "stream_text", lambda *_: 1 / 0)
    launcher.agent.emit(*Recording().run("go").stream("one").finish().events)
    await until(lambda: state.status.now.run.phase == "idle" and bool(failed))
    assert [type(error) for error in failed] == [ZeroDivisionError]
    await client.close()


async def test_a_start_that_fails_by_a_mistake_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = FakeLauncher()
    monkeypatch.setattr(FakeLauncher, "open", lambda *_, **__: 1 / 0)
    failed: list[BaseException] = []
    state = UiState()
    state.failed = failed.append
    client = SessionClient(launcher, state)
    await client.open(LaunchOptions())
    with pytest.raises(CodeagentError, match="not started"):
        await client.start_up()
    assert [type(error) for error in failed] == [ZeroDivisionError]
    await client.close()


async def test_text_that_came_too_late_for_its_run_begins_the_next_one() -> None:
    launcher = FakeLauncher()
    client, _, _ = await ready(launcher)
    launcher.agent.queued = (Queued("q1", "steer", "also 1900"),)

    launcher.agent.emit(*Recording().run("x").finish().events)
    await until(lambda: Prompt(None) in launcher.agent.told)
    await client.close()


async def test_an_interrupted_run_does_not_begin_another() -> None:
    launcher = FakeLauncher()
    client, state, _ = await ready(launcher)
    launcher.agent.queued = (Queued("q1", "steer", "also 1900"),)

    launcher.agent.emit(*Recording().run("x").finish("interrupted").events)
    await until(lambda: len(state.document.blocks) == 2)

    assert launcher.agent.told == []
    await client.close()


async def test_while_it_works_enter_steers_and_alt_enter_waits_until_it_is_done() -> None:
    launcher = FakeLauncher()
    client, _, _ = await ready(launcher)
    client.do(Prompt("fix it"))
    client.do(Steer("also 1900"))
    client.do(FollowUp("then commit"))

    assert launcher.agent.told == [Prompt("fix it"), Steer("also 1900"), FollowUp("then commit")]
    await client.close()


async def test_a_steer_that_finds_nothing_running_begins_a_run() -> None:
    launcher = FakeLauncher()
    client, _, _ = await ready(launcher)
    client.do(Steer("fix it"))

    assert launcher.agent.told == [Prompt("fix it")]
    await client.close()


async def test_a_prompt_the_agent_refuses_returns_to_the_composer() -> None:
    launcher = FakeLauncher()
    client, _, given_back = await ready(launcher)
    launcher.agent.refuses = "this agent is already running"

    client.do(Prompt("fix it"))

    assert given_back == ["fix it"]
    await client.close()


async def test_an_answer_carries_its_reason() -> None:
    launcher = FakeLauncher()
    client, _, _ = await ready(launcher)

    assert client.do(Answer("c5.1", Decision("deny", "use the helper instead"))) is None
    assert launcher.agent.told == [Answer("c5.1", Decision("deny", "use the helper instead"))]
    await client.close()


async def test_a_mode_chosen_during_the_start_holds_from_the_first_call() -> None:
    launcher = FakeLauncher()
    client, state, _ = await opened(launcher)
    state.status.set(mode="plan")
    launcher.ready.set()
    await until(lambda: state.status.now.run.phase == "idle")

    assert state.status.now.conversation.mode == "plan"
    assert launcher.agent.told == [SetMode("plan")]
    await client.close()


@pytest.mark.parametrize("shared", [True, False])
async def test_a_shell_command_runs_in_the_sandbox(shared: bool) -> None:
    launcher = FakeLauncher()
    client, _, _ = await ready(launcher)
    client.do(RunShell("git log", shared))

    await until(lambda: bool(launcher.agent.told))
    assert launcher.agent.told == [RunShell("git log", shared)]
    await client.close()


async def test_a_shell_command_that_comes_too_early_returns_to_the_composer() -> None:
    client, _, given_back = await opened(FakeLauncher())
    client.do(RunShell("git log", False))

    assert given_back == ["!!git log"]
    await client.close()


async def test_another_model_takes_over_and_its_window_is_shown() -> None:
    launcher = FakeLauncher()
    client, state, _ = await ready(launcher)
    other = ModelRow("ollama/qwen3", "local", ready=True)

    assert await client.missing(other) is None
    assert await client.finish(SetModel(other.name)) is None
    launcher.agent.model = ModelInUse(other.name, context_window=1000)
    launcher.agent.emit(
        *Recording()
        .notice("model.changed", "ollama/qwen3", model="ollama/qwen3", api_base=None)
        .events
    )
    await until(lambda: state.status.now.usage.context_window == 1000)
    assert state.status.now.conversation.model == client.agent.model.name == "ollama/qwen3"
    await client.close()


async def test_a_mode_is_shown_at_once_with_what_it_lets_through() -> None:
    client, state, _ = await ready(FakeLauncher())
    client.do(SetMode("plan"))
    assert state.status.now.screen.notice == "mode: plan · reads run, nothing is changed"
    await client.close()


async def test_what_is_not_text_is_refused_while_it_starts_and_changes_nothing() -> None:
    launcher = FakeLauncher()
    client, _, given_back = await opened(launcher)
    for act in (Resume(), SetMode("plan"), TakeBack("q1"), SetModel("demo")):
        assert (
            client.do(act)
            == await client.finish(act)
            == Refused("codeagent is still starting; nothing was changed")
        )
    assert (launcher.agent.told, given_back) == ([], [])
    await client.close()


@for_each("about", ["status", "cost", "tools", "skills", "extensions"])
async def test_these_pages_of_facts_can_be_shown_at_any_time(about: About) -> None:
    launcher = FakeLauncher()
    client, _, _ = await opened(launcher)
    early = await client.facts(about)
    launcher.ready.set()

    assert early.rows and (await client.facts(about)).rows
    await client.close()


async def test_the_page_about_the_context_divides_it_before_anything_is_sent() -> None:
    launcher = FakeLauncher()
    client, _, _ = await ready(launcher)
    own = "# Instructions of this workspace (AGENTS.md)\n<agents-md>\nbe good\n</agents-md>"
    launcher.coming = ModelRequest(
        f"{'x' * 400}\n{own}", (), (ToolDefinition("read", "y" * 400, {}),)
    )
    launcher.said = (
        UserMessage.from_text("z" * 800),
        ToolMessage(call_id="1", name="bash", content=(TextPart(text="w" * 1200),)),
    )
    facts = await client.facts("context")
    sizes = {name[2:]: int(size.replace(",", "")) for name, size, _ in cells(facts)[:6]}
    assert (sizes["system prompt"], sizes["tools"]) == (100, 101)
    assert (sizes["messages"], sizes["results of tools"]) == (200, 300)
    assert 0 < sizes["instructions"] < 30 and sizes["free"] < 200_000
    assert facts.note.startswith("about 7")
    assert cells(facts)[6][0].startswith("bash")
    await client.close()


async def test_the_parts_of_the_context_add_up_to_what_the_provider_counted() -> None:
    launcher = FakeLauncher()
    client, state, _ = await ready(launcher)
    launcher.said = (UserMessage.from_text("z" * 4000), AssistantMessage(text="a" * 4000))
    state.status.set(context_tokens=50_000)
    *parts, _ = [
        int(size.replace(",", "")) for _, size, _ in cells(await client.facts("context"))[:6]
    ]
    assert abs(sum(parts) - 50_000) <= len(parts)
    await client.close()


async def test_closing_twice_closes_once_and_ends_what_was_starting() -> None:
    launcher = FakeLauncher()
    client, _, _ = await ready(launcher)
    await client.close()
    await client.close()
    assert launcher.closed == 1

    early, _, _ = await opened(FakeLauncher())
    await early.close()


async def test_a_prompt_that_a_hook_denied_comes_back_with_the_reason_and_the_screen_is_idle_again() -> (
    None
):
    launcher = FakeLauncher()
    client, state, given_back = await ready(launcher)
    client.do(Prompt("fix it"))
    assert state.status.now.run.phase == "working"

    why = "the prompt was not sent: a hook denied it: not on a Friday"
    launcher.agent.emit(RunNotBegun(seq=5, ts=1.0, session="s", text=why, prompt="fix it"))

    await until(lambda: state.status.now.run.phase == "idle")
    assert given_back == ["fix it"]
    assert [block.text for block in state.document.blocks if isinstance(block, Remark)] == [why]
    await client.close()


async def test_what_jobs_printed_can_be_read() -> None:
    client, _, _ = await ready(FakeLauncher())
    assert client.job_lines() == {"job-1": 3}
    assert await client.job_output("job-1") == "one\ntwo\nthree"
    assert await client.job_output("job-9") is None
    await client.close()


async def test_without_a_sandbox_no_tool_is_shown_as_sandboxed() -> None:
    launcher = FakeLauncher()
    client, _, _ = await ready(launcher)
    assert client.toolbox is None
    launcher.agent.toolbox = TOOLBOX
    assert client.toolbox == TOOLBOX
    await client.close()

    on_the_host = FakeLauncher(info=replace(INFO, kind="host"))
    on_the_host.agent.toolbox = TOOLBOX
    client, _, _ = await ready(on_the_host)
    assert client.toolbox is not None and not any(tool.sandboxed for tool in client.toolbox.tools)
    await client.close()


async def test_jobs_of_a_process_that_died_are_lost_in_the_session_that_goes_on() -> None:
    launcher = FakeLauncher(log=tuple(background().events))
    client, state, _ = await opened(launcher, LaunchOptions(resume=SESSION))

    assert [(row.id, row.status) for row in state.jobs.rows] == [("job-1", "lost")]
    assert state.status.now.work.jobs == 0
    await client.close()


async def test_what_a_live_job_prints_reaches_its_place() -> None:
    launcher, recording = FakeLauncher(), background()
    client, state, _ = await ready(launcher)
    launcher.agent.emit(*recording.job_output("job-1", "one\n").job_output("job-1", "two\n").events)

    await until(lambda: bool(state.jobs.rows) and state.jobs.output("job-1").last(1) == ["two"])
    await client.close()


async def test_who_gives_up_waiting_for_the_end_does_not_stop_it_half_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launcher = FakeLauncher()
    client, _, _ = await ready(launcher)
    may_end, ended = asyncio.Event(), asyncio.Event()

    async def close() -> None:
        await may_end.wait()
        ended.set()

    monkeypatch.setattr(launcher.agent, "close", close)
    first = asyncio.create_task(client.close())
    await until(lambda: launcher.closed == 1)
    first.cancel()
    second = asyncio.create_task(client.close())
    await asyncio.sleep(0)
    assert not second.done()
    may_end.set()
    await second
    assert ended.is_set() and launcher.closed == 1


async def test_a_long_text_is_kept_where_the_tool_of_the_model_finds_it() -> None:
    launcher = FakeLauncher()
    client, _, _ = await ready(launcher)
    text = "line\n" * 1_000

    assert not client.reads_kept_texts
    launcher.coming = ModelRequest("", (), (ToolDefinition("output_read", "", {}),))
    assert client.reads_kept_texts
    sent = await client.keep_text(text)
    runtime = client._runtime
    assert runtime is not None
    (handle,) = runtime.outputs.handles()
    assert f'output_read(id="{handle}")' in sent and sent.startswith("line\n") and len(sent) < 1_700
    assert "\n".join(runtime.outputs.read(handle, 1, 1_001).lines) == text
    await client.close()


def test_only_what_a_conversation_changed_of_its_model_is_said_to_come_from_it() -> None:
    file = dict.fromkeys(("model", "api_base"), "config.toml")
    settings = Settings(model="openai/a", api_base="http://127.0.0.1:8080", origins=file)
    now = ModelInUse("openai/a", "http://127.0.0.1:8080", context_window=8_192)
    assert with_model(settings, now) == settings
    other = with_model(settings, replace(now, name="openai/b"))
    assert (other.model, other.origins) == ("openai/b", {**file, "model": "this conversation"})
