"""Checkpoints of the workspace in a git store of our own: nothing of the user's repository is run
or written."""

import asyncio
import functools
import os
import secrets
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from codeagent.core.changes import Change, content_name
from codeagent.core.checkpoints import FileChange, Node, OthersChanges, Snapshot
from codeagent.core.errors import CheckpointError, PartlyChanged, WorkspaceError
from codeagent.core.paths import protected_part
from codeagent.disk.opens import open_folder
from codeagent.workspace.snapshots.contents import NotCovered
from codeagent.workspace.snapshots.coverage import OutsideRules, SnapshotRecord, bounded
from codeagent.workspace.snapshots.index import (
    FileState,
    IndexFile,
    Leaf,
    SnapshotIndex,
    mode_of,
    state_of,
)
from codeagent.workspace.snapshots.moments import MomentsFile
from codeagent.workspace.snapshots.nodes import FileWriter
from codeagent.workspace.snapshots.objects import ObjectReader, SnapshotWriter, blob_name
from codeagent.workspace.snapshots.scan import IgnoredFolders, Scan, ScanResult, SizeLimits
from codeagent.workspace.snapshots.store import (
    GitRefused,
    HalfRestored,
    RestoreJournal,
    Retention,
    SnapshotStore,
)

_T = TypeVar("_T")
_P = ParamSpec("_P")


def _in_thread(
    work: Callable[Concatenate["GitCheckpoints", threading.Event, _P], _T],
) -> Callable[Concatenate["GitCheckpoints", _P], Coroutine[Any, Any, _T]]:
    """Make a method that runs in a thread; cancelling it sets the event and still waits for the end
    of the work."""

    @functools.wraps(work)
    async def method(self: "GitCheckpoints", /, *arguments: _P.args, **options: _P.kwargs) -> _T:
        stop = threading.Event()
        thread = asyncio.ensure_future(asyncio.to_thread(work, self, stop, *arguments, **options))
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            stop.set()
            while not thread.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([thread])
            thread.exception() if not thread.cancelled() else None
            raise

    return method


