"""Work time: how long the machine worked on a run, a batch or a call, without what it waited for
the user."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_within: ContextVar["WorkTime | None"] = ContextVar("work_time", default=None)
"""What the code that runs now is a part of; tasks inherit it: a child's run is a part of the call
that started it."""


class WorkTime:
    """Counts seconds from now on; it stops while something in it waits for the user and nothing in
    it works."""

    def __init__(
        self, above: "WorkTime | None" = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`above` is what this is a part of; `clock` gives seconds that never go back."""
        self._above = above
        self._clock = clock
        self._waits = 0
        self._parts = {True: 0, False: 0}
        """How many open parts wait for the user, and how many work."""
        self._seconds = 0.0
        self._since: float | None = clock()
        """None while it waits for the user."""
        if above is not None:
            above._count(waits=False, change=1)

    @property
    def seconds(self) -> float:
        return self._seconds + (0.0 if self._since is None else self._clock() - self._since)

    @property
    def milliseconds(self) -> int:
        return round(self.seconds * 1000)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait for the user within the block; blocks may overlap."""
        self._waits += 1
        self._update()
        try:
            yield
        finally:
            self._waits -= 1
            self._update()

    def close(self) -> None:
        """It is over: what it does from now on does not count above; idempotent."""
        above = self._above
        self._above = None
        if above is not None:
            above._count(waits=self._since is None, change=-1)

    def _count(self, *, waits: bool, change: int) -> None:
        self._parts[waits] += change
        self._update()

    def _update(self) -> None:
        waits = bool(self._waits or self._parts[True]) and not self._parts[False]
        if waits == (self._since is None):
            return
        if self._since is not None:
            self._seconds = self.seconds
            self._since = None
        else:
            self._since = self._clock()
        if self._above is not None:
            # One step, so that nothing above takes both for a moment in which nothing is open.
            self._above._parts[not waits] -= 1
            self._above._count(waits=waits, change=1)


@contextmanager
def part() -> Iterator[WorkTime]:
    """Count the time of the block, as a part of what it runs in."""
    own = WorkTime(_within.get())
    before = _within.set(own)
    try:
        yield own
    finally:
        _within.reset(before)
        own.close()


@contextmanager
def user_waited_for() -> Iterator[None]:
    """Do not count the time of the block, which waits for the user, in what it runs in."""
    if (within := _within.get()) is None:
        yield
        return
    with within.waiting():
        yield
