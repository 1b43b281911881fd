"""Totals of requests by day, model or repository."""

import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from codeagent.core.dataclass import dataclass
from codeagent.disk.repository import repository_of
from codeagent.extensions.usage.requests import SpentRequest, SpentSession

By = Literal["day", "model", "repository"]
WAYS: tuple[By, ...] = get_args(By)
_MOST_DAYS = 36_500
"""Calendars of some systems do not go back further."""


@dataclass(frozen=True)
class Total:
    """The sum of some requests."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    nanodollars: int = 0
    without_price: int = 0
    """Requests whose cost is not known."""

    def plus(self, one: SpentRequest) -> "Total":
        return Total(
            requests=self.requests + 1,
            input_tokens=self.input_tokens + one.input_tokens,
            output_tokens=self.output_tokens + one.output_tokens,
            cache_read_tokens=self.cache_read_tokens + one.cache_read_tokens,
            nanodollars=self.nanodollars + (one.nanodollars or 0),
            without_price=self.without_price + (one.nanodollars is None),
        )

    @property
    def cost(self) -> str:
        """The cost in dollars; `≥` if some of it is not known."""
        if self.requests and self.without_price == self.requests:
            return "unknown"
        return f"{'≥' * (self.without_price > 0)}${self.nanodollars / 10**9:,.4f}"

    @property
    def weight(self) -> tuple[int, int]:
        """The key by which totals are compared: their cost, then their tokens."""
        return self.nanodollars, self.input_tokens + self.output_tokens


@dataclass(frozen=True)
class Totals:
    by: By
    groups: dict[str, Total]
    """Days in their order, else the largest first."""
    whole: Total

    def share(self, total: Total) -> float:
        """Compare a total with the largest: by cost, or by tokens if no cost is known."""
        at = 0 if self.whole.nanodollars else 1
        return total.weight[at] / max(1, *(each.weight[at] for each in self.groups.values()))


def totals(sessions: Iterable[SpentSession], by: By) -> Totals:
    """Add up every request once, in its group. Blocks on small files."""
    groups: dict[str, Total] = {}
    whole = Total()
    for session in sessions:
        for one in session.requests:
            name = _group(one, session.workspace, by)
            groups[name] = groups.get(name, Total()).plus(one)
            whole = whole.plus(one)
    if by == "day":
        return Totals(by, dict(sorted(groups.items())), whole)
    ranked = sorted(groups.items(), key=lambda found: found[1].weight, reverse=True)
    return Totals(by, dict(ranked), whole)


def _group(one: SpentRequest, workspace: str, by: By) -> str:
    match by:
        case "day":
            return time.strftime("%Y-%m-%d", time.localtime(one.at))
        case "model":
            return one.model or "unknown"
        case "repository":
            return _repository(workspace) if workspace else "unknown"


@cache
def _repository(workspace: str) -> str:
    """Return the work tree that a folder belongs to; of a linked worktree, the main one."""
    found = repository_of(Path(workspace))
    if found is None:
        return workspace
    return str(found.top if found.outside is None else found.outside.directory.parent)


def since_days(days: int, now: float) -> float:
    """Return when the first of that many days began, in local time; the last is today."""
    today = time.localtime(now)
    first = today.tm_mday - min(days, _MOST_DAYS) + 1
    start = (today.tm_year, today.tm_mon, first, 0, 0, 0, 0, 0, -1)
    return time.mktime(start)
