"""Finds and merges what a worktree would bring back into the folder that it is a copy of."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import field, replace
from pathlib import Path

from codeagent.changes.change_set import ChangeSet
from codeagent.changes.hunks import Answered, is_by_hunk
from codeagent.config.local_environment import origin_of, state_dir
from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.dataclass import dataclass
from codeagent.core.display import DiffBlock, HunkAnswer
from codeagent.core.errors import CheckpointError, WorkspaceError
from codeagent.core.tool import Failed
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.files import LocalWorkspace
from codeagent.workspace.worktrees import Worktree, kept_worktree


@dataclass(frozen=True)
class MergeOffer:
    """A file that can be merged."""

    change: Change[Node]
    """From the folder's version to the merged one."""
    clashes: bool = False
    """Both changed the same lines, so the worktree's version would replace the folder's."""

    @property
    def path(self) -> str:
        return self.change.path

    @property
    def diff(self) -> DiffBlock | None:
        """What is reviewed hunk by hunk; None if it can only be taken as a whole."""
        return ChangeSet((self.change,)).blocks[0] if is_by_hunk(self.change) else None


@dataclass(frozen=True)
class MergeBack:
    """A worktree beside the folder that it is a copy of."""

    origin: Path
    _worktree: Worktree
    _present: GitCheckpoints
    left_out: list[str] = field(default_factory=list)
    """What `offers` could not compare, a phrase each."""

    async def offers(self) -> tuple[MergeOffer, ...]:
        """Return what differs from the folder because of the worktree, in the order of the paths.
        Raises CheckpointError."""
        changed, found = await self._worktree.changed(), list[MergeOffer]()
        self.left_out[:] = self._worktree.left_out
        for path in changed:
            try:
                found += filter(None, [await self._offer(path)])
            except CheckpointError as error:
                self.left_out.append(str(error))
        return tuple(found)

    async def take(self, offer: MergeOffer, answers: Sequence[HunkAnswer] | None = None) -> bool:
        """Write an offer, or those of its hunks that were taken, into the folder; return whether
        there was one. Raises WorkspaceError and writes nothing."""
        change = offer.change
        if answers is not None:
            try:
                answered = Answered.of(change, answers)
            except Failed as error:
                raise WorkspaceError(str(error)) from None
            if answered.left_out:
                return False
            change = answered.took
        await asyncio.to_thread(self._land, change)
        return True

    def _land(self, change: Change[Node]) -> None:
        with closing(LocalWorkspace(self.origin)) as workspace:
            ChangeSet((change,)).land(workspace)

    async def _offer(self, path: str) -> MergeOffer | None:
        change = await self._worktree.file(path)
        here = await self._present.node(None, path)
        wanted, clashes = change.after, False
        if here not in (change.before, wanted):
            wanted, clashes = await self._both(change, here)
        return None if here == wanted else MergeOffer(Change(path, here, wanted), clashes)

    async def _both(self, change: Change[Node], here: Node | None) -> tuple[Node | None, bool]:
        """Merge a file that both changed; return the worktree's version and True if that is not
        possible."""
        before, after = change.before, change.after
        both = Change(change.path, here, after)
        if before is None or after is None or here is None or both.texts is None:
            return after, True
        data = await self._worktree.merged(before.data, here.data, after.data)
        kind = here.kind if after.kind == before.kind else after.kind
        return (after, True) if data is None else (replace(after, kind=kind, data=data), False)


@asynccontextmanager
async def merge_of(folder: Path) -> AsyncIterator[MergeBack]:
    """Compare a worktree with its folder. Raises CheckpointError, also if it is not a worktree."""
    origin = await asyncio.to_thread(origin_of, folder)
    if origin is None:
        raise CheckpointError(
            "this session works in your own folder: codeagent --worktree NAME works in a copy"
        )
    if not origin.is_dir():
        raise CheckpointError(f"{origin} no longer exists; the worktree is at {folder}")
    with (
        closing(kept_worktree(folder)) as worktree,
        closing(GitCheckpoints(state_dir(), origin)) as present,
    ):
        yield MergeBack(origin, worktree, present)
