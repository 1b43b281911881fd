"""Whatever is mixed of what acts on a terminal, nothing that is written on one acts or
hides."""

import io
import json
import random
import unicodedata

import pytest

from codeagent.core.sanitize import VisibleStream, one_line, visible, visible_json
from codeagent.tui.rendering.lines import segment, wrap
from codeagent.tui.rendering.markdown import render_markdown
from tests.effort import FACTOR, chance, up_to
from tests.security.terminal_bytes import sequences
from tests.security.terminal_payloads import PAYLOADS
from tests.tui.rendering.test_markdown import PALETTE

CASES = up_to(200, 100_000 // 4)
_ALL = (
    (0, 0x20),
    (0x7F, 0xA0),
    (0x2000, 0x2070),
    (0xFE00, 0xFF00),
    (0xD800, 0xE010),
    (0xE0000, 0xE0200),
    (0, 0x11000),
)

_WORDS = (
    *("word ", "**b**", "`c`", "\n", "\t", "|a|b|\n|-|-|\n", "- ", "> ", "漢", "é"),
    *("❤\ufe0f", "👩\u200d💻", "🏴\U000e0067\U000e0062", "1\ufe0f\u20e3", "\u200d", "\ufe0f"),
)


def character(dice: random.Random) -> str:
    """Any that Unicode knows: what a terminal makes of another is up to it."""
    found = chr(dice.randrange(*dice.choice(_ALL)))
    return character(dice) if unicodedata.category(found) == "Cn" else found


def mixed(dice: random.Random) -> str:
    """Payloads, torn payloads, single characters and words."""
    found = []
    for _ in range(dice.randint(1, 6)):
        payload = dice.choice(PAYLOADS)
        found.append(
            dice.choice(
                (
                    payload,
                    payload[: dice.randrange(len(payload) + 1)],
                    character(dice),
                    dice.choice(_WORDS),
                )
            )
        )
    return "".join(found)


def written(text: str) -> dict[str, str]:
    """The text as each writer of a terminal makes it."""
    stream = io.StringIO()
    VisibleStream(stream).writelines([text])
    rows = ("".join(part for part, _ in row.parts) for row in wrap([(text, None)], 30))
    return {
        "a stream": stream.getvalue(),
        "a line": one_line(text, 60),
        "JSON": visible_json(json.dumps(text, ensure_ascii=False)),
        "a segment": segment(text).text,
        "wrapped rows": "\n".join(rows),
        "an answer": "\n".join(line.strip.text for line in render_markdown(text, 40, PALETTE)),
    }


@pytest.mark.soak(tried=CASES, row="fuzzed terminal")
@pytest.mark.parametrize("group", range(4 if FACTOR else 1))
def test_no_mixture_acts_or_hides_wherever_it_is_written(group: int) -> None:
    dice = chance(group)
    for _ in range(CASES):
        text = mixed(dice)
        for place, found in written(text).items():
            acting = set(sequences(found.encode("utf-8"))) - {"'\\n'", "'\\t'"}
            assert not acting, (place, text, found)


def test_what_acts_is_seen() -> None:
    """The control: the same mixtures, written as they are, act or hide."""
    dice, seen = chance("control"), 0
    for _ in range(100):
        try:
            seen += bool(
                set(sequences(mixed(dice).encode("utf-8", "replace"))) - {"'\\n'", "'\\t'"}
            )
        except AssertionError:
            seen += 1
    assert seen > 50
    assert visible("\x1b[2J") == "\\x1b[2J"
