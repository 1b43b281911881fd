"""Writes snapshots to the store and reads them back: contents and trees by their hash."""

import contextlib
import hashlib
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Literal, Self

from codeagent.core.errors import CheckpointError
from codeagent.core.lazy_regex import lazy_regex
from codeagent.workspace.snapshots.store import SnapshotStore

Leaf = tuple[bytes, str]
"""Mode as git writes it, and hash."""
FILES = b"files"
ABOUT = b"about"
_TREE = b"40000"
_HASH = lazy_regex(r"[0-9a-f]{64}")
_RAW = 32
_ASKED = 500
"""How many names of objects fit into a pipe, by far."""


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
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
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
            raw, at, entries = self._object(name) or b"", 0, dict[bytes, Leaf]()
            while at < len(raw):
                blank = raw.index(b" ", at)
                end = raw.index(b"\0", blank)
                entries[raw[blank + 1 : end]] = (raw[at:blank], raw[end + 1 : end + 1 + _RAW].hex())
                at = end + 1 + _RAW
            self._trees[name] = entries
        return self._trees[name]

    def data(self, name: str) -> bytes:
        return self._object(name) or b""

    def each(self, names: Sequence[str]) -> Iterator[bytes]:
        """Yield the contents in order, several for each question: git waits less for us, and we for git."""
        for at in range(0, len(names), _ASKED):
            asked = names[at : at + _ASKED]
            self._ask(*asked)
            for _ in asked:
                yield self._answer() or b""

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
        for name in sorted(old.keys() | new.keys()):
            was, now = old.get(name), new.get(name)
            if was == now:
                continue
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
        stdout = self._process.stdout
        assert stdout is not None
        self._owed -= 1
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


def _split(leaf: Leaf | None) -> tuple[str | None, Leaf | None]:
    if leaf is not None and leaf[0] == _TREE:
        return leaf[1], None
    return None, leaf


def blob_name(data: bytes) -> str:
    """Return the hash under which git keeps this content."""
    return hashlib.sha256(b"blob %d\0" % len(data) + data).hexdigest()


class SnapshotWriter:
    """Writes one snapshot through `git fast-import`, started when there is something to write, under the store's lock.

    Everything raises CheckpointError.
    """

    def __init__(self, store: SnapshotStore) -> None:
        self._store = store
        self._process: subprocess.Popen[bytes] | None = None
        self._sent: set[str] = set()

    def add(self, name: str, data: bytes) -> None:
        """Keep a content whose `blob_name` this is."""
        if name in self._sent:
            return
        self._sent.add(name)
        self._send(b"blob\ndata %d\n" % len(data), data, b"\n")

    def commit(
        self, base: str | None, parent: str | None, changes: Iterable[tuple[bytes, Leaf | None]], about: bytes
    ) -> tuple[str, str]:
        """Return the new snapshot and the commit that holds it: `base` with these paths removed or put in.

        Removals come first. `parent` is this process's commit before it, so that both are kept.
        """
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
            lines.append(b"D %s\n" % shown if leaf is None else b"M %s %s %s\n" % (leaf[0], leaf[1].encode(), shown))
        lines.append(b"M 100644 inline %s\ndata %d\n%s\n" % (ABOUT, len(about), about))
        lines.append(b'get-mark :1\nls :1 ""\ndone\n')
        self._send(b"".join(lines))
        words = self._end().split()
        if len(words) < 4:
            raise self._failed(b"no answer")
        return words[3].decode(), words[0].decode()

    def finish(self) -> None:
        """Keep the contents without a snapshot, until the next pruning."""
        if self._process is None:
            return
        self._send(b"done\n")
        self._end()

    def abandon(self) -> None:
        """Give up: nothing is kept but contents that no snapshot refers to."""
        process, self._process = self._process, None
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