class GitCheckpoints:
    """A Checkpoints. `close` it, or let it live as long as the process: its snapshots are not
    pruned until then.

    Work is done in a thread. Cancelling waits until the thread has ended: a snapshot is
    interrupted, a restore is completed.
    """

    def __init__(
        self,
        state_dir: Path,
        workspace: Path,
        *,
        limits: SizeLimits | None = None,
        allowance: Retention | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`environment` is used to find the user's global ignore file, and for nothing else."""
        self._root = workspace.resolve()
        self._identity: tuple[int, int] | None = None
        self._limits = limits or SizeLimits()
        self._allowance = allowance or Retention()
        self._store = SnapshotStore(state_dir.absolute(), self._root)
        self._known = IndexFile(self._store.folder / "known.sqlite")
        self._moments = MomentsFile(self._store.folder / "moments.sqlite", self._store.session)
        self._journal = RestoreJournal(self._store.folder / "journal.json")
        self._outside = OutsideRules(
            self._store, os.environ if environment is None else environment
        )
        self._own: set[str] = set()
        """Snapshots that this process took."""
        self._tip: str | None = None
        """The commit of the last one."""
        self._glances: IgnoredFolders = {}
        self._found = ScanResult()

    def close(self) -> None:
        self._known.close()
        self._moments.close()
        self._store.close()

    @property
    def scanned(self) -> int:
        return self._found.files

    @_in_thread
    def take(self, stop: threading.Event, *, commands: bool | None = None) -> Snapshot:
        return self._take(stop, commands)

    @contextmanager
    def landing(self, *changes: tuple[str, str, str]) -> Iterator[None]:
        """Record that this session changes files itself in the block: path, SHA-256 before and
        after (empty: no file).

        Raises WorkspaceError before anything is changed if that cannot be recorded.
        """
        if not self._own:  # no snapshots are kept, or not yet
            yield
            return
        try:
            entries = self._moments.intend(changes)
        except CheckpointError as error:
            raise WorkspaceError(str(error)) from None
        with self._recorded(entries):
            yield

    @contextmanager
    def _recorded(self, entries: Sequence[int]) -> Iterator[None]:
        """Record what becomes of these landings in the block.

        If that fails, nobody can tell who changed these files, and nobody takes them back.
        """
        try:
            yield
        except (HalfRestored, PartlyChanged):
            raise
        except Exception:
            with suppress(CheckpointError):
                self._moments.withdraw(entries)
            raise
        with suppress(CheckpointError):
            self._moments.landed(entries)

    @_in_thread
    def theirs(
        self, stop: threading.Event, since: str, target: str, present: str, own: Collection[str]
    ) -> OthersChanges:
        from codeagent.workspace.snapshots.shares import Shares  # only needed to go back

        with self._store.locked(stop):
            record = self._moments.since(since)
            with ObjectReader(self._store) as reader:
                shares = Shares(self._store, reader, record, own)
                return OthersChanges() if shares.alone else shares.theirs(target, present)

    @_in_thread
    def changes(
        self, stop: threading.Event, before: str, after: str | None
    ) -> tuple[FileChange, ...]:
        from codeagent.workspace.snapshots import restore  # only needed to go back and to compare

        until = self._take(stop).id if after is None else after
        with self._store.locked(stop), ObjectReader(self._store) as reader:
            return tuple(restore.listed(restore.differences(reader, before, until)))

    @_in_thread
    def node(self, stop: threading.Event, snapshot: str | None, path: str) -> Node | None:
        if protected_part(path) is not None:
            return None
        if snapshot is None:
            return self._present_node(path)
        with self._store.locked(stop), ObjectReader(self._store) as reader:
            return _kept(reader, snapshot, path)

    @_in_thread
    def nodes(
        self, stop: threading.Event, snapshots: Sequence[str], paths: Sequence[str], most: int
    ) -> tuple[tuple[Node | None, ...], ...]:
        """Read the first of these paths, each in all snapshots, until that is `most` bytes; at
        least one.

        One git reads them all: to start it takes longer than to read most files. Raises
        CheckpointError.
        """
        found: list[tuple[Node | None, ...]] = []
        size = 0
        with self._store.locked(stop), ObjectReader(self._store) as reader:
            for path in paths:
                nodes = tuple(_kept(reader, snapshot, path) for snapshot in snapshots)
                found.append(nodes)
                size += sum(len(node.data) for node in nodes if node is not None)
                if size >= most or stop.is_set():
                    break
        return tuple(found)

    @_in_thread
    def merged(
        self, stop: threading.Event, base: bytes, ours: bytes, theirs: bytes
    ) -> bytes | None:
        """Merge two versions of a text, line by line; None if both changed the same lines."""
        with self._store.locked(stop):
            return self._store.merged(base, ours, theirs)

    @_in_thread
    def written_by_others(self, stop: threading.Event, since: float) -> Mapping[str, str]:
        self._store.ready()
        return self._moments.written_by_others(since)

    @_in_thread
    def restore(
        self,
        stop: threading.Event,
        target: str,
        *,
        present: str,
        paths: Collection[str] | None = None,
        instead: Mapping[str, Node | None] | None = None,
    ) -> tuple[FileChange, ...]:
        from codeagent.workspace.snapshots import restore  # only needed to go back and to compare

        merged = instead or {}
        wanted = restore.Wanted(
            target,
            present,
            None if paths is None else frozenset(paths),
            {path: _state(node) for path, node in merged.items()},
        )
        with self._files(stop) as files:
            self._keep(*merged.values())
            with ObjectReader(self._store) as reader:
                steps = restore.plan(reader, files, wanted)
                self._carry_out(reader, files, steps)
        return tuple(restore.listed(steps))

    @_in_thread
    def replace(
        self, stop: threading.Event, path: str, node: Node | None, *, present: Node | None
    ) -> None:
        step = Change(path, _state(present), _state(node))
        if step.before == step.after:
            return
        if protected_part(path) is not None:
            raise CheckpointError(f"{path} is protected; nothing was changed")
        with self._files(stop) as files:
            if files.state(path) != step.before:
                raise CheckpointError(
                    f"{path} has changed since; nothing was changed: look at it, then try again"
                )
            self._keep(node, present)
            with ObjectReader(self._store) as reader:
                self._carry_out(reader, files, (step,))

    @_in_thread
    def write_out(self, stop: threading.Event, snapshot: str, folder: Path) -> None:
        """Write the files of a snapshot into an empty folder of ours. Raises CheckpointError,
        OSError."""
        from codeagent.workspace.snapshots import restore  # only needed to go back and to compare

        with self._store.locked(stop), ObjectReader(self._store) as reader:
            for path, _, leaf in reader.changes(None, reader.files(snapshot)):
                if stop.is_set():
                    return
                if (state := state_of(leaf)) is not None:
                    restore.write_new(
                        folder / os.fsdecode(path), Node(state.kind, reader.data(state.blob))
                    )

    @_in_thread
    def recover(self, stop: threading.Event) -> str | None:
        if not self._journal:
            return None
        from codeagent.workspace.snapshots import restore  # only needed after a crash

        with self._store.locked(stop):
            if not self._journal:
                return None
            token, steps = self._journal.read()
            with ObjectReader(self._store) as reader, self._opened_root() as root:
                told = restore.resume(reader, FileWriter(root, self._limits.file, token), steps)
            self._journal.clear()
        return told

    @_in_thread
    def prune(self, stop: threading.Event) -> None:
        with self._store.locked(stop):
            if self._journal:
                return
            from codeagent.workspace.snapshots.prune import prune  # most runs end before

            if not prune(self._store, self._known.snapshot(), self._allowance):
                self._known.forget()
            self._moments.prune(self._allowance.age, self._store.living())

    def _take(self, stop: threading.Event, commands: bool | None = None) -> Snapshot:
        with self._files(stop) as files:
            if commands is None:
                return self._taken(files, stop)
            begun = self._moments.begin()
            snapshot = self._taken(files, stop)
            living = self._store.living()
            self._moments.durable = len(living) > 1
            moment = self._moments.add(begun, snapshot.id, commands=commands, living=living)
            return replace(snapshot, moment=moment)

    def _taken(self, files: FileWriter, stop: threading.Event) -> Snapshot:
        known = self._known.load()
        try:
            return self._snapshot(known, files, stop)
        except GitRefused:
            if known.snapshot is None and self._tip is None:
                raise
        # The snapshot that the new one builds on is damaged: the workspace is read as if for the
        # first time.
        self._known.forget()
        self._own.clear()
        self._tip = None
        return self._snapshot(self._known.load(), files, stop)

    def _snapshot(self, known: SnapshotIndex, files: FileWriter, stop: threading.Event) -> Snapshot:
        at = time.time()
        outer = self._outside.outer()
        everywhere = self._outside.everywhere
        writer = SnapshotWriter(self._store)
        store = self._store.all_stores.stat()
        scan = Scan(
            self._limits,
            SnapshotRecord(outer=outer, everywhere=everywhere),
            tracked=self._outside.tracked(),
            sticky=known.snapshot in self._own,
            skip=(store.st_dev, store.st_ino),
            keep=writer.add,
            stop=stop,
            glances=self._glances,
        )
        self._found = scan.found
        with self._store.writing():
            try:
                found = scan.run(files.root, known.root)
                for path in found.leftovers:
                    files.drop(path)
                about = SnapshotRecord(
                    bounded(found.left_out), outer, everywhere, tuple(sorted(found.repositories))
                )
                self._name(writer, known, found, about)
            except BaseException:
                writer.abandon()
                raise
        assert known.snapshot is not None
        left_out = about.phrases()
        others = self._store.others()
        return Snapshot(
            known.snapshot, found.files, left_out, found.marks, found.linked, others=others, at=at
        )

    def _name(
        self, writer: SnapshotWriter, known: SnapshotIndex, found: ScanResult, about: SnapshotRecord
    ) -> None:
        """Store the snapshot, make `known` its index, and save that."""
        encoded = about.encode()
        same = not found.written and not found.gone and encoded == known.about
        if same and known.snapshot in self._own:
            writer.finish()
            self._known.save(known, found.changed, ()) if found.changed else self._known.keep(known)
            return
        removed = [(os.fsencode(path), None) for path in found.gone]
        put: list[tuple[bytes, Leaf | None]] = [
            (os.fsencode(path), (mode_of(found.changed[path][1]), found.changed[path][2]))
            for path in found.written
        ]
        snapshot, self._tip = writer.commit(known.snapshot, self._tip, [*removed, *put], encoded)
        self._own.add(snapshot)
        known.snapshot = snapshot
        known.about = encoded
        self._known.save(known, found.changed, found.gone)

    def _carry_out(
        self, reader: ObjectReader, files: FileWriter, steps: tuple[Change[FileState], ...]
    ) -> None:
        from codeagent.workspace.snapshots import restore  # only needed to go back and to compare

        if not steps:
            return
        try:
            self._journal.write(files.token, steps)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise CheckpointError(
                f"{self._store.folder} cannot be written: {reason}; nothing was changed: make room, then try again"
            ) from None
        try:
            if self._moments.durable:
                with self._recorded(self._moments.intend(self._landings(reader, steps))):
                    restore.perform(reader, files, steps)
            else:
                restore.perform(reader, files, steps)
        except HalfRestored:
            raise
        except CheckpointError:
            self._journal.clear()
            raise
        self._journal.clear()

    def _landings(
        self, reader: ObjectReader, steps: Sequence[Change[FileState]]
    ) -> Iterator[tuple[str, str, str]]:
        """Yield what a restore changes, for the record of who changed what."""
        from codeagent.workspace.snapshots import restore  # only needed to go back and to compare

        for step in steps:
            old = content_name(restore.node_of(reader, step.before))
            new = content_name(restore.node_of(reader, step.after))
            yield step.path, old, new

    def _keep(self, *nodes: Node | None) -> None:
        """Keep these contents in the store, until the next pruning."""
        with self._store.writing():
            writer = SnapshotWriter(self._store)
            for kept in filter(None, nodes):
                writer.add(blob_name(kept.data), kept.data)
            writer.finish()

    def _present_node(self, path: str) -> Node | None:
        with self._opened_root() as root:
            try:
                content = FileWriter(root, self._limits.file, "none").content(path)
            except NotCovered as reason:
                raise CheckpointError(f"{path}: {reason}; no snapshot holds it") from None
        return None if content is None else Node(content.kind, content.data)

    @contextmanager
    def _files(self, stop: threading.Event) -> Iterator[FileWriter]:
        """Hold the store's lock, and the workspace open, in which no restore is half done."""
        with self._store.locked(stop), self._opened_root() as root:
            if self._journal:
                raise CheckpointError(
                    "going back was interrupted by a crash and is not finished; nothing was changed: "
                    "start codeagent again to finish it"
                )
            yield FileWriter(root, self._limits.file, secrets.token_hex(8))

    @contextmanager
    def _opened_root(self) -> Iterator[int]:
        try:
            fd = open_folder(self._root)
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
                    "put it back, or start again in the new store"
                )
            yield fd
        finally:
            os.close(fd)


def _kept(reader: ObjectReader, snapshot: str, path: str) -> Node | None:
    from codeagent.workspace.snapshots import restore  # only needed to go back and to compare

    return restore.node_of(reader, state_of(reader.leaf(reader.files(snapshot), os.fsencode(path))))


def _state(node: Node | None) -> FileState | None:
    return None if node is None else FileState(node.kind, blob_name(node.data))
