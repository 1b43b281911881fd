"""Keys mean the same whatever the terminal sends for them."""

from textual._xterm_parser import XTermParser
from textual.events import Key

from codeagent.tui.parts.line_input import give_usual_name, tell_alt_enter_from_enter, types_text
from tests.table import for_each


@for_each(
    ("sent", "name"),
    [
        ("\r", "enter"),
        ("\x1b\r", "alt+enter"),
        ("\x1b[13;3u", "alt+enter"),
        ("\x1b[27;3;13~", "alt+enter"),
        ("\x1b[13;2u", "shift+enter"),
        ("\x1b[27;2;13~", "shift+enter"),
        ("\n", "ctrl+j"),
    ],
)
def test_enter_and_its_modifiers_are_told_apart(sent: str, name: str) -> None:
    tell_alt_enter_from_enter()
    (event,) = XTermParser().feed(sent)
    assert isinstance(event, Key)
    give_usual_name(event)
    assert event.key == name
    assert not types_text(event)


def test_a_letter_with_alt_types_nothing() -> None:
    assert not types_text(Key("alt+y", "y"))
    assert types_text(Key("y", "y"))
    assert types_text(Key("upper_y", "Y"))
