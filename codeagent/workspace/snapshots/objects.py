"""Reads what is kept: trees and contents by their hash, and what differs between two trees."""

import re
from collections.abc import Iterator
from types import TracebackType
from typing import Literal, Self

from codeagent.core.errors import CheckpointError
from codeagent.workspace.snapshots.place import StorePlace

Leaf = tuple[bytes, str]
"""Mode as git writes it, and hash."""
FILES = b"files"
ABOUT = b"about"
_TREE = b"40000"
_HASH = re.compile(r"[0-9a-f]{64}")
_RAW = 32


class ObjectReader:
    """One `git cat-file` for as long as the block lasts. Raises CheckpointError."""

    def __init__(self, place: StorePlace, lock: int) -> None:
        self._place = place
        self._process = place.start(["cat-file", "--batch"], lock)
        self._trees: dict[str, dict[bytes, Leaf]] = {}

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
        """The tree of the workspace's files; None where the snapshot holds none."""
        found = self.snapshot(snapshot).get(FILES)
        return None if found is None else found[1]

    def about(self, snapshot: str) -> bytes:
        found = self.snapshot(snapshot).get(ABOUT)
        return b"" if found is None else self.data(found[1])

    def snapshot(self, snapshot: str) -> dict[bytes, Leaf]:
        if not _HASH.fullmatch(snapshot) or self._object(snapshot, missing_is_none=True) is None:
            raise CheckpointError("that snapshot is not there any more; nothing was changed")
        return self.tree(snapshot)

    def tree(self, name: str) -> dict[bytes, Leaf]:
        """Its entries by name; of a folder the mode is `40000`."""
        if name not in self._trees:
            self._trees[name] = dict(_entries(self._object(name) or b""))
        return self._trees[name]

    def data(self, name: str) -> bytes:
        return self._object(name) or b""

    def leaf(self, tree: str | None, path: bytes) -> Leaf | None:
        """The file or link at a path below the tree."""
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
        """Path, and what was and is there, of every file that differs between two trees."""
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
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        answer: list[bytes] = []
        try:
            stdin.write(name.encode() + b"\n")
            stdin.flush()
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
            f"the checkpoints in {self._place.folder} are damaged: an object is missing; nothing was changed: "
            "remove that folder to begin anew"
        )


def _split(leaf: Leaf | None) -> tuple[str | None, Leaf | None]:
    if leaf is not None and leaf[0] == _TREE:
        return leaf[1], None
    return None, leaf


def _entries(raw: bytes) -> Iterator[tuple[bytes, Leaf]]:
    at = 0
    while at < len(raw):
        blank = raw.index(b" ", at)
        end = raw.index(b"\0", blank)
        yield raw[blank + 1 : end], (raw[at:blank], raw[end + 1 : end + 1 + _RAW].hex())
        at = end + 1 + _RAW
