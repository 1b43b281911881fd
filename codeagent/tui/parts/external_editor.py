"""Opens the text of the composer in the user's own editor, and lends it the terminal."""

import asyncio
import os
import shlex
import signal
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from textual.app import App, SuspendNotSupported

from codeagent.core.errors import CodeagentError
from codeagent.core.host_programs import EDITOR, WATCHDOG, new_mark, open_program
from codeagent.core.programs import find_program


class EditorFailed(CodeagentError):
    """The text could not be edited; it is unchanged."""


def editor_command(environ: Mapping[str, str], workspace: Path) -> list[str]:
    """Return program and arguments of `$VISUAL` or `$EDITOR`, but never a program inside the
    workspace found by PATH.

    Raises EditorFailed.
    """
    name = next((name for name in ("VISUAL", "EDITOR") if environ.get(name, "").strip()), None)
    if name is None:
        raise EditorFailed(
            "No editor is set. Your text is unchanged. Set EDITOR, for example to vim, and start again."
        )
    try:
        argv = shlex.split(environ[name])
    except ValueError as error:
        raise EditorFailed(f"${name} cannot be read: {error}. Your text is unchanged.") from error
    if argv and "/" in argv[0] and not argv[0].startswith("/"):
        raise EditorFailed(
            f"${name} is a relative path, which would name a file of the project: {environ[name]}. "
            "Your text is unchanged. Give the full path."
        )
    program = find_program(argv[0], workspace) if argv else None
    if program is None:
        raise EditorFailed(
            f"${name} names a program that does not exist: {environ[name]}. Your text is unchanged."
        )
    return [program, *argv[1:]]


async def edit_in_editor(app: App[Any], text: str, *, suffix: str = ".md") -> str:
    """Let the user edit the text, and return it. The agent continues, but nothing is drawn. Raises
    EditorFailed.

    `suffix` is that of the editor's file, for syntax colours.
    """
    folders = getattr(
        app, "folders", None
    )  # the app's workspace; apps without one use the current folder
    argv = editor_command(os.environ, Path.cwd() if folders is None else folders.workspace)
    fd, name = mkstemp(prefix="prompt-", suffix=suffix)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(text.encode(errors="surrogatepass"))
        try:
            with app.batch_update(), app.suspend():
                failure = await _run([*argv, name])
        except SuspendNotSupported as error:
            raise EditorFailed(
                "This terminal cannot be lent to an editor. Your text is unchanged."
            ) from error
        if isinstance(failure, asyncio.CancelledError):
            raise failure
        if failure is not None:
            raise EditorFailed(f"{argv[0]} {failure}. Your text is unchanged.")
        return _edited(Path(name))
    finally:
        Path(name).unlink(missing_ok=True)  # noqa: ASYNC240  # one small file


async def _run(argv: list[str]) -> str | asyncio.CancelledError | None:
    """Run the editor; returns what went wrong, or None. It never raises, as the terminal has to be
    taken back."""
    # If the editor leaves Ctrl+C to the terminal, this process receives it as well.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        mark = new_mark(EDITOR)
        process = open_program(EDITOR, argv, folder=None, environment=os.environ, mark=mark)
        try:
            code = await asyncio.to_thread(process.wait)
            WATCHDOG.leave(mark)
        except asyncio.CancelledError as cancelled:
            process.terminate()
            return cancelled
    except OSError as error:
        return f"does not start: {error.strerror}"
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)
    return None if code == 0 else f"ended with {code}"


def _edited(path: Path) -> str:
    """Return the text without the final line break that editors add. The editor may have replaced
    the file."""
    try:
        text = path.read_bytes().decode(errors="replace")
    except OSError as error:
        raise EditorFailed(
            f"The edited text cannot be read: {error.strerror}. Your text is unchanged."
        ) from error
    return text.removesuffix("\n")
