"""What the screen opens: settings, what is missing, sessions, models, files, and a whole
conversation."""

import asyncio
import os
import subprocess
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codeagent.app import LocalApp
from codeagent.commands import model_offers
from codeagent.commands.launcher import LocalLauncher
from codeagent.config.keys import KeyStore
from codeagent.config.settings import SandboxSettings, Settings
from codeagent.core.acts import Prompt, RunShell, SetBudget, SetEffort, SetMode, SetModel, Stop
from codeagent.core.budget import Budget
from codeagent.core.errors import (
    CodeagentError,
    ConfigError,
    SessionError,
    SessionInUse,
    SessionNotFound,
)
from codeagent.core.events import (
    MessageAdded,
    Notice,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolResultAdded,
    TurnFinished,
)
from codeagent.core.messages import text_of
from codeagent.core.notices import BudgetChanged, ModelChanged, RunPaused
from codeagent.core.runtime import Session
from codeagent.llm import server_knowledge
from codeagent.llm.key_trial import KeyTrial
from codeagent.llm.local_servers import LocalServer
from codeagent.session.repair import check_recording
from codeagent.tui.launcher import Consent, LaunchOptions, Missing, ModelRow
from codeagent.workspace.files import LocalWorkspace
from codeagent.workspace.ignore import IgnoreTree
from tests.e2e.product import Product, calls, read, say
from tests.servers import FakeProvider, Turn, anthropic_server, openai_server

KEY = "sk-canary-0123456789"


class Ring(dict[str, str]):
    def get_password(self, service: str, name: str) -> str | None:
        return self.get(name)

    def set_password(self, service: str, name: str, value: str) -> None:
        self[name] = value

    def delete_password(self, service: str, name: str) -> None:
        del self[name]


@pytest.fixture
def product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Product:
    """A repository, and an environment with nothing of whoever runs the tests."""
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    subprocess.run(["git", "init", "-qb", "main", tmp_path / "work"], check=True)
    product = Product(tmp_path / "work", tmp_path / "home")
    for name in os.environ:
        monkeypatch.delenv(name)
    for name, value in product.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", os.defpath)
    return product


@pytest.fixture(autouse=True)
def _no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def none() -> tuple[LocalServer, ...]:
        return ()

    monkeypatch.setattr(model_offers, "local_servers", none)


def launcher(product: Product, ring: Ring | None = None) -> LocalLauncher:
    keys = KeyStore(product.home / "config/codeagent", lambda: ring if ring is not None else Ring())
    return LocalLauncher(product.workspace, LocalApp(), keys)


def script(product: Product, *turns: Any) -> str:
    return product.script(*turns)


async def opened(
    here: LocalLauncher, resume: str | None = None, *, wire: str | None = None, **options: Any
) -> Session:
    flags = {"sandbox": "off", "wire": wire}
    settings = here.settings(LaunchOptions(flags=flags, resume=resume, **options))
    return await here.open(settings, resume=resume, tell=lambda text: None)


async def to_the_end(runtime: Session, prompt: str | None) -> list[Any]:
    events = runtime.agent.events()
    runtime.agent.do(Prompt(prompt))
    found = []
    async for event in events:
        found.append(event)
        if isinstance(event, RunFinished):
            return found
    raise AssertionError("the run did not end")


def test_flags_go_before_what_the_file_says(product: Product) -> None:
    config = product.home / "config/codeagent/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('model = "m"\nmode = "plan"\ntheme = "ink"\nbell = false\n')
    settings = launcher(product).settings(LaunchOptions(mode="auto", api_base="http://127.0.0.1:1"))
    assert (settings.model, settings.mode, settings.theme, settings.bell) == (
        "m",
        "auto",
        "ink",
        False,
    )
    assert settings.api_base == "http://127.0.0.1:1"


