"""The real app over the real agent, driven by Textual's pilot: step in, go hunk by hunk, take it back."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from codeagent.commands.launching import LocalLauncher
from codeagent.tui.app import CodeagentApp, Folders
from codeagent.tui.conversation import Conversation
from codeagent.tui.ports import Talk, Wish
from codeagent.tui.stage import Paused, Stage
from tests.e2e.product import Product, results
from tests.tui.guards import long_enough, stop_time

CALLS = [
    ["write", {"path": "first.txt", "content": "1\n"}],
    ["bash", {"command": "echo wrong > second.txt"}],
    ["edit", {"path": "a.txt", "edits": [{"old_string": "a.txt", "new_string": "the file a"}]}],
]


@asynccontextmanager
async def screen(product: Product, model: str, patch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Pilot[None], Stage]]:
    for name, value in product.environment.items():
        patch.setenv(name, value)

    async def open_talk(stage: Stage) -> Talk:
        return Conversation(LocalLauncher(product.workspace), stage)

    stop_time(patch)
    folders = Folders(product.home / "state", product.home / "config", product.workspace)
    app = CodeagentApp(open_talk, Wish(model=model, sandbox="off", step=True, proceed=True), folders)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.chat.stage.status.now.phase == "idle")
        yield pilot, app.chat.stage
    await app.chat.end()


async def until(pilot: Pilot[None], condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  # whatever it waits for, it shows here
            await asyncio.sleep(0.02)
    await pilot.pause()


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Keys of a card that was there long enough to be read."""
    for key in keys:
        long_enough()
        await pilot.press(key)


async def test_skip_one_edit_another_go_on_and_take_it_back(product: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    model = product.script(
        {"calls": [["read", {"path": "a.txt"}]]},
        {"text": "Three.", "calls": CALLS},
        {"text": "I see.", "expect": "edited"},
    )
    async with screen(product, model, monkeypatch) as (pilot, stage):
        await pilot.press("g", "o", "enter")
        await until(pilot, lambda: isinstance(stage.boundary.now, Paused))
        await press(pilot, "alt+c")
        await until(pilot, lambda: isinstance(stage.boundary.now, Paused) and len(stage.boundary.now.calls) == 3)
        await press(pilot, "tab", "x", "j", "e")
        await pilot.press("ctrl+u", *_spelled("echo right > second.txt"))
        await press(pilot, "enter", "c")
        for _ in range(2):
            await until(pilot, lambda: stage.desk.waiting)
            front = stage.desk.waiting[0].approval_id
            await press(pilot, "alt+y")
            await until(pilot, lambda front=front: all(q.approval_id != front for q in stage.desk.waiting))
        await until(pilot, lambda: stage.status.now.phase == "idle")
        assert files(product.workspace) == ("this is the file a", None, "right")
        await pilot.press(*_spelled("/undo"), "enter")
        await until(pilot, lambda: files(product.workspace) == ("this is a.txt", None, None))
    _, skipped, edited, _ = results(product.log())
    assert skipped["content"][0]["text"] == "skipped by user"
    assert edited["content"][0]["text"].startswith("(The user edited this call before it ran.")


def files(folder: Path) -> tuple[str | None, ...]:
    paths = [folder / name for name in ("a.txt", "first.txt", "second.txt")]
    return tuple(path.read_text().splitlines()[0] if path.exists() else None for path in paths)


def _spelled(text: str) -> list[str]:
    names = {" ": "space", ">": "greater_than_sign", ".": "full_stop", "/": "slash"}
    return [names.get(letter, letter) for letter in text]
