"""Joins a document of several files into one; only referenced files in its folder are read."""

import os
import posixpath
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from codeagent.core.errors import WorkspaceError
from codeagent.core.paths import secret_reason
from codeagent.core.sanitize import one_line
from codeagent.disk.confined import ConfinedRoot
from codeagent.disk.opens import open_folder
from codeagent.extensions.openapi.reading import LARGEST, BadDocument, read_text

FILES = "x-codeagent-files"
"""The key of the other files in the joined document, by their paths relative to its folder."""
_MOST_FILES = 1_000


def joined(root: Any, path: Path) -> Any:
    """Return the document read from `path`, with the files that its references lead to under FILES.

    References to anything but a file in its folder, or below, stay as they are. Changes `root`.
    Blocks. Raises BadDocument if such a file cannot be used, OSError if the folder cannot be
    opened.
    """
    if not isinstance(root, dict):
        return root
    folder = open_folder(path.parent, follow=True)
    try:
        bundle = _Bundle(ConfinedRoot(folder, str(path.parent)), path.name)
        bundle.take(root)
    finally:
        os.close(folder)
    return {**root, FILES: bundle.files} if bundle.files else root


class _Bundle:
    """The files read so far, each with its references rewritten."""

    def __init__(self, folder: ConfinedRoot, main: str) -> None:
        self._folder = folder
        self._main = main
        self._left = LARGEST
        self._waiting: list[tuple[str, Any]] = []
        self.files: dict[str, Any] = {}

    def take(self, root: Any) -> None:
        """Rewrite the references of the main file, and of all files that they lead to. Raises
        BadDocument."""
        self._waiting.append((self._main, root))
        while self._waiting:
            file, value = self._waiting.pop()
            for node in _objects(value):
                if isinstance(reference := node.get("$ref"), str):
                    node["$ref"] = self._rewritten(reference, file)

    def _rewritten(self, reference: str, file: str) -> str:
        """Return the reference for the joined document; unchanged if it does not lead to one of its
        files."""
        place, _, fragment = reference.partition("#")
        target = _file_of(place, file) if place else file
        if target is None or (fragment and not fragment.startswith("/")):
            return reference
        if target == self._main:
            return f"#{fragment}"
        if target not in self.files and not self._read(target):
            return reference
        key = target.replace("~", "~0").replace("/", "~1")
        return f"#/{FILES}/{quote(key, safe='~')}{fragment}"

    def _read(self, target: str) -> bool:
        """Read a file; False if there is none in the folder. Raises BadDocument."""
        shown = one_line(target, 200)
        if (secret := secret_reason(target)) is not None:
            raise BadDocument(f"it refers to another file, and {one_line(secret, 200)}")
        try:
            fd = self._folder.open(target, os.O_RDONLY | os.O_NONBLOCK)
        except WorkspaceError:
            return False
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            return False
        with os.fdopen(fd, "rb") as file:
            data = file.read(self._left + 1)
        self._left -= len(data)
        if self._left < 0 or len(self.files) == _MOST_FILES:
            raise BadDocument(
                f"it has more than {_MOST_FILES:,} files, or more than {LARGEST >> 20} MiB together"
            )
        try:
            self.files[target] = read_text(data)
        except BadDocument as error:
            raise BadDocument(f"{shown}, which it refers to: {error}") from None
        self._waiting.append((target, self.files[target]))
        return True


def _file_of(place: str, file: str) -> str | None:
    """Return the path, relative to the folder, that a reference in `file` leads to; None for other
    addresses."""
    try:
        parts = urlsplit(place)
    except ValueError:
        return None
    if parts.scheme or parts.netloc or parts.query or place.startswith("/") or "\\" in place:
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(file), unquote(place)))


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
