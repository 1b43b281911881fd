"""The boundary: where a run waits for the person, and what they may do to the batch that comes next."""

from codeagent.agent.gate import Gate
from codeagent.agent.limits import BudgetMeter
from codeagent.agent.planned import Planned
from codeagent.core.cancel import CancelToken
from codeagent.core.notices import PauseReason


class Boundary:
    """The gate, with the batch that waits behind it. No time is spent while a run waits."""

    def __init__(self, gate: Gate, spending: BudgetMeter) -> None:
        self._gate = gate
        self._spending = spending
        self._planned: Planned | None = None

    async def wait(self, batch: int, token: CancelToken, planned: Planned | None = None) -> None:
        """Return at once unless the person wants to step in. Raises RunCancelled."""
        self._planned = planned
        self._spending.rest()
        try:
            await self._gate.wait(batch, token, [call.id for call in planned.left] if planned else ())
        finally:
            self._planned = None
            self._spending.work()

    async def hold(self, why: PauseReason, text: str, batch: int, token: CancelToken) -> None:
        """Wait until the person goes on. Raises RunCancelled."""
        self._spending.rest()
        try:
            await self._gate.hold(why, text, batch, token)
        finally:
            self._spending.work()

    def skip(self, call_id: str, reason: str) -> bool:
        """False where no such call waits."""
        return self._planned is not None and self._planned.skip(call_id, reason)

    def edit(self, call_id: str, arguments: str) -> bool:
        """False where no such call waits. Raises ConfigError where the arguments do not fit."""
        return self._planned is not None and self._planned.edit(call_id, arguments)
