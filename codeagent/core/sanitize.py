"""Makes text from models, tools and files safe for a terminal, where control characters are shown as
escapes, and short enough for it."""

import os
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, TextIO

from codeagent.core.lazy_regex import lazy_regex

# Every character of the Unicode categories Cc (but newline and tab), Cf, Cs, Co, Zl and Zp, the
# noncharacters, and what shows as nothing: fillers, variation selectors, blank Braille;
# bidirectional controls and tags are among them.
_ACTS = lazy_regex(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\uf8ff\ufdd0-\ufdef"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    + "".join(
        f"{chr(plane | 0xFFFE)}{chr(plane | 0xFFFF)}" for plane in range(0x10000, 0xE0000, 0x10000)
    )
    + "\U000e0000-\U0010ffff]"
)
# What joins, styles or tags emoji, and is invisible anywhere else; or an emoji outside of the first
# plane.
_HINT = re.compile("[\u200d\ufe0f\U0001f000-\U0001faff\U000e0020-\U000e007f]")
# The sequences of UTS #51. Flags made of tags are the three in use, as others could carry text; an
# emoji has at most four parts, as in a family.
_TAGS = "|".join(
    "".join(chr(0xE0000 + ord(letter)) for letter in flag) for flag in ("gbeng", "gbsct", "gbwls")
)
_STYLE = r"[\p{Emoji_Modifier}\uFE0F]"
_PART = r"[\p{Emoji}--[0-9#*]--\p{Regional_Indicator}]"
_SEQUENCE = "|".join(
    (
        r"(?V1)\p{Regional_Indicator}{2}",
        r"[0-9#*]\uFE0F\u20E3",
        rf"\U0001F3F4(?:{_TAGS})\U000E007F",
        rf"(?=\p{{Emoji_Presentation}}|.{_STYLE}|.\u200D){_PART}{_STYLE}?(?:\u200D{_PART}{_STYLE}?){{0,3}}",
    )
)

BLANKS = r"(?:(?<=\n)|\A)(?:[^\S\n]*\n){9,}|[^\S\n]{9,}"
"""Runs of spaces, tabs and blank lines that could push something out of sight: more than eight of
them."""
_BLANKS = lazy_regex(BLANKS)
_BREAKS = lazy_regex("[\n\t]")
_STRAY = lazy_regex("[\udc80-\udcff]")
_CONTROLS = lazy_regex("[\x00-\x1f\x7f-\x9f\xad]")
_ESCAPE = lazy_regex(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U00(?:0[0-9a-f]|10)[0-9a-f]{4})")


def visible(text: str) -> str:
    """Return the text with every such character as an escape (`\\x1b`, `\\u202e`).

    Newlines and tabs stay, as do the parts of well-formed emoji.
    """
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    shown: list[str] = []
    at = 0
    for start, end in emoji_spans(text):
        shown += (_escaped(text[at:start]), text[start:end])
        at = end
    return "".join((*shown, _escaped(text[at:])))


def emoji_spans(text: str) -> list[tuple[int, int]]:
    """Return start and end of each well-formed emoji; those that consist of one visible character
    may be missing."""
    if _HINT.search(text) is None:
        return []
    return [found.span() for found in _sequences().finditer(text)]


def visible_json(text: str) -> str:
    """Return equivalent JSON with every such character as a JSON escape."""
    return (
        text
        if text.isascii() and "\x7f" not in text
        else _ACTS.sub(lambda match: json_escape(match[0]), text)
    )


