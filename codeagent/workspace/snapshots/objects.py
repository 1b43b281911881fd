"""Writes snapshots to the store and reads them back: contents and trees by their hash."""

import contextlib
import hashlib
import os
import secrets
import subprocess
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Literal, Self

from codeagent.core.errors import CheckpointError
from codeagent.core.lazy_regex import lazy_regex
from codeagent.disk.opens import create_file, open_appended, open_regular, sync_folder
from codeagent.workspace.snapshots.index import Leaf
from codeagent.workspace.snapshots.store import SnapshotStore

FILES = b"files"
ABOUT = b"about"
_TREE = b"40000"
_HASH = lazy_regex(r"[0-9a-f]{64}")
_RAW = 32
_ASKED = 500
"""How many names of objects fit into a pipe, by far."""
_FEW = 500
_FEW_BYTES = 8 << 20
"""More contents than that, or larger ones together, are written into a pack."""
_BUFFER = 1 << 20
_BLOB = 3
"""The type of a blob in a pack."""
_LARGE = 1 << 31
"""Offsets from here on are in a table of their own."""
_TABLED = 1 << 31
"""Marks a place in that table."""


class ObjectReader:
    """Reads objects with one `git cat-file` under the store's lock, as long as the block lasts.

    Everything raises CheckpointError.
    """

    def __init__(self, store: SnapshotStore) -> None:
        self._store = store
        self._process = store.start("cat-file", "--batch")
        self._trees: dict[str, dict[bytes, Leaf]] = {}
        self._owed = 0
        """How many answers were not read, because whoever asked gave up."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]:
        try:
            self._process.communicate()
        except OSError:
            self._process.kill()
            self._process.wait()
        return False

    def files(self, snapshot: str) -> str | None:
        """Return the tree of the workspace's files; None if the snapshot holds none."""
        found = self.snapshot(snapshot).get(FILES)
        return None if found is None else found[1]

    def about(self, snapshot: str) -> bytes:
        found = self.snapshot(snapshot).get(ABOUT)
        return b"" if found is None else self.data(found[1])

    def snapshot(self, snapshot: str) -> dict[bytes, Leaf]:
        if not _HASH.fullmatch(snapshot) or self._object(snapshot, missing_is_none=True) is None:
            raise CheckpointError("that snapshot no longer exists; nothing was changed")
        return self.tree(snapshot)

    def tree(self, name: str) -> dict[bytes, Leaf]:
        """Return the tree's entries by name; a folder has the mode `40000`."""
        if name not in self._trees:
            self._trees[name] = _entries(self._object(name) or b"")
        return self._trees[name]

    def _read_trees(self, names: Sequence[str]) -> None:
        """Read trees that are about to be looked at, many with one request."""
        for at in range(0, len(names), _ASKED):
            asked = names[at : at + _ASKED]
            self._ask(*asked)
            for name in asked:
                self._trees[name] = _entries(self._answer() or b"")

    def data(self, name: str) -> bytes:
        return self._object(name) or b""

    def each(self, names: Sequence[str]) -> Iterator[bytes]:
        """Yield the contents in order; if they are many, from a second git that is asked for all of
        them at once."""
        if len(names) <= _ASKED:
            self._ask(*names)
            for _ in names:
                yield self._answer() or b""
            return
        with (
            self._file_of(names) as asked,
            self._store.start("cat-file", "--batch", "--buffer", stdin=asked) as process,
        ):
            try:
                for _ in names:
                    yield self._read(process) or b""
            finally:
                process.kill()

    @contextlib.contextmanager
    def _file_of(self, names: Sequence[str]) -> Iterator[IO[bytes]]:
        """Yield a temporary file with these names, a line for each, to be read from its start."""
        try:
            with TemporaryFile(dir=self._store.folder) as file:
                file.write(b"".join(name.encode() + b"\n" for name in names))
                file.seek(0)
                yield file
        except OSError as error:
            raise self._store.unusable(error) from None

    def leaf(self, tree: str | None, path: bytes) -> Leaf | None:
        """Return the file or link at a path below the tree."""
        *folders, last = path.split(b"/")
        for folder in folders:
            found = None if tree is None else self.tree(tree).get(folder)
            if found is None or found[0] != _TREE:
                return None
            tree = found[1]
        found = None if tree is None else self.tree(tree).get(last)
        return None if found is None or found[0] == _TREE else found

    def changes(
        self, before: str | None, after: str | None, folder: bytes = b""
    ) -> Iterator[tuple[bytes, Leaf | None, Leaf | None]]:
        """Yield path, old and new leaf of every file that differs between two trees."""
        if before == after:
            return
        old = {} if before is None else self.tree(before)
        new = {} if after is None else self.tree(after)
        differ = [
            name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)
        ]
        below = (
            leaf[1]
            for name in differ
            for leaf in (old.get(name), new.get(name))
            if leaf and leaf[0] == _TREE
        )
        self._read_trees([tree for tree in dict.fromkeys(below) if tree not in self._trees])
        for name in differ:
            was = old.get(name)
            now = new.get(name)
            was_tree, was_leaf = _split(was)
            now_tree, now_leaf = _split(now)
            if was_leaf != now_leaf:
                yield folder + name, was_leaf, now_leaf
            yield from self.changes(was_tree, now_tree, folder + name + b"/")

    def _object(self, name: str, *, missing_is_none: bool = False) -> bytes | None:
        self._ask(name)
        return self._answer(missing_is_none=missing_is_none)

    def _ask(self, *names: str) -> None:
        """Send so few names that the pipe holds them all: git may be waiting for us to read."""
        stdin = self._process.stdin
        assert stdin is not None
        while self._owed:
            self._answer(missing_is_none=True)
        self._owed = len(names)
        with contextlib.suppress(OSError):  # then there is no answer
            stdin.write(b"".join(name.encode() + b"\n" for name in names))
            stdin.flush()

    def _answer(self, *, missing_is_none: bool = False) -> bytes | None:
        self._owed -= 1
        return self._read(self._process, missing_is_none=missing_is_none)

    def _read(
        self, process: subprocess.Popen[bytes], *, missing_is_none: bool = False
    ) -> bytes | None:
        """Read the next object that git prints."""
        stdout = process.stdout
        assert stdout is not None
        answer: list[bytes] = []
        try:
            answer = stdout.readline().split()
            if len(answer) == 3:
                size = int(answer[2])
                data = stdout.read(size + 1)
                if len(data) == size + 1:
                    return data[:-1]
        except OSError:
            answer = []
        if missing_is_none and answer[1:] == [b"missing"]:
            return None
        raise CheckpointError(
            f"the checkpoints in {self._store.folder} are damaged: an object is missing; nothing was changed: "
            "remove that folder to start afresh"
        )


