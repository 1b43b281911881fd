"""What was typed comes back, from several programs at once and from a damaged file."""

import multiprocessing
import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.tui import prompt_history
from codeagent.tui.prompt_history import PromptHistory


def test_what_was_added_is_there_for_the_next_program(tmp_path: Path) -> None:
    path = tmp_path / "new" / "history.jsonl"
    PromptHistory(path).add("fix the parser\nand add a test")
    PromptHistory(path).add("now the docs")
    assert PromptHistory(path).entries == ("fix the parser\nand add a test", "now the docs")


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    PromptHistory(path).add("secret plan")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_blank_text_and_the_same_text_again_are_not_kept(tmp_path: Path) -> None:
    history = PromptHistory(tmp_path / "history.jsonl")
    for text in ("one", "one", "  \n", "", "two", "one"):
        history.add(text)
    assert history.entries == ("one", "two", "one")


def test_a_damaged_line_is_passed_over_and_a_torn_one_spoils_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b'"first"\n{not json\n\xff\xfe\n["a list"]\n"tor')
    PromptHistory(path).add("last")
    assert PromptHistory(path).entries == ("first", "last")


@given(st.lists(st.text(min_size=1).filter(lambda text: text.strip()), max_size=6))
def test_any_text_comes_back_as_it_was(texts: list[str]) -> None:
    with TemporaryDirectory() as folder:
        history = PromptHistory(Path(folder) / "history.jsonl")
        for text in texts:
            history.add(text)
        assert PromptHistory(Path(folder) / "history.jsonl").entries == history.entries


def _add_many(path: Path, who: int) -> None:
    history = PromptHistory(path)
    for number in range(200):
        history.add(f"{who} {number} " + "x" * 50)


def test_programs_that_write_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_add_many, args=(path, who)) for who in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    entries = PromptHistory(path).entries
    assert len(entries) == 600
    for who in range(3):
        own = [entry.split()[1] for entry in entries if entry.startswith(f"{who} ")]
        assert own == [str(number) for number in range(200)]


def test_a_file_that_grew_too_large_keeps_its_newer_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_history, "_LARGEST", 2_000)
    path = tmp_path / "history.jsonl"
    history = PromptHistory(path)
    for number in range(400):
        history.add(f"prompt {number}")
    assert path.stat().st_size <= 2_100
    entries = PromptHistory(path).entries
    assert entries[-1] == "prompt 399"
    assert entries == tuple(f"prompt {number}" for number in range(400 - len(entries), 400))
    assert len(history.entries) == 400


def test_two_writers_survive_the_file_being_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_history, "_LARGEST", 500)
    path = tmp_path / "history.jsonl"
    one, two = PromptHistory(path), PromptHistory(path)
    for number in range(100):
        one.add(f"one {number}")
        two.add(f"two {number}")
    assert PromptHistory(path).entries[-2:] == ("one 99", "two 99")
    assert list(tmp_path.iterdir()) == [path]


def test_a_huge_prompt_is_remembered_without_being_written(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    history = PromptHistory(path)
    history.add("x" * 200_000)
    assert len(history.entries) == 1
    assert PromptHistory(path).entries == ()


def test_where_it_cannot_be_written_the_user_is_told_and_it_lasts_for_now(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = PromptHistory(tmp_path / "file" / "history.jsonl")
    history.add("hello")
    assert history.entries == ("hello",)
    assert history.trouble.startswith("The prompt history is kept only until you leave")


def test_search_gives_the_newest_first_each_once_and_whole_matches_before_scattered_ones(
    tmp_path: Path,
) -> None:
    history = PromptHistory(tmp_path / "history.jsonl")
    for text in ("fix the tests", "t e s t apart", "run the tests", "other", "fix the tests"):
        history.add(text)
    assert history.search("test") == ["fix the tests", "run the tests", "t e s t apart"]
    assert history.search("")[:2] == ["fix the tests", "other"]
