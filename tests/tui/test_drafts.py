"""What is typed survives a crash, and what was sent does not come back."""

import asyncio
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from codeagent.tui import drafts
from codeagent.tui.drafts import Draft, own_draft


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "_EVERY", 0.01)


async def _until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not done():  # noqa: ASYNC110  # a file is waited for
            await asyncio.sleep(0.005)


async def _saved(draft: Draft) -> None:
    """Once everything that is still to be written was written."""
    await asyncio.get_running_loop().shutdown_default_executor()
    draft.close()


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


async def test_nothing_is_left_after_it_was_sent_even_while_a_save_is_under_way(
    tmp_path: Path,
) -> None:
    path = tmp_path / "draft"
    draft = Draft(path)
    draft.keep("one")
    await _until(path.exists)
    draft.keep("one two")
    draft.clear()
    await _saved(draft)
    assert not path.exists()
    assert Draft(path).load() == ""


async def test_nothing_is_written_again_once_it_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "draft"
    draft = Draft(path)
    draft.keep("text")
    await _until(path.exists)
    path.unlink()
    await _saved(draft)
    assert not path.exists()


async def test_where_it_cannot_be_saved_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    draft = Draft(tmp_path / "file" / "draft")
    draft.keep("text")
    draft.close()
    assert draft.trouble.startswith("The draft is not saved:")


async def test_two_windows_of_one_folder_have_a_draft_each_and_none_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "drafts" / "project"
    windows = [own_draft(path) for _ in range(3)]
    for number, window in enumerate(windows):
        window.keep(f"draft {number}")
        window.close()
    fourth = own_draft(path)
    assert fourth.load() == ""
    for window in (*windows, fourth):
        window.release()
    again = [own_draft(path) for _ in range(4)]
    assert sorted(window.load() for window in again) == ["", "draft 0", "draft 1", "draft 2"]
    for window in again:
        window.release()


async def test_a_draft_that_was_left_behind_goes_before_an_empty_one(tmp_path: Path) -> None:
    first, second = own_draft(tmp_path / "project"), own_draft(tmp_path / "project")
    second.keep("of the second window")
    second.release()
    first.release()
    third = own_draft(tmp_path / "project")
    assert third.load() == "of the second window"
    third.release()


async def test_what_was_sent_and_not_done_is_on_disk_at_once_in_front_of_what_is_typed(
    tmp_path: Path,
) -> None:
    draft = Draft(tmp_path / "draft")
    draft.hold(["first", "second"])
    assert Draft(tmp_path / "draft").load() == "first\nsecond"
    draft.keep("typed")
    draft.close()
    assert Draft(tmp_path / "draft").load() == "first\nsecond\ntyped"
    draft.hold([])
    assert Draft(tmp_path / "draft").load() == "typed"
