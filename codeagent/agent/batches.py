"""Batches: cuts the calls of an answer into batches, plans them, holds them at the pause gate, runs
them in order.

Calls that only read may begin before that, while their answer is still coming.
"""

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from codeagent.agent.emitter import Emitter
from codeagent.agent.executor import Executor
from codeagent.agent.limits import BudgetMeter
from codeagent.agent.work_time import user_waited_for
from codeagent.core.cancel import CancelToken
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.events import BatchPlanned
from codeagent.core.messages import ToolCall
from codeagent.core.notices import (
    CallEdited,
    CallMarked,
    PauseReason,
    RunPaused,
    RunPausing,
    RunResumed,
    StepModeChanged,
    skipped_by_user,
)
from codeagent.core.tool import Access, Skipped, ToolError, ToolResult

T = TypeVar("T")
GRACE = 0.05
"""Seconds from the end of a call's block to its start; if the answer ends before that, its calls
run as usual."""
BROKE_OFF = "the answer broke off before it was complete"


@dataclass(frozen=True)
class Strategy:
    """How many calls run before the next boundary."""

    kind: Literal["sequential", "parallel", "batched"] = "parallel"
    size: int = 0
    """Calls in a batch, for `batched`."""

    @classmethod
    def parse(cls, text: str) -> "Strategy":
        """`sequential`, `parallel` or `batched:N` with N from 1. Raises ConfigError."""
        if text == "sequential":
            return cls("sequential")
        if text == "parallel":
            return cls("parallel")
        match = re.fullmatch(r"batched:([0-9]{1,6})", text)
        if match is None or int(match[1]) == 0:
            raise ConfigError(
                f"no such strategy: {text!r}; use sequential, parallel or batched:N with N from 1"
            )
        return cls("batched", int(match[1]))

    def __str__(self) -> str:
        return f"batched:{self.size}" if self.kind == "batched" else self.kind

    @property
    def most(self) -> int | None:
        """The most calls in a batch; None if unlimited."""
        sizes = {"sequential": 1, "parallel": None, "batched": self.size}
        return sizes[self.kind]

    def cut(self, calls: Sequence[ToolCall]) -> list[tuple[ToolCall, ...]]:
        """Cut the calls into batches, in source order."""
        size = self.most or len(calls)
        return [tuple(calls[start : start + size]) for start in range(0, len(calls), size or 1)]


async def run_ordered(
    items: Sequence[T], access: Callable[[T], Access], work: Callable[[T], Awaitable[None]]
) -> None:
    """Run all items at once, except that an item waits for the earlier ones that it conflicts with.

    The outcome is that of running them in order. An error of `work` is raised when all items have
    ended. When the caller is cancelled, every item is cancelled and awaited.
    """
    accesses = [access(item) for item in items]
    tasks: list[asyncio.Task[None]] = []
    for position, item in enumerate(items):
        blockers = [
            task
            for task, earlier in zip(tasks, accesses, strict=False)
            if accesses[position].conflicts(earlier)
        ]
        tasks.append(asyncio.create_task(_after(blockers, work, item)))
    try:
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    except asyncio.CancelledError:
        await asyncio.wait(tasks)
        raise
    if error := next((outcome for outcome in outcomes if outcome is not None), None):
        raise error


async def _after(
    blockers: list["asyncio.Task[None]"], work: Callable[[T], Awaitable[None]], item: T
) -> None:
    if blockers:
        await asyncio.wait(blockers)
    await work(item)


@dataclass(frozen=True)
class _Begun:
    token: CancelToken
    work: asyncio.Task[ToolResult]


