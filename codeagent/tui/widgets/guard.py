"""Which key presses are meant for a question: none that were on their way before it could be read."""

from collections.abc import Callable

TOO_SOON = "ignored (just appeared): press again"
QUIET = 0.5
"""Seconds after the question appeared, and after the person typed, in which no key counts."""
REPEAT = 0.7
"""Seconds within which the same key again is a key held down: repeating begins after 0.25 to 0.66."""


class Guard:
    """Decides with `clock`, which gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._closed_until = float("-inf")
        self._appeared = float("-inf")
        self._last_key = ""
        self._last_at = float("-inf")

    def appear(self) -> None:
        """The question was just shown."""
        self._appeared = self._clock()
        self.close()

    def close(self) -> None:
        """Begin the wait again: the user typed, or the window came to the front."""
        self._closed_until = self._clock() + QUIET

    @property
    def new(self) -> bool:
        """The question has been shown for less time than it takes to see it."""
        return self._clock() - self._appeared < QUIET

    @property
    def quiet(self) -> bool:
        """The wait is over."""
        return self._clock() >= self._closed_until

    def admits(self, key: str) -> bool:
        """Take note of a key that would move the focus or answer; True where it counts."""
        now = self._clock()
        held = key == self._last_key and now - self._last_at < REPEAT
        self._last_key, self._last_at = key, now
        return self.quiet and not held
