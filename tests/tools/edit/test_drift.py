"""An edit written down with a slip does what it means, or nothing."""

from itertools import islice
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from codeagent.core.text_files import read_text
from codeagent.tools.edit.match import NoMatch, find
from tests.effort import times
from tests.table import for_each
from tests.tools.edit.slips import SLIPS, Case, case

_FORMATS = {
    "lf": ("\n", b"", "utf-8"),
    "crlf": ("\r\n", b"", "utf-8"),
    "mark": ("\n", b"\xef\xbb\xbf", "utf-8"),
    "latin-1": ("\r\n", b"", "latin-1"),
}
_METHOD = "class A:\n    def f(self):\n        if x:\n            return a\n        return b\n"


def edited(data: bytes, old: str, new: str, *, replace_all: bool = False) -> bytes:
    file = read_text(data)
    return file.spliced(find(file.text, old, new, replace_all=replace_all).spans).data


def text(file: str, old: str, new: str) -> str:
    return edited(file.encode(), old, new).decode()


def encoded(text: str, form: str) -> bytes:
    newline, mark, codec = _FORMATS[form]
    # What is neither UTF-8 nor marked is read as Latin-1.
    whole = "\xe9\xff\n" + text if codec == "latin-1" else text
    return mark + whole.replace("\n", newline).encode(codec)


@settings(max_examples=times(200), deadline=None)
@given(st.sampled_from(sorted(SLIPS)), st.integers(0, 1 << 40), st.sampled_from(sorted(_FORMATS)))
def test_the_result_is_exactly_the_intended_one_or_the_file_is_unchanged(
    slip: str, seed: int, form: str
) -> None:
    made = case(Random(seed), slip)
    assume(made is not None)
    assert isinstance(made, Case)
    try:
        before, wanted = encoded(made.file, form), encoded(made.wanted, form)
    except UnicodeEncodeError:
        return
    try:
        after = edited(before, made.old, made.new)
    except NoMatch:
        return
    if "trailing" in slip:
        # The lines it changes may keep their trailing blanks or lose them.
        after, wanted = (
            b"\n".join(line.rstrip() for line in data.split(b"\n")) for data in (after, wanted)
        )
    assert after == wanted


@for_each("slip", sorted(set(SLIPS) - {"none"}))
def test_most_slips_of_each_kind_are_taken(slip: str) -> None:
    rng = Random(1)
    made = [*islice((one for _ in range(300) if (one := case(rng, slip)) is not None), 40)]
    taken = 0
    for one in made:
        try:
            text(one.file, one.old, one.new)
            taken += 1
        except NoMatch:
            pass
    assert 2 * taken > len(made) > 20


@for_each(
    ("old", "new", "wanted"),
    [
        ("        return a", "            return c", "            return c"),
        ("return a", "            return c", "            return c"),
        ("    return a", "    return c", "            return c"),
        ("    return a\n", "", ""),
    ],
)
def test_too_little_indentation_is_never_put_behind_the_rest(
    old: str, new: str, wanted: str
) -> None:
    line = "            return a\n" if old.endswith("\n") else "            return a"
    assert text(_METHOD, old, new) == _METHOD.replace(line, wanted)


@for_each("new", ["      return c", "    if y:\n            return a"])
def test_an_indentation_that_can_be_read_in_two_ways_is_refused(new: str) -> None:
    with pytest.raises(NoMatch, match="new_string does not say what is meant"):
        text(_METHOD, "    return a", new)


@for_each(
    ("file", "old", "new", "wanted"),
    [
        ("a break—here b\n", "break-here", "break--here", "a break--here b\n"),
        ("a break—here b\n", "break-here", "break-there", "a break—there b\n"),
        ("a — b\n", "a - b", "a -> b", "a -> b\n"),
        ("say “it’s” so\n", 'say "it\'s" so', 'say "it\'s" now', "say “it’s” now\n"),
        ("x\u00a0= 1\n", "x = 1", "x = 2", None),
        ("x\u00a0= 1\ny = 2\n", "x = 1\ny = 2", "x = 1\ny = 3", "x\u00a0= 1\ny = 3\n"),
    ],
)
def test_a_typed_character_keeps_the_typographic_one_or_replaces_all_of_it(
    file: str, old: str, new: str, wanted: str | None
) -> None:
    if wanted is None:
        with pytest.raises(NoMatch):
            text(file, old, new)
        return
    assert text(file, old, new) == wanted


@for_each("separator", ["\t", " | ", "|", "→", ":", ": "])
@for_each("in_new", [True, False])
def test_line_numbers_of_a_listing_are_left_out(separator: str, in_new: bool) -> None:
    old = f"  4{separator}            return a\n  5{separator}        return b"
    new = f"  4{separator}            return c\n  5{separator}        return b" if in_new else None
    wanted = _METHOD.replace("return a", "return c")
    assert text(_METHOD, old, new or "            return c\n        return b") == wanted


