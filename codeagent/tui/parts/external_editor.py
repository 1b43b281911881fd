"""Lends the terminal to the user's own editor, with the text of the composer in a file."""

import asyncio
import os
import shlex
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from textual.app import App, SuspendNotSupported

from codeagent.core.errors import CodeagentError
from codeagent.core.programs import find_program


class EditorFailed(CodeagentError):
    """The text was not edited; it is what it was before."""


def editor_command(environ: Mapping[str, str], workspace: Path) -> list[str]:
    """Program and arguments of `$VISUAL` or `$EDITOR`, never a program of the workspace that PATH leads to.

    Raises EditorFailed.
    """
    name = next((name for name in ("VISUAL", "EDITOR") if environ.get(name, "").strip()), None)
    if name is None:
        raise EditorFailed("No editor is set. Your text is unchanged. Set EDITOR, for example to vim, and start again.")
    try:
        argv = shlex.split(environ[name])
    except ValueError as error:
        raise EditorFailed(f"${name} cannot be read: {error}. Your text is unchanged.") from error
    program = find_program(argv[0], workspace) if argv else None
    if program is None:
        raise EditorFailed(f"${name} names a program that is not there: {environ[name]}. Your text is unchanged.")
    return [program, *argv[1:]]


async def edit_in_editor(app: App[Any], text: str, *, suffix: str = ".md") -> str:
    """What the user made of the text. The agent continues; nothing is drawn until then. Raises EditorFailed.

    `suffix` ends the name of the file the editor gets, for its colours.
    """
    folders = getattr(app, "folders", None)  # of the app that has a workspace; others are started in theirs
    argv = editor_command(os.environ, Path.cwd() if folders is None else folders.workspace)
    fd, name = mkstemp(prefix="prompt-", suffix=suffix)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(text.encode(errors="surrogatepass"))
        try:
            with app.batch_update(), app.suspend():
                failure = await _run([*argv, name])
        except SuspendNotSupported as error:
            raise EditorFailed("This terminal cannot be lent to an editor. Your text is unchanged.") from error
        if isinstance(failure, asyncio.CancelledError):
            raise failure
        if failure is not None:
            raise EditorFailed(f"{argv[0]} {failure}. Your text is unchanged.")
        return _edited(Path(name))
    finally:
        Path(name).unlink(missing_ok=True)  # noqa: ASYNC240  # one small file


async def _run(argv: list[str]) -> str | asyncio.CancelledError | None:
    """What went wrong; None if nothing did. Raises nothing: the terminal would not be taken back."""
    # An editor that leaves Ctrl+C to the terminal has it sent to this process as well.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        process = subprocess.Popen(argv)  # noqa: ASYNC220  # starting is short, waiting is what a thread does
        try:
            code = await asyncio.to_thread(process.wait)
        except asyncio.CancelledError as cancelled:
            process.terminate()
            return cancelled
    except OSError as error:
        return f"does not start: {error.strerror}"
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)
    return None if code == 0 else f"ended with {code}"


def _edited(path: Path) -> str:
    """The file without the line break editors put at its end. Editors may have replaced the file by a new one."""
    try:
        text = path.read_bytes().decode(errors="replace")
    except OSError as error:
        raise EditorFailed(f"What you wrote cannot be read: {error.strerror}. Your text is unchanged.") from error
    return text.removesuffix("\n")
