"""What is typed means the same however its bytes are split into reads or joined in one."""

from collections.abc import Iterable

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._xterm_parser import XTermParser

from codeagent.tui.driver import KeyReader, by_emoji, with_emoji_in_two_cells
from codeagent.tui.parts.line_input import tell_alt_enter_from_enter
from tests.effort import times
from tests.table import for_each

KEYS = {
    "\x1by": "alt+y",
    "\x1bN": "alt+shift+n",
    "\x1b.": "alt+full_stop",
    "\x1b5": "alt+5",
    "\x1bb": "alt+b",
    "\x1bé": "alt+é",
    "\x1b ": "alt+space",
    "\x1b\r": "alt+enter",
    "\x1b\x7f": "ctrl+w",
    "\x1b[A": "up",
    "\x1bOA": "up",
    "\x1bOP": "f1",
    "\x1b[[A": "f1",
    "\x1b[1;3B": "alt+down",
    "\x1b[5~": "pageup",
    "\x1b[Z": "shift+tab",
    "\x1b[23$": "f23",
    "\x1b[27u": "escape",
    "\x1b[121;3u": "alt+y",
    "\x1b[27;2;13~": "shift+\r",
    "y": "y",
    "^": "circumflex_accent",
    "é": "é",
    "\r": "enter",
    "\x03": "ctrl+c",
    "\x1b[<0;11;5M": "down 10 4",
    "\x1b[<0;11;5m": "up 10 4",
    "\x1b[<65;11;5M": "scroll 10 4",
    "\x1b[M +%": "",
    "\x1b[I": "focus",
    "\x1b[O": "blur",
    "\x1b[1;2;3;4;5;6z": "",
}
"""What a terminal sends → what is told of it."""
ALONE = {"\x1b": "escape", "\x1bO": "alt+shift+o", "\x1b[": "alt+left_square_bracket"}
"""What is a key only if nothing else follows at once, or another sequence does."""


def said(message: object) -> str:
    match message:
        case events.Key():
            return message.key
        case events.CursorPosition():
            return f"cursor {message.x} {message.y}"
        case events.AppFocus():
            return "focus"
        case events.AppBlur():
            return "blur"
        case events.MouseEvent():
            kind = {events.MouseDown: "down", events.MouseUp: "up"}.get(type(message), "scroll")
            return f"{kind} {message.x:g} {message.y:g}"
        case _:
            raise AssertionError(message)


def read(pieces: Iterable[str]) -> list[str]:
    """What the pieces are told as when they come in one go, and nothing after them."""
    tell_alt_enter_from_enter()
    reader = KeyReader()
    found = [said(message) for piece in pieces for message in reader.feed(piece)]
    if reader.holds:
        found += [said(message) for message in reader.release()]
    return found


@for_each("sent", KEYS)
def test_each_key_is_told_as_what_it_is(sent: str) -> None:
    assert read([sent]) == [name for name in [KEYS[sent]] if name]


def test_the_same_key_with_alt_twice_in_one_read_is_two_keys_with_alt() -> None:
    assert read(["\x1by\x1by"]) == ["alt+y", "alt+y"]


@for_each("after", ["h", "ello", "\x1b[A", "\x1b", "\r"])
def test_what_follows_a_key_with_alt_leaves_it_alone(after: str) -> None:
    assert read(["\x1by" + after])[0] == "alt+y"
    assert read(["\x1by" + after])[1:] == read([after])


@pytest.mark.parametrize("sent", ALONE)
def test_what_may_begin_a_sequence_is_a_key_once_nothing_followed(sent: str) -> None:
    reader = KeyReader()
    assert list(reader.feed(sent)) == []
    assert reader.holds
    assert [said(message) for message in reader.release()] == [ALONE[sent]]
    assert not reader.holds


@pytest.mark.parametrize("sent", ALONE)
def test_what_may_begin_a_sequence_is_a_key_where_another_sequence_follows(sent: str) -> None:
    assert read([f"{sent}\x1by{sent}"]) == [ALONE[sent], "alt+y", ALONE[sent]]


def test_esc_esc_is_the_key_esc_twice() -> None:
    assert read(["\x1b\x1b"]) == ["escape", "escape"]


def test_a_key_with_alt_types_no_character_of_its_own() -> None:
    assert [
        message.character
        for message in KeyReader().feed("\x1by\x1b.")
        if isinstance(message, events.Key)
    ] == [None, None]


@for_each("sent", ["\x1b[99;1;1;1;1z", "\x1b[121:89;4u", "\x1b[99999999999u", "\x1b[1;2\r"])
def test_a_sequence_that_nobody_knows_types_nothing_and_the_next_key_is_read(sent: str) -> None:
    assert read([sent, "y"]) in (["y"], ["enter", "y"])


def test_every_sequence_textual_knows_is_told_as_textual_alone_tells_it() -> None:
    for sent in ANSI_SEQUENCES_KEYS:
        if len(sent) == 2 and (sent == "\x1b\x1b" or sent[1].isprintable()):
            continue  # Esc twice, and keys with Alt: in Textual what macOS types with Option
        alone = [said(message) for message in XTermParser().feed(sent)]
        assert sent == "\x1b" or read([sent]) == alone, repr(sent)


@settings(max_examples=times(150))
@given(
    st.lists(st.sampled_from([*KEYS, *(f"{sent}\x1b[A" for sent in ALONE)]), max_size=12), st.data()
)
def test_any_keys_cut_into_reads_anywhere_are_the_same_keys(
    keys: list[str], data: st.DataObject
) -> None:
    whole = "".join(keys)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=10)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    names = [
        [KEYS[key]] if key in KEYS else [ALONE[key.removesuffix("\x1b[A")], "up"] for key in keys
    ]
    assert read(pieces) == [name for each in names for name in each if name]


@settings(max_examples=times(150))
@given(st.lists(st.text(st.sampled_from("\x1b[O<M?~$;:1279ayu \r\x7fé")), max_size=6))
def test_whatever_comes_the_reader_reads_on_and_how_it_is_cut_never_matters(
    pieces: list[str],
) -> None:
    assert read(pieces) == read(["".join(pieces)])
    assert read([*pieces, "\x1b\x1b\x1b", "\x1bz"])[-1] == "alt+z"


@for_each(
    "emoji",
    [
        "👨\u200d👩\u200d👧\u200d👦",
        "👩🏽\u200d💻",
        "🏳\ufe0f\u200d🌈",
        "❤\ufe0f",
        "1\ufe0f\u20e3",
        "🇩🇪",
        "🎉",
        "🫨",
    ],
)
def test_what_follows_an_emoji_is_where_it_was_measured_whatever_the_terminal_thinks_of_it(
    emoji: str,
) -> None:
    screen = pyte.Screen(20, 2)
    pyte.Stream(screen).feed("xxxxxxxx\r" + with_emoji_in_two_cells(f"a{emoji}│b"))
    row = screen.display[0]
    cells = [screen.buffer[0][column].data for column in range(8)]
    assert cells[0] == "a" and cells[3:6] == ["│", "b", "x"], row
    assert "x" not in cells[1:3], row


def test_text_without_emoji_is_written_as_it_is() -> None:
    assert with_emoji_in_two_cells("a\x1b[1m日本© 5\x1b[0m") == "a\x1b[1m日本© 5\x1b[0m"


def test_an_emoji_of_several_characters_is_typed_as_one() -> None:
    typed = "a👩\u200d💻b❤\ufe0f\x1by🎉"
    assert [*by_emoji(typed)] == [("a", "👩\u200d💻"), ("b", "❤\ufe0f"), ("\x1by🎉", "")]
