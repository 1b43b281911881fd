"""Selections from an editor: only a process that can read the token reaches the line the user types in,
and only lines of files of the workspace get there."""

import argparse
import asyncio
import json
import re
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from codeagent.core.errors import ConfigError
from codeagent.disk.sockets import address_of
from codeagent.extensions.editor import command
from codeagent.extensions.editor.listeners import SelectionListener, announced, listeners_for
from codeagent.extensions.editor.page import listen
from tests.tui.fake_launcher import FakeLauncher
from tests.tui.replay import ReplayApp, settled, until


@asynccontextmanager
async def listening(folder: Path) -> AsyncIterator[tuple[Pilot[None], ReplayApp, Path, Any]]:
    """A screen in a workspace with a file, and what announces it."""
    workspace = folder / "project"
    (workspace / "src").mkdir(parents=True)
    (workspace / "src/a.py").write_text("one\n")
    (workspace / "out").symlink_to("/etc/passwd")
    starts, state = asyncio.Event(), folder / "state"
    app = ReplayApp([], folder, now=0.0, starts=starts)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        launcher = app.clients[-1].launcher
        assert isinstance(launcher, FakeLauncher)
        launcher.workspace = workspace
        starts.set()
        await until(pilot, lambda: bool(sockets(state)))
        (found,) = listeners_for(state, workspace / "src/a.py")
        yield pilot, app, *found
    assert app.crash is None
    assert [*(state / "editor").iterdir(), *sockets(state)] == []


def sockets(state: Path) -> list[Path]:
    found = [json.loads(file.read_text())["socket"] for file in (state / "editor").glob("*.json")]
    return [Path(each) for each in found if Path(each).exists()]


async def sent(listener: SelectionListener, message: bytes) -> str:
    with address_of(Path(listener.socket)) as address:
        reader, writer = await asyncio.open_unix_connection(address)
    writer.write(message)
    await writer.drain()
    answer = await reader.readline()
    writer.close()
    return answer.decode().strip()


async def test_a_selection_becomes_a_mention_at_the_cursor_and_is_not_sent(tmp_path: Path) -> None:
    async with listening(tmp_path) as (pilot, app, _, listener):
        app.chat.composer.set_text("look at")
        path = tmp_path / "project/src/a.py"
        assert await sent(listener, listener.message(path, "10-20")) == "ok"
        assert app.chat.composer.text == "look at @src/a.py:10-20 "
        assert await sent(listener, listener.message(path, "7")) == "ok"
        assert await sent(listener, listener.message(path, "")) == "ok"
        assert app.chat.composer.text == "look at @src/a.py:10-20 @src/a.py:7 @src/a.py "
        assert app.chat.state.status.now.screen.notice == "from your editor: @src/a.py"
        assert app.told == []
        await pilot.pause()


async def test_a_name_with_spaces_is_quoted_in_the_mention(tmp_path: Path) -> None:
    async with listening(tmp_path) as (_, app, _file, listener):
        path = tmp_path / "project/my file.py"
        path.write_text("one\n")
        assert await sent(listener, listener.message(path, "10-20")) == "ok"
        assert await sent(listener, listener.message(path, "")) == "ok"
        assert app.chat.composer.text == '@"my file.py":10-20 @"my file.py" '


async def test_whatever_else_arrives_changes_nothing(tmp_path: Path) -> None:
    async with listening(tmp_path) as (_, app, _file, listener):
        path = tmp_path / "project/src/a.py"
        good = json.loads(listener.message(path, "1"))
        for change, said in (
            ({"token": "x"}, "wrong token; nothing was taken"),
            ({"token": "é"}, "wrong token; nothing was taken"),
            ({"path": "/etc/passwd"}, "not lines of a file in"),
            ({"path": str(tmp_path / "project/out")}, "not lines of a file in"),
            ({"path": str(tmp_path / "project/src")}, "not lines of a file in"),
            ({"path": "../../etc/passwd"}, "not lines of a file in"),
            ({"lines": "1-2\n/exit"}, "not lines of a file in"),
            ({"lines": "0"}, "not lines of a file in"),
            ({"lines": 1}, "not a selection; nothing was taken"),
            ({"token": None}, "not a selection; nothing was taken"),
        ):
            answer = await sent(listener, json.dumps(good | change).encode() + b"\n")
            assert answer.startswith(said) and bool(answer) == bool(said), change
        for message in (b"\n", b"[]\n", b"{\n", b"\xff\n", b"[" * 8_000 + b"\n"):
            assert await sent(listener, message) == "not a selection; nothing was taken"
        with suppress(ConnectionError):  # it hangs up on what is too long
            assert await sent(listener, b"x" * 100_000 + b"\n") == ""
        assert app.chat.composer.text == ""
        assert await sent(listener, listener.message(path, "1")) == "ok"


