"""Watching an agent that runs: what it emitted, where it waits, what its model heard."""

import asyncio
from collections.abc import Callable
from typing import Any

from codeagent.core.events import KnownEvent, RunFinished
from codeagent.core.messages import ToolMessage, text_of
from codeagent.core.notices import RunPaused
from tests.agent.doubles import Scene, of


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  # whatever it waits for, it shows in the events
            await asyncio.sleep(0)


def watched(s: Scene) -> list[KnownEvent]:
    s.agent.observe(s.events.append)
    return s.events


def paused(s: Scene) -> list[RunPaused]:
    return of(s.events, RunPaused)


def heard(s: Scene) -> list[str]:
    """The results as the model got them with its last request."""
    return [text_of(m.content) for m in s.model.requests[-1].messages if isinstance(m, ToolMessage)]


async def to_the_end(s: Scene, runs: int = 1) -> None:
    """Return once so many runs have ended."""
    await until(lambda: len(of(s.events, RunFinished)) >= runs)


def notices(s: Scene, code: str) -> list[Any]:
    return [event for event in s.events if getattr(event, "code", "") == code]
