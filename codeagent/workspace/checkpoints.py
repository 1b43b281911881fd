"""Snapshots of the workspace in a git store of our own: nothing of the person's repository is run or written."""

import asyncio
import os
import secrets
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from codeagent.core.checkpoints import FileChange, Node, Snapshot
from codeagent.core.errors import CheckpointError
from codeagent.core.paths import protected_part
from codeagent.workspace.snapshots.contents import FOLDER, NotCovered
from codeagent.workspace.snapshots.importing import SnapshotWriter, blob_name
from codeagent.workspace.snapshots.journal import Journal, Step
from codeagent.workspace.snapshots.known import KnownFiles
from codeagent.workspace.snapshots.landing import Landing, State
from codeagent.workspace.snapshots.objects import ObjectReader
from codeagent.workspace.snapshots.place import StorePlace
from codeagent.workspace.snapshots.pruning import Allowance, prune
from codeagent.workspace.snapshots.restoring import HalfDone, Resumed, differences, perform, plan, resume, state_of
from codeagent.workspace.snapshots.scan import Limits
from codeagent.workspace.snapshots.surroundings import Surroundings
from codeagent.workspace.snapshots.taking import Taker

_T = TypeVar("_T")


class GitCheckpoints:
    """A Checkpoints. `close` it, or let it live as long as the process: its snapshots are not pruned meanwhile.

    Work is done in a thread. Who cancels it waits until the thread has come to an end: a snapshot is broken off, a
    restore is carried through.
    """

    def __init__(
        self,
        state_dir: Path,
        workspace: Path,
        *,
        limits: Limits | None = None,
        allowance: Allowance | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`environment` is where the person's global ignore file is looked up; nothing else is taken from it."""
        self._root = workspace.resolve()
        self._identity: tuple[int, int] | None = None
        self._limits = limits or Limits()
        self._allowance = allowance or Allowance()
        self._place = StorePlace(state_dir.absolute(), self._root)
        self._known = KnownFiles(self._place.folder / "known.sqlite")
        self._journal = Journal(self._place.folder / "journal.json")
        surroundings = Surroundings(self._place, os.environ if environment is None else environment)
        self._taker = Taker(self._place, self._known, surroundings, self._limits)

    def close(self) -> None:
        self._known.close()
        self._place.close()

    async def take(self) -> Snapshot:
        return await _in_thread(self._take)

    async def changes(self, before: str, after: str | None) -> tuple[FileChange, ...]:
        def work(stop: threading.Event) -> tuple[FileChange, ...]:
            until = self._take(stop).id if after is None else after
            with self._reading(stop) as reader:
                return tuple(step.change() for step in differences(reader, before, until))

        return await _in_thread(work)

    async def node(self, snapshot: str | None, path: str) -> Node | None:
        def work(stop: threading.Event) -> Node | None:
            if protected_part(path) is not None:
                return None
            if snapshot is None:
                return self._present_node(path)
            with self._reading(stop) as reader:
                state = state_of(reader.leaf(reader.files(snapshot), os.fsencode(path)))
                return None if state is None else Node(state.kind, reader.data(state.blob))

        return await _in_thread(work)

    async def restore(
        self, target: str, *, present: str, paths: Collection[str] | None = None
    ) -> tuple[FileChange, ...]:
        def work(stop: threading.Event) -> tuple[FileChange, ...]:
            with (
                self._place.locked(stop) as lock,
                ObjectReader(self._place, lock) as reader,
                self._landing() as landing,
            ):
                self._refuse_half_done()
                steps = plan(reader, landing[1], target, present, paths)
                self._carry_out(reader, landing, steps)
            return tuple(step.change() for step in steps)

        return await _in_thread(work)

    async def replace(self, path: str, node: Node | None, *, present: Node | None) -> None:
        def work(stop: threading.Event) -> None:
            step = Step(path, _state(present), _state(node))
            if step.old == step.new:
                return
            if protected_part(path) is not None:
                raise CheckpointError(f"{path} is protected; nothing was changed")
            with self._place.locked(stop) as lock, self._landing() as landing:
                self._refuse_half_done()
                self._check_present(landing[1], step)
                with self._place.writing():
                    writer = SnapshotWriter(self._place, lock)
                    for kept in (node, present):
                        if kept is not None:
                            writer.add(blob_name(kept.data), kept.data)
                    writer.finish()
                with ObjectReader(self._place, lock) as reader:
                    self._carry_out(reader, landing, (step,))

        return await _in_thread(work)

    async def recover(self) -> str | None:
        return await _in_thread(self._recover)

    async def prune(self) -> None:
        def work(stop: threading.Event) -> None:
            with self._place.locked(stop) as lock:
                if self._journal:
                    return
                if not prune(self._place, lock, self._known.snapshot(), self._allowance, stop):
                    self._known.forget()

        return await _in_thread(work)

    def _take(self, stop: threading.Event) -> Snapshot:
        with self._place.locked(stop) as lock:
            self._refuse_half_done()
            with self._opened_root() as root:
                return self._taker.take(root, lock, stop)

    def _recover(self, stop: threading.Event) -> str | None:
        if not self._journal:
            return None
        with self._place.locked(stop) as lock:
            if not self._journal:
                return None
            token, steps = self._journal.read()
            with ObjectReader(self._place, lock) as reader, self._opened_root() as root:
                resumed = resume(reader, Landing(root, self._limits.file, token), steps)
            self._journal.clear()
        return _ended(resumed, len(steps))

    def _carry_out(self, reader: ObjectReader, landing: tuple[str, Landing], steps: tuple[Step, ...]) -> None:
        if not steps:
            return
        token, hands = landing
        try:
            self._journal.write(token, steps)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise CheckpointError(
                f"{self._place.folder} cannot be written: {reason}; nothing was changed: make room, then try again"
            ) from None
        try:
            perform(reader, hands, steps)
        except HalfDone:
            raise
        except CheckpointError:
            self._journal.clear()
            raise
        self._journal.clear()

    def _check_present(self, landing: Landing, step: Step) -> None:
        try:
            same = landing.state(step.path) == step.old
        except NotCovered:
            same = False
        if not same:
            raise CheckpointError(f"{step.path} has changed meanwhile; nothing was changed: look at it, then try again")

    def _present_node(self, path: str) -> Node | None:
        with self._opened_root() as root:
            try:
                content = Landing(root, self._limits.file, "none").content(path)
            except NotCovered as reason:
                raise CheckpointError(f"{path}: {reason}; no snapshot holds it") from None
        return None if content is None else Node(content.kind, content.data)

    def _refuse_half_done(self) -> None:
        if self._journal:
            raise CheckpointError(
                "going back was broken off by a crash and is not finished; nothing was changed: "
                "start codeagent again to finish it"
            )

    @contextmanager
    def _reading(self, stop: threading.Event) -> Iterator[ObjectReader]:
        with self._place.locked(stop) as lock, ObjectReader(self._place, lock) as reader:
            yield reader

    @contextmanager
    def _landing(self) -> Iterator[tuple[str, Landing]]:
        token = secrets.token_hex(8)
        with self._opened_root() as root:
            yield token, Landing(root, self._limits.file, token)

    @contextmanager
    def _opened_root(self) -> Iterator[int]:
        try:
            fd = os.open(self._root, FOLDER)
        except OSError as error:
            raise CheckpointError(
                f"{self._root} cannot be opened: {os.strerror(error.errno or 0)}; nothing was changed"
            ) from None
        try:
            found = os.fstat(fd)
            self._identity = self._identity or (found.st_dev, found.st_ino)
            if self._identity != (found.st_dev, found.st_ino):
                raise CheckpointError(
                    f"the folder {self._root} was moved or replaced; nothing was changed: "
                    "put it back, or start again in the new place"
                )
            yield fd
        finally:
            os.close(fd)


def _state(node: Node | None) -> State | None:
    return None if node is None else State(node.kind, blob_name(node.data))


def _ended(resumed: Resumed, steps: int) -> str:
    kept = resumed.kept
    files = steps - len(kept)
    are = "1 file is" if files == 1 else f"{files} files are"
    done = f"was finished: {are} as then" if resumed.finished else f"was taken back: {are} as before it"
    named = ", ".join(kept[:5]) + (f" and {len(kept) - 5} more" if len(kept) > 5 else "")
    rest = f"; {named} changed since and {'was' if len(kept) == 1 else 'were'} kept" if kept else ""
    return f"going back, which a crash had broken off, {done}{rest}"


async def _in_thread(work: Callable[[threading.Event], _T]) -> _T:
    """The work's result; its event is set when the awaiting task is cancelled, and its end is awaited even so."""
    stop = threading.Event()
    thread = asyncio.ensure_future(asyncio.to_thread(work, stop))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        stop.set()
        while not thread.done():
            try:
                await asyncio.wait([thread])
            except asyncio.CancelledError:
                continue
        thread.exception() if not thread.cancelled() else None
        raise
