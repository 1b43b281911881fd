"""What a run may use up before it stops (FEATURES F32)."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from codeagent.core.messages import Usage


@dataclass(frozen=True)
class Limits:
    """Per run; a limit of None does not apply."""

    max_turns: int | None = 200
    max_calls: int | None = 1000
    timeout_per_call: float | None = None
    """Seconds; a tool's own limit still holds where it is shorter."""
    max_cost_usd: float | None = None
    max_concurrency: int = 8
    """Calls that run at the same time; further ones wait."""
    max_tokens: int | None = None
    """Of input and output together."""
    max_seconds: float | None = None
    """By the clock on the wall, so that waiting for the person counts."""


@dataclass(frozen=True)
class Reached:
    limit: str
    maximum: float


class Meter:
    """Counts one run against its limits."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        """The run begins now; `clock` gives seconds that never go back."""
        self._limits = limits
        self._clock = clock
        self._started = clock()
        self._extended: dict[str, float] = {}
        self.turns = 0
        self.calls = 0
        self.refused = 0
        """Calls that were asked for past the limit."""
        self.usage = Usage()
        self._last = Usage()
        """Of the last request: what the next one will take, for all that is known."""

    def add_request(self, usage: Usage) -> None:
        self.usage += usage
        self._last = usage

    def before_request(self) -> Reached | None:
        """What forbids another request."""
        spent = {
            "max_turns": (float(self.turns), 1.0),
            "max_cost_usd": (self.usage.cost_usd or 0.0, self._last.cost_usd or 0.0),
            "max_tokens": (float(_tokens(self.usage)), float(_tokens(self._last))),
            "max_seconds": (self._clock() - self._started, 0.0),
        }
        for limit, (used, coming) in spent.items():
            most = self._most(limit)
            if most is not None and (used >= most or used + coming > most):
                return Reached(limit, most)
        return None

    def after_calls(self) -> Reached | None:
        """What was hit by the calls just made; asking for exactly the limit is within it."""
        limit = self._most("max_calls")
        return Reached("max_calls", limit) if limit is not None and self.refused else None

    def calls_left(self) -> int | None:
        """How many more calls may run; None where there is no limit."""
        limit = self._most("max_calls")
        return None if limit is None else max(0, int(limit) - self.calls)

    def extend(self, reached: Reached) -> None:
        """The person allows as much again; of time from now on, since it went by while they were asked."""
        if reached.limit == "max_seconds":
            self._extended["max_seconds"] = self._clock() - self._started
        else:
            self._extended[reached.limit] = self._extended.get(reached.limit, 0.0) + (self._first(reached.limit) or 0.0)
        self.refused = 0

    def _most(self, limit: str) -> float | None:
        first = self._first(limit)
        return None if first is None else first + self._extended.get(limit, 0.0)

    def _first(self, limit: str) -> float | None:
        limits = self._limits
        return {
            "max_turns": limits.max_turns,
            "max_calls": limits.max_calls,
            "max_cost_usd": limits.max_cost_usd,
            "max_tokens": limits.max_tokens,
            "max_seconds": limits.max_seconds,
        }[limit]


def _tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens
