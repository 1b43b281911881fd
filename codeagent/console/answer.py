"""Prints an answer while it streams: complete blocks of Markdown are printed for good, and the last
one is shown below them until it is complete."""

from collections.abc import Callable

from codeagent.console.markdown import drawn, finished

_LONGEST = 8000
"""The most characters of a block that is drawn before it is complete; a longer one shows its end as
plain text."""
_CUT = "…"


class GrowingAnswer:
    """Draws one answer after another. `clean` masks secrets; `columns` is the width of the
    terminal."""

    def __init__(
        self, clean: Callable[[str], str], columns: Callable[[], int], *, colours: bool
    ) -> None:
        self._clean = clean
        self._columns = columns
        self._colours = colours
        self._text = ""
        self._printed = 0
        """Characters of the text that were printed."""
        self._enough = 0
        """Characters of the rest from which on it is looked for blocks that are complete."""

    def add(self, piece: str) -> None:
        self._text += piece

    def complete(self) -> str:
        """Return what can be printed for good and has not been yet; empty if nothing can."""
        rest = self._text[self._printed :]
        if len(rest) < self._enough:
            return ""
        end = finished(rest)
        said = self._print(rest[:end])
        # A list of thousands of lines is one block: to read it with each line would take minutes.
        self._enough = len(rest) * 9 // 8 if not end and len(rest) > _LONGEST else 0
        return said

    def flush(self) -> str:
        """Return everything that was not printed yet, because something else follows."""
        return self._print(self._text[self._printed :])

    def growing(self, most: int) -> list[str]:
        """Return at most that many of the last lines of the incomplete block."""
        rest = self._masked(self._text[self._printed :]).strip()
        if len(rest) > _LONGEST:
            rest = f"```\n{rest[-_LONGEST:].partition(chr(10))[2]}"
        return self._drawn(rest)[-most:] if most > 0 else []

    def end(self, text: str) -> str:
        """Return the rest of the whole answer, and begin the next one. What was printed of another
        attempt stays where it is."""
        if not text.startswith(self._text[: self._printed]):
            self._printed = 0
        self._text = text
        said = self.flush()
        self.begin_again()
        return said

    def begin_again(self) -> None:
        """Forget the answer, whose stream broke off."""
        self._text = ""
        self._printed = self._enough = 0

    def _print(self, block: str) -> str:
        self._printed += len(block)
        self._enough = 0
        lines = self._drawn(self._masked(block))
        return "\n".join([*lines, ""]) if lines else ""

    def _drawn(self, text: str) -> list[str]:
        return drawn(text, self._columns(), colours=self._colours) if text.strip() else []

    def _masked(self, block: str) -> str:
        """Mask secrets, including a part of one at either end."""
        return self._clean(f"{_CUT}{block}{_CUT}")[len(_CUT) : -len(_CUT)]
