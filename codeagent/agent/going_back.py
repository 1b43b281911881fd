"""Going back to an earlier point: the files, the conversation, or both (the Rewind of `core.rewind`)."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from codeagent.agent.checkpointing import Checkpointing
from codeagent.agent.emitter import Emitter
from codeagent.agent.steering import Steering
from codeagent.core.acts import Restore, RestoreFile
from codeagent.core.checkpoints import Checkpoints, FileChange, Node
from codeagent.core.errors import CheckpointError
from codeagent.core.events import CheckpointRestored
from codeagent.core.rewind import ChangedFile, Changes, Point, RestoreKind
from codeagent.core.sanitize import visible
from codeagent.core.taken_back import restored_note

_NO_STORE = "no checkpoints are kept here; nothing was changed"


@dataclass
class GoingBack:
    checkpoints: Checkpointing
    emitter: Emitter
    steering: Steering
    running: Callable[[], bool]
    restored: tuple[ChangedFile, ...] = ()
    """The files that the last `Restore` changed."""

    def points(self) -> tuple[Point, ...]:
        return self.checkpoints.moments.points

    def undo_target(self, batches: int = 1) -> Point:
        return self.checkpoints.moments.undo_target(batches)

    def redo_target(self) -> Point:
        return self.checkpoints.moments.redo_target()

    async def changes(self, since: str, until: str | None = None) -> Changes:
        await self.checkpoints.settled()
        store, moments = self._store, self.checkpoints.moments
        present = (await store.take()).id if until is None else moments.point(until).snapshot
        found = await store.changes(moments.point(since).snapshot, present)
        edited = await self._edited(since, present) if until is None else set()
        return Changes(_with_edits(found, edited), moments.left_out)

    async def node(self, point: str | None, path: str) -> Node | None:
        return await self._store.node(None if point is None else self.checkpoints.moments.point(point).snapshot, path)

    async def left_by_agent(self, path: str) -> Node | None:
        snapshot = self.checkpoints.moments.left_by_agent
        return None if snapshot is None else await self._store.node(snapshot, path)

    def restore(self, act: Restore | RestoreFile) -> Awaitable[None]:
        """Go back; what is returned is its end. Both raise CheckpointError."""
        self._refuse_while_running()
        if self.checkpoints.store is None:
            raise CheckpointError(_NO_STORE)
        return self._restore(act) if isinstance(act, Restore) else self._restore_file(act)

    async def _restore(self, act: Restore) -> None:
        target, conversation = self.checkpoints.moments.point(act.point), act.conversation
        if act.kind == "redo":
            conversation = self.checkpoints.moments.redo_covers_conversation
        if conversation and not self.checkpoints.line.marked(act.point):
            raise CheckpointError("the conversation can go back to the beginning of a prompt only; nothing was changed")
        await self.checkpoints.settled()
        changed: tuple[FileChange, ...] = ()
        async with self.checkpoints.still():
            self._refuse_while_running()
            before = await self.checkpoints.take("restore", target.label)
            if act.files:
                changed = await self._store.restore(target.snapshot, present=before.snapshot, paths=act.paths)
            self._tell(act.point, act.kind, changed, conversation, before.checkpoint_id)
            if changed:
                await self.checkpoints.take("after", target.label)
        self.restored = tuple(ChangedFile(change.path, change.change) for change in changed)

    async def _restore_file(self, act: RestoreFile) -> None:
        await self.checkpoints.settled()
        async with self.checkpoints.still():
            self._refuse_while_running()
            before = await self.checkpoints.take("restore", act.path)
            await self._store.replace(act.path, act.node, present=act.present)
            self._tell(before.checkpoint_id, "files", (FileChange(act.path, "modified"),), False, before.checkpoint_id)
            await self.checkpoints.take("after", act.path)

    @property
    def _store(self) -> Checkpoints:
        if self.checkpoints.store is None:
            raise CheckpointError(_NO_STORE)
        return self.checkpoints.store

    def _tell(
        self, point: str, kind: RestoreKind, changed: tuple[FileChange, ...], conversation: bool, before: str
    ) -> None:
        restored = CheckpointRestored(
            checkpoint_id=point,
            kind=kind,
            files=tuple(visible(change.path) for change in changed),
            conversation=conversation,
            before=before,
        )
        event = self.emitter.emit(restored)
        self.checkpoints.moments.add(event)
        if conversation:
            self.checkpoints.line.go_back(point)
        if (note := restored_note(event)) is not None:
            self.steering.add_note(note)

    async def _edited(self, since: str, present: str) -> set[str]:
        """Paths that somebody else than the agent changed since the point."""
        moments = self.checkpoints.moments
        spans = [(span.before, span.after) for span in moments.spans(since) if not span.agents]
        latest = moments.latest
        pairs = [*spans, *([(latest, present)] if latest is not None else [])]
        found: set[str] = set()
        for before, after in dict.fromkeys(pairs):
            if before != after:
                found |= {change.path for change in await self._store.changes(before, after)}
        return found

    def _refuse_while_running(self) -> None:
        if self.running():
            raise CheckpointError("the agent is working; pause does not do here: stop it first (Esc), then go back")


def _with_edits(changes: tuple[FileChange, ...], edited: set[str]) -> tuple[ChangedFile, ...]:
    return tuple(ChangedFile(change.path, change.change, change.path in edited) for change in changes)
