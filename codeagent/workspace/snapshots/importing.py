"""Writes one snapshot: contents as they are read, then the tree they make."""

import hashlib
import subprocess
import time
from collections.abc import Iterable

from codeagent.core.errors import CheckpointError
from codeagent.workspace.snapshots.objects import ABOUT, FILES, Leaf
from codeagent.workspace.snapshots.place import StorePlace


def blob_name(data: bytes) -> str:
    """The hash under which git keeps this content."""
    return hashlib.sha256(b"blob %d\0" % len(data) + data).hexdigest()


class SnapshotWriter:
    """Feeds one `git fast-import`, which is started when there is something to write. Raises CheckpointError."""

    def __init__(self, place: StorePlace, lock: int) -> None:
        self._place = place
        self._lock = lock
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
        """The new snapshot and the commit that holds it: `base` with these paths removed or put in.

        Removals come first. It follows `parent` in this process's line, so that both stay.
        """
        now = int(time.time())
        lines = [
            f"commit {self._place.ref}\nmark :1\n".encode(),
            f"committer codeagent <codeagent@localhost> {now} +0000\ndata 0\n".encode(),
        ]
        lines.append(b"deleteall\n" if parent is None else b"from %s\n" % parent.encode())
        if base is not None:
            lines.append(b'M 040000 %s ""\n' % base.encode())
        for path, leaf in changes:
            shown = _quoted(FILES + b"/" + path)
            lines.append(b"D %s\n" % shown if leaf is None else b"M %s %s %s\n" % (leaf[0], leaf[1].encode(), shown))
        lines.append(b"M 100644 inline %s\ndata %d\n%s\n" % (ABOUT, len(about), about))
        lines.append(b'get-mark :1\nls :1 ""\ndone\n')
        self._send(b"".join(lines))
        commit, tree = self._answer()
        return tree, commit

    def finish(self) -> None:
        """Keep the contents without a snapshot: only until the next pruning."""
        if self._process is None:
            return
        self._send(b"done\n")
        self._end()

    def abandon(self) -> None:
        """Nothing of it is kept, but contents that nobody refers to."""
        if self._process is None:
            return
        self._process.kill()
        self._process.communicate()
        self._process = None

    def _send(self, *parts: bytes) -> None:
        if self._process is None:
            command = ["fast-import", "--quiet", "--done", "--force", "--date-format=raw", "--depth=0"]
            self._process = self._place.start(command, self._lock)
        assert self._process.stdin is not None
        try:
            for part in parts:
                self._process.stdin.write(part)
        except OSError:
            raise self._failed() from None

    def _answer(self) -> tuple[str, str]:
        words = self._end().split()
        if len(words) < 4:
            raise self._failed()
        return words[0].decode(), words[3].decode()

    def _end(self) -> bytes:
        """What git answered."""
        process = self._process
        assert process is not None
        try:
            out, _ = process.communicate()
        except OSError:
            raise self._failed() from None
        if process.returncode:
            raise self._failed()
        self._process = None
        return out

    def _failed(self) -> CheckpointError:
        self.abandon()
        return self._place.complaint()


def _quoted(path: bytes) -> bytes:
    escaped = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + escaped + b'"'
