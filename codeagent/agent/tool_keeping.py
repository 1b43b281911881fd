"""The tools of one conversation for its person: to be looked at, and to say yes or no to."""

from collections.abc import Callable

from codeagent.agent.briefing import Briefing
from codeagent.agent.emitter import Emitter
from codeagent.core.toolbox import Toolbox


class ToolKeeping:
    """The ToolKeeper of `core.toolbox`: while no run is going on, what was said holds at once."""

    def __init__(self, briefing: Briefing, emitter: Emitter, running: Callable[[], bool]) -> None:
        self._briefing = briefing
        self._emitter = emitter
        self._running = running

    @property
    def now(self) -> Toolbox:
        return self._briefing.catalog.now

    async def trust(self) -> None:
        """Raises ConfigError."""
        await self._briefing.catalog.trust()
        await self._take_in()

    async def distrust(self) -> None:
        """Raises ConfigError."""
        await self._briefing.catalog.distrust()
        await self._take_in()

    async def _take_in(self) -> None:
        if not self._running():
            await self._briefing.at_boundary(self._emitter)
