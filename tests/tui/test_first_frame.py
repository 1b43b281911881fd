"""The first frame is header, composer and status line; the rest of the screen comes after it, and
moves nothing."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.events import Key
from textual.geometry import Region
from textual.pilot import Pilot
from textual.widgets import Input
from textual.worker import WorkerFailed

from codeagent.config.settings import Settings
from codeagent.core.errors import ConfigError
from codeagent.tui.app import CodeagentApp
from codeagent.tui.launcher import AppFolders, LaunchOptions
from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.parts.line_input import LineInput
from codeagent.tui.recorded import replayed_end
from codeagent.tui.session_client import SessionClient
from codeagent.tui.state import UiState
from tests.tui.fake_launcher import SESSION, FakeLauncher
from tests.tui.replay import ReplayApp, until
from tests.tui.scripts import Recording

ROOT = Path(__file__).parents[2]
LATER = {
    "codeagent.core.acts",
    "codeagent.core.display",
    "codeagent.tui.pages.conversation",
    "codeagent.tui.pages.opening",
    "codeagent.tui.pages.slash",
    "codeagent.tui.parts.card",
    "codeagent.tui.session_client",
    "codeagent.tui.transcript.render",
    "codeagent.tui.transcript.view",
    "docker",
    "git",
    "markdown_it",
    "pydantic",
    "pygments",
}
FIRST_FRAME = """
import asyncio, sys
from pathlib import Path
from codeagent.tui.app import CodeagentApp
from codeagent.tui.launcher import AppFolders, LaunchOptions
from codeagent.tui.pages.chat import ChatScreen

async def main():
    ChatScreen._open = lambda chat: None
    folders = AppFolders(Path(sys.argv[1], "state"), Path(sys.argv[1], "config"), Path(sys.argv[1]))
    app = CodeagentApp(None, LaunchOptions(), folders)
    async with app.run_test() as pilot:
        await pilot.press(*"hi")
        print(app.chat.composer.text, *sys.modules)

