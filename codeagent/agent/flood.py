"""Thins out what comes too fast for whoever watches."""

import time

_CHARACTERS_PER_SECOND = 1 << 20


class Flood:
    """Lets a megabyte a second through; what it holds back is counted and said."""

    def __init__(self) -> None:
        self._window = time.monotonic()
        self._shown = 0
        self._held_back = 0

    def take(self, text: str) -> str:
        """What of it is to be shown now; may be empty."""
        now = time.monotonic()
        if now - self._window >= 1:
            self._window, self._shown = now, 0
        self._shown += len(text)
        if self._shown > _CHARACTERS_PER_SECOND:
            self._held_back += len(text)
            return ""
        if self._held_back and text:
            text = f"\n[… {self._held_back} characters went by too fast to show …]\n{text}"
            self._held_back = 0
        return text
