"""Makes pictures of a session for a README: an asciinema cast, an SVG or an animated GIF, without a
terminal."""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from codeagent.commands.arguments import add_flag, say
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.sanitize import one_line
from codeagent.disk.opens import create_file, open_emptied
from codeagent.extensions.replay.cast import Cast, record
from codeagent.extensions.replay.player import SessionPlayer
from codeagent.tui.launcher import AppFolders, LaunchOptions
from codeagent.tui.session_client import SessionClient
from codeagent.tui.state import UiState

FORMATS: Mapping[str, str] = {
    "cast": "record the session as an asciinema cast",
    "svg": "draw the screen as it is at the end as an SVG",
    "gif": "record the session as an animated GIF; needs the extra gif",
}
_STANDARD_OUTPUT = "-"
_SIZE = (100, 30)
_NEEDED = {
    "PIL": "pillow",
    "pyte": "pyte",
    "fontpkg_jetbrains_mono": "fontpkg-jetbrains-mono",
    "fontpkg_fira_code": "fontpkg-fira-code",
}
"""The packages that draw a GIF, by the name of their module."""
_LONG = 5.0
"""Seconds from which on the user is told how long a recording takes."""
Open = Callable[[UiState, LaunchOptions], SessionClient]


def add_picture_arguments(parser: argparse.ArgumentParser) -> None:
    for name, about in FORMATS.items():
        parser.add_argument(
            f"--{name}",
            metavar="FILE",
            nargs="?",
            const="",
            help=f"{about} (default: ID.{name} here; - prints it)",
        )
    parser.add_argument(
        "--size",
        metavar="WxH",
        type=_size,
        help="columns and rows of a recording (default: 100x30)",
    )
    add_flag(parser, "--overwrite", "replace a file that is there")


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    if (
        width.isdecimal()
        and height.isdecimal()
        and 20 <= int(width) <= 400
        and 5 <= int(height) <= 200
    ):
        return int(width), int(height)
    raise argparse.ArgumentTypeError(
        f"{text[:40]!r} is not a size from 20x5 to 400x200, such as 100x30"
    )


@dataclass(frozen=True)
class PictureRequest:
    """Which files to write, by format."""

    files: Mapping[str, str]
    """Path by format; `-` is standard output."""
    size: tuple[int, int]
    overwrite: bool

    @classmethod
    def of(cls, args: argparse.Namespace, session_id: str) -> "PictureRequest | None":
        """Return the pictures that the arguments ask for; None if they ask for none.

        Raises ConfigError if they cannot be made, before anything takes time.
        """
        given = {name: vars(args)[name] for name in FORMATS if vars(args)[name] is not None}
        if not given:
            return None
        files = {name: file or f"{session_id}.{name}" for name, file in given.items()}
        if list(files.values()).count(_STANDARD_OUTPUT) > 1:
            raise ConfigError("standard output takes one picture; nothing was written")
        if "gif" in files and (
            missing := [name for module, name in _NEEDED.items() if find_spec(module) is None]
        ):
            raise ConfigError(
                f"a GIF needs packages that are not installed; nothing was written: install codeagent as '.[gif]', or "
                f"run {sys.executable} -m pip install {' '.join(missing)}"
            )
        if files.get("gif") == _STANDARD_OUTPUT and sys.stdout.isatty():
            raise ConfigError(
                "a GIF cannot be shown on a terminal; nothing was written: name a file, or pipe it"
            )
        for file in files.values():
            if file != _STANDARD_OUTPUT and not args.overwrite and os.path.lexists(file):
                raise ConfigError(
                    f"{file} already exists; nothing was written: name another file, or give --overwrite"
                )
        return cls(files, args.size or _SIZE, args.overwrite)

    @property
    def moves(self) -> bool:
        """Whether one of them shows more than the end."""
        return any(name != "svg" for name in self.files)


async def draw(
    request: PictureRequest,
    player: SessionPlayer,
    client: Callable[[UiState], SessionClient],
    about: "Recorded",
) -> int:
    """Play the session on its own screen, and write the pictures. Raises CodeagentError."""
    if player.seconds > _LONG:
        say(f"recording {player.seconds:.0f} seconds; --speed makes it shorter")
    clients: list[SessionClient] = []
    opened = asyncio.Event()

    async def open_client(state: UiState, options: LaunchOptions) -> SessionClient:
        clients.append(client(state))
        opened.set()
        return clients[0]

    async def shown() -> None:
        await opened.wait()
        await clients[0].start_up()
        await player.played()

    # Pictures are the same everywhere, in a CI job too, and do not show the user's draft.
    os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    with tempfile.TemporaryDirectory(prefix="codeagent-") as state:
        folders = AppFolders(state=Path(state), config=about.config, workspace=about.workspace)
        options = LaunchOptions(theme=about.theme)
        cast = await record(
            open_client, options, folders, request.size, begun=lambda: player.begun, shown=shown
        )
    for name, file in request.files.items():
        _write(file, _content(name, cast, about), overwrite=request.overwrite)
    return 0


@dataclass(frozen=True)
class Recorded:
    """What a picture says about its session."""

    title: str
    at: float
    """When it began, in seconds since the epoch."""
    workspace: Path
    config: Path
    """The folder of the user's configuration."""
    theme: str | None


def _content(name: str, cast: Cast, about: Recorded) -> bytes:
    match name:
        case "cast":
            return cast.asciinema(one_line(about.title, 120), about.at).encode()
        case "svg":
            return cast.last.encode()
        case _:
            from codeagent.extensions.replay.gif import (
                animated,  # needs libraries that only GIFs use
            )

            return animated(cast.size, cast.written)


def _write(file: str, content: bytes, *, overwrite: bool) -> None:
    """Raises ConfigError if it cannot be written."""
    if file == _STANDARD_OUTPUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        return
    try:
        path = Path(file)
        with os.fdopen(open_emptied(path) if overwrite else create_file(path), "wb") as target:
            target.write(content)
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be written ({error.strerror}); nothing was changed"
        ) from error
    print(file)
