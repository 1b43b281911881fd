"""`codeagent`: opens the chat screen for a folder. Imports nothing heavy, so that the first frame
appears at once."""

import argparse
import gc
import os
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from codeagent.commands.arguments import (
    add_flag,
    add_model_arguments,
    add_sandbox,
    completed_by,
    open_store,
    refuse_if_off,
)
from codeagent.core.errors import ConfigError, SessionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codeagent.commands.ports import App
    from codeagent.core.extension import Extension, Reference, ScreenOption
    from codeagent.tui.session_client import SessionClient
    from codeagent.tui.state import UiState
    from codeagent.tui.transcript.document import Document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    path = add("path", metavar="PATH", nargs="?", help="the folder to work in (default: here)")
    completed_by(path, "commands")
    limits = add_model_arguments(parser)
    again = parser.add_mutually_exclusive_group()
    resume = again.add_argument(
        "--resume",
        metavar="ID",
        nargs="?",
        const="last",
        help="continue a session in its own folder: the beginning of its ID is enough; without one, the last one here",
    )
    again.add_argument(
        "--continue",
        dest="resume",
        action="store_const",
        const="last",
        help="continue the last session here",
    )
    add("--prompt", metavar="TEXT", default="", help="send this prompt at the start")
    add("--prompt-fd", metavar="N", type=int, help=argparse.SUPPRESS)
    add_flag(parser, "--step", "pause before every batch of calls; /step ends that")
    add_flag(
        parser,
        "--inline",
        "draw below the shell's lines instead of on the full screen; finished turns stay there",
    )
    theme = add("--theme", metavar="NAME", help="theme of the screen; /theme lists them")
    completed_by(resume, "sessions")
    completed_by(theme, "themes")
    add_sandbox(
        limits, "off runs commands on this machine and asks about each one (default: docker)"
    )


def add_options(parser: argparse.ArgumentParser, extensions: "Sequence[Extension]") -> None:
    """Add the options of extensions, whose values are collected in `args.beyond`."""
    for extension in extensions:
        for option in extension.screen.options:
            given = partial(_Given, extension.name, option)
            parser.add_argument(
                f"--{option.name}",
                dest="beyond",
                metavar=option.metavar,
                action="append",
                type=given,
                nargs="?" if option.value_optional else None,
                const=given("") if option.value_optional else None,
                help=option.about,
            )


class _Given(NamedTuple):
    """An option of an extension, and its value."""

    extension: str
    option: "ScreenOption"
    value: str


def _in_order(given: "Sequence[_Given]") -> "list[_Given]":
    """Return the options in the order of their extensions, however they were given."""
    names = [each.name for each in every_extension()] if given else []
    return sorted(given, key=lambda one: names.index(one.extension))


def main(args: argparse.Namespace, app: "App") -> int:
    """Show the screen, and return the exit code once it is closed. Raises CodeagentError."""
    workspace: Path | None = _folder(args.path or ".")
    with ExitStack() as stack:
        for extension, option, value in _in_order(getattr(args, "beyond", None) or ()):
            from codeagent.core.extension import resolved  # few command lines have one

            if args.safe:
                raise ConfigError(f"--{option.name}: --safe switches off {extension}")
            refuse_if_off(extension, f"--{option.name}")
            workspace = workspace and stack.enter_context(resolved(option.work)(workspace, value))
        return 0 if workspace is None else _show(workspace, args, app)


def _show(workspace: Path, args: argparse.Namespace, app: "App") -> int:
    require_terminal("`codeagent run PROMPT` works without a screen")
    own = ("model", "api_base", "thinking", "mode", "theme", "resume", "step", "prompt", "inline")
    others = ("fallback_model", "wire", "tools", "toolset", "safe", "sandbox", "network")
    if args.prompt_fd is not None:
        args.prompt = _read_prompt(args.prompt_fd)
        if args.resume:
            _free_session(workspace, args.resume)  # a detached screen can ask nobody for another
    options = {name: getattr(args, name) for name in own}
    flags = {name: given for name in others if (given := getattr(args, name)) not in (None, False)}
    sends, named = bool(args.prompt), args.path is not None
    return open_screen(workspace, app, named=named, flags=flags, sends=sends, **options)


