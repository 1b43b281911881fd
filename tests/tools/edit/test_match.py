"""The matching engine: exact first, then only what leaves no doubt."""

import pytest

from codeagent.core.text_files import read_text
from codeagent.tools.edit.match import NoMatch, find
from tests.table import for_each


def apply(text: str, old: str, new: str, *, replace_all: bool = False) -> tuple[str, str | None]:
    """(the new text, the drift)."""
    file = read_text(text.encode())
    matches = find(file.text, old, new, replace_all=replace_all)
    return file.spliced(matches.spans).data.decode(), matches.drift


@for_each(
    ("text", "old", "new", "expected"),
    [
        ("a\r\nb\r\nc", "a\nb", "x\ny", "x\r\ny\r\nc"),
        ("a\nb\nc", "a\r\nb", "x\r\ny", "x\ny\nc"),
        ("a\r\nb\r\n", "b", "b\nc", "a\r\nb\r\nc\r\n"),
        ("a\r\nb", "b", "b\nc", "a\r\nb\r\nc"),
        ("a\r\nb\nc\n", "b", "b\nx", "a\r\nb\nx\nc\n"),
        ("a\r\nb\nc\n", "a\nb\nc", "a\nX\nc", "a\r\nX\nc\n"),
        ("a\r\nb\nc\r\nd", "a\nb\nc\nd", "a\nb\nnew\nc\nd", "a\r\nb\nnew\r\nc\r\nd"),
        ("x\r\ny", "\ny", "\nz", "x\r\nz"),
        ("x\r\ny\r\n", "x\n", "", "y\r\n"),
        ("one", "one", "one\ntwo", "one\ntwo"),
    ],
)
def test_newlines_follow_the_place(text: str, old: str, new: str, expected: str) -> None:
    assert apply(text, old, new) == (expected, None)


def test_two_places_that_differ_only_in_newlines_are_two_places() -> None:
    with pytest.raises(NoMatch, match="2 times, on lines 1, 3"):
        apply("a\nb\na\r\nb\r\n", "a\nb", "x")
    assert apply("a\nb\na\r\nb\r\n", "a\r\nb", "x\r\ny") == ("a\nb\nx\r\ny\r\n", None)
    assert apply("a\nb\na\r\nb\r\n", "a\nb", "x\ny", replace_all=True)[0] == "x\ny\nx\r\ny\r\n"


def test_overlapping_places_are_ambiguous() -> None:
    with pytest.raises(NoMatch, match="2 times"):
        apply("aaa", "aa", "b")
    assert apply("aaaa", "aa", "b", replace_all=True)[0] == "bb"


@for_each(
    ("text", "old", "new", "expected", "drift"),
    [
        (
            "if x:  \n  y()\nz\n",
            "if x:\n  y()",
            "if x:\n  w()",
            "if x:  \n  w()\nz\n",
            "white space at line ends",
        ),
        (
            "a\n    b\n    c\nd\n",
            "b\nc",
            "b\nnew\nc",
            "a\n    b\n    new\n    c\nd\n",
            "indentation",
        ),
        ("a\nb\n", "  b", "  c\n    d", "a\nc\n  d\n", "indentation"),
        ("a\n\tb\n", "b\n", "c\n", None, None),
        ("x   =  1\ny\n", "x = 1\ny", "x = 1\nz", "x   =  1\nz\n", "white space between words"),
        ("x = 1\ny\n", "x   =  1", "x = 2", "x = 2\ny\n", "white space between words"),
        (
            "“hi” – now\n",
            '"hi" - now',
            '"hi" - then',
            "“hi” – then\n",
            "typographic quotes, dashes or spaces",
        ),
        (
            "a\nb\nc\n",
            "2\tb\n3\tc",
            "2\tB\n3\tc",
            "a\nB\nc\n",
            "line numbers that were copied along",
        ),
        ("a\nb\nc\n", "2\tb\n3\tc", "B\nc", "a\nB\nc\n", "line numbers that were copied along"),
    ],
)
def test_drift_is_carried_over_and_said(
    text: str, old: str, new: str, expected: str | None, drift: str | None
) -> None:
    if expected is None:
        assert apply(text, old, new)[1] is None
        return
    assert apply(text, old, new) == (expected, drift)


@for_each(
    ("text", "old"),
    [
        ("  a\n    b\nz\n", "a\nb"),
        ("  if a:\n    b\n", "if a:\n  b"),
        ("\tif a:\n", "  if a:"),
        ("const a = {\n  x: 1,\n};\n", "const a = {\n  x: 1\n};"),
        ("print('a')\n", 'print("a")'),
        ("a\nb\nc\n", "5\tb\n6\tc"),
        ("a  \nb\na \nb\n", "a\nb"),
        ("f(a, b)\n", "f( a, b )"),
    ],
)
def test_a_drift_that_leaves_a_doubt_is_refused(text: str, old: str) -> None:
    with pytest.raises(NoMatch):
        apply(text, old, "NEW")


def test_what_is_not_there_is_answered_with_the_nearest_lines() -> None:
    text = "".join(f"line {n}\n" for n in range(50)) + "def total(items):\n    return sum(items)\n"
    with pytest.raises(NoMatch) as caught:
        apply(text, "def total(item):\n    return sum(item)", "x")
    assert "51\tdef total(items):\n52\t    return sum(items)" in str(caught.value)
    with pytest.raises(NoMatch, match="nothing in the file looks like it"):
        apply("a\nb\n", "zzzzzzzzzzzz", "x")


def test_a_hostile_text_is_answered_quickly() -> None:
    """Bounded work, not a timing: quadratic engines do not come back from this within the suite's
    limit."""
    line = "a" * 2000
    with pytest.raises(NoMatch):
        apply("\n".join([line] * 3000), "\n".join([line + "b"] * 200), "x")
    with pytest.raises(NoMatch):
        apply("\n".join(["x = 1", ""] * 20_000), "\n".join(["x = 1", ""] * 300 + ["y"]), "z")
