"""Which files of the workspace read as empty inside: those that look like secrets."""

import os
import re

from codeagent.core.paths import secret_reason
from codeagent.sandbox.pinned import Found, PinnedRoot

MOST_FILES = 100
MOST_ENTRIES = 20_000
"""Entries looked at; a larger tree is looked at in part, which the caller says."""
_SKIPPED = frozenset({
    ".git", "node_modules", ".venv", "venv", "site-packages", "__pycache__", ".tox", ".nox", ".mypy_cache", "target",
    "test", "tests", "testdata", "fixtures", "examples",
})  # fmt: skip
_OFTEN_PUBLIC = re.compile(r".+\.(pem|key|asc)|\.npmrc", re.IGNORECASE)
"""Certificates and package settings: secret only where they hold one of the marks below."""
_MARKS = (b"PRIVATE KEY", b"_auth", b"_password")
_LOOKED_AT = 64 * 1024


def secret_files(root: PinnedRoot) -> tuple[tuple[Found, ...], bool]:
    """The files to mask, and whether the whole tree was looked at.

    Keys below folders of tests and examples are test data and stay readable.
    """
    found: list[Found] = []
    entries = 0
    for folder, folders, files, fd in os.fwalk(".", dir_fd=root.fd, follow_symlinks=False):
        folders[:] = sorted(name for name in folders if name.lower() not in _SKIPPED)
        entries += len(folders) + len(files)
        if entries > MOST_ENTRIES or len(found) >= MOST_FILES:
            return tuple(found), False
        for name in sorted(files):
            if secret_reason(name) is None or not _holds_secret(fd, name):
                continue
            seen = root.find(os.path.normpath(f"{folder}/{name}"))
            if seen is not None and seen.kind == "file":
                found.append(seen)
    return tuple(found[:MOST_FILES]), True


def _holds_secret(folder: int, name: str) -> bool:
    if not _OFTEN_PUBLIC.fullmatch(name):
        return True
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return True
    with os.fdopen(fd, "rb") as file:
        head = file.read(_LOOKED_AT)
    return any(mark in head for mark in _MARKS)
