"""The batch that is planned and has not begun: until then calls can be passed over, or be given other arguments."""

from collections.abc import Sequence
from dataclasses import replace

from codeagent.agent.emitter import Emitter
from codeagent.agent.executor import Executor
from codeagent.agent.results import SettledCall
from codeagent.core.errors import ConfigError
from codeagent.core.events import BatchPlanned
from codeagent.core.messages import ToolCall
from codeagent.core.notices import CallEdited
from codeagent.core.tool import Skipped, ToolError


class Planned:
    """One batch, from its plan to its start."""

    def __init__(self, number: int, calls: Sequence[ToolCall], executor: Executor, emitter: Emitter) -> None:
        self._number = number
        self._calls = {call.id: call for call in calls}
        self._executor = executor
        self._emitter = emitter
        self.edited: set[str] = set()
        """Ids of the calls whose arguments are the person's."""
        self.settled: dict[str, SettledCall] = {}
        """What was passed over."""

    @property
    def left(self) -> tuple[ToolCall, ...]:
        """The calls that are still to run, in order."""
        return tuple(call for call in self._calls.values() if call.id not in self.settled)

    @property
    def targets(self) -> str:
        """What the calls that may change something are about, in one line."""
        plans = [self._executor.plan(call) for call in self.left if self._executor.may_change(call)]
        return ", ".join(f"{plan.name} {plan.target}".strip() for plan in plans)

    @property
    def may_change(self) -> bool:
        """Some call that is left may change files."""
        return any(self._executor.may_change(call) for call in self.left)

    def tell(self) -> None:
        """Emit `batch.planned`."""
        plans = tuple(self._executor.plan(call) for call in self.left)
        self._emitter.emit(BatchPlanned(batch=self._number, calls=plans))

    def skip(self, call_id: str, reason: str) -> bool:
        """False where no such call is left."""
        call = self._calls.get(call_id)
        if call is None or call_id in self.settled:
            return False
        because = f": {reason.strip()}" if reason.strip() else ""
        self.settled[call_id] = self._executor.refuse(call, Skipped(f"skipped by user{because}"), source="user")
        return True

    def skip_all(self, reason: str) -> None:
        """Pass over what is left; `reason` is the model's to read."""
        for call in self.left:
            self.settled[call.id] = self._executor.refuse(call, Skipped(reason))

    def edit(self, call_id: str, arguments: str) -> bool:
        """False where no such call is left. Raises ConfigError where the arguments do not fit."""
        call = self._calls.get(call_id)
        if call is None or call_id in self.settled:
            return False
        edited = replace(call, arguments=arguments)
        try:
            self._executor.check(edited)
        except ToolError as error:
            raise ConfigError(str(error)) from error
        self._calls[call_id] = edited
        self.edited.add(call_id)
        plan = self._executor.plan(edited)
        self._emitter.emit(
            CallEdited(
                text=f"edited by you: {plan.name} {plan.target}",
                call_id=call_id,
                arguments=arguments,
                target=plan.target,
                permission=plan.permission,
                reason=plan.reason,
            )
        )
        return True
