"""Budgets, what a user is willing to spend before they are asked again; and durations as text."""

import re
from typing import Any, Literal

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.lazy_regex import lazy_regex

Effort = Literal["off", "low", "medium", "high"] | int
"""How much a model thinks before it answers: a level, or a budget in tokens."""
LEVELS: tuple[Literal["off", "low", "medium", "high"], ...] = ("off", "low", "medium", "high")
_MOST_THOUGHT = 1_000_000
BudgetKind = Literal["usd", "tokens", "seconds", "batches"]
_MONEY = lazy_regex(r"\$\s*(?P<dollars>\d+(?:\.\d+)?)|(?P<usd>\d+(?:\.\d+)?)\s*(?:usd|dollars?|\$)")
_COUNT = lazy_regex(
    r"(?P<number>\d+(?:\.\d+)?)\s*(?P<scale>[km]?)\s*(?P<unit>tokens?|tok|batch(?:es)?)"
)
_TIME = lazy_regex(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>s|sec|seconds?|m|min|minutes?|h|hours?)")
_SCALES = {"": 1, "k": 1_000, "m": 1_000_000}
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def parse_effort(text: str) -> Effort:
    """Raises ConfigError unless it is a level, or a number of tokens up to a million."""
    plain = text.strip().lower()
    if (level := next((level for level in LEVELS if level == plain), None)) is not None:
        return level
    if re.fullmatch("[0-9]{1,7}", plain) and 0 < int(plain) <= _MOST_THOUGHT:
        return int(plain)
    raise ConfigError(
        f"use off, low, medium, high or a number of tokens, not {text.strip()[:40]!r}"
    )


def said_effort(effort: Effort) -> str:
    return effort if isinstance(effort, str) else f"up to {effort} tokens"


@dataclass(frozen=True)
class Budget:
    """A budget counts from when it is set; `/budget off` removes it."""

    kind: BudgetKind
    amount: float
    """US dollars, tokens of input and output, seconds of work (waiting for the user not counted),
    or batches."""

    @classmethod
    def parse(cls, text: str) -> "Budget":
        """Parse `$2`, `200k tokens`, `30 min` or `10 batches`. Raises ConfigError."""
        plain = text.strip().lower()
        found = cls._money(plain) or cls._count(plain) or cls._time(plain)
        if found is None or found.amount <= 0:
            raise ConfigError(
                f"no such budget: {text.strip()!r}; use $2, 200k tokens, 30 min or 10 batches"
            )
        return found

    @classmethod
    def _money(cls, text: str) -> "Budget | None":
        match = _MONEY.fullmatch(text)
        return cls("usd", float(match["dollars"] or match["usd"])) if match else None

    @classmethod
    def _count(cls, text: str) -> "Budget | None":
        match = _COUNT.fullmatch(text)
        if match is None:
            return None
        amount = float(match["number"]) * _SCALES[match["scale"]]
        return cls("tokens" if match["unit"].startswith("tok") else "batches", amount)

    @classmethod
    def _time(cls, text: str) -> "Budget | None":
        match = _TIME.fullmatch(text)
        return (
            cls("seconds", float(match["number"]) * _SECONDS[match["unit"][0]]) if match else None
        )

    def __str__(self) -> str:
        match self.kind:
            case "usd":
                return f"${self.amount:g}"
            case "tokens" if self.amount >= 1000:
                return f"{self.amount / 1000:g}k tokens"
            case "seconds":
                return f"{self.amount / 60:g} min" if self.amount >= 60 else f"{self.amount:g} s"
            case "batches" if self.amount == 1:
                return "1 batch"
            case _:
                return f"{self.amount:g} {self.kind}"


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
"""Seconds in each unit."""
_ONE_DURATION = r"(\d{1,12}(?:\.\d{1,9})?)(ms|[smhd])"
_PART = lazy_regex(_ONE_DURATION, re.ASCII)
_WHOLE = lazy_regex(f"(?:{_ONE_DURATION})+", re.ASCII)


def as_seconds(value: Any) -> Any:
    """Return the seconds of a duration in text; anything else is returned as it is, for the caller
    to check.

    Raises ValueError for text that is not a duration.
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    if _WHOLE.fullmatch(text) is None:
        raise ValueError("write seconds as a number, or a duration such as 30s, 5m or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
