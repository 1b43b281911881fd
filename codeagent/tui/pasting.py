"""Tells what was pasted from what was typed, so that nothing in a paste can be taken for a key."""

from collections.abc import Iterator
from dataclasses import dataclass

START = "\x1b[200~"
END = "\x1b[201~"


@dataclass(frozen=True)
class TypedText:
    """Keys, mouse and answers of the terminal, as they came."""

    text: str


@dataclass(frozen=True)
class Pasted:
    """One whole paste, whatever it holds."""

    text: str


class PasteReader:
    """Splits the input of a terminal in bracketed paste mode; in time linear in its length."""

    def __init__(self) -> None:
        self._held = ""
        self._paste: list[str] | None = None

    @property
    def holds(self) -> bool:
        """What came last may be a key or the beginning of a paste: without more input soon, `release` it."""
        return self._paste is None and START[:2].startswith(self._held) and bool(self._held)

    def feed(self, text: str) -> Iterator[TypedText | Pasted]:
        """What is certain by now; the rest is kept for the next piece."""
        text, self._held = self._held + text, ""
        while text:
            mark = START if self._paste is None else END
            before, found, rest = text.partition(mark)
            if not found:
                kept = _begun(before, mark)
                before, self._held = before[: len(before) - kept], before[len(before) - kept :]
            if self._paste is not None:
                self._paste.append(before)
            elif before:
                yield TypedText(before)
            if found:
                yield from self._turn()
            text = rest

    def release(self) -> TypedText:
        """What was held, now that it was no beginning of a paste."""
        held, self._held = self._held, ""
        return TypedText(held)

    def _turn(self) -> Iterator[Pasted]:
        """At a mark: a paste begins or ends."""
        if self._paste is None:
            self._paste = []
            return
        yield Pasted("".join(self._paste))
        self._paste = None


def _begun(text: str, mark: str) -> int:
    """How many characters at the end of the text are the beginning of the mark."""
    return next((size for size in range(len(mark) - 1, 0, -1) if text.endswith(mark[:size])), 0)
