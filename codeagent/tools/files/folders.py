"""Reads folders of tool files, each file once and never through a link, and knows whether a
project's are trusted."""

import errno
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.toolbox import ToolProblem, TrustBook
from codeagent.disk.opens import open_below, open_folder, read_regular

LARGEST_FILE = 256 * 1024
"""Bytes of one file."""
MOST_FILES = 200
"""Files of one folder."""


@dataclass(frozen=True)
class ToolFile:
    """A tool file as it was read; exactly that content is loaded."""

    path: Path
    shown: str
    """Its path as users write it, for `file:line`."""
    content: bytes
    place: Literal["project", "user"]


@dataclass(frozen=True)
class FolderState:
    """What a folder of tool files held when it was read."""

    files: tuple[ToolFile, ...] = ()
    """By name."""
    problems: tuple[ToolProblem, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 (hex) over names and contents: what trust is given to."""
        total = hashlib.sha256()
        for file in self.files:
            name, content = file.path.name.encode("utf-8", "surrogateescape"), file.content
            total.update(b"%d %d " % (len(name), len(content)) + name + content)
        return total.hexdigest()


class ToolFolder:
    """The files with given suffixes directly in `base/parts…`, except those that begin with `.` or
    `_`.

    Each is read once, through no link, and read again only if something about it changed.
    """

    def __init__(
        self,
        base: Path,
        parts: tuple[str, ...],
        place: Literal["project", "user"],
        suffixes: Callable[[], tuple[str, ...]],
    ) -> None:
        """Links below `base` are never followed. `suffixes` is called once the folder exists."""
        self._base = base
        self._parts = parts
        self.place = place
        self._suffixes = suffixes
        self._signature: tuple[object, ...] | None = None
        self._state = FolderState()

    def read(self) -> FolderState:
        """Return the current state; the same object as before if nothing changed. Blocks on a few
        small files."""
        try:
            signature, state = self._look()
        except FileNotFoundError:
            signature, state = None, FolderState()
        except OSError as error:
            signature, state = None, self._unread(error)
        if signature is None and state == self._state:
            state = self._state
        self._signature, self._state = signature, state
        return state

    def _look(self) -> tuple[tuple[object, ...], FolderState]:
        """Return the stamps that tell whether a file changed, and the state. Raises OSError."""
        base = open_folder(self._base, follow=True)
        try:
            folder = open_below(base, self._parts, listed=True)
        finally:
            os.close(base)
        try:
            with os.scandir(folder) as entries:
                found = sorted(entry.name for entry in entries)
            suffixes = self._suffixes()
            names = [
                name
                for name in found
                if name.endswith(suffixes) and not name.startswith((".", "_"))
            ]
            signature = tuple(_stamp(folder, name) for name in names)
            same = signature == self._signature
            return signature, self._state if same else self._read_all(folder, names)
        finally:
            os.close(folder)

    def _unread(self, error: OSError) -> FolderState:
        """Return the state if the folder cannot be read: empty for a link, else the files that were
        read before.

        Those may include restrictions, which must not end because of an error.
        """
        where = self._shown("")
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            text = "it is a link, or not a folder: nothing in it is loaded"
            return FolderState(problems=(ToolProblem(where, text, "warning"),))
        kept = "what was read before stays" if self._state.files else "nothing in it is loaded"
        return FolderState(
            self._state.files,
            (ToolProblem(where, f"it cannot be read ({error.strerror}): {kept}"),),
        )

    def _read_all(self, folder: int, names: list[str]) -> FolderState:
        files: list[ToolFile] = []
        problems: list[ToolProblem] = []
        for name in names[:MOST_FILES]:
            try:
                content = read_regular(name, within=folder, largest=LARGEST_FILE)
            except OSError as error:
                problems.append(
                    ToolProblem(self._shown(name), f"it cannot be read: {error.strerror or error}")
                )
                continue
            files.append(
                ToolFile(
                    self._base.joinpath(*self._parts, name), self._shown(name), content, self.place
                )
            )
        if len(names) > MOST_FILES:
            text = f"only the first {MOST_FILES} of {len(names)} files are loaded"
            problems.append(ToolProblem(self._shown(""), text, partial=True))
        return FolderState(tuple(files), tuple(problems))

    def _shown(self, name: str) -> str:
        inner = Path(*self._parts, name)
        return str(inner if self.place == "project" else self._base / inner)


class ProjectTrust:
    """Whether the files of a project's folders are trusted; trust is given to all of them together,
    as they are."""

    def __init__(
        self, folders: Sequence[ToolFolder], book: TrustBook | None, *, accept: bool
    ) -> None:
        """`book` keeps the trust; if it is None, nothing is trusted.

        `accept`: the files are trusted as they are at the first look; that is not kept.
        """
        self._folders = folders
        self._book = book
        self._accept_first = accept
        self._accepted: str | None = None

    def of_project(self, states: Sequence[FolderState]) -> list[FolderState]:
        """Return the states of the project's folders that have files, out of the states of all
        folders."""
        pairs = zip(self._folders, states, strict=True)
        return [state for folder, state in pairs if folder.place == "project" and state.files]

    def digest(self, states: Sequence[FolderState]) -> str | None:
        """Return the digest that is trusted, over all of the project's folders; None if they are
        empty."""
        digests = [state.digest for state in self.of_project(states)]
        if len(digests) < 2:
            return digests[0] if digests else None
        return hashlib.sha256(" ".join(digests).encode()).hexdigest()

    def holds(self, states: Sequence[FolderState]) -> bool:
        """Whether the files are trusted as they are. Raises ConfigError if the record of trust is
        damaged."""
        digest = self.digest(states)
        if digest is None:
            return True
        if self._accept_first:
            self._accept_first = False
            self._accepted = digest
        return digest == self._accepted or (self._book is not None and self._book.trusts(digest))

    def give(self, digest: str | None) -> None:
        """Trust the files with this digest, in later sessions as well. Blocks. Raises
        ConfigError."""
        if self._book is None:
            raise ConfigError("trust cannot be stored here, so nothing of the project is loaded")
        if digest is not None:
            self._book.trust(digest)

    def take_back(self) -> None:
        """Stop trusting any files. Blocks. Raises ConfigError."""
        self._accepted = None
        self._accept_first = False
        if self._book is not None:
            self._book.forget()


def _stamp(folder: int, name: str) -> tuple[object, ...]:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return (name,)
    return (
        name,
        status.st_ino,
        status.st_mode,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )
