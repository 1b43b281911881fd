"""vim's keys do to a text what vim does: rows of text with the cursor as `|`, keys, and what is
there after them."""

import pytest

from codeagent.tui.parts.vim import Vim, VimEdit
from tests.table import for_each

BRACKET = "f(a, [b], g(c))"


def pressed(vim: Vim, text: str, at: int, keys: str) -> tuple[str, int, list[str]]:
    """Press the keys; `<` is Esc, and in insert mode other keys are typed."""
    asked: list[str] = []
    for key in keys:
        if key == "<":
            at = vim.escape(text, at).cursor
        elif vim.mode == "insert":
            text, at = text[:at] + key + text[at:], at + 1
        else:
            for done in vim.press(key, text, at):
                if isinstance(done, VimEdit):
                    text, at = done.applied(text), done.cursor
                else:
                    asked.append(done)
    return text, at, asked


def after(marked: str, keys: str) -> str:
    vim = Vim()
    at = marked.index("|")
    text = marked.replace("|", "", 1)
    vim.insert(text, at)
    vim.escape(text, at)
    text, at, _ = pressed(vim, text, at, keys)
    mode = {"normal": "", "insert": " (insert)"}.get(vim.mode, " (visual)")
    return f"{text[:at]}|{text[at:]}{mode}"


@for_each(
    ("before", "keys", "then"),
    [
        ("|foo bar", "l", "f|oo bar"),
        ("foo ba|r", "l", "foo ba|r"),
        ("foo b|ar", "3h", "fo|o bar"),
        ("|foo", "h", "|foo"),
        ("|foo bar-baz", "w", "foo |bar-baz"),
        ("|foo bar-baz", "2w", "foo bar|-baz"),
        ("|foo bar-baz x", "2W", "foo bar-baz |x"),
        ("|foo\n\nbar", "w", "foo\n|\nbar"),
        ("|foo\n\nbar", "ww", "foo\n\n|bar"),
        ("foo b|ar", "w", "foo ba|r"),
        ("|foo bar", "e", "fo|o bar"),
        ("fo|o bar", "e", "foo ba|r"),
        ("|foo-bar x", "E", "foo-ba|r x"),
        ("foo b|ar", "b", "foo |bar"),
        ("foo |bar", "b", "|foo bar"),
        ("a-b |c", "B", "|a-b c"),
        ("  foo b|ar", "0", "|  foo bar"),
        ("  foo b|ar", "^", "  |foo bar"),
        ("|foo\nbar", "$", "fo|o\nbar"),
        ("|foo\nbar", "2$", "foo\nba|r"),
        ("a\nb\n c|c", "gg", "|a\nb\n cc"),
        ("a|a\nb\n cc", "G", "aa\nb\n |cc"),
        ("a|a\nb\ncc", "2G", "aa\n|b\ncc"),
        ("|a b c b", "fb", "a |b c b"),
        ("|a b c b", "2fb", "a b c |b"),
        ("|a b c b", "fb;", "a b c |b"),
        ("|a b c b", "fb;,", "a |b c b"),
        ("T tt |x t", "Ft,", "T tt x |t"),
        ("|a\nb\nc", "2j", "a\nb\n|c"),
        ("|ab b", "tb", "|ab b"),
        ("|ab b", "tb;", "ab| b"),
        ("|ab b", "2tb", "ab| b"),
        ("a b|c b", "Tb", "a b|c b"),
        ("a\nb\n|c", "9k", "|a\nb\nc"),
        ("a b c |b", "Fb", "a |b c b"),
        ("|a b c b", "tb", "a| b c b"),
        ("|a b c b", "tb;", "a b c| b"),
        ("a b c |b", "Tb", "a b| c b"),
        ("|a b", "fz", "|a b"),
        ("|a b", ";", "|a b"),
    ],
)
def test_motions(before: str, keys: str, then: str) -> None:
    assert after(before, keys) == then