asyncio.run(main())
"""


def test_a_screen_that_takes_keys_has_not_loaded_what_comes_after_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FIRST_FRAME, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    typed, *loaded = done.stdout.split()
    assert typed == "hi" and "codeagent.tui.parts.composer" in loaded
    assert LATER.isdisjoint(loaded)


@asynccontextmanager
async def first_frame(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: LaunchOptions | None = None
) -> AsyncIterator[tuple[Pilot[None], ReplayApp]]:
    """The app as it is before anything follows its first frame; `follow` lets it."""
    monkeypatch.setattr(ChatScreen, "_open", lambda chat: None)
    app = ReplayApp([], folder, now=0.0, options=options)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        monkeypatch.undo()
        yield pilot, app
    assert app.crash is None


async def follow(pilot: Pilot[None], app: ReplayApp) -> None:
    app.chat._open()
    await until(pilot, lambda: app.settled)
    await pilot.pause()


def places(app: ReplayApp) -> list[Region]:
    chat = app.chat
    return [widget.region for widget in chat.query("Header, ComposerArea, Composer, StatusLine")]


async def test_what_follows_the_first_frame_moves_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with first_frame(tmp_path, monkeypatch) as (pilot, app):
        before = places(app)
        assert len(before) == 4 and not app.chat.query("TranscriptView")
        await follow(pilot, app)
        assert places(app) == before
        assert app.chat.view.is_mounted and app.focused is app.chat.composer


async def test_the_first_frame_shows_the_model_and_the_mode_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = LaunchOptions(model="openai/gpt-5", mode="plan")
    async with first_frame(tmp_path, monkeypatch, options) as (_, app):
        shown = app.chat.state.status.now
        assert (shown.conversation.model, shown.conversation.mode) == ("openai/gpt-5", "plan")


async def test_keys_on_both_sides_of_the_first_frame_arrive_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with first_frame(tmp_path, monkeypatch) as (pilot, app):
        await pilot.press(*"abc")
        app.chat._open()
        await pilot.press(*"def")
        await until(pilot, lambda: app.settled)
        await pilot.press(*"ghi")
        assert app.chat.composer.text == "abcdefghi"


@pytest.mark.parametrize(
    "key", ["pageup", "ctrl+o", "escape", "alt+y", "tab", "ctrl+p", "f1", "shift+tab", "ctrl+end"]
)
async def test_a_key_for_what_is_not_there_yet_brings_it(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with first_frame(tmp_path, monkeypatch) as (pilot, app):
        await pilot.press(key)
        await until(pilot, lambda: bool(app.chat.query("TranscriptView")))
        await follow(pilot, app)
        assert len(app.chat.query("TranscriptView")) == 1


async def test_the_search_opened_in_the_first_frame_has_the_focus_once_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with first_frame(tmp_path, monkeypatch) as (pilot, app):
        await pilot.press("ctrl+f")
        await until(pilot, lambda: isinstance(app.focused, LineInput))
        await pilot.press("escape")
        await until(pilot, lambda: app.focused is app.chat.composer)


@pytest.mark.parametrize("early", [True, False])
async def test_what_is_typed_right_after_the_key_of_the_search_is_searched_for(
    early: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with first_frame(tmp_path, monkeypatch) as (pilot, app):
        if not early:
            await follow(pilot, app)
        for key in ("ctrl+f", *"abc"):
            app.post_message(Key(key, key if len(key) == 1 else None))
        await until(
            pilot,
            lambda: (
                [box.value for box in app.chat.query("FindBar LineInput").results(Input)] == ["abc"]
            ),
        )
        assert app.chat.composer.text == ""


async def test_a_screen_that_cannot_load_the_rest_ends_with_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def open_client(state: UiState, options: LaunchOptions) -> SessionClient:
        raise AssertionError("it comes after the import")

    monkeypatch.setitem(sys.modules, "codeagent.tui.pages.conversation", None)
    app = CodeagentApp(
        open_client, LaunchOptions(), AppFolders(tmp_path / "s", tmp_path / "c", tmp_path)
    )
    with pytest.raises(WorkerFailed, match="conversation"):
        async with app.run_test() as pilot:
            await until(pilot, lambda: not app.is_running)
    assert isinstance(app.ended_by, ImportError) and app.return_code == 1


async def test_a_conversation_left_while_it_is_opened_is_never_begun(tmp_path: Path) -> None:
    begun: list[LaunchOptions] = []
    there = asyncio.Event()

    async def open_client(state: UiState, options: LaunchOptions) -> SessionClient:
        begun.append(options)
        await there.wait()
        launcher = FakeLauncher()
        launcher.ready.set()
        clients.append(SessionClient(launcher, state))
        return clients[-1]

    clients: list[SessionClient] = []
    app = CodeagentApp(
        open_client, LaunchOptions(), AppFolders(tmp_path / "s", tmp_path / "c", tmp_path)
    )
    async with app.run_test() as pilot:
        first = app.chat
        await until(pilot, lambda: bool(begun))
        first.composer.set_text("fix it")
        await pilot.press("enter")
        first.composer.set_text("/new")
        await pilot.press("enter")
        await until(pilot, lambda: len(begun) == 2)
        there.set()
        await until(pilot, lambda: any(client.started for client in clients))
        await pilot.pause()
        assert [client.started for client in clients] == [True] and app.chat is not first
        assert app.chat.state.queue.earlier == "fix it"
    assert app.crash is None


async def test_the_end_of_a_session_that_cannot_be_opened_is_removed_again(tmp_path: Path) -> None:
    class Unreadable(FakeLauncher):
        def settings(self, options: LaunchOptions) -> Settings:
            raise ConfigError("config.toml cannot be read")

    async def open_client(state: UiState, options: LaunchOptions) -> SessionClient:
        state.document.show_end(replayed_end(Recording().run("go").answer("done").events))
        return SessionClient(Unreadable(), state)

    folders = AppFolders(tmp_path / "s", tmp_path / "c", tmp_path)
    app = CodeagentApp(open_client, LaunchOptions(resume=SESSION), folders)
    async with app.run_test() as pilot:
        await until(pilot, lambda: "config.toml" in app.chat.view.plain_text())
        assert [type(block).__name__ for block in app.chat.state.document.blocks] == ["Remark"]


async def test_what_is_sent_from_the_first_frame_is_sent_once_there_is_a_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with first_frame(tmp_path, monkeypatch) as (pilot, app):
        await pilot.press(*"go", "enter")  # which opens the conversation
        await until(pilot, lambda: bool(app.told))
        assert [str(act) for act in app.told] == ["Prompt(text='go')"]


async def test_the_screen_can_be_left_from_its_first_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with first_frame(tmp_path, monkeypatch) as (pilot, app):
        await pilot.press("ctrl+c", "ctrl+c")
        await until(pilot, lambda: not app.is_running)
        assert app.return_code == 0
