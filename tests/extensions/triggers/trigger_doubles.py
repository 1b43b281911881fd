"""A clock that a test moves, and a scene with the tools over triggers in it."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from codeagent.core.events import KnownEvent
from codeagent.core.jobs import TriggerFired
from codeagent.extensions.triggers import EXTENSION
from codeagent.extensions.triggers.tools import trigger_tools
from codeagent.extensions.triggers.triggers import Clock, Triggers
from codeagent.session.fold import fold
from tests.agent.doubles import Turn
from tests.agent.job_doubles import Backstage

START = 1_900_000_000.0


class ManualClock(Clock):
    """Stands still until it is moved."""

    def __init__(self, now: float = START) -> None:
        self._now = now
        self._set = 0.0
        self._waiting: list[tuple[float, asyncio.Event]] = []

    def now(self) -> float:
        return self._now

    def steady(self) -> float:
        return self._now - self._set

    async def wait(self, seconds: float, event: asyncio.Event) -> None:
        if seconds <= 0:
            return
        over = asyncio.Event()
        self._waiting.append((self._now + seconds, over))
        waits = {asyncio.ensure_future(one.wait()) for one in (over, event)}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()

    def set(self, seconds: float) -> None:
        """Set it forward, or back, while no time passes."""
        self._set += seconds
        self._now += seconds
        self._waiting = [(when + seconds, over) for when, over in self._waiting]

    def move(self, seconds: float) -> None:
        self._now += seconds
        for when, over in self._waiting:
            if when <= self._now:
                over.set()
        self._waiting = [(when, over) for when, over in self._waiting if not over.is_set()]


class Waiting(Backstage):
    """A scene with triggers."""

    def __init__(
        self,
        *turns: Turn,
        attended: bool = True,
        clock: ManualClock | None = None,
        past: Sequence[KnownEvent] = (),
        awaited: bool = False,
        **options: Any,
    ) -> None:
        """`past`: the events of the session so far."""
        self.clock = clock or ManualClock()
        self.triggers = Triggers(self.clock, awaited=awaited)
        super().__init__(
            *turns,
            attended=attended,
            more=trigger_tools(self.triggers),
            parts=(self.triggers,),
            acts=EXTENSION.in_conversations.acts,
            restored=fold(past),
            **options,
        )

    async def begun(self) -> "Waiting":
        await self.agent.begin_session(resumed=True)
        return self

    def fired(self) -> list[TriggerFired]:
        return [event for event in self.events if isinstance(event, TriggerFired)]


def call(name: str, /, **arguments: object) -> tuple[str, str]:
    return name, json.dumps(arguments)
