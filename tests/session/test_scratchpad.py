"""The scratchpad: private, whole, shared by two sessions without loss, bounded, and without
secrets."""

import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.errors import SessionError
from codeagent.core.memory import Note, ScratchpadFull
from codeagent.core.redact import Redactor
from codeagent.session.memory import ScratchpadFile, project_scratchpad

NOTHING = Redactor({})
CANARY = "sk-canary-0123456789"
keys = st.sampled_from(["a", "b", "ключ", "a b", ""])
steps = st.lists(
    st.tuples(st.sampled_from(["set", "append", "delete"]), keys, st.text(max_size=20)), max_size=12
)


def pad(folder: Path, redactor: Redactor = NOTHING) -> ScratchpadFile:
    return ScratchpadFile(folder / "session/scratchpad.json", redactor)


@given(steps)
def test_it_is_a_dictionary_that_outlives_its_process(
    tmp_path_factory: pytest.TempPathFactory, taken: list[tuple[str, str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("pad")
    expected: dict[str, str] = {}
    for action, key, value in taken:
        match action:
            case "set":
                pad(folder).set(key, value)
                expected[key] = value
            case "append":
                pad(folder).append(key, value)
                before = expected.get(key, "")
                expected[key] = (
                    before + ("\n" if before and not before.endswith("\n") else "") + value
                )
            case _:
                assert pad(folder).delete(key) == (expected.pop(key, None) is not None)
    later = pad(folder)
    assert [note.key for note in later.list()] == sorted(expected)
    assert {key: later.get(key) for key in expected} == expected


def test_half_a_character_is_kept_as_a_question_mark(tmp_path: Path) -> None:
    pad(tmp_path).set("a\udc80", "b\ud800")
    assert (pad(tmp_path).get("a\udc80"), pad(tmp_path).list()) == ("b?", (Note("a?", 2),))


def test_appending_begins_a_new_line(tmp_path: Path) -> None:
    for line in ("one", "two\n", "three"):
        pad(tmp_path).append("log", line)
    assert pad(tmp_path).get("log") == "one\ntwo\nthree"


def test_only_its_owner_may_read_it_and_nothing_else_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    project = project_scratchpad(tmp_path / "state", tmp_path, NOTHING)
    project.set("a", "1")
    files = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert sorted(path.name for path in files) == ["scratchpad.json", "scratchpad.json.lock"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    folders = [path for path in (tmp_path / "state").rglob("*") if path.is_dir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}


def test_a_secret_is_masked_in_values_and_keys_also_where_it_comes_in_two_pieces(
    tmp_path: Path,
) -> None:
    mine = pad(tmp_path, Redactor({"MY_TOKEN": CANARY}))
    mine.set("a", f"use {CANARY}")
    mine.set(CANARY, "x")
    mine.append("b", CANARY[:9])
    assert mine.get("a") == "use [secret MY_TOKEN]"
    assert mine.get(CANARY) == "x"
    assert CANARY not in (tmp_path / "session/scratchpad.json").read_text()


def test_what_does_not_fit_changes_nothing_and_says_what_could_go(tmp_path: Path) -> None:
    mine = pad(tmp_path)
    with pytest.raises(ScratchpadFull, match="at most 32000"):
        mine.set("a", "x" * 32_001)
    for number in range(8):
        mine.set(f"k{number}", "x" * 32_000)
    with pytest.raises(ScratchpadFull, match=r"delete something, the largest are 'k0' \(32000\)"):
        mine.set("more", "x" * 10_000)
    assert mine.list() == tuple(Note(f"k{number}", 32_000) for number in range(8))
    mine.delete("k0")
    mine.set("more", "x" * 10_000)


def test_keys_are_counted(tmp_path: Path) -> None:
    mine = pad(tmp_path)
    for number in range(200):
        mine.set(str(number), "")
    with pytest.raises(ScratchpadFull, match="200 keys"):
        mine.set("one more", "")


def test_two_sessions_that_write_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    def write(name: str) -> None:
        for number in range(15):
            pad(tmp_path).append("log", f"{name}{number}")

    threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = (pad(tmp_path).get("log") or "").split("\n")
    assert sorted(lines) == sorted(f"{name}{number}" for name in "abc" for number in range(15))


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff", b'{"v":2,"notes":{}}', b'{"notes":{"a":1}}', b"[" * 100_000]
)
def test_a_damaged_file_is_said_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "session/scratchpad.json"
    path.parent.mkdir()
    path.write_bytes(content)
    for attempt in (lambda: pad(tmp_path).list(), lambda: pad(tmp_path).set("a", "b")):
        with pytest.raises(SessionError, match="damaged"):
            attempt()
    assert path.read_bytes() == content


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere.json"
    target.write_text('{"v":1,"notes":{"a":"secret"}}')
    path = tmp_path / "session/scratchpad.json"
    path.parent.mkdir()
    path.symlink_to(target)
    with pytest.raises(SessionError, match="cannot be read"):
        pad(tmp_path).get("a")


def test_another_folder_at_the_same_path_has_notes_of_its_own(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    project_scratchpad(tmp_path / "state", work, NOTHING).set("a", "1")
    assert project_scratchpad(tmp_path / "state", work, NOTHING).get("a") == "1"
    work.rename(tmp_path / "old")
    work.mkdir()
    assert project_scratchpad(tmp_path / "state", work, NOTHING).get("a") is None
