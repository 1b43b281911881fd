"""Files that nobody but their owner may read, whatever the person's umask is."""

import os
from pathlib import Path
from typing import BinaryIO

UMASK = 0o077
"""For the git that writes the store."""


def open_private(path: Path) -> BinaryIO:
    """A new or emptied file for writing. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    return os.fdopen(fd, "wb")


def write_private(path: Path, data: bytes) -> None:
    """Raises OSError."""
    with open_private(path) as file:
        file.write(data)
