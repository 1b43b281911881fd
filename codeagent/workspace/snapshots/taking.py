"""Takes one snapshot: walks, keeps what is new, and names the whole."""

import os
import threading

from codeagent.core.checkpoints import Snapshot
from codeagent.workspace.snapshots.about import About, bounded
from codeagent.workspace.snapshots.importing import SnapshotWriter
from codeagent.workspace.snapshots.known import Known, KnownFiles
from codeagent.workspace.snapshots.landing import Landing
from codeagent.workspace.snapshots.objects import Leaf
from codeagent.workspace.snapshots.place import GitRefused, StorePlace
from codeagent.workspace.snapshots.restoring import mode_of
from codeagent.workspace.snapshots.scan import Found, Glances, Limits, Order, Scan
from codeagent.workspace.snapshots.surroundings import Surroundings


class Taker:
    """Under the store's lock. Raises CheckpointError."""

    def __init__(self, place: StorePlace, known: KnownFiles, surroundings: Surroundings, limits: Limits) -> None:
        self._place = place
        self._known = known
        self._surroundings = surroundings
        self._limits = limits
        self._own: set[str] = set()
        """Snapshots that this process took."""
        self._tip: str | None = None
        """The commit of the last of them."""
        self._glances: Glances = {}

    def take(self, root: int, lock: int, stop: threading.Event) -> Snapshot:
        known = self._known.load()
        try:
            return self._take(known, root, lock, stop)
        except GitRefused:
            if known.snapshot is None and self._tip is None:
                raise
        # What the new snapshot was to build on is damaged: the workspace is read as if for the first time.
        self._known.forget()
        self._own.clear()
        self._tip = None
        return self._take(self._known.load(), root, lock, stop)

    def _take(self, known: Known, root: int, lock: int, stop: threading.Event) -> Snapshot:
        outer = self._surroundings.outer()
        everywhere = self._surroundings.everywhere()
        writer = SnapshotWriter(self._place, lock)
        store = self._place.shelf.stat()
        order = Order(
            limits=self._limits,
            outside=About(outer=outer, everywhere=everywhere),
            tracked=self._surroundings.tracked(),
            sticky=known.snapshot in self._own,
            skip=(store.st_dev, store.st_ino),
        )
        with self._place.writing():
            try:
                found = Scan(order, writer.add, stop, self._glances).run(root, known.root)
                for path in found.leftovers:
                    Landing(root, self._limits.file, "none").drop(path)
                about = About(bounded(found.left_out), outer, everywhere, tuple(sorted(found.repositories)))
                self._name(writer, known, found, about)
            except BaseException:
                writer.abandon()
                raise
        assert known.snapshot is not None
        return Snapshot(known.snapshot, found.files, about.phrases(), found.marks)

    def _name(self, writer: SnapshotWriter, known: Known, found: Found, about: About) -> None:
        """Make `known` this snapshot, and keep both."""
        encoded = about.encode()
        same = not found.written and not found.gone and encoded == known.about
        if same and known.snapshot in self._own:
            writer.finish()
            self._known.save(known, found.changed, ()) if found.changed else self._known.keep(known)
            return
        removed = [(os.fsencode(path), None) for path in found.gone]
        put: list[tuple[bytes, Leaf | None]] = [
            (os.fsencode(path), (mode_of(found.changed[path][1]), found.changed[path][2])) for path in found.written
        ]
        snapshot, self._tip = writer.commit(known.snapshot, self._tip, [*removed, *put], encoded)
        self._own.add(snapshot)
        known.snapshot, known.about = snapshot, encoded
        self._known.save(known, found.changed, found.gone)
