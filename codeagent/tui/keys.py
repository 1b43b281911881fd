"""How a key is written: checked, in one spelling, and as a user reads it."""

import string

from textual.keys import _character_to_key  # the spelling a keymap of Textual needs; there is no public one

_ORDER = ("alt", "ctrl", "shift", "super")
_ALIASES = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+left_square_bracket": "escape"}
"""Pairs a terminal sends as the same key."""
_SHORT = {"esc": "escape", "return": "enter", "del": "delete", "pgup": "pageup", "pgdn": "pagedown", "ins": "insert"}
NAMED = (
    *("enter", "escape", "tab", "space", "backspace", "delete", "insert"),
    *("up", "down", "left", "right", "home", "end", "pageup", "pagedown"),
    *(f"f{number}" for number in range(1, 25)),
)
_SHOWN = {"escape": "Esc", "pageup": "PgUp", "pagedown": "PgDn", "delete": "Del", "insert": "Ins"}
_SYMBOLS = {_character_to_key(symbol): symbol for symbol in string.punctuation}


class BadKey(Exception):
    """The text says why no terminal sends such a key."""


def spelled(written: str) -> str:
    """The key as Textual spells it: `Shift+Ctrl+A` is `ctrl+shift+a`, `?` is `question_mark`. Raises BadKey."""
    *modifiers, key = written.strip().split("+") if written.strip() not in ("+", "") else [written.strip()]
    lowered = [modifier.strip().lower() for modifier in modifiers]
    strange = next((modifier for modifier in lowered if modifier not in _ORDER), None)
    if strange is not None:
        raise BadKey(f"'{strange}' is no modifier: ctrl, alt, shift and super are")
    key = _spelled_alone(key.strip(), bool(lowered))
    if lowered == ["shift"] and (len(key) == 1 or key in _SYMBOLS):
        raise BadKey("Shift makes another character: write that one")
    found = "+".join([*(modifier for modifier in _ORDER if modifier in lowered), key])
    return _ALIASES.get(found, found)


def types_text(key: str) -> bool:
    """Pressing it where text is written writes something."""
    return "+" not in key and (len(key) == 1 or key in _SYMBOLS or key == "space")


def shown(key: str) -> str:
    """As a user reads it: `Ctrl+O`, `PgUp`, `?`."""
    *modifiers, last = key.split("+")
    name = _SHOWN.get(last) or _SYMBOLS.get(last) or (last.upper() if modifiers and len(last) == 1 else None)
    if name is None:
        name = last if len(last) == 1 else last.capitalize()
    return "+".join([*(modifier.capitalize() for modifier in modifiers), name])


def _spelled_alone(key: str, modified: bool) -> str:
    if len(key) == 1 and (key.isascii() or not modified) and (key.isalnum() or key in string.punctuation):
        return _character_to_key(key.lower() if modified else key)
    lowered = _SHORT.get(key.lower(), key.lower())
    if lowered in NAMED or lowered in _SYMBOLS:
        return lowered
    raise BadKey(f"no such key '{key}'")
