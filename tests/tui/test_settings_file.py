"""A small YAML file gives dotted keys with their lines, or one reason why it does not."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codeagent.tui.settings_file import BadFile, Entry, read_entries


def read(folder: Path, text: str) -> tuple[Entry, ...]:
    path = folder / "file.yaml"
    path.write_text(text)
    return read_entries(path)


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(BadFile) as raised:
        read(folder, text)
    return raised.value.said_of(folder / "file.yaml", "nothing was changed")


def test_keys_are_dotted_and_know_their_line(tmp_path: Path) -> None:
    entries = read(tmp_path, "# a comment\na: one\nb:\n  c: [x, y]\n  d.e: 'two # three'\n")
    assert entries == (
        Entry("a", ("one",), 2),
        Entry("b.c", ("x", "y"), 4, listed=True),
        Entry("b.d.e", ("two # three",), 5),
    )
    assert read(tmp_path, "# nothing\n") == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &x {b: *x}", "file.yaml:1: a.b: write it out: aliases are not read"),
        ("a: &x {b: c}\nd: *x", "file.yaml:1: d: write it out: aliases are not read"),
        ("a: [[b]]", "file.yaml:1: a: expected text"),
        ("? [a]\n: b", "file.yaml:1: a key must be a word"),
        ("a: b\na: c", "file.yaml:2: a: is set twice, first on line 1"),
        ("--- a: b\n--- c", "file.yaml:1: is not YAML: mapping values are not allowed here"),
    ],
)
def test_what_is_more_than_names_and_texts_is_refused(tmp_path: Path, text: str, said: str) -> None:
    assert refusal(tmp_path, text) == f"{said}; nothing was changed"


def test_a_file_that_is_not_there_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"^cannot be read \(No such file or directory\)$"):
        read_entries(tmp_path / "none.yaml")


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # the file is written again each time
@given(st.text(alphabet=st.sampled_from("ab:-[]{}&*!|>'\"#%@`, \n\t\x00\u2028é"), max_size=40))
def test_any_text_is_read_or_refused(tmp_path: Path, text: str) -> None:
    try:
        entries = read(tmp_path, text)
    except BadFile as problem:
        assert "\n" not in problem.said_of(tmp_path / "file.yaml", "kept")
        return
    assert all(entry.line >= 1 for entry in entries)
