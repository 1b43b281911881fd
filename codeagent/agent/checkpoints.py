"""Takes the snapshots of a session, before every prompt and around every batch that may change
files.

The workspace lock keeps calls and commands from changing files in the meantime.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from codeagent.agent.emitter import Emitter
from codeagent.core.checkpoints import Checkpoints, PointCause, Snapshot
from codeagent.core.errors import CheckpointError, SandboxError
from codeagent.core.events import CheckpointCreated
from codeagent.core.history import PROMPT, BranchingHistory, CheckpointTimeline
from codeagent.core.messages import Message
from codeagent.core.sandbox import Sandbox
from codeagent.core.sanitize import one_line

_LABEL = 200
_PATIENCE = 2.0
"""Seconds that the first snapshot may take before the user is told about it."""
_PATIENCE_GROWS = 3.0
"""The factor by which the wait grows until the user is told again."""


class WorkspaceLock:
    """Lets the agent's calls run side by side, but a command of the user's `alone`; first come,
    first served."""

    def __init__(self) -> None:
        self._together = 0
        self._alone = False
        self._waiting: deque[tuple[bool, asyncio.Future[None]]] = deque()

    @property
    def taken(self) -> bool:
        """Whether a caller that wants to be alone would have to wait now."""
        return self._alone or self._together > 0 or bool(self._waiting)

    def enter_now(self, *, alone: bool) -> bool:
        """Enter at once if nothing is in the way; False if the caller has to wait for its turn."""
        if self._waiting or self._alone or (alone and self._together):
            return False
        self._count(alone)
        return True

    async def enter(self, *, alone: bool) -> None:
        """Wait for the caller's turn; a caller that is cancelled has not entered."""
        if self.enter_now(alone=alone):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((alone, turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._admit()
            else:
                self.leave(alone=alone)
            raise

    def leave(self, *, alone: bool) -> None:
        if alone:
            self._alone = False
        else:
            self._together -= 1
        self._admit()

    def _count(self, alone: bool) -> None:
        if alone:
            self._alone = True
        else:
            self._together += 1

    def _admit(self) -> None:
        while self._waiting:
            alone, turn = self._waiting[0]
            if not turn.cancelled() and (self._alone or (alone and self._together)):
                return
            self._waiting.popleft()
            if turn.cancelled():
                continue
            self._count(alone)
            turn.set_result(None)


class Checkpointing:
    """Takes snapshots one at a time: each waits for those before it, for the workspace lock and for
    the freeze lock.

    A snapshot that fails holds nothing up. Failures in a row are reported once; what happens then
    cannot be undone.
    """

    def __init__(
        self,
        store: Checkpoints | None,
        emitter: Emitter,
        lock: WorkspaceLock,
        sandbox: Sandbox | None,
        line: BranchingHistory[Message],
        timeline: CheckpointTimeline,
    ) -> None:
        """If `store` is None, no snapshots are kept."""
        self.store = store
        self.timeline = timeline
        self.line = line
        self._emitter = emitter
        self._lock = lock
        self._sandbox = sandbox
        self.patience = _PATIENCE
        self._failing = False
        self._pending: list[asyncio.Task[None]] = []
        """The snapshots that are being taken or wait, in order."""
        self._owed = False
        """Whether a batch that may have changed something still needs its snapshot."""
        self._at_work: Callable[[], bool] = lambda: False
        self._others: frozenset[int] = frozenset()
        """The other processes in this folder that the user was told of."""

    def begin(self, at_work: Callable[[], bool]) -> None:
        """Repair what a crash interrupted and take the first snapshot, the slowest one, while
        nobody waits for it.

        `at_work` tells whether something that the agent started may be changing files between
        batches.
        """
        self._at_work = at_work
        self._after_pending(lambda: self._first_snapshot())

    def before_prompt(self, label: str) -> None:
        """Mark the conversation, and take a snapshot while the request is sent."""
        self.line.mark(PROMPT)
        if self.store is not None:
            self._after_pending(lambda: self._take("prompt", label, None))

    async def before_batch(self, batch: int, targets: str, *, commands: bool = True) -> None:
        """Take a snapshot; returns once it is complete.

        `commands`: whether the batch may change files other than through the workspace, which
        records what it writes.
        """
        if self.store is None:
            return
        self._after_pending(lambda: self._take("batch", targets, batch, commands=commands))
        await self.settled()

    def after_batch(self, batch: int, targets: str) -> None:
        """Take a snapshot of what the batch left, while the next request is sent."""
        if self.store is not None:
            self._owed = True
            self._after_pending(lambda: self._take("after", targets, batch))

    async def settled(self) -> None:
        """Wait until no snapshot is being taken; a caller that is cancelled does not stop one."""
        while self._pending:
            await asyncio.wait(set(self._pending))

    async def end(self) -> None:
        """Finish: the snapshot of the last batch is still taken, any other is cancelled."""
        if not self._owed:
            for task in self._pending:
                task.cancel()
        await self.settled()

    async def take(
        self, cause: PointCause, label: str, batch: int | None = None, *, commands: bool = False
    ) -> CheckpointCreated:
        """Take a snapshot and emit its checkpoint; called within `still`. Raises CheckpointError.

        `commands`: whether commands are about to run.
        """
        assert self.store is not None
        snapshot = await self.store.take(commands=commands or self._at_work())
        self._tell_of(snapshot.others)
        return self._created(cause, label, batch, snapshot)

    @asynccontextmanager
    async def still(self) -> AsyncIterator[None]:
        """Keep every command of the agent and the user from running. Raises CheckpointError."""
        await self._lock.enter(alone=True)
        try:
            if self._sandbox is None:
                yield
                return
            try:
                async with self._sandbox.frozen():
                    yield
            except SandboxError as error:
                raise CheckpointError(f"the sandbox could not be frozen: {error}") from error
        finally:
            self._lock.leave(alone=True)

    async def _first_snapshot(self) -> None:
        landed = () if self._sandbox is None else await self._sandbox.finish_landings()
        for line in landed:
            self._emitter.notice("effects.recovered", line)
        if self.store is None:
            return
        try:
            if (recovered := await self.store.recover()) is not None:
                self._emitter.notice("checkpoint.recovered", recovered)
            self._tell_of((await self._told_if_slow(self.store)).others)
            await self.store.prune()
        except CheckpointError as error:
            self._report(error)

    async def _told_if_slow(self, store: Checkpoints) -> Snapshot:
        """Take a snapshot; if that takes long, tell the user now and then how far it is. Raises
        CheckpointError."""
        taking = asyncio.ensure_future(store.take())
        pause = self.patience
        try:
            while not (await asyncio.wait({taking}, timeout=pause))[0]:
                pause *= _PATIENCE_GROWS
                text = (
                    f"taking the first snapshot of this folder, {store.scanned:,} files so far: "
                    "edits and commands wait for it, reads do not"
                )
                self._emitter.notice("checkpoint.first", text)
            return taking.result()
        except asyncio.CancelledError:
            taking.cancel()
            await asyncio.wait({taking})
            raise

    async def _take(
        self, cause: PointCause, label: str, batch: int | None, *, commands: bool = False
    ) -> None:
        try:
            async with self.still():
                await self.take(cause, label, batch, commands=commands)
            self._failing = False
        except CheckpointError as error:
            self._report(error)
        finally:
            self._owed = self._owed and cause != "after"

    def _created(
        self, cause: PointCause, label: str, batch: int | None, snapshot: Snapshot
    ) -> CheckpointCreated:
        checkpoint_id = f"c{self._emitter.next_seq}"
        if cause == "prompt":
            self.line.mark(checkpoint_id, like=PROMPT)
        elif cause == "restore":
            self.line.mark(checkpoint_id)
        created = CheckpointCreated(
            checkpoint_id=checkpoint_id,
            snapshot=snapshot.id,
            cause=cause,
            batch=batch,
            label=one_line(label, _LABEL),
            left_out=snapshot.left_out,
            moment=snapshot.moment,
        )
        event = self._emitter.emit(created)
        self.timeline.add(event)
        return event

    def _tell_of(self, others: Collection[int]) -> None:
        """Tell the user once of each other codeagent that works here; forget those that have
        ended."""
        new = sorted(frozenset(others) - self._others)
        self._others = frozenset(others)
        if new:
            who = f"process{'es' * (len(new) > 1)} {', '.join(map(str, new))}"
            text = (
                f"another codeagent works in this folder ({who}): a file that it changed is read again before it is "
                "edited here, and /undo takes back only what this one changed"
            )
            self._emitter.warn("workspace.shared", text)

    def _report(self, error: CheckpointError) -> None:
        if self._failing:
            return
        self._failing = True
        text = f"no checkpoint: {error}; /undo cannot take back what happens now"
        self._emitter.warn("checkpoint.failed", text)

    def _after_pending(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        before = self._pending[-1] if self._pending else None

        async def in_turn() -> None:
            if before is not None:
                await asyncio.wait({before})
            try:
                await work()
            except Exception as error:
                self._report(CheckpointError(f"internal error: {type(error).__name__}: {error}"))

        task = asyncio.create_task(in_turn())
        self._pending.append(task)
        task.add_done_callback(self._pending.remove)
