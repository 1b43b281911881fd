"""What a run may use up before it stops (FEATURES F32)."""

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


@dataclass(frozen=True)
class Reached:
    limit: str
    maximum: float


class Meter:
    """Counts one run against its limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._extended: dict[str, float] = {}
        self.turns = 0
        self.calls = 0
        self.refused = 0
        """Calls that were asked for past the limit."""
        self.executed = 0
        self.denied = 0
        self.usage = Usage()
        self._last_cost = 0.0
        """Of the last request, in US dollars: what the next one will take, for all that is known."""

    def add_request(self, usage: Usage) -> None:
        self.usage += usage
        self._last_cost = usage.cost_usd or 0.0

    def before_request(self) -> Reached | None:
        """What forbids another request."""
        turns = self._most("max_turns", self._limits.max_turns)
        cost = self._most("max_cost_usd", self._limits.max_cost_usd)
        if turns is not None and self.turns >= turns:
            return Reached("max_turns", turns)
        spent = self.usage.cost_usd or 0.0
        if cost is not None and (spent >= cost or spent + self._last_cost > cost):
            return Reached("max_cost_usd", cost)
        return None

    def after_calls(self) -> Reached | None:
        """What was hit by the calls just made; asking for exactly the limit is within it."""
        limit = self._most("max_calls", self._limits.max_calls)
        return Reached("max_calls", limit) if limit is not None and self.refused else None

    def calls_left(self) -> int | None:
        """How many more calls may run; None where there is no limit."""
        limit = self._most("max_calls", self._limits.max_calls)
        return None if limit is None else max(0, int(limit) - self.calls)

    def extend(self, reached: Reached) -> None:
        """The person allows as much again."""
        self._extended[reached.limit] = self._extended.get(reached.limit, 0.0) + _first(self._limits, reached.limit)
        self.refused = 0

    def _most(self, limit: str, first: float | None) -> float | None:
        return None if first is None else first + self._extended.get(limit, 0.0)


def _first(limits: Limits, limit: str) -> float:
    return float(
        {"max_turns": limits.max_turns, "max_calls": limits.max_calls, "max_cost_usd": limits.max_cost_usd}[limit] or 0
    )