@for_each(
    ("before", "keys", "then"),
    [
        ("|foo bar baz", "dw", "|bar baz"),
        ("|foo bar baz", "d2w", "|baz"),
        ("|foo bar baz", "2dw", "|baz"),
        ("|a b c d e", "2d2w", "|e"),
        ("foo |bar\n  baz", "dw", "foo| \n  baz"),
        ("foo| \nbar", "dw", "fo|o\nbar"),
        ("|foo bar", "de", "| bar"),
        ("foo |bar", "db", "|bar"),
        ("foo b|ar baz", "d$", "foo |b"),
        ("foo b|ar baz", "D", "foo |b"),
        ("foo b|ar", "d0", "|ar"),
        ("a|b\ncd\nef", "dd", "|cd\nef"),
        ("ab\ncd\ne|f", "dd", "ab\n|cd"),
        ("a|b", "dd", "|"),
        ("|a\nb\nc", "2dd", "|c"),
        ("|a\nb\nc", "dj", "|c"),
        ("a\nb\n|c", "dk", "|a"),
        ("a\n|b", "dj", "a\n|b"),
        ("f(|a) (b)", "dt)", "f(|) (b)"),
        ("f(|a) (b)", "ct)", "f(|) (b) (insert)"),
        ("f(a|) (b)", "dT(", "f(|) (b)"),
        ("f(|a) (b)", "dT(", "f(|a) (b)"),
        ("|", "C", "| (insert)"),
        ("a\n|\nb", "cw", "a\n|\nb (insert)"),
        ("a\n|\nb", "ciw", "a\n|\nb (insert)"),
        ("|ab", "c0", "|ab (insert)"),
        ("|ab", "ch", "|ab (insert)"),
        ("|ab", "cb", "|ab"),
        ("|ab", "cfz", "|ab"),
        ("|a\nb", "dk", "|a\nb"),
        ("|a", "cj", "|a"),
        ("a\n|b\nc", "dG", "|a"),
        ("a\n|b\nc", "dgg", "|c"),
        ("|foo(a, b)", "dt)", "|)"),
        ("|foo", "dtz", "|foo"),
        ("|foo", "dfz", "|foo"),
        ("f|oo", "x", "f|o"),
        ("fo|o", "x", "f|o"),
        ("|foo", "2x", "|o"),
        ("fo|o", "X", "f|o"),
        ("|foo bar", "cwx<", "|x bar"),
        ("fo|o bar", "cwx<", "fo|x bar"),
        ("|foo bar baz", "c2wx<", "|x baz"),
        ("foo| bar", "cwx<", "foo|xbar"),
        ("f|oo\nbar", "ccx<", "|x\nbar"),
        ("f|oo bar", "C", "f| (insert)"),
        ("f|oo", "s", "f|o (insert)"),
        ("f|oo", "S", "| (insert)"),
        ("f|oo", "rx", "f|xo"),
        ("f|oo", "3rx", "f|oo"),
        ("|foo", "2~", "FO|o"),
        ("|foo\n  bar", "J", "foo| bar"),
        ("|foo bar", "ywP", "foo| foo bar"),
        ("|foo", "yyp", "foo\n|foo"),
        ("|foo", "Yp", "foo\n|foo"),
        ("a\n|b", "yyP", "a\n|b\nb"),
        ("a|b\ncd", "ddp", "cd\n|ab"),
        ("|ab", "xp", "b|a"),
        ("|ab", "x3p", "baa|a"),
        ("|", "x", "|"),
        ("|", "dd", "|"),
        ("|", "dw", "|"),
    ],
)
def test_operators(before: str, keys: str, then: str) -> None:
    assert after(before, keys) == then


@for_each(
    ("before", "keys", "then"),
    [
        ("foo b|ar baz", "diw", "foo | baz"),
        ("foo b|ar baz", "daw", "foo |baz"),
        ("foo b|ar", "daw", "fo|o"),
        ("foo| bar baz", "daw", "foo| baz"),
        ("foo| b-r baz", "daW", "foo| baz"),
        ("foo, b|ar.", "daw", "foo,|."),
        ("  f|oo", "daw", " | "),
        ("foo  | ", "daw", "fo|o"),
        ("foo b|a-r baz", "diW", "foo | baz"),
        ("foo b|a-r baz", "daW", "foo |baz"),
        ("foo b|ar baz", "ciwx<", "foo |x baz"),
        ('say "h|i" x', 'di"', 'say "|" x'),
        ('say "h|i" x', 'da"', "say | x"),
        ('|say "hi" x', 'ci"y<', 'say "|y" x'),
        ('say "|" x', 'ci"y<', 'say "|y" x'),
        ("it|s", "di'", "it|s"),
        (BRACKET.replace("b", "|b"), "di[", "f(a, [|], g(c))"),
        (BRACKET.replace("b", "|b"), "da[", "f(a, |, g(c))"),
        (BRACKET.replace("b", "|b"), "di(", "f(|)"),
        (BRACKET.replace("c", "|c"), "dib", "f(a, [b], g(|))"),
        ("f|(a)", "di(", "f(|)"),
        ("f(a|)", "di)", "f(|)"),
        ("f(|)", "ci(x<", "f(|x)"),
        ("{|a}", "daB", "|"),
        ("no|ne", "di(", "no|ne"),
        ("f(a,\n|b)", "di(", "f(|)"),
    ],
)
def test_text_objects(before: str, keys: str, then: str) -> None:
    assert after(before, keys) == then


