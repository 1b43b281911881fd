"""The screen is recorded until what is to be shown was shown, or somebody interrupts it."""

import asyncio
from pathlib import Path

import pytest

from codeagent.core.errors import CodeagentError
from codeagent.extensions.replay.cast import Cast, record
from codeagent.tui.launcher import AppFolders, LaunchOptions
from codeagent.tui.session_client import SessionClient
from codeagent.tui.state import UiState
from tests.tui.replay import ReplayClient


async def recording(
    folder: Path, opened: asyncio.Event, shown: asyncio.Event, *, breaks: bool = False
) -> Cast:
    async def open_client(state: UiState, options: LaunchOptions) -> SessionClient:
        opened.set()
        if breaks:
            state.failed(SystemError("broken"))
        return ReplayClient(state, [], None)

    async def wait() -> None:
        await shown.wait()

    folders = AppFolders(state=folder, config=folder, workspace=folder)
    return await record(
        open_client, LaunchOptions(), folders, (80, 24), begun=lambda: False, shown=wait
    )


async def test_a_recording_ends_when_everything_was_shown(tmp_path: Path) -> None:
    opened, shown = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(recording(tmp_path, opened, shown))
    await opened.wait()
    shown.set()
    cast = await task
    assert cast.size == (80, 24) and cast.last.startswith("<svg")
    assert 'xml:space="preserve"' in cast.last.partition(">")[0]
    assert {at for at, _ in cast.written} == {0.0}, (
        "time passes only from the beginning of what is shown"
    )


async def test_a_recording_that_is_interrupted_is_cancelled(tmp_path: Path) -> None:
    opened = asyncio.Event()
    task = asyncio.create_task(recording(tmp_path, opened, asyncio.Event()))
    await opened.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_screen_that_ends_before_is_no_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codeagent.tui.app.CodeagentApp.survives", lambda self, error: False)
    with pytest.raises(CodeagentError, match=r"could not be recorded \(SystemError\)"):
        await recording(tmp_path, asyncio.Event(), asyncio.Event(), breaks=True)
