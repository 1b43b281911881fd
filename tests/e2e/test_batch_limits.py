"""A batch and a server with a limit: the server tells the limit, tells how long to wait, or only refuses
requests that come too early."""

import asyncio
import json
import re
import time
from abc import ABC, abstractmethod
from collections import Counter
from typing import Any

import pytest

from tests.e2e.product import Product
from tests.e2e.test_batch import Batch
from tests.effort import part, up_to
from tests.servers import (
    FakeProvider,
    Json,
    Turn,
    anthropic_server,
    openai_server,
    responses_server,
)

SECONDS = 2
"""The `retry-after` of a refused request, if it has one."""
A_SECOND = 1
"""The requests per second that a limit in the headers allows."""
LANES: dict[str, tuple[Any, str, dict[str, str], str]] = {
    "chat": (openai_server, "openai/fake", {}, "x-ratelimit-{}-requests"),
    "responses": (responses_server, "openai/responses/gpt-5", {}, "x-ratelimit-{}-requests"),
    "anthropic": (
        anthropic_server,
        "anthropic/claude-sonnet-4-5",
        {},
        "anthropic-ratelimit-requests-{}",
    ),
    "litellm": (openai_server, "openai/fake", {"wire": "litellm"}, "x-ratelimit-{}-requests"),
}


pytestmark = pytest.mark.soak


class Gate(ABC):
    """Refuses requests that come too early."""

    def __init__(self, server: FakeProvider) -> None:
        self.server = server
        self.refused = Counter[str]()
        """How often each task was refused."""
        server.check = self._refusal

    @abstractmethod
    def may_pass(self) -> bool:
        """Whether a request that comes now is accepted."""

    def headers(self, *, refused: bool) -> dict[str, str]:
        return {}

    def _refusal(self, body: Json) -> Turn | None:
        if self.may_pass():
            self.server.turns = [Turn(text="done", headers=self.headers(refused=False))]
            return None
        self.refused[re.findall(r"task \d+", json.dumps(body))[-1]] += 1
        error = json.dumps({"error": {"message": "too many requests", "type": "rate_limit_error"}})
        return Turn(status=429, headers=self.headers(refused=True), body=error)


class Shutter(Gate):
    """Accepts so many requests, and then refuses all of them for a while."""

    def __init__(self, server: FakeProvider, most: int, *, says_when: bool) -> None:
        super().__init__(server)
        self._most, self._says_when = most, says_when
        self._opens = 0.0
        self._let = 0
        self.waves: list[int] = []
        """How many requests were refused each time."""

    def may_pass(self) -> bool:
        now = time.monotonic()
        if self._let == self._most:
            self._let, self._opens = 0, now + (SECONDS if self._says_when else 1)
            self.waves.append(0)
        if now < self._opens:
            self.waves[-1] += 1
            return False
        self._let += 1
        return True

    def headers(self, *, refused: bool) -> dict[str, str]:
        return {"retry-after": str(SECONDS)} if refused and self._says_when else {}


class Bucket(Gate):
    """Tells its limit, of which little is left at the beginning and which refills evenly."""

    def __init__(self, server: FakeProvider, left: int, header: str) -> None:
        super().__init__(server)
        self._header = header
        self._left = float(left)
        self._at = time.monotonic()

    def may_pass(self) -> bool:
        now = time.monotonic()
        self._left = min(60.0 * A_SECOND, self._left + (now - self._at) * A_SECOND)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def headers(self, *, refused: bool) -> dict[str, str]:
        said = {"limit": 60 * A_SECOND, "remaining": int(self._left)}
        return {self._header.format(name): str(value) for name, value in said.items()}


async def work(product: Product, lane: str, server: FakeProvider, slots: int, number: int) -> None:
    """Run a batch of so many tasks to its end."""
    _, model, settings, _ = LANES[lane]
    batch = Batch(product)
    own = {"model": model, "settings": {"api_base": server.base_url, **settings}}
    batch.write(*(batch.task(each) | own for each in range(number)))
    environment = product.environment | {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    words = (*batch.words, "--sandbox", "off", "--slots", str(slots))
    done = await asyncio.to_thread(product.call_apart, *words, env=environment)
    assert done.code == 0, done.err
    assert server.rejected == []
    assert [record["state"] for record in batch.records] == ["done"] * number


@pytest.mark.parametrize("lane", part([*LANES], 1))
async def test_a_limit_that_the_server_tells_is_never_exceeded(lane: str, product: Product) -> None:
    make_server, _, _, header = LANES[lane]
    slots, number = up_to(2, 8), up_to(4, 40)
    async with make_server([Turn(text="done")], repeat=True) as server:
        gate = Bucket(server, slots, header)
        await work(product, lane, server, slots, number)
    assert gate.refused == {}
    assert len(server.requests) == number


CASES = [(lane, says_when) for says_when in (True, False) for lane in LANES]


@pytest.mark.parametrize(("lane", "says_when"), part(CASES, 2))
async def test_a_refusal_slows_all_tasks_once_and_each_of_them_ends(
    lane: str, says_when: bool, product: Product
) -> None:
    slots, number = up_to(3, 8), up_to(6, 40)
    async with LANES[lane][0]([Turn(text="done")], repeat=True) as server:
        gate = Shutter(server, up_to(2, 10), says_when=says_when)
        await work(product, lane, server, slots, number)
    assert len(gate.waves) >= (number - 1) // up_to(2, 10)
    assert max(gate.waves) <= slots, "only those that were on their way are refused"
    assert max(gate.refused.values()) <= len(gate.waves), "each of them once"