async def test_only_the_user_can_read_the_token_or_reach_the_socket(tmp_path: Path) -> None:
    async with listening(tmp_path) as (_, _app, file, listener):
        for path in (file, file.parent, Path(listener.socket), Path(listener.socket).parent):
            assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO), path


async def test_the_command_finds_the_screen_of_the_innermost_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening(tmp_path) as (_, app, _file, _listener):
        monkeypatch.setattr(command, "state_dir", lambda: tmp_path / "state")
        monkeypatch.chdir(tmp_path / "project/src")
        with announced(tmp_path / "state", tmp_path):  # a project around it, with no screen
            code = await asyncio.to_thread(command.main, _args("a.py:10-20"), None)  # type: ignore[arg-type]  # no app is needed
        assert code == 0
        assert app.chat.composer.text == "@src/a.py:10-20 "
        with pytest.raises(ConfigError, match="not lines of a file"):
            await asyncio.to_thread(command.main, _args("missing.py:1"), None)  # type: ignore[arg-type]  # as above


async def test_a_screen_listens_in_a_folder_with_a_long_path(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 100) / ("b" * 100)
    folder.mkdir(parents=True)
    async with listening(folder) as (_, app, _file, listener):
        path = folder / "project/src/a.py"
        assert await sent(listener, listener.message(path, "")) == "ok"
        assert app.chat.composer.text == "@src/a.py "


async def test_a_screen_that_cannot_listen_says_nothing_and_the_commands_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "editor").write_text("in the way")
    app = ReplayApp([], tmp_path, now=0.0)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await asyncio.wait_for(listen(app.chat), timeout=20)
        assert "selections" not in app.chat.view.plain_text()
    monkeypatch.setattr(command, "state_dir", lambda: state)
    why = r"selections cannot be received: no socket can be made .*\(File exists\)"
    (tmp_path / "a.py").write_text("")
    with pytest.raises(ConfigError, match=why):
        command.main(_args(str(tmp_path / "a.py")), None)  # type: ignore[arg-type]  # no app is needed
    (found,) = command.findings(tmp_path)
    assert found.state == "note" and re.match(why, found.text)


def test_where_screens_can_listen_doctor_says_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "state_dir", lambda: tmp_path)
    assert command.findings(tmp_path) == []
    assert list((tmp_path / "editor").iterdir()) == []


def _args(selection: str) -> Any:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args([selection])


def test_what_a_killed_process_left_is_removed_and_the_user_is_told_to_start_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    with announced(state, tmp_path) as (_, server):
        server.close()
        monkeypatch.setattr(command, "state_dir", lambda: state)
        (tmp_path / "a.py").write_text("")
        with pytest.raises(ConfigError, match=r"no codeagent is open in a project with .*a\.py"):
            command.main(_args(str(tmp_path / "a.py")), None)  # type: ignore[arg-type]  # as above
        assert list((state / "editor").glob("*.json")) == []


def test_a_link_to_itself_is_sent_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "state_dir", lambda: tmp_path / "state")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ConfigError, match="no codeagent is open in a project with"):
        command.main(_args(f"{tmp_path}/loop:3"), None)  # type: ignore[arg-type]  # as above


def test_a_file_that_others_can_read_or_that_is_damaged_announces_no_screen(tmp_path: Path) -> None:
    with announced(tmp_path, tmp_path):
        (file,) = (tmp_path / "editor").glob("*.json")
        assert len(list(listeners_for(tmp_path, tmp_path / "a"))) == 1
        file.chmod(0o644)
        assert list(listeners_for(tmp_path, tmp_path / "a")) == []
        file.chmod(0o600)
        for damaged in ('{"workspace": 1}', "[" * 100_000):
            file.write_text(damaged)
            assert list(listeners_for(tmp_path, tmp_path / "a")) == []
