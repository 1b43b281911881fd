"""Takes the snapshots of a session: before every prompt, before and after every batch that may change files."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from codeagent.agent.emitter import Emitter
from codeagent.agent.floor import Floor
from codeagent.core.checkpoints import Checkpoints, Snapshot
from codeagent.core.errors import CheckpointError, SandboxError
from codeagent.core.events import CheckpointCreated, Notice
from codeagent.core.line import Line
from codeagent.core.messages import Message
from codeagent.core.moments import PROMPT, Moments
from codeagent.core.ports import Sandbox
from codeagent.core.rewind import PointCause
from codeagent.core.sanitize import one_line

_LABEL = 200


class Checkpointing:
    """Snapshots never overlap: each waits for those before it, for the floor, and for a sandbox that stands still.

    A snapshot that fails is told once in a row and holds nothing up: what can be taken back is less, nothing else.
    """

    def __init__(
        self,
        store: Checkpoints | None,
        emitter: Emitter,
        floor: Floor,
        sandbox: Sandbox | None,
        line: Line[Message],
        moments: Moments,
    ) -> None:
        """`store` None: no snapshots are kept."""
        self.store = store
        self.moments = moments
        self.line = line
        self._emitter = emitter
        self._floor = floor
        self._sandbox = sandbox
        self._failing = False
        self._pending: list[asyncio.Task[None]] = []
        """What is under way or waits, in order."""
        self._owed = False
        """A batch that may have changed something waits for its snapshot."""

    def begin(self) -> None:
        """Finish what a crash broke off, and make the first snapshot, which takes longest, while nobody waits."""
        if self.store is not None:
            self._after_pending(lambda: self._first_snapshot())

    def before_prompt(self, label: str) -> None:
        """Mark the conversation, and take a snapshot beside the request that is about to go out."""
        self.line.mark(PROMPT)
        if self.store is not None:
            self._after_pending(lambda: self._take("prompt", label, None))

    async def before_batch(self, batch: int, targets: str) -> None:
        """Return once what the batch may change is safe."""
        if self.store is None:
            return
        self._after_pending(lambda: self._take("batch", targets, batch))
        await self.settled()

    def after_batch(self, batch: int, targets: str) -> None:
        """Take one of what the agent left, beside its next request."""
        if self.store is not None:
            self._owed = True
            self._after_pending(lambda: self._take("after", targets, batch))

    async def settled(self) -> None:
        """Return once no snapshot is being taken; a caller that is cancelled leaves it alone."""
        while self._pending:
            await asyncio.wait(set(self._pending))

    async def end(self) -> None:
        """Nobody waits for more: what a batch is owed is taken, anything else is let go."""
        if not self._owed:
            for task in self._pending:
                task.cancel()
        await self.settled()

    async def take(self, cause: PointCause, label: str, batch: int | None = None) -> CheckpointCreated:
        """One more point, now; the caller holds the workspace still. Raises CheckpointError."""
        assert self.store is not None
        snapshot = await self.store.take()
        return self._created(cause, label, batch, snapshot)

    @asynccontextmanager
    async def still(self) -> AsyncIterator[None]:
        """Meanwhile no command runs, neither the agent's nor the person's. Raises CheckpointError."""
        await self._floor.enter(alone=True)
        try:
            if self._sandbox is None:
                yield
                return
            try:
                async with self._sandbox.frozen():
                    yield
            except SandboxError as error:
                raise CheckpointError(f"the sandbox could not be held still: {error}") from error
        finally:
            self._floor.leave(alone=True)

    async def _first_snapshot(self) -> None:
        assert self.store is not None
        try:
            if (recovered := await self.store.recover()) is not None:
                self._emitter.emit(Notice(code="checkpoint.recovered", text=recovered))
            await self.store.take()
            await self.store.prune()
        except CheckpointError as error:
            self._tell(error)

    async def _take(self, cause: PointCause, label: str, batch: int | None) -> None:
        try:
            async with self.still():
                await self.take(cause, label, batch)
            self._failing = False
        except CheckpointError as error:
            self._tell(error)
        finally:
            self._owed = self._owed and cause != "after"

    def _created(self, cause: PointCause, label: str, batch: int | None, snapshot: Snapshot) -> CheckpointCreated:
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
        )
        event = self._emitter.emit(created)
        self.moments.add(event)
        return event

    def _tell(self, error: CheckpointError) -> None:
        if self._failing:
            return
        self._failing = True
        text = f"no checkpoint: {error}; /undo cannot take back what happens now"
        self._emitter.emit(Notice(level="warning", code="checkpoint.failed", text=text))

    def _after_pending(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        before = self._pending[-1] if self._pending else None

        async def in_turn() -> None:
            if before is not None:
                await asyncio.wait({before})
            try:
                await work()
            except Exception as error:
                self._tell(CheckpointError(f"internal error: {type(error).__name__}: {error}"))

        task = asyncio.create_task(in_turn())
        self._pending.append(task)
        task.add_done_callback(self._pending.remove)
