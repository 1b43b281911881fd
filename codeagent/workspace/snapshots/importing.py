"""Writes one snapshot: contents as they are read, then the tree they make."""

import contextlib
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
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            # What is still in the buffer of a pipe that nobody reads cannot be written any more.
            with contextlib.suppress(OSError):
                pipe.close() if pipe is not None else None

    def _send(self, *parts: bytes) -> None:
        if self._process is None:
            command = ["fast-import", "--quiet", "--done", "--force", "--date-format=raw", "--depth=0"]
            self._process = self._place.start(command, self._lock)
        assert self._process.stdin is not None
        try:
            for part in parts:
                self._process.stdin.write(part)
        except OSError:
            self._process.wait()
            raise self._failed(_rest(self._process)) from None

    def _answer(self) -> tuple[str, str]:
        words = self._end().split()
        if len(words) < 4:
            raise self._failed(b"no answer")
        return words[0].decode(), words[3].decode()

    def _end(self) -> bytes:
        """What git answered."""
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
        return self._place.complaint(errors)


def _rest(process: subprocess.Popen[bytes]) -> bytes:
    """What a process that has ended said on stderr."""
    return b"" if process.stderr is None or process.stderr.closed else process.stderr.read()


def _quoted(path: bytes) -> bytes:
    escaped = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + escaped + b'"'