@for_each(
    ("before", "keys", "then"),
    [
        ("f|oo", "ix<", "f|xoo"),
        ("f|oo", "ax<", "fo|xo"),
        ("  f|oo", "Ix<", "  |xfoo"),
        ("f|oo\nb", "Ax<", "foo|x\nb"),
        ("f|oo\nb", "ox<", "foo\n|x\nb"),
        ("f|oo\nb", "Ox<", "|x\nfoo\nb"),
        ("|foo", "i<", "|foo"),
        ("|foo bar baz", "ve", "fo|o bar baz (visual)"),
        ("|foo bar baz", "ved", "| bar baz"),
        ("foo b|ar", "vbd", "foo |r"),
        ("foo |bar", "viwd", "foo| "),
        ("foo b|ar baz", "vawx", "foo |baz"),
        ("|foo bar", "vecx<", "|x bar"),
        ("|foo bar", "vesx<", "|x bar"),
        ("|foo bar", "veyP", "fo|ofoo bar"),
        ("|foo bar", "yiwwviwp", "foo fo|o"),
        ("|foo bar", "veod", "| bar"),
        ("|foo bar", "ve<", "fo|o bar"),
        ("|foo bar", "vev", "fo|o bar"),
        ("a|b\ncd\nef", "Vd", "|cd\nef"),
        ("a|b\ncd\nef", "Vjd", "|ef"),
        ("a|b\ncd", "Vyp", "ab\n|ab\ncd"),
        ("a|b\ncd", "vVd", "|cd"),
        ("|abc", "v$d", "|"),
    ],
)
def test_insert_and_visual_mode(before: str, keys: str, then: str) -> None:
    assert after(before, keys) == then


@for_each(
    ("before", "keys", "then"),
    [
        ("|a b c d", "dw.", "|c d"),
        ("|abcd", "x..", "|d"),
        ("|foo bar baz", "ciwx<w.", "x |x baz"),
        ("|foo\nbar", "A!<G.", "foo!\nbar|!"),
        ("|foo", "ox<.", "foo\nx\n|x"),
        ("|abc", "rxl.", "x|xc"),
        ("|foo bar", "dwu.", "|"),
        ("|foo", "yl.", "|foo"),
        ("|foo", ".", "|foo"),
    ],
)
def test_a_dot_repeats_the_last_change(before: str, keys: str, then: str) -> None:
    assert after(before, keys) == then


@for_each("keys", ["d<x", "2<x", "zx", "dzx", "f<x", "QZx", "di<x", "dv", "\x07x", "/x"])
def test_keys_that_are_not_a_command_are_forgotten(keys: str) -> None:
    assert after("|abc", keys) in ("|bc", "|abc")


@pytest.mark.parametrize("key", ["u", "\x12", "j", "k"])
def test_the_text_area_is_asked_for_what_it_does_itself(key: str) -> None:
    vim = Vim()
    vim.escape("a", 0)
    assert pressed(vim, "a", 0, key) == ("a", 0, [key])


def test_whatever_is_pressed_the_cursor_stays_in_the_text() -> None:
    import itertools

    keys = 'dcyvVpPxJ~.gGwbe$0;iaowW("f2<jku'
    for text in ("", "a", "ab\n\n(c d)", "\n"):
        for three in itertools.product(keys, repeat=3):
            vim = Vim()
            vim.escape(text, 0)
            then, at, _ = pressed(vim, text, 0, "".join(three))
            assert 0 <= at <= len(then), (text, three)
            start, end = vim.selected(then, at)
            assert 0 <= start <= end <= len(then), (text, three)


def test_a_count_is_bounded() -> None:
    """A key that was held down must not fill the memory."""
    assert len(after("|ab", "yl99999999p")) < 20_000


def test_brackets_without_an_end_are_looked_through_once() -> None:
    """A pasted text may have thousands of them."""
    text = "(" * 100_000
    vim = Vim()
    vim.mode = "normal"
    assert [*vim.press("d", text, 9), *vim.press("i", text, 9)] == []
    (done,) = vim.press("(", text, 9)
    assert isinstance(done, VimEdit) and done.applied(text) == text
