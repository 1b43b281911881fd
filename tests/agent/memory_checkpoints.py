"""A store of snapshots in memory, over files in memory: the Checkpoints of `core.checkpoints`, to
the letter."""

import asyncio
from collections.abc import Collection, Mapping

from codeagent.core.checkpoints import FileChange, Node, OthersChanges, Snapshot
from codeagent.core.errors import CheckpointError

Files = dict[str, str]


class MemoryCheckpoints:
    """`files` is the workspace; tests change it as the agent and the user would."""

    def __init__(self, files: Files | None = None) -> None:
        self.files: Files = dict(files or {})
        self.kept: dict[str, Files] = {}
        self.taken: list[str] = []
        self.broken = ""
        self.unfinished: str | None = None
        self.others: tuple[int, ...] = ()
        self.pruned = 0
        self.scanned = 0
        self.moments: list[bool] = []
        """For each moment, whether commands were about to run."""
        self.of_others = OthersChanges()
        self.gate: asyncio.Event | None = None
        """A snapshot waits for it."""

    async def take(self, *, commands: bool | None = None) -> Snapshot:
        self._maybe_fail()
        if self.gate is not None:
            await self.gate.wait()
        snapshot = str(sorted(self.files.items()))
        self.kept[snapshot] = dict(self.files)
        self.taken.append(snapshot)
        if commands is not None:
            self.moments.append(commands)
        moment = "" if commands is None else f"m{len(self.moments)}"
        return Snapshot(snapshot, len(self.files), others=self.others, moment=moment)

    async def theirs(
        self, since: str, target: str, present: str, own: Collection[str]
    ) -> OthersChanges:
        assert since in own
        return self.of_others

    async def changes(self, before: str, after: str | None) -> tuple[FileChange, ...]:
        self._maybe_fail()
        return _differences(self.kept[before], self.files if after is None else self.kept[after])

    async def node(self, snapshot: str | None, path: str) -> Node | None:
        files = self.files if snapshot is None else self.kept[snapshot]
        return Node("file", files[path].encode()) if path in files else None

    async def written_by_others(self, since: float) -> Mapping[str, str]:
        return {}

    async def restore(
        self,
        target: str,
        *,
        present: str,
        paths: Collection[str] | None = None,
        instead: Mapping[str, Node | None] | None = None,
    ) -> tuple[FileChange, ...]:
        self._maybe_fail()
        if self.kept[present] != self.files:
            raise CheckpointError("the workspace changed meanwhile; nothing was changed")
        wanted = dict(self.kept[target])
        for path, node in (instead or {}).items():
            wanted[path] = "" if node is None else node.data.decode()
        changes = [c for c in _differences(self.files, wanted) if paths is None or c.path in paths]
        for change in changes:
            self._set(change.path, wanted.get(change.path))
        return tuple(changes)

    async def replace(self, path: str, node: Node | None, *, present: Node | None) -> None:
        if await self.node(None, path) != present:
            raise CheckpointError(f"{path} changed meanwhile; nothing was changed")
        self._set(path, None if node is None else node.data.decode())

    async def recover(self) -> str | None:
        return self.unfinished

    async def prune(self) -> None:
        self.pruned += 1

    def _set(self, path: str, text: str | None) -> None:
        if text is None:
            self.files.pop(path, None)
        else:
            self.files[path] = text

    def _maybe_fail(self) -> None:
        if self.broken:
            raise CheckpointError(self.broken)


def _differences(old: Files, new: Files) -> tuple[FileChange, ...]:
    return tuple(
        FileChange(
            path, "added" if path not in old else "deleted" if path not in new else "modified"
        )
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    )