def test_line_numbers_that_are_not_those_of_the_place_are_refused() -> None:
    with pytest.raises(NoMatch):
        text(
            _METHOD,
            "3\t            return a\n4\t        return b",
            "3\t            return c\n4\t        return b",
        )


@for_each(
    ("file", "old", "new", "wanted"),
    [
        (
            "f():\n\tif x:\n\t\ta\n",
            "    if x:\n        a",
            "    if x:\n        while y:\n            a",
            "f():\n\tif x:\n\t\twhile y:\n\t\t\ta\n",
        ),
        (
            "f():\n    if x:\n        a\n",
            "\tif x:\n\t\ta",
            "\tif x:\n\t\tb",
            "f():\n    if x:\n        b\n",
        ),
        ("f():\n\tif x:\n\t\ta\n", "  if x:\n    a", "  if x:\n    b", "f():\n\tif x:\n\t\tb\n"),
        ("f():\n\tif x:\n", "        if x:", "\tif y:", "f():\n\tif y:\n"),
    ],
)
def test_tabs_and_spaces_stand_for_each_other_in_the_file_s_own_style(
    file: str, old: str, new: str, wanted: str
) -> None:
    assert text(file, old, new) == wanted


@for_each(
    ("old", "new"),
    [
        (
            "if a &lt; b &amp;&amp; c == &quot;x&quot;:",
            "if a &gt; b &amp;&amp; c == &quot;x&quot;:",
        ),
        ('if a &lt; b &amp;&amp; c == "x":', 'if a &gt; b &amp;&amp; c == "x":'),
        ("if a &lt; b &amp;&amp; c == &quot;x&quot;:", 'if a > b && c == "x":'),
        ('if a < b && c == \\"x\\":', 'if a > b && c == \\"x\\":'),
        ('if a < b && c == \\"x\\":\\n\\tgo()', 'if a > b && c == \\"x\\":\\n\\tgo()'),
        ('if a < b && c == \\"x\\":\\n\\tgo()', 'if a > b && c == "x":\n\tgo()'),
    ],
)
def test_one_level_of_escapes_is_undone(old: str, new: str) -> None:
    file = 'start\nif a < b && c == "x":\n\tgo()\n'
    assert text(file, old, new) == file.replace("a < b", "a > b")


@for_each(
    ("old", "new"),
    [
        ("if a &lt; b:", "if a &gt; b and c > d:"),
        ('say(\\"a\\")', 'say(\\"a\\" + "b")'),
        ('say(\\"a\\")', 'say(\\"a\\")\\n'),
    ],
)
def test_what_is_escaped_only_in_part_is_refused(old: str, new: str) -> None:
    with pytest.raises(NoMatch, match="only in part"):
        text('if a < b:\nsay("a")\n', old, new)


@for_each(
    ("file", "old", "new", "wanted"),
    [
        ("a\n\nb\nc\n", "a\nb\nc", "a\nb\nd", "a\n\nb\nd\n"),
        ("a\nb\nc\n", "a\n\nb\nc", "a\n\nb\nd", "a\nb\nd\n"),
        ("a\n  \nb\nc\n", "a\n\nb\nc", "a\n\nb\nd", "a\n  \nb\nd\n"),
        ("a\n\nb\nc\n", "a\nb\nc", "a\nx\nb\nc", None),
        ("a\n\n\nb\nc\n", "a\nb\nc", "a\nb\nd", None),
    ],
)
def test_one_blank_line_more_or_less_stays_as_it_is_in_the_file(
    file: str, old: str, new: str, wanted: str | None
) -> None:
    if wanted is None:
        with pytest.raises(NoMatch):
            text(file, old, new)
        return
    assert text(file, old, new) == wanted


def test_a_block_that_is_elsewhere_with_another_indentation_is_refused() -> None:
    file = "    else:\n        x\nmiddle\n        else:\n    x\n"
    with pytest.raises(NoMatch, match="several times"):
        text(file, "  else:\n    x", "  else:\n    y")


def test_a_place_that_needs_fewer_slips_is_the_one() -> None:
    assert text("  go()\nx\n    go()\n", "  go() ", "  stop()") == "  stop()\nx\n    go()\n"


def test_an_edit_that_would_change_nothing_is_refused() -> None:
    with pytest.raises(NoMatch, match="already has what it says"):
        text("x\n    go()\n", "    go() ", "    go()")


def test_replace_all_takes_every_place_up_to_the_slip() -> None:
    file = b"x\n  go()  \n  y\n  go() \n"
    assert edited(file, "  go()\t", "  stop()\t", replace_all=True).count(b"stop()") == 2


def test_a_large_file_with_a_slip_is_searched_in_bounded_work() -> None:
    """Bounded work, not a timing: quadratic engines do not come back from this within the suite's
    limit."""
    with pytest.raises(NoMatch, match="at least 50 times"):
        text("x = 1\n" * 20_000, "x = 1 \n" * 2000, "z")
    with pytest.raises(NoMatch, match="at least 50 times"):
        text("a b " * 100_000, "a  b  a" * 1, "z")
