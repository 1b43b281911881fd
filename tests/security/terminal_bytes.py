"""Reads what a program wrote to its terminal as strictly as possible: every byte is text or a
whole, known sequence."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator

import regex

_TOKEN = re.compile(
    r"\x1b\[(?P<private>[<=>?]?)(?P<parameters>[0-9;:]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    r"|\x1b(?P<string>[\]P_^X])(?P<body>[^\x07\x1b]*)(?:\x07|\x1b\\)"
    r"|\x1b(?P<short>[ -/]*[0-~])"
    r"|(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
    r"|(?P<lone>[\x00-\x1f\x7f-\x9f])"
)
_COLOUR = re.compile(
    r"[0-4]|7|9|2[1-9]|[34][0-79]|9[0-7]|10[0-7]|[34]8;5;[0-9]+|[34]8;2;[0-9]+;[0-9]+;[0-9]+"
)
_COLOURS = re.compile(rf"(?:(?:{_COLOUR.pattern})(?:;|\Z))*")
_EMOJI = regex.compile(
    r"[0-9#*]\uFE0F\u20E3|\U0001F3F4\U000E0067\U000E0062[\U000E0061-\U000E007A]{3}\U000E007F"
    r"|(?![0-9#*])\p{Emoji}[\uFE0F\p{Emoji_Modifier}]?(?:\u200D(?![0-9#*])\p{Emoji}[\uFE0F\p{Emoji_Modifier}]?){0,3}"
)
"""What may hide: the parts of an emoji."""
_HIDING = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_FILLERS = set("\u115f\u1160\u3164\uffa0")


def sequences(raw: bytes) -> Counter[str]:
    """How often each control sequence occurs, in a form that compares: positions and colours
    without their numbers.

    Raises AssertionError for text that hides or turns around, UnicodeDecodeError for bytes that are
    no UTF-8.
    """
    return Counter(_named(raw.decode("utf-8")))


def text_of(raw: bytes) -> str:
    """What was written without its control sequences, in the order of writing."""
    return "".join(token["text"] or "" for token in _TOKEN.finditer(raw.decode("utf-8")))


def _check_seen(text: str) -> None:
    hiding = [letter for letter in _EMOJI.sub("", text) if _hides(letter)]
    assert not hiding, f"{hiding!r} in {text!r}"


def _named(text: str) -> Iterator[str]:
    for token in _TOKEN.finditer(text):
        if token["text"] is not None:
            _check_seen(token["text"])
        elif token["final"] is not None:
            yield _control_sequence(token)
        elif token["string"] == "]" and token["body"].startswith("2;"):
            _check_seen(token["body"])
            yield "title"
        elif token["string"] is not None:
            yield f"string {token['string']}{token['body']!r}"
        elif token["short"] is not None:
            yield f"ESC {token['short']}"
        else:
            yield repr(token["lone"])


def _control_sequence(token: "re.Match[str]") -> str:
    private, parameters, between, final = token.group("private", "parameters", "between", "final")
    if final == "m" and not private and not between:
        return "CSI colours" if _COLOURS.fullmatch(parameters) else f"CSI {parameters}m"
    if final == "H" and not private and not between and _within_screen(parameters):
        return "CSI position"
    return f"CSI {private}{parameters}{between}{final}"


def _within_screen(parameters: str) -> bool:
    return re.fullmatch(r"\d+;\d+", parameters) is not None and parameters != "777;777"


def _hides(letter: str) -> bool:
    return letter in _FILLERS or unicodedata.category(letter) in _HIDING
