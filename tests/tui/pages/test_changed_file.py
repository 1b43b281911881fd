"""What a session made of one file: lines where there are lines, words where there are none."""

from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.display import DiffBlock, cut
from codeagent.tui.pages.changes import changed_file
from tests.table import for_each

TEXT = Node("file", b"a\nb\n")


def test_a_text_is_compared_by_lines() -> None:
    view = changed_file(Change("a.txt", TEXT, Node("file", b"a\nc\n")))

    assert view.diff == DiffBlock(path="a.txt", before="a\nb\n", after="a\nc\n")
    assert view.notes == ()


@for_each(
    ("then", "now", "words"),
    [
        (None, TEXT, "a new file"),
        (None, Node("executable", b"x"), "a new executable file"),
        (TEXT, None, "deleted"),
        (TEXT, Node("executable", b"a\nb\n"), "it is executable now"),
        (Node("executable", b"a"), Node("file", b"b"), "it is no longer executable"),
        (TEXT, TEXT, "it is as it was"),
        (None, None, "that file does not exist, and never did"),
    ],
)
def test_what_lines_do_not_show_is_said(then: Node | None, now: Node | None, words: str) -> None:
    view = changed_file(Change("a.txt", then, now))

    assert view.notes[0] == words
    assert view.diff is not None


@for_each(
    ("then", "now", "words"),
    [
        (None, Node("link", b"to/x"), ("a new link to to/x",)),
        (Node("link", b"x"), Node("link", b"y"), ("a link: it led to x, and leads to y now",)),
        (Node("link", b"x"), TEXT, ("a file now; it was a link to x",)),
        (TEXT, Node("link", b"x"), ("a link to x now; it was a file",)),
        (Node("link", b"x"), None, ("deleted; it was a link to x",)),
        (
            Node("file", b"a\0b"),
            Node("file", b"\0"),
            ("a binary file: 3 bytes before, 1 bytes now",),
        ),
        (None, Node("file", b"\0\0"), ("a new file", "a binary file: 2 bytes now")),
        (
            TEXT,
            Node("file", b"x" * (3 << 20)),
            ("too large to compare here: 4 bytes before, 3,145,728 bytes now",),
        ),
    ],
)
def test_what_has_no_lines_is_said_in_words(
    then: Node | None, now: Node | None, words: tuple[str, ...]
) -> None:
    view = changed_file(Change("a", then, now))

    assert view.diff is None
    assert view.notes == words


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_taking_all_hunks_back_one_by_one_is_the_file_as_it_was(old: bytes, new: bytes) -> None:
    then, now = (Node("file", data.replace(b"\0", b"\n")) for data in (old, new))
    present: Node | None = now
    for _ in range(len(hunks_of(then, now))):
        assert present is not None
        present = changed_file(Change("a", then, present)).without_hunk(0)

    assert present == then


def test_taking_the_only_hunk_of_a_new_file_back_leaves_no_file() -> None:
    assert changed_file(Change("a", None, TEXT)).without_hunk(0) is None
    assert changed_file(Change("a", TEXT, None)).without_hunk(0) == TEXT


def test_a_hunk_taken_back_leaves_whether_the_file_may_be_run() -> None:
    view = changed_file(
        Change("a", Node("file", b"1\n2\n3\n"), Node("executable", b"one\n2\nthree\n"))
    )

    assert view.without_hunk(1) == Node("executable", b"one\n2\n3\n")


def hunks_of(then: Node, now: Node) -> tuple[object, ...]:
    diff = changed_file(Change("a", then, now)).diff
    assert diff is not None
    return cut(diff.before, diff.after)