class VisibleStream:
    """Wraps a text stream that a terminal may read in the end, so that nothing written to it acts
    there."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def draw(self, text: str) -> None:
        """Write control sequences that are meant to act, such as colours around visible text."""
        self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def one_line(text: str, width: int) -> str:
    """Return `visible` text on one line of at most `width` characters, cut with an ellipsis."""
    flat = " ".join(visible(text[: 4 * width]).split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def plain_line(text: str, width: int) -> str:
    """Return `one_line` without emoji, for titles and notifications, where their width is not
    known."""
    short = one_line(text, 2 * width)
    for start, end in reversed(emoji_spans(short)):
        short = short[:start] + short[end:]
    return one_line(short, width)


def on_one_line(text: str) -> str:
    """Return the whole text on one line: as `visible` does, with newlines, tabs and stray bytes as `\\xNN`, too."""
    return _BREAKS.sub(
        lambda match: f"\\x{ord(match[0]) & 0xFF:02x}", visible(_STRAY.sub(_byte, text))
    )


def spelled(path: str) -> str:
    """Return a path on one line of UTF-8 from which `unspelled` makes the same path again.

    A byte that is not UTF-8 is `\\xNN`, every other character that would act or not show is `\\uNNNN` (below 0x80 also
    `\\xNN`). So is a backslash that begins what looks like one of these; any other is as it is.
    """
    if path.isascii() and path.isprintable() and "\\" not in path:
        return path
    escaped = _ESCAPE.sub(lambda match: f"\\x5c{match[0][1:]}", path)
    return on_one_line(_CONTROLS.sub(lambda match: _control(match[0]), escaped))


def unspelled(text: str) -> str:
    """Return the path that `spelled` wrote like this; each part that it would have written
    otherwise stays as it is."""
    return "/".join(map(_unspelled_part, text.split("/"))) if "\\" in text else text


def folded(text: str) -> str:
    """Return `visible` text with long runs of blanks as their count, for a user who is asked about
    it."""
    return _BLANKS.sub(lambda run: counted_blanks(run[0]), visible(text))


def counted_blanks(run: str) -> str:
    """Say what one of `BLANKS` consists of, as in `⟨60 spaces⟩`."""
    lines = run.count("\n")
    if not lines:
        kind = {" ": "spaces", "\t": "tabs"}.get("".join(set(run)), "blanks")
        return f"⟨{len(run)} {kind}⟩"
    within = f" with {len(run) - lines} spaces and tabs" if len(run) > lines else ""
    return f"⟨{lines} blank lines{within}⟩\n"


def quoted(text: str) -> str:
    """Return `visible` text with `> ` before each line, so that no line of it can be taken for
    anything but a quote."""
    return "\n".join(f"> {line}" for line in visible(text).split("\n"))


@cache
def _sequences() -> Any:
    import regex  # heavy, and few texts have such emoji

    return regex.compile(_SEQUENCE)


def _escaped(text: str) -> str:
    return _ACTS.sub(lambda match: _escape(match[0]), text)


def _unspelled_part(part: str) -> str:
    try:
        name = os.fsdecode(os.fsencode(_ESCAPE.sub(lambda match: _unescaped(match[0]), part)))
    except ValueError:  # no file can have that name
        return part
    return name if "\0" not in name and spelled(name) == part else part


def _unescaped(escape: str) -> str:
    code = int(escape[2:], 16)
    return chr(code + 0xDC00) if escape[1] == "x" and code >= 0x80 else chr(code)


def _control(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}"


def _byte(stray: re.Match[str]) -> str:
    return f"\\x{ord(stray[0]) - 0xDC00:02x}"


def _escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def json_escape(text: str) -> str:
    """Return the text as escapes of JSON."""
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def first_few(items: Sequence[str], most: int, noun: str = "") -> str:
    """Return at most so many items in one line: `a, b and 2,000 more`; `noun` says what the others
    are."""
    rest = len(items) - most
    return ", ".join(items[:most]) + (f" and {rest:,} more{noun}" if rest > 0 else "")


def first_lines(items: Sequence[str], most: int) -> list[str]:
    """Return at most so many items, and a last one such as `and 2,000 more`."""
    rest = len(items) - most
    return [*items[:most], *([f"and {rest:,} more"] if rest > 0 else [])]