async def test_a_folder_without_a_repository_is_asked_about_unless_the_user_said_yes(
    product: Product, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(model="demo")
    found = await LocalLauncher(tmp_path, LocalApp()).missing(settings, LaunchOptions())
    assert found is not None and found.kind == "place" and "not in a git repository" in found.text
    assert (
        await LocalLauncher(tmp_path, LocalApp()).missing(settings, LaunchOptions(proceed=True))
        is None
    )
    below = product.workspace / "src"
    below.mkdir()
    assert await LocalLauncher(below, LocalApp()).missing(settings, LaunchOptions()) is None
    monkeypatch.setenv("HOME", str(product.workspace))
    found = await launcher(product).missing(settings, LaunchOptions())
    assert found is not None and "home folder" in found.text
    found = await LocalLauncher(Path("/"), LocalApp()).missing(settings, LaunchOptions())
    assert found is not None and "root" in found.text


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A worktree of the repository `main` beside it."""
    who = ("-c", "user.name=T", "-c", "user.email=t@example.org")
    main, linked = tmp_path / "main", tmp_path / "linked"
    subprocess.run(["git", "init", "-q", main], check=True)
    for arguments in (
        ["commit", "-q", "--allow-empty", "-m", "x"],
        ["worktree", "add", "-q", str(linked)],
    ):
        subprocess.run(["git", "-C", main, *who, *arguments], check=True, capture_output=True)
    return linked


@pytest.mark.usefixtures("product")
async def test_a_git_directory_outside_the_folder_is_asked_about_once(linked: Path) -> None:
    settings = Settings(model="demo")
    found = await LocalLauncher(linked, LocalApp()).missing(settings, LaunchOptions())
    assert found is not None and (found.kind, f"{linked.parent}/main/.git" in found.text) == (
        "git",
        True,
    )
    unconfined = Settings(model="demo", sandbox=SandboxSettings(kind="off"))
    assert await LocalLauncher(linked, LocalApp()).missing(unconfined, LaunchOptions()) is None
    assert (
        await LocalLauncher(linked, LocalApp()).missing(settings, LaunchOptions(git=Consent(False)))
        is None
    )
    assert await LocalLauncher(linked, LocalApp()).missing(settings, LaunchOptions()) is None, (
        "a no is kept, too"
    )


async def test_an_image_that_the_repository_describes_is_asked_about_as_it_is_now(
    product: Product,
) -> None:
    settings, here = Settings(model="demo"), launcher(product)
    (product.workspace / "Dockerfile").write_text("FROM a\n")
    assert await here.missing(settings, LaunchOptions()) is None, (
        "it may be meant for something else"
    )
    described = product.workspace / ".devcontainer.json"
    described.write_text('{"build": {"dockerfile": "Dockerfile"}, "runArgs": ["--privileged"]}')
    found = await here.missing(settings, LaunchOptions())
    assert found is not None and found.kind == "image"
    assert "builds      FROM a" in found.text and "describes an image of its own" in found.text
    assert await here.missing(settings, LaunchOptions(image=Consent(True, found.digest))) is None
    assert await here.missing(settings, LaunchOptions()) is None, "a yes is kept"
    (product.workspace / "Dockerfile").write_text("FROM a\nRUN x\n")
    changed = await here.missing(settings, LaunchOptions())
    assert (
        changed is not None
        and "builds      RUN x" in changed.text
        and "has changed since you" in changed.text
    )
    for unshown in ("RUN x\n" * 30, f"RUN true {' ' * 60}&& evil\n"):
        (product.workspace / "Dockerfile").write_text(f"FROM a\n{unshown}")
        assert await here.missing(settings, LaunchOptions()) is None, (
            "nobody could say yes to all of it"
        )
    assert await here.missing(settings, LaunchOptions(image=Consent(False))) is None
    described.write_text('{"image": "other"}')
    assert await here.missing(settings, LaunchOptions()) is None, "a no is for whatever it becomes"


async def test_without_a_model_the_local_servers_are_offered(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def some() -> tuple[LocalServer, ...]:
        ollama = LocalServer("Ollama", "http://127.0.0.1:11434/v1", ("qwen3",))
        return (ollama, LocalServer("vLLM", "http://127.0.0.1:8000/v1", ("openai/gpt-oss-20b",)))

    monkeypatch.setattr(model_offers, "local_servers", some)
    found = await launcher(product).missing(Settings(), LaunchOptions())
    assert found is not None and found.kind == "model"
    assert found.servers == (
        ModelRow("ollama/qwen3", "Ollama on this machine", True),
        ModelRow(
            "openai/openai/gpt-oss-20b", "vLLM on this machine", True, "http://127.0.0.1:8000/v1"
        ),
    )


async def test_a_scripted_model_is_not_called_hosted(product: Product) -> None:
    model = script(product, {"text": "done"})
    rows = await launcher(product).models(Settings(model=model))
    assert [row.about for row in rows if row.name == model] == ["in use, scripted"]


async def test_without_a_model_those_of_the_keys_that_are_there_are_offered(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none() -> tuple[LocalServer, ...]:
        return ()

    monkeypatch.setattr(model_offers, "local_servers", none)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    found = await launcher(product, Ring({"ANTHROPIC_API_KEY": KEY})).missing(
        Settings(), LaunchOptions()
    )
    assert found is not None and found.servers
    assert {(row.name.partition("/")[0], row.about, row.api_base) for row in found.servers} == {
        ("anthropic", "hosted, with your key", None),
        ("openai", "hosted, with your key", None),
    }


def tried(outcome: Any) -> Any:
    """What stands for asking a provider that is not there in a test; `tests/llm/test_hosted.py`
    asks one."""

    async def try_key(variable: str, key: str, environment: Mapping[str, str]) -> KeyTrial:
        assert (variable, key) == ("ANTHROPIC_API_KEY", KEY)
        return KeyTrial(outcome, f"{outcome} by loopback")

    return try_key


async def test_a_hosted_model_without_a_key_names_the_variable_and_a_kept_one_is_enough(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = Ring()
    here, settings = launcher(product, ring), Settings(model="anthropic/claude-sonnet-4-5")
    found = await here.missing(settings, LaunchOptions())
    assert found is not None and (found.kind, found.variable) == ("key", "ANTHROPIC_API_KEY")
    monkeypatch.setattr(model_offers, "try_key", tried("refused"))
    with pytest.raises(ConfigError, match="key refused by loopback; not kept"):
        await here.keep_key("ANTHROPIC_API_KEY", KEY)
    assert ring == {}
    monkeypatch.setattr(model_offers, "try_key", tried("accepted"))
    said = await here.keep_key("ANTHROPIC_API_KEY", KEY)
    assert said == "ANTHROPIC_API_KEY: accepted by loopback; kept in the system's keyring"
    assert await here.missing(settings, LaunchOptions()) is None
    ring.clear()
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    assert await here.missing(settings, LaunchOptions()) is None


async def test_models_begin_with_the_one_in_use_and_say_what_is_missing(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    rows = await launcher(product).models(Settings(model="openai/gpt-5"))
    assert rows[0] == ModelRow("openai/gpt-5", "in use, hosted", True)
    assert rows[-1].name == "demo"
    by_name = {row.name: row for row in rows}
    assert len(by_name) == len(rows)
    anthropic = next(row for name, row in by_name.items() if name.startswith("anthropic/"))
    assert (anthropic.ready, anthropic.about) == (False, "hosted, needs ANTHROPIC_API_KEY")
    assert all(row.ready for name, row in by_name.items() if name.startswith("openai/"))


async def test_files_are_those_a_search_would_look_at_with_their_folders(product: Product) -> None:
    for path in (
        "a.py",
        "src/deep/b.py",
        ".hidden/c",
        "build/x.o",
        "with\nnewline",
        ".git/ignored",
    ):
        (product.workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (product.workspace / path).write_text("x")
    (product.workspace / ".gitignore").write_text("build/\n")
    (product.workspace / "out").symlink_to("/etc")
    assert await launcher(product).files() == (
        ".gitignore",
        ".hidden/",
        ".hidden/c",
        "a.py",
        "src/",
        "src/deep/",
        "src/deep/b.py",
        "with\nnewline",
    )


async def test_files_of_a_folder_that_is_gone_are_an_error_in_one_line(product: Product) -> None:
    with pytest.raises(CodeagentError, match="cannot be read"):
        await LocalLauncher(product.workspace / "gone", LocalApp()).files()


async def test_a_cancelled_listing_leaves_the_folder_open_until_its_thread_has_read_it(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, may_read, was_read, closed = (threading.Event() for _ in range(4))
    order: list[str] = []

    class Slow(LocalWorkspace):
        def ignores(self) -> IgnoreTree:
            reading.set()
            may_read.wait(30)
            order.append("read")
            was_read.set()
            return super().ignores()

        def close(self) -> None:
            super().close()
            order.append("closed")
            closed.set()

    monkeypatch.setattr("codeagent.commands.launcher.LocalWorkspace", Slow)
    listing = asyncio.create_task(launcher(product).files())
    await asyncio.to_thread(reading.wait, 30)
    listing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listing
    may_read.set()
    for event in (was_read, closed):
        await asyncio.to_thread(event.wait, 30)
    assert order == ["read", "closed"]


def test_git_facts_are_branch_and_changes(product: Product) -> None:
    (product.workspace / "new").write_text("x")
    assert launcher(product).git_status() == ("main", 1)


async def test_a_conversation_is_opened_run_listed_and_resumed_with_what_was_chosen_in_it(
    product: Product,
) -> None:
    (product.workspace / "a.txt").write_text("text\n")
    here = launcher(product)
    runtime = await opened(here, model=script(product, calls(read("a.txt")), say("It says text.")))
    assert runtime.sandbox_info is not None and runtime.sandbox_info.kind == "host"
    assert {tool.name for tool in runtime.next_request().tools} >= {"bash", "ask_user", "read"}
    assert "Workspace: " in runtime.next_request().system
    events = await to_the_end(runtime, "what does it say?")
    assert events[-1].text == "It says text."
    runtime.agent.do(SetMode("plan"))
    assert await runtime.agent.finish(SetEffort("high")) is None
    [summary] = here.sessions()
    assert (summary.prompt, summary.in_use) == ("what does it say?", True)
    await runtime.close()
    await runtime.close()
    assert here.find("last") == here.find(summary.id[:10]) == summary.id
    settings = here.settings(LaunchOptions(resume="last"))
    assert (settings.mode, settings.model, settings.thinking) == ("plan", summary.model, "high")
    asked = here.settings(LaunchOptions(resume="last", mode="ask", model="demo", thinking="low"))
    assert (asked.mode, asked.thinking) == ("ask", "low")
    again = await opened(here, resume=summary.id, model=script(product, say("Still text.")))
    assert [
        event.mode for event in await to_the_end(again, "and now?") if isinstance(event, RunStarted)
    ] == ["plan"]
    await again.close()
    assert [event.type for event in here.recorded(summary.id)].count("run.finished") == 2
    assert check_recording(here._store.read(summary.id)).problems == ()


async def test_a_session_is_continued_in_its_own_folder_wherever_it_is_asked_for(
    product: Product, tmp_path: Path
) -> None:
    first = await opened(launcher(product), model=script(product, say("Text.")))
    await to_the_end(first, "go")
    await first.close()
    (tmp_path / "alias").symlink_to(product.workspace)
    for folder in (tmp_path, tmp_path / "alias"):
        here = LocalLauncher(folder, LocalApp())
        assert here.enter(first.agent.session_id[:-3]) == first.agent.session_id
        assert here.workspace.samefile(product.workspace)
        assert [row.id for row in here.sessions()] == [first.agent.session_id]
        again = await opened(
            here, resume=first.agent.session_id, model=script(product, say("More."))
        )
        await again.close()


async def test_a_session_in_use_or_of_a_folder_that_is_gone_is_not_entered(
    product: Product, tmp_path: Path
) -> None:
    here = launcher(product)
    first = await opened(here, model=script(product, say("Text.")))
    await to_the_end(first, "go")
    session = first.agent.session_id
    with pytest.raises(SessionInUse, match=f"in use by process {os.getpid()}"):
        here.enter(session)
    await first.close()
    product.workspace.rename(tmp_path / "moved")
    elsewhere = LocalLauncher(tmp_path / "moved", LocalApp())
    with pytest.raises(SessionError, match="no longer exists"):
        elsewhere.enter(session)
    assert elsewhere.workspace == tmp_path / "moved"


async def test_a_shared_command_of_a_process_that_died_is_told_after_the_resume(
    product: Product,
) -> None:
    here = launcher(product)
    runtime = await opened(here, model=script(product, say("ok")))
    await to_the_end(runtime, "hello")
    await runtime.agent.finish(RunShell("echo from the shell; exit 3", shared=True))
    session = runtime.agent.session_id
    await runtime.close()
    again = await opened(
        here, resume=session, model=script(product, say("I see", expect="from the shell"))
    )
    events = await to_the_end(again, "what did I run?")
    notes = [
        event.message
        for event in events
        if isinstance(event, MessageAdded) and event.message.role == "user"
    ]
    assert (
        "exit code 3" in text_of(notes[0].content)
        and text_of(notes[1].content) == "what did I run?"
    )
    await again.close()
    [result] = [event for event in here.recorded(session) if isinstance(event, ToolResultAdded)]
    assert result.name == "shell" and result.details["shared"] is True
    assert [one.role for one in here.messages(session)[-3:]] == ["user", "user", "assistant"]


async def test_how_much_the_model_thinks_can_change_between_runs(product: Product) -> None:
    here = launcher(product)
    runtime = await opened(here, model=script(product, say("one")))
    before = runtime.agent.model
    for effort in ("high", 2000):
        assert await runtime.agent.finish(SetEffort(effort)) is None
    assert runtime.agent.model == replace(before, effort=2000)
    assert (await to_the_end(runtime, "go"))[-1].reason == "done"
    recorded = here.recorded(runtime.agent.session_id)
    notices = [event.text for event in recorded if isinstance(event, ModelChanged)]
    assert notices == ["thinking: high", "thinking: up to 2000 tokens"]
    await runtime.close()


async def test_another_model_can_take_over_between_runs_and_is_the_sessions_from_then_on(
    product: Product,
) -> None:
    here = launcher(product)
    runtime = await opened(here, model=script(product, say("one")))
    await to_the_end(runtime, "go")
    other = script(product, say("two"))
    assert await runtime.agent.finish(SetModel(other)) is None
    assert runtime.agent.model.name == other
    events = await to_the_end(runtime, "again")
    assert events[-1].text == "two"
    refused = await runtime.agent.finish(SetModel("script:/nowhere.json"))
    assert refused is not None and "/nowhere.json" in refused.reason
    assert runtime.agent.model.name == other
    recorded = here.recorded(runtime.agent.session_id)
    [notice] = [event for event in recorded if isinstance(event, ModelChanged)]
    assert (notice.model, notice.api_base) == (other, None)
    await runtime.close()
    assert here.settings(LaunchOptions(resume="last")).model == other


async def test_a_server_that_was_started_again_with_another_window_is_taken_as_it_is_now(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_knowledge, "_FRESH", -1.0)
    async with openai_server([Turn(text="hi")], repeat=True) as server:
        server.facts["/props"] = {"default_generation_settings": {"n_ctx": 4_096}}
        runtime = await opened(launcher(product), model="openai/small", api_base=server.base_url)
        await to_the_end(runtime, "hi")
        server.facts["/props"] = {"default_generation_settings": {"n_ctx": 131_072}}
        await server.stop()
        await to_the_end(runtime, "hi")
        (changed,) = [
            event for event in await to_the_end(runtime, "hi") if isinstance(event, ModelChanged)
        ]
        assert changed.text == "openai/small now has a window of 131,072 tokens"
        assert runtime.agent.model.context_window == 131_072
        assert not [
            event for event in await to_the_end(runtime, "hi") if isinstance(event, ModelChanged)
        ]
        await runtime.close()
    offered = [
        {tool["function"]["name"] for tool in each.body["tools"]} for each in server.requests
    ]
    assert ["search" in names for names in offered] == [False, False, True, True]


async def test_the_model_is_not_changed_during_a_run(product: Product) -> None:
    here = launcher(product)
    model = script(product, calls(("bash", {"command": "sleep 30"})))
    runtime = await opened(here, model=model, mode="ask")
    events = runtime.agent.events()
    runtime.agent.do(Prompt("go"))
    async for event in events:
        if event.type == "approval.requested":
            break
    refused = runtime.agent.do(SetModel("demo"))
    assert refused is not None and "between runs" in refused.reason
    await runtime.close()


async def test_opening_that_is_given_up_leaves_no_session_and_no_lock(product: Product) -> None:
    here = launcher(product)
    settings = here.settings(LaunchOptions(model="demo", flags={"sandbox": "off"}))
    for delay in (0.0, 0.001, 0.005, 0.02):
        opening = asyncio.ensure_future(here.open(settings, resume=None, tell=lambda text: None))
        await asyncio.sleep(delay)
        opening.cancel()
        [result] = await asyncio.gather(opening, return_exceptions=True)
        if isinstance(result, Session):
            await result.close()
    assert product.sessions == []


async def test_a_screen_that_was_only_looked_at_leaves_no_session(product: Product) -> None:
    runtime = await opened(launcher(product), model="demo")
    await runtime.close()
    assert product.sessions == []
    with pytest.raises(SessionNotFound, match="no session"):
        launcher(product).find("last")


async def test_what_happened_while_it_was_opened_reaches_the_first_reader(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = launcher(product)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{product.home}/no.sock")
    settings = here.settings(LaunchOptions(model="demo"))
    runtime = await here.open(settings, resume=None, tell=lambda text: None)
    assert runtime.sandbox is None and runtime.sandbox_info is None
    first = await anext(aiter(runtime.agent.events()))
    assert isinstance(first, Notice) and first.code == "sandbox.unavailable"
    await runtime.close()


@pytest.fixture
async def provider() -> AsyncIterator[Any]:
    async with openai_server([Turn(text=f"hello, your key is {KEY}")]) as server:
        yield server


@pytest.mark.xdist_group("litellm")  # the worker that imports it
async def test_a_kept_key_is_sent_to_its_provider_and_written_nowhere(
    product: Product, provider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
    here = launcher(product, Ring(OPENAI_API_KEY=KEY))
    runtime = await opened(here, model="openai/gpt-5-mini")
    assert runtime.agent.model.context_window == 272_000
    await to_the_end(runtime, "hi")
    await runtime.close()
    assert provider.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert "OPENAI_API_KEY" not in os.environ
    written = (product.sessions[0] / "events.jsonl").read_text()
    assert "hello, your key is [secret OPENAI_API_KEY]" in written and KEY not in written


@pytest.mark.docker
async def test_in_the_container_a_command_of_the_users_is_stopped_whole_and_the_workspace_is_there(
    product: Product,
) -> None:
    here = launcher(product)
    runtime = await here.open(
        here.settings(LaunchOptions(model="demo")), resume=None, tell=lambda text: None
    )
    try:
        events = runtime.agent.events()
        command = "touch here; (trap '' TERM; sleep 307.5) & setsid sleep 307.5 & echo started; sleep 307.5"
        running = asyncio.ensure_future(runtime.agent.finish(RunShell(command, shared=False)))
        async for event in events:
            if event.type == "tool.updated":
                break
        runtime.agent.do(Stop())
        await running
        await runtime.agent.finish(RunShell("ps -ef | grep -c '[s]leep 307' || true", shared=False))
        results = [event async for event in _until_results(events, 2)]
    finally:
        await runtime.close()
    assert (product.workspace / "here").exists()
    assert results[0].error is not None and results[0].error.kind == "cancelled"
    assert "started" in text_of(results[0].content) and results[0].details["killed"] == 3
    assert text_of(results[1].content).splitlines()[0] == "0"
    assert results[0].sandbox == "docker"


async def _until_results(events: AsyncIterator[Any], count: int) -> AsyncIterator[ToolResultAdded]:
    async for event in events:
        if isinstance(event, ToolResultAdded):
            yield event
            if (count := count - 1) == 0:
                return


async def test_what_was_chosen_is_used_by_the_next_start(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = launcher(product)
    assert here.keep({"model": "openai/qwen", "api_base": "http://127.0.0.1:8080/v1"}) == "kept"
    assert (here.keep({"theme": "ink"}), here.keep({"thinking": "high"})) == ("kept", "kept")
    settings = launcher(product).settings(LaunchOptions())
    assert (settings.model, settings.api_base) == ("openai/qwen", "http://127.0.0.1:8080/v1")
    assert (settings.theme, settings.thinking) == ("ink", "high")
    assert await launcher(product).missing(settings, LaunchOptions()) is None
    assert launcher(product).settings(LaunchOptions(model="other")).model == "other"
    assert (
        here.keep({"model": "demo", "api_base": None}),
        here.settings(LaunchOptions()).model,
    ) == ("", "openai/qwen")
    monkeypatch.setenv("CODEAGENT_MODEL", "from/environment")
    assert (
        here.keep({"model": "x", "api_base": None})
        == "kept, but CODEAGENT_MODEL in the environment wins over it"
    )


def test_what_was_chosen_on_the_screen_is_not_said_to_come_from_the_command_line(
    product: Product,
) -> None:
    options = LaunchOptions(
        model="openai/qwen", api_base="http://127.0.0.1:8080/v1", mode="plan", chosen=True
    )
    origins = launcher(product).settings(options).origins
    assert {origins["model"], origins["api_base"]} == {"your choice on the screen"}
    assert origins["mode"] == "the command line"


async def test_an_address_without_a_model_offers_the_models_of_that_server(
    product: Product,
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b'HTTP/1.1 200 OK\r\n\r\n{"data": [{"id": "qwen3"}]}')
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    found = await launcher(product).missing(
        Settings(api_base=f"http://{host}"), LaunchOptions(proceed=True)
    )
    server.close()
    assert found is not None and found.text == f"Choose a model of {host}"
    assert found.servers == (
        ModelRow("openai/qwen3", f"at http://{host}/v1", True, f"http://{host}/v1"),
    )
    found = await launcher(product).missing(
        Settings(api_base="http://127.0.0.1:1"), LaunchOptions(proceed=True)
    )
    assert found is not None and "lists no models" in found.text


@pytest.mark.xdist_group("litellm")  # the worker that imports it
async def test_a_server_of_ones_own_gets_the_key_that_was_kept_for_it_and_no_other_does(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = Ring()
    here = launcher(product, ring)
    async with (
        openai_server([Turn(text="hi")], repeat=True) as server,
        openai_server([Turn(text="hi")]) as other,
    ):
        server.key, server.facts["/v1/models"] = "s3cret", {"data": [{"id": "qwen3"}]}
        base, host = server.base_url.removesuffix("/v1"), server.base_url[7:-3]
        wanted = await here.missing(Settings(api_base=base), LaunchOptions(proceed=True))
        assert wanted == Missing("key", f"{host} wants a key; it goes to this server only", base)
        with pytest.raises(ConfigError, match=f"{host} refused the key; not kept"):
            await here.keep_key(wanted.variable, "wrong")
        assert "accepted by" in await here.keep_key(wanted.variable, " s3cret\n") and [
            *ring.values()
        ] == ["s3cret"]
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        found = await here.missing(Settings(api_base=base), LaunchOptions(proceed=True))
        assert found is not None and [row.name for row in found.servers] == ["openai/qwen3"]
        for wire in ("auto", "litellm"):
            await asked_once(here, server.base_url, wire)
        await asked_once(here, other.base_url, "auto")
    assert {each.headers["authorization"] for each in server.requests} == {"Bearer s3cret"}
    assert {each.headers["authorization"] for each in other.requests} == {f"Bearer {KEY}"}


async def asked_once(here: LocalLauncher, base: str, wire: str) -> None:
    runtime = await opened(here, model="openai/qwen3", api_base=base, wire=wire)
    await to_the_end(runtime, "hi")
    await runtime.close()


async def test_a_conversation_that_is_resumed_elsewhere_says_so_before_anything_is_sent(
    product: Product,
) -> None:
    here = launcher(product)
    async with (
        openai_server([Turn("one"), Turn("two")]) as first,
        openai_server([Turn("three")]) as second,
    ):
        runtime = await opened(here, model="openai/a", api_base=first.base_url)
        await to_the_end(runtime, "go")
        session = runtime.agent.session_id
        await runtime.close()
        again = await opened(here, resume=session, model="openai/a", api_base=second.base_url)
        hosts = [url.split("/")[2] for url in (first.base_url, second.base_url)]
        told = [
            event
            for event in here.recorded(session)
            if isinstance(event, Notice) and event.code == "model.server"
        ]
        assert [event.text for event in told] == [
            f"this conversation went to {hosts[0]}; from now on: {hosts[1]}"
        ]
        assert second.requests == []
        await again.close()
        same = await opened(here, resume=session, model="openai/a", api_base=first.base_url)
        await same.close()
        codes = [event.code for event in here.recorded(session) if isinstance(event, Notice)]
        assert codes.count("model.server") == 1


def host(server: FakeProvider) -> str:
    return server.base_url.split("/")[2]


def servers_told(events: list[Any]) -> list[str]:
    return [
        event.text for event in events if isinstance(event, Notice) and event.code == "model.server"
    ]


def write_agent(product: Product, model: str) -> None:
    folder = product.home / "config/codeagent/agents"
    folder.mkdir(parents=True)
    (folder / "reader.md").write_text(
        f"---\nname: reader\ndescription: reads\nmodel: {model}\n---\nBe brief.\n"
    )


@pytest.mark.parametrize("elsewhere", [True, False])
async def test_an_agent_whose_model_is_elsewhere_is_announced_with_its_host_before_it_is_told_anything(
    product: Product, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    write_agent(product, "anthropic/m" if elsewhere else "m")
    ask = Turn(calls=(("agent", {"name": "reader", "task": "read it"}),))
    here, at_announcement = launcher(product), list[int]()
    async with (
        openai_server([ask, Turn("read"), Turn("told")]) as first,
        anthropic_server([Turn("read")]) as second,
    ):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", second.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        runtime = await opened(launcher(product), model="openai/a", api_base=first.base_url)

        def note(event: object) -> None:
            if isinstance(event, Notice) and event.code == "model.server":
                at_announcement.append(len(second.requests))

        runtime.agent.observe(note)
        assert [event async for event in runtime.agent.run("go")]
        await runtime.close()
        told = servers_told(list(here.recorded(runtime.agent.session_id)))
        if elsewhere:
            assert told == [
                f"the agent reader.1 has the model anthropic/m; from now on: {host(second)}"
            ]
            assert (at_announcement, len(second.requests)) == ([0], 1)
        else:
            assert (told, second.requests, len(first.requests)) == ([], [], 3)


async def test_a_conversation_that_fell_back_to_another_host_says_so_when_it_goes_back(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = launcher(product)
    config = product.home / "config/codeagent/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('fallback_model = "anthropic/m"\n')
    refused = Turn(status=401)
    async with (
        openai_server([refused]) as first,
        anthropic_server([Turn("one"), Turn("two")]) as second,
    ):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", second.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        runtime = await opened(here, model="openai/a", api_base=first.base_url)
        await to_the_end(runtime, "go")
        again = await to_the_end(runtime, "on")
        assert [event.server for event in again if isinstance(event, RunStarted)][-1] == host(
            second
        )
        session = runtime.agent.session_id
        assert servers_told(list(here.recorded(session))) == []
        assert await runtime.agent.finish(SetModel("openai/b", first.base_url)) is None
        changed = [
            event.text for event in here.recorded(session) if isinstance(event, ModelChanged)
        ]
        assert changed == [f"the model is openai/b; from now on: {host(first)}"]
        await runtime.close()
        resumed = await opened(here, resume=session, model="openai/a", api_base=first.base_url)
        await resumed.close()
        expected = f"this conversation went to {host(second)}; from now on: {host(first)}"
        assert servers_told(list(here.recorded(session))) == [expected]


async def test_an_answer_that_the_user_stops_counts_with_its_price_and_the_budget_goes_on(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "a long answer, word by word, " * 40
    async with anthropic_server([Turn(text=said, stall=True), Turn(text="two")], chunk=400) as fake:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        runtime = await opened(
            launcher(product), model="anthropic/claude-sonnet-4-5", api_base=fake.base_url
        )
        agent = runtime.agent
        agent.do(SetBudget(Budget("usd", 1.0)))
        came: list[str] = []

        def stop_late(event: object) -> None:
            if isinstance(event, TextDelta):
                came.append(event.text)
                if "".join(came) == said:
                    agent.do(Stop("enough"))

        agent.observe(stop_late)
        stopped = [event async for event in agent.run("go")]
        (turn,) = (event for event in stopped if isinstance(event, TurnFinished))
        assert turn.usage.estimated and turn.usage.input_tokens == 100
        assert turn.usage.output_tokens == pytest.approx(len(said.split()), rel=0.5)
        expected = (100 * 3 + turn.usage.output_tokens * 15) / 1_000_000
        assert turn.usage.cost_usd == pytest.approx(expected)
        went_on = [event async for event in agent.run("again")]
        assert [event.text for event in went_on if isinstance(event, RunFinished)] == ["two"]
        assert not [event for event in went_on if isinstance(event, RunPaused)]
        left = [event.left for event in went_on if isinstance(event, BudgetChanged)]
        assert left and left[-1] != "$1 of $1 left"
        await runtime.close()
