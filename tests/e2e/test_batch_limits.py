"""A batch at a server that allows so many requests in a window of time and refuses the others."""

import asyncio
import json
import time
from typing import Any

import pytest

from tests.e2e.product import Product
from tests.e2e.test_batch import Batch
from tests.effort import up_to
from tests.servers import (
    FakeProvider,
    Json,
    Turn,
    anthropic_server,
    openai_server,
    responses_server,
)

SECONDS = 2
"""How long a window is, and so long a refused request is told to wait."""
LANES: dict[str, tuple[Any, str, dict[str, str]]] = {
    "chat": (openai_server, "openai/fake", {}),
    "responses": (responses_server, "openai/responses/gpt-5", {}),
    "anthropic": (anthropic_server, "anthropic/claude-sonnet-4-5", {}),
    "litellm": (openai_server, "openai/fake", {"wire": "litellm"}),
}


class Gate:
    """Lets so many requests through in each window."""

    def __init__(self, server: FakeProvider, most: int) -> None:
        self._most = most
        self._begun = -float(SECONDS)
        self._let = 0
        self.waves: list[int] = []
        """How many requests each window refused."""
        server.check = self._refusal

    def _refusal(self, body: Json) -> Turn | None:
        now = time.monotonic()
        if now - self._begun >= SECONDS:
            self._begun, self._let = now, 0
            self.waves.append(0)
        self._let += 1
        if self._let <= self._most:
            return None
        self.waves[-1] += 1
        error = json.dumps({"error": {"message": "too many requests", "type": "rate_limit_error"}})
        return Turn(status=429, headers={"retry-after": str(SECONDS)}, body=error)


@pytest.mark.parametrize("lane", LANES)
async def test_a_refusal_slows_all_tasks_once_and_each_of_them_ends(
    lane: str, product: Product
) -> None:
    make_server, model, settings = LANES[lane]
    batch, slots, number = Batch(product), up_to(3, 8), up_to(6, 40)
    async with make_server([Turn(text="done")], repeat=True) as server:
        gate = Gate(server, up_to(2, 10))
        own = {"model": model, "settings": {"api_base": server.base_url, **settings}}
        batch.write(*(batch.task(each) | own for each in range(number)))
        environment = product.environment | {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
        words = (*batch.words, "--sandbox", "off", "--slots", str(slots))
        await asyncio.to_thread(product.call_apart, *words, env=environment)
    assert server.rejected == []
    assert [record["state"] for record in batch.records] == ["done"] * number
    assert any(gate.waves), "it was never too fast"
    assert max(gate.waves) <= slots, "only those that were on their way are refused"
    assert sum(gate.waves) <= slots + number / 2
