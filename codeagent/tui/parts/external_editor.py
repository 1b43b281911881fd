"""Opens texts, places and diffs in the user's own editor, and lends it the terminal."""

import asyncio
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, mkstemp
from typing import Any, Literal

from textual.app import App, SuspendNotSupported

from codeagent.core.errors import CodeagentError
from codeagent.core.host_programs import (
    EDITOR,
    EDITOR_WINDOW,
    NOWHERE,
    WATCHDOG,
    new_mark,
    open_program,
)
from codeagent.core.programs import find_program
from codeagent.core.sanitize import one_line
from codeagent.disk.opens import file_inside

_WITH_GOTO = frozenset({"code", "code-insiders", "codium", "cursor", "windsurf"})
_WINDOWS = _WITH_GOTO | {"gedit", "gvim", "idea", "kate", "pycharm", "subl", "xdg-open", "zed"}
"""Graphical editors, which do not need the terminal."""
_BY_NAME = _WITH_GOTO | {"helix", "hx", "subl", "zed"}
"""Editors that take FILE:LINE; any other takes +LINE FILE."""
_LOOK = 0.1
"""Seconds between two checks whether a graphical editor has ended."""
_FIELD = re.compile(r"\{(file|line|before|after)\}")


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
            "No editor is set: export EDITOR=vim, then start again. Your text is unchanged."
        )
    return _command(f"${name}", environ[name], workspace)


def _command(name: str, text: str, workspace: Path) -> list[str]:
    """Split a command without a shell, and find its program. Raises EditorFailed."""
    try:
        argv = shlex.split(text)
    except ValueError as error:
        raise EditorFailed(f"{name} cannot be read: {error}. Your text is unchanged.") from error
    if argv and "/" in argv[0] and not argv[0].startswith("/"):
        raise EditorFailed(
            f"{name} is a relative path, which would name a file of the project: {text}. "
            "Your text is unchanged. Give the full path."
        )
    program = find_program(argv[0], workspace) if argv else None
    if program is None:
        raise EditorFailed(
            f"{name} names a program that does not exist: {text}. Your text is unchanged."
        )
    return [program, *argv[1:]]


async def open_place(app: App[Any], workspace: Path, path: str, line: int) -> None:
    """Open a file of the workspace at a line, with `[editor] open` or else `$EDITOR`. Raises
    EditorFailed, also for a path that leads outside."""
    file = file_inside(workspace, path)
    if file is None:
        raise EditorFailed(f"{one_line(path, 80)} is not a file of this workspace")
    wanted = _setting(app, "open")
    if wanted is not None:
        await _show(app, workspace, ("[editor] open", wanted), file=str(file), line=str(line))
        return
    argv = editor_command(os.environ, workspace)
    by_name = Path(argv[0]).name in _BY_NAME
    words = (f"{file}:{line}",) if by_name else (f"+{line}", str(file))
    go_to = ("-g",) if by_name and Path(argv[0]).name in _WITH_GOTO else ()
    await _run_beside(app, [*argv, *go_to, *words])


async def edit_difference(app: App[Any], name: str, texts: tuple[str, str]) -> str:
    """Let the user edit the second text beside the first in the view that `[editor] diff` opens;
    return what was saved. Raises EditorFailed."""
    wanted = _setting(app, "diff")
    if wanted is None:
        example = 'diff = "code --wait --diff {before} {after}"'
        raise EditorFailed(f"set your editor's diff view first: [editor] {example}")
    with _saying_why(), TemporaryDirectory(prefix="codeagent-diff-") as folder:
        sides = {side: Path(folder, side, name) for side in ("before", "after")}
        for file, text in zip(sides.values(), texts, strict=True):
            file.parent.mkdir()
            file.write_bytes(text.encode(errors="surrogatepass"))
        sides["before"].chmod(0o400)
        places = {side: str(file) for side, file in sides.items()}
        await _show(app, _workspace(app), ("[editor] diff", wanted), **places)
        try:
            return sides["after"].read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise EditorFailed(f"what you saved cannot be read: {error}") from error


def _workspace(app: App[Any]) -> Path:
    """Return the app's workspace; an app without one uses the current folder."""
    folders = getattr(app, "folders", None)
    workspace: Path = Path.cwd() if folders is None else folders.workspace
    return workspace


def _setting(app: App[Any], name: Literal["open", "diff"]) -> str | None:
    """Return a command of the section `editor` of the settings, once they were read."""
    found: str | None = getattr(getattr(app, "editor", None), name, None)
    return found


async def _show(app: App[Any], workspace: Path, setting: tuple[str, str], **places: str) -> None:
    """Run the user's command, each placeholder filled in within its word. Raises EditorFailed."""
    argv = _command(*setting, workspace)
    filled = [_FIELD.sub(lambda found: places.get(found[1], found[0]), word) for word in argv[1:]]
    await _run_beside(app, [argv[0], *filled])


async def _run_beside(app: App[Any], argv: list[str]) -> None:
    """Run an editor: a graphical one beside the screen, any other in the terminal. Raises
    EditorFailed."""
    if Path(argv[0]).name not in _WINDOWS:
        await _in_terminal(app, argv)
        return
    quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    try:
        process = open_program(
            EDITOR_WINDOW,
            argv,
            folder=NOWHERE,
            environment=os.environ,
            start_new_session=True,
            **quiet,
        )
    except OSError as error:
        raise EditorFailed(f"{argv[0]} does not start: {error.strerror}") from error
    while process.poll() is None:  # noqa: ASYNC110  # a thread that waits would hold up our own end
        await asyncio.sleep(_LOOK)
    if process.returncode:
        raise EditorFailed(f"{argv[0]} ended with {process.returncode}")


async def _in_terminal(app: App[Any], argv: list[str]) -> None:
    """Lend the terminal to an editor. Raises EditorFailed."""
    try:
        with app.batch_update(), app.suspend():
            failure = await _run(argv)
    except SuspendNotSupported as error:
        raise EditorFailed(
            "This terminal cannot be lent to an editor. Your text is unchanged."
        ) from error
    _check(argv, failure)


def _check(argv: list[str], failure: str | asyncio.CancelledError | None) -> None:
    if isinstance(failure, asyncio.CancelledError):
        raise failure
    if failure is not None:
        raise EditorFailed(f"{argv[0]} {failure}. Your text is unchanged.")


@contextmanager
def _saying_why() -> Iterator[None]:
    """Raise EditorFailed for an OSError, such as a full disk."""
    try:
        yield
    except OSError as error:
        raise EditorFailed(
            f"No file can be made for your editor ({error.strerror}). Your text is unchanged."
        ) from error


async def edit_in_editor(app: App[Any], text: str, *, suffix: str = ".md") -> str:
    """Let the user edit the text, and return it. The agent continues, but nothing is drawn. Raises
    EditorFailed.

    `suffix` is that of the editor's file, for syntax colours.
    """
    argv = editor_command(os.environ, _workspace(app))
    with _saying_why():
        fd, name = mkstemp(prefix="prompt-", suffix=suffix)
    try:
        with _saying_why(), os.fdopen(fd, "wb") as file:
            file.write(text.encode(errors="surrogatepass"))
        await _in_terminal(app, [*argv, name])
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
