"""What is typed survives a crash, and what was sent does not come back."""

import asyncio
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from codeagent.tui import drafts
from codeagent.tui.drafts import Draft


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "_EVERY", 0.01)


async def _until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not done():  # noqa: ASYNC110  # a file is waited for
            await asyncio.sleep(0.005)


async def test_what_is_typed_is_on_disk_soon_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "draft"
    draft = Draft(path)
    for length in range(1, 6):
        draft.keep("hello"[:length])
    await _until(path.exists)
    assert Draft(path).load() == "hello"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["draft"]


async def test_text_comes_back_exactly(tmp_path: Path) -> None:
    text = "two\nlines\r\nwith é, 漢字 and \ttabs\n"
    path = tmp_path / "draft"
    draft = Draft(path)
    draft.keep(text)
    draft.close()
    assert Draft(path).load() == text


async def test_nothing_is_left_after_it_was_sent_even_while_a_save_is_under_way(tmp_path: Path) -> None:
    path = tmp_path / "draft"
    draft = Draft(path)
    draft.keep("one")
    await _until(path.exists)
    draft.keep("one two")
    draft.clear()
    await _until(lambda: not path.exists())
    await asyncio.sleep(0.05)
    assert not path.exists()
    assert Draft(path).load() == ""


async def test_nothing_is_written_again_once_it_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "draft"
    draft = Draft(path)
    draft.keep("text")
    await _until(path.exists)
    path.unlink()
    await asyncio.sleep(0.05)
    assert not path.exists()


async def test_where_it_cannot_be_saved_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    draft = Draft(tmp_path / "file" / "draft")
    draft.keep("text")
    draft.close()
    assert draft.trouble.startswith("The draft is not saved:")
