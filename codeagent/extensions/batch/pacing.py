"""Shares the rate limits of providers between all tasks of a batch: one queue for each model, in the
process of the batch or in an actor of the cluster."""

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from math import inf, nextafter
from typing import Any

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex

_MINUTE = 60.0
_LONGEST_PAUSE = 60.0
_WIDEST_GAP = 20.0
_INSTANT = 1e-6
"""A wait of fewer seconds counts as none."""
_HEADER = re.compile(
    r"(?:x|anthropic)-ratelimit-(?:(?P<what>requests|(?:input-)?tokens)-(?P<says>limit|remaining)"
    r"|(?P<says_first>limit|remaining)-(?P<what_last>requests|tokens))"
)
"""The headers in which OpenAI, Anthropic and others with the same names give their limits per
minute."""
_NUMBER = lazy_regex(r"[0-9]{1,12}")
Limits = Mapping[str, Mapping[str, int]]
"""For `requests` and `tokens`: the `limit` per minute, and how much is `remaining`."""


def limits_in(headers: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """Return what the headers of a response say about the limits per minute."""
    found: dict[str, dict[str, int]] = {}
    for name, value in headers.items():
        match = _HEADER.fullmatch(name)
        if match is None or not _NUMBER.fullmatch(value):
            continue
        what = (match["what"] or match["what_last"]).removeprefix("input-")
        found.setdefault(what, {})[match["says"] or match["says_first"]] = int(value)
    return found


@dataclass
class _Bucket:
    """What is left of a limit per minute; it refills evenly."""

    limit: float = 0.0
    """Requests or tokens per minute; 0 if unknown."""
    left: float = 0.0
    """How much was left at the time `at`."""
    at: float = 0.0

    def heard(self, said: Mapping[str, int], on_their_way: float, now: float) -> None:
        """Take over what a response says, less the requests on their way, which it does not count:
        those for which nothing is left are refused, and take nothing."""
        before = self.limit
        self.limit = float(said.get("limit", before))
        if self.limit != before:
            self.left = self.limit
        left = said.get("remaining", self.limit) - on_their_way
        self.left = min(self._left(now), max(left, 0.0))
        self.at = now

    def wait(self, size: float, now: float) -> float:
        """Return how many seconds to wait until a request of this size has room; one that is larger
        than the limit needs all of it."""
        if not self.limit:
            return 0.0
        missing = min(size, self.limit) - self._left(now)
        return max(0.0, missing / self.limit * _MINUTE)

    def take(self, size: float, now: float) -> None:
        """Count a request of this size."""
        self.left = self._left(now) - min(size, self.limit)
        self.at = now

    def _left(self, now: float) -> float:
        return min(self.limit, self.left + (now - self.at) / _MINUTE * self.limit)


class _Lane:
    """The requests to one model."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._buckets = {"requests": _Bucket(), "tokens": _Bucket()}
        self._paused_until = 0.0
        self._paused_at = 0.0
        self._gap = 0.0
        """Seconds between two requests: longer after each refusal, shorter after each response."""
        self._last = 0.0
        self._on_their_way: dict[float, Mapping[str, float]] = {}
        """What each request without a response takes of the limits, by the time when it began."""
        self.waiting: deque[tuple[int, asyncio.Future[float]]] = deque()
        """The tokens of each waiting request, and what gets the time when it begins."""
        self.pump: asyncio.Task[None] | None = None
        """Lets waiting requests begin."""

    def heard(self, began: float, limits: Limits) -> None:
        """Take note of a response to the request that began at this time."""
        now = self._clock()
        self._on_their_way = {
            at: sizes
            for at, sizes in self._on_their_way.items()
            if at != began and now - at < _MINUTE
        }
        for what, said in limits.items():
            others = sum(sizes[what] for sizes in self._on_their_way.values())
            self._buckets[what].heard(said, others, now)
        if now >= self._paused_until:  # others of the same wave may still get a response
            self._gap = self._gap * 0.95 if self._gap > 0.05 else 0.0

    def refused(self, began: float, retry_after: float | None) -> None:
        """Pause for `retry_after` seconds, at least 1 and at most 60. If the request began before the
        last pause, it can only make that pause longer."""
        now = self._clock()
        until = now + min(max(retry_after or 0.0, 1.0), _LONGEST_PAUSE)
        if began <= self._paused_at:
            if now < self._paused_until:
                self._paused_until = max(self._paused_until, until)
            return
        self._gap = min(max(self._gap * 2, 0.25), _WIDEST_GAP)
        self._paused_at = max(now, self._last)
        self._paused_until = until

    def begin_next(self) -> float | None:
        """Let the next request begin if it may. Return the seconds until the next look, None if no
        request waits."""
        while self.waiting and self.waiting[0][1].done():
            self.waiting.popleft()  # given up
        if not self.waiting:
            return None
        size, waiting = self.waiting[0]
        now = self._clock()
        sizes = {"requests": 1.0, "tokens": float(size)}
        wait = max(
            self._paused_until - now,
            self._last + self._gap - now,
            *(bucket.wait(sizes[what], now) for what, bucket in self._buckets.items()),
        )
        if wait > _INSTANT:
            return wait
        for what, bucket in self._buckets.items():
            bucket.take(sizes[what], now)
        self._last = max(now, nextafter(self._last, inf))  # this time identifies the request
        self._on_their_way[self._last] = sizes
        self.waiting.popleft()
        waiting.set_result(self._last)
        return 0.0


class Limiter:
    """Says when each request may begin: for each model, in the order in which they came."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lanes: dict[str, _Lane] = {}

    async def begin(self, model: str, tokens: int) -> float:
        """Wait until a request of about so many tokens may begin; return the time by the clock, which
        identifies it."""
        waiting: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        lane = self._lane(model)
        lane.waiting.append((tokens, waiting))
        if lane.pump is None or lane.pump.done():
            lane.pump = asyncio.ensure_future(_pump(lane))
        return await waiting

    def answered(self, model: str, began: float, limits: Limits) -> None:
        self._lane(model).heard(began, limits)

    def refused(self, model: str, began: float, retry_after: float | None) -> None:
        self._lane(model).refused(began, retry_after)

    def _lane(self, model: str) -> _Lane:
        return self._lanes.setdefault(model, _Lane(self._clock))


async def _pump(lane: _Lane) -> None:
    while (wait := lane.begin_next()) is not None:  # noqa: ASYNC110  # see below
        await asyncio.sleep(min(wait, 0.2))  # a response may change it at any time


class SharedPacing:
    """Asks the process that has the limiter, for one model (a `llm.server_knowledge.Pacing`)."""

    def __init__(self, line: "PacingLine", model: str) -> None:
        self._line = line
        self._model = model
        self._asked: list[asyncio.Future[float]] = []
        """Open questions whose request has given up: the next request takes one over."""
        self._began = 0.0

    async def may_begin(self, tokens: int, seconds: float) -> bool:
        asked = self._asked.pop(0) if self._asked else self._line.ask(self._model, tokens)
        try:
            await asyncio.wait((asked,), timeout=seconds)
        finally:
            if not asked.done():
                self._asked.append(asked)
        if not asked.done():
            return False
        self._began = asked.result()
        return True

    def answered(self, headers: Mapping[str, str]) -> None:
        self._line.tell({"limits": [self._model, self._began, limits_in(headers)]})

    def refused(self, retry_after: float | None) -> None:
        self._line.tell({"refused": [self._model, self._began, retry_after]})


class PacingLine:
    """The connection of a worker to the process that has the limiter."""

    def __init__(self, tell: Callable[[Mapping[str, Any]], None]) -> None:
        self.tell = tell
        self._asked: dict[int, asyncio.Future[float]] = {}
        self._number = 0

    def ask(self, model: str, tokens: int) -> asyncio.Future[float]:
        """Ask for a request to begin; the result is the time when it may."""
        self._number += 1
        asked = self._asked[self._number] = asyncio.get_running_loop().create_future()
        self.tell({"asks": [self._number, model, tokens]})
        return asked

    def go(self, number: int, began: float) -> None:
        """Take the answer to the question with this number."""
        self._asked.pop(number).set_result(began)
