"""Decides whether printed text has colours, and paints it with plain escape codes, which need no
import."""

import os
import re
from typing import Literal, TextIO

from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.sanitize import VisibleStream, visible

Style = Literal["bold", "dim", "red", "green", "yellow", "cyan"]
_CODES: dict[Style, int] = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}
# The first sixteen colours are those of the terminal's own theme, which suit its background.
WORDS: dict[str, Style] = {
    **dict.fromkeys(("✓", "on", "allow", "done", "ready"), "green"),
    **dict.fromkeys(("✗", "deny", "fail", "failed", "error"), "red"),
    **dict.fromkeys(("ask", "warning", "±", "not trusted"), "yellow"),
    **dict.fromkeys(("–", "…", "off", "info", "note", "disabled", "default"), "dim"),
}
"""The colour of a mark or a state, wherever it is printed."""
_MARK = lazy_regex(r" *(?P<mark>[✓✗–±…])(?= )|(?:[\w-]+: )?(?P<level>error|warning|info|note)(?=:)")
_PROGRAM = lazy_regex(r"codeagent(?: [a-z]+)*:")
_PART = lazy_regex(
    r"^(?P<heading>usage:|[a-z ]+:$)|^ {2,4}(?P<name>[a-z_-]+)(?=  +\S|$)"
    r"|(?<![\w-])(?P<option>--?[a-z][a-z-]*)(?![\w-])",
    re.MULTILINE,
)
_PART_STYLES: dict[str, Style] = {"heading": "bold", "name": "cyan", "option": "cyan"}


def wish(choice: str) -> None:
    """Apply `--color` (auto, always or never), also to the programs that this one starts."""
    if choice == "auto":
        return
    for name in ("NO_COLOR", "FORCE_COLOR"):
        os.environ.pop(name, None)
    os.environ["NO_COLOR" if choice == "never" else "FORCE_COLOR"] = "1"


def for_eyes(stream: TextIO) -> bool:
    """Whether a user reads the stream: it is a terminal, or FORCE_COLOR is set, as `--color always`
    does. Programs get plain lines."""
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM", "dumb") != "dumb" and stream.isatty()


def has_colours(stream: TextIO) -> bool:
    return not os.environ.get("NO_COLOR") and for_eyes(stream)


def paint(text: str, style: Style) -> str:
    """Return visible text in a style, for `write_styled`."""
    return f"\x1b[{_CODES[style]}m{visible(text)}\x1b[0m"


def with_mark(text: str) -> str:
    """Paint the mark or the level that a line begins with, and the name of the program in front of
    an error."""
    if found := _MARK.match(text):
        style = WORDS[found["mark"] or found["level"]]
    elif found := _PROGRAM.match(text):
        style = "red"
    else:
        return visible(text)
    return paint(found[0], style) + visible(text[found.end() :])


def with_help_colours(text: str) -> str:
    """Paint the headings, commands and options of a help text."""
    return _PART.sub(
        lambda found: found[0].replace(
            found[k := str(found.lastgroup)], paint(found[k], _PART_STYLES[k])
        ),
        visible(text),
    )


def write_styled(stream: TextIO, text: str) -> None:
    """Print text that was painted."""
    if isinstance(stream, VisibleStream):
        stream.draw(text)
    else:
        stream.write(text)


def print_line(text: str, stream: TextIO) -> None:
    """Print a line, with its mark in colour on a terminal."""
    write_styled(stream, f"{with_mark(text) if has_colours(stream) else visible(text)}\n")
    stream.flush()
