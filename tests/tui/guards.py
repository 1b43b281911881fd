"""The time that guards of cards and pages see in tests of the screen: it passes only when a test
says so."""

import time
from collections.abc import Callable

import pytest

from codeagent.tui.parts.guard import Guard

_now = 0.0


def stop_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """For every guard that would go by real time; one that is given a clock of its test keeps
    it."""
    begin = Guard.__init__

    def begin_stopped(self: Guard, clock: Callable[[], float]) -> None:
        begin(self, (lambda: _now) if clock is time.monotonic else clock)

    monkeypatch.setattr(Guard, "__init__", begin_stopped)


def long_enough() -> None:
    """What is on screen now has been there long enough to be read, and no key is held down."""
    global _now
    _now += 1.0
