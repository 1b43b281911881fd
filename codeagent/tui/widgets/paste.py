"""Pasted text: made harmless where it is short, and a chip that stands for it where it is long."""

import re

from codeagent.core.sanitize import visible

_MOST_LINES = 10
_MOST_CHARACTERS = 1_000
# The spaces of a chip do not break, which no key types: only a paste or its own text coming back makes a chip.
_CHIP = re.compile("\\[pasted\xa0[\\d,]+\xa0characters,\xa0[\\d,]+\xa0lines?\xa0#\\d+\\]")


def unified(text: str) -> str:
    """The text with every line break as a newline: terminals send carriage returns for those of a paste."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def harmless(text: str) -> str:
    """Text that can stand in the composer: what would act on a terminal is shown instead."""
    return visible(unified(text))


def is_long(text: str) -> bool:
    """A paste of this text becomes a chip."""
    return len(text) > _MOST_CHARACTERS or unified(text).count("\n") >= _MOST_LINES


class Chips:
    """The long texts that chips stand for; a chip is told by its exact words, `[pasted 5,000 characters, 80 lines #1]`.

    Numbers are not used again, so that a chip that comes back by undo still means what it did.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._last = 0
        self._expanded = ("", "")

    def __bool__(self) -> bool:
        return bool(self._texts)

    def add(self, text: str) -> str:
        """Keep the text; returns its chip."""
        self._last += 1
        text = unified(text)
        lines = text.count("\n") + 1
        words = f"[pasted {len(text):,} characters, {lines:,} {'line' if lines == 1 else 'lines'} #{self._last}]"
        chip = words.replace(" ", "\xa0")
        self._texts[chip] = text
        return chip

    def clear(self) -> None:
        """Forget the texts."""
        self._texts.clear()
        self._expanded = ("", "")

    def spans(self, line: str) -> list[tuple[int, int]]:
        """(start, end) of every chip in a line, in characters."""
        if not self._texts or "\xa0" not in line:
            return []
        return [hit.span() for hit in _CHIP.finditer(line) if hit[0] in self._texts]

    def expand(self, text: str) -> str:
        """The text with what every chip stands for in its place."""
        if not self._texts or "\xa0" not in text:
            return text
        if self._expanded[0] != text:
            whole = _CHIP.sub(lambda hit: self._texts.get(hit[0], hit[0]), text)
            self._expanded = (text, whole)
        return self._expanded[1]
