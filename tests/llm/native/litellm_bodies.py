"""What litellm posts for a request, captured on loopback."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from codeagent.core.budget import Effort
from codeagent.core.errors import ModelError
from codeagent.core.model import ModelRequest
from codeagent.llm.litellm_model import LitellmModel
from codeagent.llm.providers import Target, native_target
from tests.llm.asking import ask
from tests.servers import FakeProvider, Turn, running

Json = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """A model, and how it is asked."""

    name: str
    effort: Effort | None = None

    def target(self, api_base: str) -> Target:
        """Return what the native lane makes of the name."""
        target = native_target(self.name, api_base, "k", {})
        assert target is not None
        return target

    def __str__(self) -> str:
        return self.name if self.effort is None else f"{self.name} at {self.effort}"


async def posted(asked: Asked, requests: Iterable[ModelRequest]) -> tuple[Target, list[Json]]:
    """Return what the name stands for, and the bodies; every request is refused once it has
    come."""
    server = FakeProvider(
        [Turn(status=400)], lambda _: b"", lambda _: [], chunk=0, delay=0, repeat=True
    )
    async with running(server, "" if asked.name.startswith("anthropic/") else "/v1"):
        model = LitellmModel(
            asked.name,
            api_base=server.base_url,
            api_key="k",
            thinking=asked.effort,
            idle_timeout=20,
        )
        for request in requests:
            with suppress(ModelError):
                await ask(model, request)
        await model.close()
    return asked.target(server.base_url), [r.body for r in server.requests]