def _read_prompt(fd: int) -> str:
    """Read the first prompt from an open file, which it closes. Raises ConfigError."""
    if not 2 < fd < 1 << 31:  # the screen needs the first three
        raise ConfigError(f"the prompt cannot be read: {fd} is not an open file for it")
    try:
        with os.fdopen(fd, "rb") as file:
            return os.fsdecode(file.read())
    except OSError as error:
        raise ConfigError(f"the prompt cannot be read: {error.strerror}") from error


def _folder(path: str) -> Path:
    try:
        if os.path.isdir(path):  # noqa: PTH112  # Path.is_dir raises for a name that is too long
            return Path(path).absolute()
    except FileNotFoundError:
        raise ConfigError("the current folder no longer exists: cd to another one first") from None
    raise ConfigError(f"{path[:80]!r} is neither a command nor a folder; see codeagent --help")


def require_terminal(instead: str) -> None:
    """Raise ConfigError if a screen cannot be shown; `instead` says what works without one."""
    from codeagent.tui.terminal import usable  # not needed for other commands or --help

    if (problem := usable(sys.stdin, sys.stdout, os.environ)) is not None:
        raise ConfigError(f"{problem.partition('; ')[0]}; {instead}")


def open_screen(
    workspace: Path, app: "App", *, prompt: str = "", sends: bool = False, **options: Any
) -> int:
    """Show the screen until the user leaves, with `prompt` in the composer, sent at once if
    `sends`; `options` are other fields of `tui.launcher.LaunchOptions`."""
    gc.disable()  # until `_client` has imported the last module, as modules are never garbage
    sys.setswitchinterval(
        0.001
    )  # seconds that the threads which read keys and write frames wait for their turn
    # Other commands and --help do not import the screen.
    import asyncio

    from codeagent.config.local_environment import config_dir, state_dir
    from codeagent.tui.app import run_app
    from codeagent.tui.launcher import AppFolders, FirstPrompt, LaunchOptions

    async def open_client(state: "UiState", options: LaunchOptions) -> "SessionClient":
        if options.resume is not None and (
            end := await asyncio.to_thread(_recorded_end, workspace, options.resume)
        ):
            state.document.show_end(end)
        return await asyncio.to_thread(_client, workspace, app, state, named=options.named)

    folders = AppFolders(state=state_dir(), config=config_dir(), workspace=workspace)
    return run_app(
        open_client,
        LaunchOptions(prompt=FirstPrompt(prompt, sends), **options),
        folders,
        every_extension,
    )


def _recorded_end(workspace: Path, session: str) -> "Document | None":
    """Read the last messages of a session, which is fast; None if it cannot be resumed, and `open`
    will say why."""
    from codeagent.tui.recorded import replayed_end

    try:
        found = _free_session(workspace, session)
        end = replayed_end(open_store().read_end(found), _cards)
    except SessionError:
        return None
    return end if end.blocks else None


def _free_session(workspace: Path, session: str) -> str:
    """Return the id of a session that no process works on. Raises SessionError."""
    from codeagent.config.local_environment import folders_of
    from codeagent.tui.launcher import LAST

    store = open_store()
    found = store.last(*folders_of(workspace)) if session == LAST else store.find(session)
    store.check_free(found)
    return found


def every_extension() -> "Sequence[Extension]":
    """Read the manifests of all extensions."""
    from codeagent.config.extensions import all_extensions  # few first frames need it

    return all_extensions().on


def _cards() -> "Sequence[Reference]":
    return [extension.screen.cards for extension in every_extension() if extension.screen.cards]


def _client(workspace: Path, app: "App", state: "UiState", *, named: bool) -> "SessionClient":
    """Make the client; call it in a thread after the first frame, as these imports take most of the
    start."""
    try:
        from codeagent.commands.launcher import LocalLauncher
        from codeagent.tui.session_client import SessionClient

        app.prepare()
    finally:
        gc.freeze()  # modules stay: garbage collection, which stops everything, need not visit them again
        gc.enable()
    return SessionClient(LocalLauncher(workspace, app, named=named), state)