class EarlyCalls:
    """The calls of one answer that begin while it is still coming.

    They are its first calls, without a gap, so none overtakes a change that was asked for before
    it. If the answer is discarded, each of them is stopped and gets its one result, which the model
    never sees.
    """

    def __init__(
        self,
        executor: Executor,
        may_begin: Callable[[ToolCall, int], bool],
        discarded: Callable[[Collection[ToolResult]], None],
        token: CancelToken,
    ) -> None:
        """`may_begin(call, number)` tells whether a call may begin after `number` others of its
        answer.

        `discarded` gets the results of calls that ran for an answer that was discarded.
        """
        self._executor = executor
        self._may_begin = may_begin
        self._discarded = discarded
        self._token = token
        self._open = True
        """Whether a call whose block closes may still begin early."""
        self._waiting: deque[tuple[ToolCall, asyncio.TimerHandle]] = deque()
        self._begun: dict[str, _Begun] = {}

    @property
    def ids(self) -> Collection[str]:
        return self._begun.keys()

    def offer(self, call: ToolCall, *, certain: bool) -> None:
        """Take a call whose block has closed; `certain`: nothing that follows in the answer can
        take it back."""
        self._open = self._open and certain
        if self._open:
            timer = asyncio.get_running_loop().call_later(GRACE, self._begin_next)
            self._waiting.append((call, timer))

    def close(self) -> None:
        """Begin no more calls: the answer is complete, or one of its calls has to wait for its
        turn."""
        self._open = False
        while self._waiting:
            _, timer = self._waiting.popleft()
            timer.cancel()

    async def result(self, call_id: str) -> ToolResult | None:
        """Wait for the call's result; None if it did not begin early. A caller that is cancelled
        leaves it running."""
        begun = self._begun.get(call_id)
        return None if begun is None else await asyncio.shield(begun.work)

    async def results(self) -> dict[str, ToolResult]:
        """Wait for all calls that have begun; return their results by call id."""
        return await _ended(self._begun)

    async def stop(self, reason: str) -> dict[str, ToolResult]:
        """Stop the calls that are still running; return the results of all that have begun, by call
        id."""
        self.close()
        for begun in self._begun.values():
            begun.token.cancel(reason)
        return await _ended(self._begun)

    async def discard(self, call_ids: Iterable[str]) -> Collection[str]:
        """Stop those of the calls that have begun, because their answer is void; return their ids.

        The next attempt at an answer may begin calls again.
        """
        self.close()
        void = {call_id: self._begun[call_id] for call_id in call_ids if call_id in self._begun}
        for begun in void.values():
            begun.token.cancel(BROKE_OFF)
        results = await _ended(void)
        for call_id in void:
            del self._begun[call_id]
        if results:
            self._discarded(results.values())
        self._open = not self._begun
        return results.keys()

    def _begin_next(self) -> None:
        call, _ = self._waiting.popleft()
        if not self._may_begin(call, len(self._begun)):
            self.close()
            return
        token = self._token.child()
        work = asyncio.create_task(self._executor.execute(call, token))
        work.add_done_callback(lambda _: token.close())
        self._begun[call.id] = _Begun(token, work)


async def _ended(calls: dict[str, _Begun]) -> dict[str, ToolResult]:
    works = {call_id: begun.work for call_id, begun in calls.items()}
    if works:
        await asyncio.wait(works.values())
    ended = {
        call_id: work
        for call_id, work in works.items()
        if not work.cancelled() and work.exception() is None
    }
    return {call_id: work.result() for call_id, work in ended.items()}


class PlannedBatch:
    """A batch from its plan to its start: until then the user can skip calls, or edit their
    arguments."""

    def __init__(
        self,
        number: int,
        calls: Sequence[ToolCall],
        executor: Executor,
        emitter: Emitter,
        begun: Collection[str],
    ) -> None:
        """`begun`: the ids of the calls that have already begun."""
        self._number = number
        self._begun = begun
        self._calls = {call.id: call for call in calls}
        self._executor = executor
        self._emitter = emitter
        self.edited: set[str] = set()
        """The ids of the calls that the user edited."""
        self._reasons: dict[str, str | None] = {}
        """Why calls are to be skipped, by id; None if one runs after all."""
        self.settled: dict[str, ToolResult] = {}
        """The calls that were skipped, by id."""

    @property
    def left(self) -> tuple[ToolCall, ...]:
        """The calls that are still to run, in order."""
        return tuple(call for call in self._calls.values() if call.id not in self.settled)

    @property
    def open(self) -> tuple[ToolCall, ...]:
        """The calls that the user can still skip or edit, in order."""
        return tuple(call for call in self.left if call.id not in self._begun)

    @property
    def targets(self) -> str:
        """The targets of the calls that may change something, in one line."""
        return ", ".join(filter(None, map(self._executor.calls.change, self.left)))

    @property
    def runs_commands(self) -> bool:
        """Whether a call may change files other than through the workspace."""
        return not all(map(self._executor.calls.only_writes_files, self.left))

    def tell(self) -> None:
        """Emit `batch.planned`."""
        plans = tuple(self._executor.calls.plan(call) for call in self.left)
        self._emitter.emit(BatchPlanned(batch=self._number, calls=plans))

    def mark(self, call_id: str, reason: str | None) -> bool:
        """Have a call skipped for that reason once the pause ends, or run after all if it is None;
        False if it is not open."""
        if (call := self._opened(call_id)) is None:
            return False
        if reason == self._reasons.get(call_id):
            return True
        self._reasons[call_id] = reason
        plan = self._executor.calls.plan(call)
        will = "will run after all" if reason is None else "will be skipped"
        self._emitter.emit(
            CallMarked(
                text=f"{will}: {plan.name} {plan.target}",
                call_id=call_id,
                skipped=reason is not None,
                reason=reason or "",
            )
        )
        return True

    def skip_marked(self) -> None:
        """Settle the calls that are to be skipped."""
        for call in self.left:
            if (reason := self._reasons.get(call.id)) is not None:
                self.settled[call.id] = self._executor.refuse(
                    call, Skipped(skipped_by_user(reason)), source="user"
                )

    def edit(self, call_id: str, arguments: str) -> bool:
        """Edit the arguments of a call, which then runs; False if it is not open. Raises
        ConfigError if they do not fit."""
        if (call := self._opened(call_id)) is None:
            return False
        edited = replace(call, arguments=arguments)
        try:
            self._executor.calls.check(edited)
        except ToolError as error:
            raise ConfigError(str(error)) from error
        self.mark(call_id, None)
        self._calls[call_id] = edited
        self.edited.add(call_id)
        plan = self._executor.calls.plan(edited)
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

    def _opened(self, call_id: str) -> ToolCall | None:
        return next((call for call in self.open if call.id == call_id), None)


