"""Turns what is pasted or dropped into mentions: paths of files, and images, which are kept for a
while."""

import asyncio
import os
import re
import shlex
import subprocess
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Timer
from urllib.parse import unquote

from codeagent.config.local_environment import state_dir
from codeagent.core.host_programs import (
    CLIPBOARD,
    NOWHERE,
    WATCHDOG,
    minimal,
    new_mark,
    open_program,
)
from codeagent.core.programs import find_program
from codeagent.core.sanitize import spelled
from codeagent.disk.opens import read_regular
from codeagent.disk.private import replace_private
from codeagent.extensions.attachments import FOLDER, PREFIX
from codeagent.tools.pictures import LARGEST, NotAnImage, picture
from codeagent.tui.parts.suggestions import mention_of

_CLIPBOARDS = (
    ("wl-paste", "--no-newline", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"),
    ("osascript", "-e", "the clipboard as «class PNGf»"),
)
_DESKTOP = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR")
"""The variables with which a program finds the user's desktop."""
_IN_HEX = re.compile(rb"\xc2\xabdata PNGf([0-9A-F]+)\xc2\xbb\s*")
"""What osascript prints."""
_SECONDS = 5.0
_LONGEST = 2 * LARGEST + 100
"""Bytes that are read of what a program prints, which may be hexadecimal."""
_KEPT_DAYS = 14
_ODD = re.compile(r"[^A-Za-z0-9_-]+")


async def pasted(workspace: Path, text: str | None) -> str:
    """Return the mentions to insert in place of a pasted text, or for the image on the clipboard;
    empty if it is neither paths of files nor an image."""
    if text is None:
        return await asyncio.to_thread(_clipboard, workspace)
    return await asyncio.to_thread(_dropped, workspace, text)


def clean(folder: Path) -> None:
    """Remove the images that were pasted long ago: those that were sent are in their sessions."""
    oldest = time.time() - _KEPT_DAYS * 86_400
    for file in folder.iterdir():
        with suppress(OSError):
            if file.stat(follow_symlinks=False).st_mtime < oldest:
                file.unlink()


def _clipboard(workspace: Path) -> str:
    for name, *arguments in _CLIPBOARDS:
        if (program := find_program(name, workspace)) is None:
            continue
        with suppress(OSError):
            said = _printed([program, *arguments], workspace)
            hexed = _IN_HEX.fullmatch(said)
            if mention := _kept("pasted", bytes.fromhex(hexed[1].decode()) if hexed else said):
                return mention
    return ""


def _printed(argv: list[str], workspace: Path) -> bytes:
    """Return what a program prints, as far as an image may be long; it is killed if it prints more,
    or takes too long. Raises OSError."""
    mark = new_mark(CLIPBOARD)
    with open_program(
        CLIPBOARD,
        argv,
        folder=NOWHERE,
        environment=minimal(os.environ, *_DESKTOP, outside=workspace),
        mark=mark,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        alarm = Timer(_SECONDS, process.kill)
        alarm.start()
        try:
            assert process.stdout is not None
            said = process.stdout.read(_LONGEST)
        finally:
            alarm.cancel()
            process.kill()
    WATCHDOG.leave(mark)
    return said


def _dropped(workspace: Path, text: str) -> str:
    """Return the mentions of dropped files; empty unless all of the text is paths of such files."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    for found in (words, [text.strip()]):
        mentions = [_mention(workspace, word) for word in found]
        if mentions and all(mentions):
            return " ".join(mentions)
    return ""


def _mention(workspace: Path, word: str) -> str:
    """Return the mention of a file of the workspace, or of an image anywhere; else empty."""
    path = unquote(word.removeprefix("file://")) if word.startswith("file://") else word
    if not path.startswith("/"):
        return ""
    with suppress(OSError, ValueError, RuntimeError):  # the last for a link to itself
        real, root = Path(path).resolve(), workspace.resolve()
        if real.exists() and real != root and real.is_relative_to(root):
            name = spelled(str(real.relative_to(root))) + ("/" if real.is_dir() else "")
            return mention_of(name)
        return _kept(Path(path).stem, read_regular(path, follow=True, largest=LARGEST))
    return ""


def _kept(stem: str, data: bytes) -> str:
    """Keep an image, and return its mention; empty if it is not an image, or too large."""
    if not data or len(data) > LARGEST:
        return ""
    with suppress(NotAnImage, OSError):
        picture(data)
        name = f"{_ODD.sub('-', stem).strip('-')[:40] or 'image'}-{sha256(data).hexdigest()[:8]}"
        replace_private(state_dir() / FOLDER / name, data, synced=False)
        return f"@{PREFIX}{name}"
    return ""