def _entries(raw: bytes) -> dict[bytes, Leaf]:
    """Return a tree's entries by name, from the tree as git keeps it."""
    entries = dict[bytes, Leaf]()
    at = 0
    while at < len(raw):
        blank = raw.index(b" ", at)
        end = raw.index(b"\0", blank)
        entries[raw[blank + 1 : end]] = (raw[at:blank], raw[end + 1 : end + 1 + _RAW].hex())
        at = end + 1 + _RAW
    return entries


def _split(leaf: Leaf | None) -> tuple[str | None, Leaf | None]:
    if leaf is not None and leaf[0] == _TREE:
        return leaf[1], None
    return None, leaf


def blob_name(data: bytes) -> str:
    """Return the hash under which git keeps this content."""
    return hashlib.sha256(b"blob %d\0" % len(data) + data).hexdigest()


class BlobPack:
    """Writes many contents into one pack of the store: git would hash each again, and more slowly.

    Everything raises OSError. `SnapshotStore` removes what a crash leaves, as it does after a git
    that was killed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._draft = folder / f"tmp_pack_{secrets.token_hex(8)}"
        self._file = os.fdopen(create_file(self._draft), "wb", buffering=_BUFFER)
        self._file.write(_pack_head(0))
        self._at = len(_pack_head(0))
        self._entries: dict[str, tuple[int, int]] = {}
        """Offset and CRC-32 of what is kept, by name."""

    def add(self, name: str, data: bytes) -> None:
        entry = _entry_head(len(data)) + zlib.compress(data, 1)
        self._entries[name] = (self._at, zlib.crc32(entry))
        self._file.write(entry)
        self._at += len(entry)

    def finish(self) -> None:
        """Make the pack durable and known to git: its index gets its name last."""
        self._file.seek(0)
        self._file.write(_pack_head(len(self._entries)))
        self._file.close()
        digest = _digest_of(self._draft)
        with os.fdopen(open_appended(self._draft), "r+b") as file:
            file.write(digest)
            file.flush()
            os.fsync(file.fileno())
        index = self._index(digest)
        draft = self._folder / f"tmp_idx_{secrets.token_hex(8)}"
        with os.fdopen(create_file(draft), "wb") as file:
            file.write(index)
            file.flush()
            os.fsync(file.fileno())
        name = self._folder / f"pack-{digest.hex()}"
        self._draft.rename(name.with_suffix(".pack"))
        draft.rename(name.with_suffix(".idx"))
        sync_folder(self._folder)

    def abandon(self) -> None:
        with contextlib.suppress(OSError):  # what is still in the buffer may not fit on the disk
            self._file.close()
        self._draft.unlink(missing_ok=True)

    def _index(self, digest: bytes) -> bytes:
        """Return the index of the pack, in its second version (gitformat-pack)."""
        names = sorted(self._entries)
        counts = Counter(int(name[:2], 16) for name in names)
        places = [self._entries[name][0] for name in names]
        large = [place for place in places if place >= _LARGE]
        tabled = iter(range(_TABLED, _TABLED + len(large)))
        body = b"".join(
            (
                b"\xfftOc" + (2).to_bytes(4, "big"),
                b"".join(
                    total.to_bytes(4, "big")
                    for total in accumulate(counts[first] for first in range(256))
                ),
                b"".join(bytes.fromhex(name) for name in names),
                b"".join(self._entries[name][1].to_bytes(4, "big") for name in names),
                b"".join(
                    (place if place < _LARGE else next(tabled)).to_bytes(4, "big")
                    for place in places
                ),
                b"".join(place.to_bytes(8, "big") for place in large),
                digest,
            )
        )
        return body + hashlib.sha256(body).digest()


def _pack_head(count: int) -> bytes:
    return b"PACK" + (2).to_bytes(4, "big") + count.to_bytes(4, "big")


def _entry_head(size: int) -> bytes:
    """Return what begins a blob in a pack: its type, and its size in groups of bits, the lowest
    first."""
    head = bytearray([_BLOB << 4 | size & 15])
    size >>= 4
    while size:
        head[-1] |= 128
        head.append(size & 127)
        size >>= 7
    return bytes(head)


def _digest_of(path: Path) -> bytes:
    with os.fdopen(open_regular(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


class SnapshotWriter:
    """Writes one snapshot through `git fast-import`, started when there is something to write,
    under the store's lock.

    Many contents go into a pack of their own. Everything raises CheckpointError.
    """

    def __init__(self, store: SnapshotStore) -> None:
        self._store = store
        self._process: subprocess.Popen[bytes] | None = None
        self._sent: set[str] = set()
        self._few: list[tuple[str, bytes]] = []
        """Contents that wait until it is known whether they are many."""
        self._size = 0
        """Bytes of them."""
        self._pack: BlobPack | None = None

    def add(self, name: str, data: bytes) -> None:
        """Keep a content whose `blob_name` this is."""
        if name in self._sent:
            return
        self._sent.add(name)
        if self._pack is not None:
            self._packed(self._pack, name, data)
            return
        self._few.append((name, data))
        self._size += len(data)
        if len(self._few) <= _FEW and self._size <= _FEW_BYTES:
            return
        try:
            self._pack = pack = BlobPack(self._store.packs())
        except OSError as error:
            raise self._store.unusable(error) from None
        for waiting in self._few:
            self._packed(pack, *waiting)
        self._few.clear()

    def _packed(self, pack: BlobPack, name: str, data: bytes) -> None:
        try:
            pack.add(name, data)
        except OSError as error:
            raise self._store.unusable(error) from None

    def _keep(self) -> None:
        """Hand over the contents, before git is told of what refers to them."""
        if self._pack is not None:
            try:
                self._pack.finish()
            except OSError as error:
                raise self._store.unusable(error) from None
            self._pack = None
        for _, data in self._few:
            self._send(b"blob\ndata %d\n" % len(data), data, b"\n")
        self._few.clear()

    def commit(
        self,
        base: str | None,
        parent: str | None,
        changes: Iterable[tuple[bytes, Leaf | None]],
        about: bytes,
    ) -> tuple[str, str]:
        """Return the new snapshot and the commit that holds it: `base` with these paths removed or
        put in.

        Removals come first. `parent` is this process's commit before it, so that both are kept.
        """
        self._keep()
        now = int(time.time())
        lines = [
            f"commit {self._store.ref}\nmark :1\n".encode(),
            f"committer codeagent <codeagent@localhost> {now} +0000\ndata 0\n".encode(),
        ]
        lines.append(b"deleteall\n" if parent is None else b"from %s\n" % parent.encode())
        if base is not None:
            lines.append(b'M 040000 %s ""\n' % base.encode())
        for path, leaf in changes:
            shown = quoted(FILES + b"/" + path)
            lines.append(
                b"D %s\n" % shown
                if leaf is None
                else b"M %s %s %s\n" % (leaf[0], leaf[1].encode(), shown)
            )
        lines.append(b"M 100644 inline %s\ndata %d\n%s\n" % (ABOUT, len(about), about))
        lines.append(b'get-mark :1\nls :1 ""\ndone\n')
        self._send(b"".join(lines))
        words = self._end().split()
        if len(words) < 4:
            raise self._failed(b"no answer")
        return words[3].decode(), words[0].decode()

    def finish(self) -> None:
        """Keep the contents without a snapshot, until the next pruning."""
        self._keep()
        if self._process is None:
            return
        self._send(b"done\n")
        self._end()

    def abandon(self) -> None:
        """Give up: nothing is kept but contents that no snapshot refers to."""
        if self._pack is not None:
            self._pack.abandon()
        process = self._process
        self._process = None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            # What is still in the buffer of a pipe that nobody reads can no longer be written.
            with contextlib.suppress(OSError):
                pipe.close() if pipe is not None else None

    def _send(self, *parts: bytes) -> None:
        if self._process is None:
            options = ("--quiet", "--done", "--force", "--date-format=raw", "--depth=0")
            self._process = self._store.start("fast-import", *options)
        assert self._process.stdin is not None
        try:
            for part in parts:
                self._process.stdin.write(part)
        except OSError:
            self._process.wait()
            raise self._failed(_rest(self._process)) from None

    def _end(self) -> bytes:
        """Wait for git to end; return what it answered."""
        process = self._process
        assert process is not None
        try:
            out, errors = process.communicate()
        except OSError:
            process.wait()
            raise self._failed(_rest(process)) from None
        if process.returncode:
            raise self._failed(errors)
        self._process = None
        return out

    def _failed(self, errors: bytes) -> CheckpointError:
        self.abandon()
        return self._store.complaint(errors)


def _rest(process: subprocess.Popen[bytes]) -> bytes:
    """Return what a process that has ended said on stderr."""
    return b"" if process.stderr is None or process.stderr.closed else process.stderr.read()


def quoted(path: bytes) -> bytes:
    """Quote a path as git reads it."""
    escaped = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + escaped + b'"'
