"""What a user answers to each hunk, and what their own lines become."""

from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.display import DiffBlock
from codeagent.tui.parts.hunk_pane import HunkSheet
from tests.table import for_each

TEXT = st.text("ab\n", max_size=20)


def sheet(before: str, after: str) -> HunkSheet:
    return HunkSheet(DiffBlock(path="a", before=before, after=after))


@given(TEXT, TEXT, st.sampled_from(["\n", "\r\n"]))
def test_writing_what_is_there_changes_nothing(before: str, after: str, newline: str) -> None:
    found = sheet(before.replace("\n", newline), after.replace("\n", newline))
    for at in range(len(found)):
        found.write(at, found.text(at))

    assert found.answers == (True,) * len(found)
    assert found.result == after.replace("\n", newline)


@given(TEXT, TEXT, st.data())
def test_any_lines_can_be_written_and_are_what_the_text_becomes(
    before: str, after: str, data: st.DataObject
) -> None:
    found = sheet(before, after)
    for at in range(len(found)):
        found.write(at, data.draw(st.text("xy\n", min_size=1, max_size=8)))
    out = before.split("\n")
    for at, hunk in reversed(list(enumerate(found.hunks))):
        lines = hunk.old if found.word(at) == "reject" else found.new_lines(at)
        out[hunk.start : hunk.start + len(hunk.old)] = lines
    assert found.result == "\n".join(out)


@for_each(
    ("before", "after", "shown", "written", "result"),
    [
        ("a\nb\n", "a\nc\n", "c", "1\n2", "a\n1\n2\n"),
        ("a\nb\n", "a\nc\n", "c", "", "a\n"),
        ("a\nb", "a\nc", "c", "1\n2", "a\n1\n2"),
        ("a\nb", "a\nc\n", "c", "1", "a\n1\n"),
        ("a\r\nb\r\n", "a\r\nc\r\n", "c", "1\n2", "a\r\n1\r\n2\r\n"),
        ("a\r\nb", "a\r\nc", "c", "1\n2", "a\r\n1\r\n2"),
        ("a\r\nb\n", "a\r\nc\n", "c", "1", "a\r\n1\n"),
        ("", "x\n", "x", "y\nz", "y\nz\n"),
    ],
)
def test_newlines_are_kept_as_the_texts_have_them(
    before: str, after: str, shown: str, written: str, result: str
) -> None:
    found = sheet(before, after)
    assert found.text(0) == shown

    found.write(0, written)
    assert found.result == result


def test_own_lines_that_are_the_proposed_ones_are_an_accept_and_the_old_ones_a_reject() -> None:
    found = sheet("a\nb\n", "a\nc\n")
    found.write(0, "mine")
    assert (found.word(0), found.answers) == ("edited", (("mine",),))
    found.write(0, "c")
    assert (found.word(0), found.answers) == ("accept", (True,))
    found.write(0, "b")
    assert (found.word(0), found.answers) == ("reject", (False,))


def test_own_lines_stay_while_the_hunk_is_left_out() -> None:
    found = sheet("a\nb\n", "a\nc\n")
    found.write(0, "mine")
    found.toggle(0)
    assert (found.word(0), found.answers) == ("reject", (False,))
    found.toggle(0)
    assert found.answers == (("mine",),)
    found.accept(0)
    assert found.answers == (True,)
    assert found.text(0) == "mine"


@for_each(
    ("line", "can"), [("a\tb é", True), ("a\u200bb", False), ("a\x1b[m", False), ("\u3164", False)]
)
def test_only_what_is_seen_can_be_written_in_place(line: str, can: bool) -> None:
    assert sheet("x\n", f"{line}\ny\n").can_be_written_here(0) is can


@given(TEXT, TEXT, st.data())
def test_a_whole_text_whose_changes_are_within_the_hunks_is_taken(
    before: str, after: str, data: st.DataObject
) -> None:
    wanted, found = sheet(before, after), sheet(before, after)
    for at in range(len(wanted)):
        if data.draw(st.booleans()):
            wanted.write(at, data.draw(st.text("abxy\n", max_size=8)))
    if len(found) and wanted.result == wanted.result.removesuffix("\n"):
        assert found.take(wanted.result)
        assert found.result == wanted.result


OUTSIDE = (
    ("a\nb\nc\nd\n", "a\nB\nc\nd\n", "A\nB\nc\nd\n"),
    ("a\nb\nc\nd\n", "a\nB\nc\nd\n", "a\nB\nc\nD\n"),
    ("a\nb\nc\nd\n", "A\nb\nc\nD\n", "A\nb\nx\nc\nD\n"),
    ("a\nb\nc\nd\n", "a\nB\nc\nd\n", ""),
)


@for_each(("before", "after", "saved"), OUTSIDE)
def test_a_text_with_changes_outside_the_hunks_answers_nothing(
    before: str, after: str, saved: str
) -> None:
    found = sheet(before, after)
    assert not found.take(saved)
    assert found.answers == (True,) * len(found) and found.result == after


def test_lines_written_in_a_whole_text_are_the_users_own_and_old_ones_reject_the_hunk() -> None:
    found = sheet("a\nb\nc\nd\ne\nf\n", "A\nb\nc\nd\ne\nF\n")
    assert found.take("A\nmine\nb\nc\nd\ne\nf\n")
    assert [found.word(at) for at in range(2)] == ["edited", "reject"]
    assert found.answers == (("A", "mine"), False)
