"""Makes text from models, tools and files harmless to a terminal: what would act is shown instead."""

import re

# Every character of the Unicode categories Cc (but newline and tab), Cf, Cs, Co, Zl and Zp, and the
# fillers that show as nothing; bidirectional controls and tags are among them.
_ACTS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u180e"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\uf8ff\ufeff\uffa0\ufff9-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e007f\U000f0000-\U0010ffff]"
)


def visible(text: str) -> str:
    """The text with every such character as an escape (`\\x1b`, `\\u202e`); newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return _ACTS.sub(lambda match: _escape(match[0]), text.replace("\r\n", "\n"))


def one_line(text: str, width: int) -> str:
    """As `visible`, on one line of at most `width` characters, cut with an ellipsis."""
    flat = " ".join(visible(text[: 4 * width]).split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def _escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
