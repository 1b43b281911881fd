"""Puts text on the user's clipboard through the terminal, or into a file if the terminal would not
accept it."""

import os
import tempfile
from base64 import b64encode
from pathlib import Path
from typing import Any

from textual.app import App

from codeagent.core.sanitize import visible

MAX_BYTES = 75_000
"""Bytes of Base64; some terminals drop more than this, or print it."""


def copy(app: App[Any], text: str, folder: Path | None = None) -> str:
    """Copy the text; returns what was done, as a phrase for the status line.

    Control characters are made visible first. Text that is too long, or that the terminal does not
    accept, is written to a file of mode 0600 in `folder`, else in the system's folder for temporary
    files. Raises OSError.
    """
    shown = visible(text)
    counted = _counted(shown)
    encoded = shown.encode(errors="replace")
    if os.environ.get("TERM") != "dumb" and len(b64encode(encoded)) <= MAX_BYTES:
        app.copy_to_clipboard(shown)
        return f"copied {counted}"
    path = _write(encoded, folder)
    accepts = os.environ.get("TERM") != "dumb"
    reason = "too long for the clipboard" if accepts else "this terminal does not accept copies"
    return f"written to {path}: {counted}, {reason}"


def _write(encoded: bytes, folder: Path | None) -> Path:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    # mkstemp gives mode 0600 and never follows a link that somebody else put there.
    descriptor, name = tempfile.mkstemp(prefix="codeagent-copy-", suffix=".txt", dir=folder)
    with os.fdopen(descriptor, "wb") as file:
        file.write(encoded)
    return Path(name)


def _counted(text: str) -> str:
    lines = text.count("\n") + 1
    return (
        f"{lines:,} lines"
        if lines > 1
        else f"{len(text):,} character{'' if len(text) == 1 else 's'}"
    )
