"""Goes back to an earlier point of a session: with its files, with the conversation, or with both."""

from collections.abc import Awaitable, Callable, Collection

from codeagent.agent.checkpoints import Checkpointing
from codeagent.agent.emitter import Emitter
from codeagent.agent.queue import MessageQueue
from codeagent.agent.todo import Todo
from codeagent.core.acts import Restore, RestoreFile
from codeagent.core.checkpoints import (
    ChangedFile,
    Changes,
    Checkpoints,
    FileChange,
    Node,
    OthersChanges,
    Point,
    RestoreKind,
)
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CheckpointError
from codeagent.core.events import CheckpointCreated, CheckpointRestored
from codeagent.core.notes import restored_note
from codeagent.core.sanitize import first_few, first_lines, spelled

_MOST_REFUSED = 20
_ONLY_OTHERS = (
    "only another codeagent has changed files since; /undo 2 also takes back the batch before"
)
_NO_STORE = "no checkpoints are kept here; nothing was changed"


@dataclass
class SessionRewind:
    """Goes back to an earlier point with the files, the conversation, or both (the Rewind of
    `core.checkpoints`)."""

    checkpoints: Checkpointing
    emitter: Emitter
    queue: MessageQueue
    todo: Todo
    running: Callable[[], bool]
    restored: tuple[ChangedFile, ...] = ()
    """The files that the last `Restore` changed."""

    def points(self) -> tuple[Point, ...]:
        return self.checkpoints.timeline.points

    async def undo_target(self, batches: int = 1) -> Point:
        await self.checkpoints.settled()  # what the last batch changed may still be looked at
        return self.checkpoints.timeline.undo_target(batches)

    async def redo_target(self) -> Point:
        await self.checkpoints.settled()
        return self.checkpoints.timeline.redo_target()

    async def changes(self, since: str, until: str | None = None) -> Changes:
        await self.checkpoints.settled()
        store, timeline = self._store, self.checkpoints.timeline
        present = (await store.take()).id if until is None else timeline.point(until).snapshot
        found = await store.changes(timeline.point(since).snapshot, present)
        if until is not None:
            return Changes(
                tuple(ChangedFile(change.path, change.change) for change in found),
                timeline.left_out,
            )
        edited = await self._edited(since, present)
        theirs = await self._theirs(since, present)
        files = tuple(
            ChangedFile(
                change.path,
                change.change,
                change.path in edited and change.path not in theirs.merged,
            )
            for change in found
            if not theirs.leaves(change.path)
        )
        refused = _phrases(theirs)
        if theirs.kept and not files:
            refused = (*refused, _ONLY_OTHERS)
        return Changes(files, timeline.left_out, refused, present)

    async def node(self, point: str | None, path: str) -> Node | None:
        return await self._store.node(
            None if point is None else self.checkpoints.timeline.point(point).snapshot, path
        )

    async def left_by_agent(self, path: str) -> Node | None:
        snapshot = self.checkpoints.timeline.left_by_agent
        return None if snapshot is None else await self._store.node(snapshot, path)

    def restore(self, act: Restore | RestoreFile) -> Awaitable[None]:
        """Go back; the returned work does it. Both raise CheckpointError."""
        self._refuse_while_running()
        if self.checkpoints.store is None:
            raise CheckpointError(_NO_STORE)
        return self._restore(act) if isinstance(act, Restore) else self._restore_file(act)

    async def _restore(self, act: Restore) -> None:
        target, conversation = self.checkpoints.timeline.point(act.point), act.conversation
        if act.kind == "redo":
            conversation = self.checkpoints.timeline.redo_covers_conversation
        if conversation and not self.checkpoints.line.marked(act.point):
            raise CheckpointError(
                "the conversation can go back to the beginning of a prompt only; nothing was changed"
            )
        await self.checkpoints.settled()
        changed: tuple[FileChange, ...] = ()
        async with self.checkpoints.still():
            self._refuse_while_running()
            if act.files and act.seen is not None:
                await self._refuse_unseen(target, act.seen, act.paths)
            before = await self.checkpoints.take("restore", target.label)
            if act.files:
                changed = await self._go_back(act, before.snapshot)
            self._tell(act.point, act.kind, changed, conversation, before.checkpoint_id)
            if changed:
                await self.checkpoints.take("after", target.label)
        self.restored = tuple(ChangedFile(change.path, change.change) for change in changed)

    async def _go_back(self, act: Restore, present: str) -> tuple[FileChange, ...]:
        """Restore files, except for what other sessions changed. Raises CheckpointError."""
        target = self.checkpoints.timeline.point(act.point).snapshot
        paths = act.paths
        theirs = await self._theirs(act.point, present)
        if theirs.kept or theirs.refused:
            found = [change.path for change in await self._store.changes(target, present)]
            paths = [
                path
                for path in found
                if not theirs.leaves(path) and (paths is None or path in paths)
            ]
            if theirs.refused and not paths:
                raise CheckpointError(f"nothing was taken back: {'; '.join(_phrases(theirs))}")
        changed = await self._store.restore(
            target, present=present, paths=paths, instead=theirs.merged
        )
        if theirs.refused:
            text = f"left as it is: {'; '.join(_phrases(theirs))}"
            self.emitter.warn("checkpoint.left", text)
        return changed

    async def _theirs(self, point: str, present: str) -> OthersChanges:
        """Return what other sessions did since a point."""
        timeline = self.checkpoints.timeline
        created = timeline.point(point)
        if not created.moment:  # of an older log, in which sessions were not told apart
            return OthersChanges()
        return await self._store.theirs(created.moment, created.snapshot, present, timeline.moments)

    async def _refuse_unseen(
        self, target: CheckpointCreated, seen: str, paths: Collection[str] | None
    ) -> None:
        """Raises CheckpointError if a file to be restored has changed since the user was shown
        it."""
        present = (await self._store.take()).id
        since = {change.path for change in await self._store.changes(seen, present)}
        restored = {change.path for change in await self._store.changes(target.snapshot, present)}
        if since & restored:
            theirs = await self._theirs(target.checkpoint_id, present)
            restored -= theirs.kept | theirs.refused.keys()
        if unseen := sorted(since & (restored if paths is None else restored & set(paths))):
            some = first_few([*map(spelled, unseen)], 1)
            text = f"{some} changed after it was shown; nothing was changed: look at it again"
            raise CheckpointError(text)

    async def _restore_file(self, act: RestoreFile) -> None:
        await self.checkpoints.settled()
        async with self.checkpoints.still():
            self._refuse_while_running()
            before = await self.checkpoints.take("restore", act.path)
            await self._store.replace(act.path, act.node, present=act.present)
            self._tell(
                before.checkpoint_id,
                "files",
                (FileChange(act.path, "modified"),),
                False,
                before.checkpoint_id,
            )
            await self.checkpoints.take("after", act.path)

    @property
    def _store(self) -> Checkpoints:
        if self.checkpoints.store is None:
            raise CheckpointError(_NO_STORE)
        return self.checkpoints.store

    def _tell(
        self,
        point: str,
        kind: RestoreKind,
        changed: tuple[FileChange, ...],
        conversation: bool,
        before: str,
    ) -> None:
        restored = CheckpointRestored(
            checkpoint_id=point,
            kind=kind,
            files=tuple(spelled(change.path) for change in changed),
            conversation=conversation,
            before=before,
        )
        event = self.emitter.emit(restored)
        self.checkpoints.timeline.add(event)
        if conversation:
            self.checkpoints.line.go_back(point)
            self.todo.go_back(point)
        if (note := restored_note(event)) is not None:
            self.queue.add_note(note)

    async def _edited(self, since: str, present: str) -> set[str]:
        """The paths that somebody other than the agent changed since the point."""
        timeline = self.checkpoints.timeline
        spans = [(span.before, span.after) for span in timeline.spans(since) if not span.agents]
        latest = timeline.latest
        pairs = [*spans, *([(latest, present)] if latest is not None else [])]
        found: set[str] = set()
        for before, after in dict.fromkeys(pairs):
            if before != after:
                found |= {change.path for change in await self._store.changes(before, after)}
        return found

    def _refuse_while_running(self) -> None:
        if self.running():
            raise CheckpointError(
                "the agent is working, and a pause is not enough: stop it first (Esc), then go back"
            )


def _phrases(theirs: OthersChanges) -> tuple[str, ...]:
    """Return a phrase for each file that is refused; of many, only the first ones."""
    said = [f"{spelled(path)}: {why}" for path, why in sorted(theirs.refused.items())]
    return tuple(first_lines(said, _MOST_REFUSED))