class PauseGate:
    """Holds a run, and the batch it was about to start, while it is paused, stepping, or at a
    limit.

    A pause ends with its run; step mode stays on. Time spent waiting does not count against the
    budget.
    """

    def __init__(self, emitter: Emitter, spending: BudgetMeter, *, stepping: bool = False) -> None:
        self._emitter = emitter
        self._spending = spending
        self._open = asyncio.Event()
        self._open.set()
        self.stepping = stepping
        """Whether it pauses before every batch."""
        self._planned: PlannedBatch | None = None

    @property
    def is_shut(self) -> bool:
        """Whether the next batch has to wait here."""
        return self.stepping or not self._open.is_set()

    def step(self, on: bool) -> None:
        if on == self.stepping:
            return
        self.stepping = on
        text = "pausing before every batch" if on else "no longer pausing before every batch"
        self._emitter.emit(StepModeChanged(text=text, on=on))

    def pause(self) -> None:
        """Shut the gate and emit `run.pausing`: the run pauses once it gets there."""
        if self._open.is_set():
            self._open.clear()
            self._emitter.emit(RunPausing(text="pausing at the next boundary"))

    def resume(self) -> bool:
        """Open the gate and emit `run.resumed`, even before the run has reached it; False if it was
        open."""
        if self._open.is_set():
            return False
        self._open.set()
        self._emitter.emit(RunResumed(text="the run continues"))
        return True

    def end(self) -> None:
        """Open the gate at the end of a run that did not reach it."""
        self._open.set()

    def mark(self, call_id: str, reason: str | None) -> bool:
        """Have a call of the waiting batch skipped, or run after all if the reason is None; False
        if no such call waits."""
        return self._planned is not None and self._planned.mark(call_id, reason)

    def edit(self, call_id: str, arguments: str) -> bool:
        """Edit a call of the waiting batch; False if no such call waits. Raises ConfigError if the
        edit is invalid."""
        return self._planned is not None and self._planned.edit(call_id, arguments)

    async def wait(
        self, batch: int, token: CancelToken, planned: PlannedBatch | None = None
    ) -> None:
        """Return at once unless the user wants to step in before this batch, counted from 1. Raises
        RunCancelled."""
        asked = not self._open.is_set()
        if not asked and not (self.stepping and planned is not None and planned.open):
            return
        self._planned = planned
        try:
            await self.hold(
                "asked" if asked else "step", f"paused before batch {batch}", batch, token
            )
        finally:
            self._planned = None
            if planned is not None:
                planned.skip_marked()

    async def hold(self, why: PauseReason, text: str, batch: int, token: CancelToken) -> None:
        """Shut the gate and wait until it is opened. Raises RunCancelled."""
        token.raise_if_cancelled()
        self._open.clear()
        calls = () if self._planned is None else tuple(call.id for call in self._planned.open)
        self._emitter.emit(RunPaused(text=text, batch=batch, why=why, calls=calls))
        with self._spending.waiting(), user_waited_for():
            await token.guard(self._open.wait())
