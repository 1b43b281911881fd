"""One codeagent of several in a workspace: its files, snapshots and way back are the real ones.

Run as a program, it is a process of its own that takes one line of JSON for each method and answers
with one.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from codeagent.agent.checkpoints import Checkpointing, WorkspaceLock
from codeagent.agent.emitter import Emitter
from codeagent.agent.hooks.hook import Hooks
from codeagent.agent.queue import MessageQueue
from codeagent.agent.rewind import SessionRewind
from codeagent.agent.todo import Todo
from codeagent.core.acts import Restore
from codeagent.core.checkpoints import RestoreKind
from codeagent.core.errors import CheckpointError
from codeagent.core.events import KnownEvent, Notice
from codeagent.core.history import BranchingHistory, CheckpointTimeline
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.files import LocalWorkspace
from tests.agent.doubles import MemoryJournal, of
from tests.landings import write


class Sharer:
    """The steps of a session: `begin` a batch, change files in it, `end` it, `undo` and `redo`."""

    def __init__(self, base: Path, log: Sequence[KnownEvent] = ()) -> None:
        """`log`: the session to continue."""
        self.root = base / "work"
        self.store = GitCheckpoints(base / "state", self.root, environment={})
        self.workspace = LocalWorkspace(self.root)
        self.workspace.recorder = self.store.landing
        self.journal = MemoryJournal()
        self.journal.next_seq = len(log) + 1
        emitter = Emitter(self.journal)
        self.checkpoints = Checkpointing(
            self.store, emitter, WorkspaceLock(), None, BranchingHistory(), CheckpointTimeline(log)
        )
        queue = MessageQueue(emitter, Hooks())
        self.rewind = SessionRewind(self.checkpoints, emitter, queue, Todo(), lambda: False)

    def close(self) -> None:
        self.store.close()
        self.workspace.close()

    async def begin(self, *, commands: bool = False) -> None:
        await self.checkpoints.before_batch(1, "a batch", commands=commands)

    async def end(self) -> None:
        self.checkpoints.after_batch(1, "a batch")
        await self.checkpoints.settled()

    async def write(self, path: str, text: str) -> None:
        """Write a file as the file tools do."""
        file = self.root / path
        base = file.read_bytes() if file.exists() else None
        await asyncio.to_thread(write, self.workspace, path, text.encode(), base=base)

    async def edit(self, path: str, text: str) -> None:
        """Make a whole batch of one file."""
        await self.begin()
        await self.write(path, text)
        await self.end()

    async def command(self, path: str, text: str) -> None:
        """Make a whole batch of a command that writes one file."""
        await self.begin(commands=True)
        (self.root / path).write_text(text)
        await self.end()

    async def undo(self, batches: int = 1) -> str:
        """Take back batches; return what is refused, as the user is told it."""
        return await self._go((await self.rewind.undo_target(batches)).id, "undo")

    async def redo(self) -> str:
        return await self._go((await self.rewind.redo_target()).id, "redo")

    async def shown(self) -> list[str]:
        """Return the files that an undo says it would change, or why it would change none."""
        changes = await self.rewind.changes((await self.rewind.undo_target()).id)
        return [file.path for file in changes.files] or [*changes.refused]

    async def _go(self, point: str, kind: RestoreKind) -> str:
        told = len(self._left())
        try:
            await self.rewind.restore(Restore(point, kind))
        except CheckpointError as error:
            return str(error)
        return "; ".join(self._left()[told:])

    def _left(self) -> list[str]:
        return [
            notice.text
            for notice in of(self.journal.events, Notice)
            if notice.code == "checkpoint.left"
        ]


async def serve(base: Path) -> None:
    sharer = Sharer(base)
    while line := await asyncio.to_thread(sys.stdin.readline):
        name, arguments, options = json.loads(line)
        sys.stdout.write(json.dumps(await getattr(sharer, name)(*arguments, **options)) + "\n")
        sys.stdout.flush()
    sharer.close()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
