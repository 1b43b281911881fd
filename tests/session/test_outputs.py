"""Long outputs: kept in private files, paged fast, capped and honest about it."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.redact import Redactor
from codeagent.session.outputs import FileOutputs

NOTHING = Redactor({})
MIB = 1024 * 1024


def outputs(folder: Path, **caps: int) -> FileOutputs:
    return FileOutputs(folder / "outputs", NOTHING, **caps)


def keep(store: FileOutputs, text: str, call_id: str = "call_1") -> str:
    sink = store.create(call_id)
    sink.write(text)
    sink.close()
    return sink.handle


@given(
    st.lists(st.text(alphabet=st.characters(exclude_characters="\n", exclude_categories=("Cs",)))),
    st.data(),
)
def test_any_page_is_the_same_lines_of_the_text(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], data: st.DataObject
) -> None:
    text = "\n".join(lines)
    store = outputs(tmp_path_factory.mktemp("page"))
    sink = store.create("c")
    for piece in (
        data.draw(st.permutations([text[:3], text[3:]])) if not text else [text[:3], text[3:]]
    ):
        sink.write(piece)
    sink.close()
    if not text:
        assert store.handles() == ()
        return
    expected = text.split("\n") if not text.endswith("\n") else text[:-1].split("\n")
    offset, count = (
        data.draw(st.integers(1, len(expected) + 2)),
        data.draw(st.integers(0, len(expected) + 2)),
    )
    page = store.read(sink.handle, offset, count)
    assert page.lines == tuple(expected[offset - 1 : offset - 1 + count])
    assert (page.first, page.total, page.dropped_bytes) == (offset, len(expected), 0)


def test_pages_of_a_file_of_many_chunks_begin_at_the_right_line(tmp_path: Path) -> None:
    store = outputs(tmp_path)
    handle = keep(store, "".join(f"line {number}\n" for number in range(1, 200_001)))
    for first in (1, 2, 20_000, 99_999, 150_001, 199_999, 200_000):
        assert store.read(handle, first, 1).lines == (f"line {first}",)
    assert store.read(handle, 200_001, 5).lines == ()


def test_one_line_longer_than_a_chunk_is_one_line(tmp_path: Path) -> None:
    store = outputs(tmp_path)
    handle = keep(store, "x" * MIB + "\nnext\n")
    assert store.read(handle, 2, 1).lines == ("next",)
    assert len(store.read(handle, 1, 1).lines[0]) == MIB


def test_an_output_that_was_never_written_to_leaves_nothing_behind(tmp_path: Path) -> None:
    store = outputs(tmp_path)
    sink = store.create("c")
    sink.write("")
    sink.close()
    assert not (tmp_path / "outputs").exists()
    with pytest.raises(KeyError):
        store.read(sink.handle, 1, 1)


def test_files_are_private(tmp_path: Path) -> None:
    handle = keep(outputs(tmp_path), "text")
    assert stat.S_IMODE((tmp_path / "outputs").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / f"outputs/{handle}.txt").stat().st_mode) == 0o600


def test_past_its_cap_an_output_is_counted_and_dropped_and_the_count_outlives_the_process(
    tmp_path: Path,
) -> None:
    store = outputs(tmp_path, cap_per_output=100_000)
    sink = store.create("c")
    for _ in range(30):
        sink.write("y" * 10_000)
    sink.close()
    assert (tmp_path / "outputs/c.txt").stat().st_size == 100_000
    assert store.read("c", 1, 1).dropped_bytes == 200_000
    assert outputs(tmp_path).read("c", 1, 1).dropped_bytes == 200_000


def test_all_outputs_of_a_session_share_one_cap_also_after_a_restart(tmp_path: Path) -> None:
    keep(outputs(tmp_path, cap_per_session=1000), "a" * 600, "one")
    later = outputs(tmp_path, cap_per_session=1000)
    keep(later, "b" * 600, "two")
    assert later.read("two", 1, 1).lines == ("b" * 400,)
    assert later.read("two", 1, 1).dropped_bytes == 200


@pytest.mark.parametrize(
    "call_id", ["../../etc/passwd", "a/b", "", ".", "x" * 300, "call\n1", "ключ"]
)
def test_a_call_id_is_never_a_path(tmp_path: Path, call_id: str) -> None:
    store = outputs(tmp_path)
    handle = keep(store, "text", call_id)
    assert [path.name for path in (tmp_path / "outputs").iterdir()] == [f"{handle}.txt"]
    assert store.read(handle, 1, 1).lines == ("text",)


@pytest.mark.parametrize("handle", ["../secret", "nope", "", "/etc/passwd"])
def test_an_unknown_handle_is_a_key_error(tmp_path: Path, handle: str) -> None:
    (tmp_path / "secret.txt").write_text("no")
    with pytest.raises(KeyError):
        outputs(tmp_path).read(handle, 1, 1)


def test_handles_stay_unique_also_after_a_restart(tmp_path: Path) -> None:
    first = keep(outputs(tmp_path), "one", "call_1")
    store = outputs(tmp_path)
    second = keep(store, "two", "call_1")
    assert first != second
    assert store.handles() == tuple(sorted([first, second]))
    assert store.read(first, 1, 1).lines == ("one",)


def test_a_secret_written_in_two_pieces_does_not_land_on_disk(tmp_path: Path) -> None:
    secret = "sk-canary-0123456789"
    store = FileOutputs(tmp_path / "outputs", Redactor({"MY_TOKEN": secret}))
    sink = store.create("c")
    for start in range(0, 200_000, 977):
        sink.write("." * (977 - len(secret) + start % 5) + secret[:7])
        sink.write(secret[7:])
    sink.close()
    kept = (tmp_path / "outputs/c.txt").read_text()
    assert "canary" not in kept
    assert kept.count("[secret MY_TOKEN]") == len(range(0, 200_000, 977))


def test_a_disk_that_takes_nothing_is_counted_as_dropped_and_raises_nothing(tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("a file where the folder should be")
    store = outputs(tmp_path)
    sink = store.create("c")
    sink.write("text")
    sink.close()
    with pytest.raises(KeyError):
        store.read(sink.handle, 1, 1)


def test_lone_surrogates_are_kept_as_escapes(tmp_path: Path) -> None:
    store = outputs(tmp_path)
    assert store.read(keep(store, "a\udc80b"), 1, 1).lines == ("a\\udc80b",)


def test_what_is_flushed_can_be_read_by_another_process_but_no_half_of_a_secret(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "outputs"
    store = FileOutputs(folder, Redactor({"API_KEY": "abcdefgh-secret"}))
    sink = store.create("job-1")
    sink.write("one\nabcdefgh-")
    sink.flush()
    assert FileOutputs(folder, Redactor({})).read("job-1", 1, 10).lines == ("one",)
    sink.write("secret two\n")
    sink.flush()
    assert store.read("job-1", 1, 10).lines == ("one", "[secret API_KEY] two")


def test_an_image_is_a_private_file_that_counts_as_output_and_is_no_text(tmp_path: Path) -> None:
    store = outputs(tmp_path, cap_per_session=5)
    first, second = Path(store.keep_image(".png", b"ab")), Path(store.keep_image(".webp", b"cd"))
    assert (first.name, second.name) == ("image-1.png", "image-1.webp")
    assert (first.read_bytes(), stat.S_IMODE(first.stat().st_mode)) == (b"ab", 0o600)
    with pytest.raises(OSError, match="reached their limit"):
        store.keep_image(".png", b"ef")
    again = outputs(tmp_path, cap_per_session=5)
    assert Path(again.keep_image(".png", b"e")).name == "image-2.png"
    assert again.handles() == ()
