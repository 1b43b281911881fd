"""`codeagent replay`: shows a recorded session on the real screen, or runs it again with another
model."""

import argparse
import asyncio
import os
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.agent.jobs.store import Jobs
from codeagent.commands.arguments import add_flag, add_sandbox, open_store
from codeagent.commands.chat import every_extension, require_terminal
from codeagent.commands.launcher import LocalLauncher
from codeagent.commands.sessions import add_session_argument, chosen
from codeagent.config.extensions import Extensions
from codeagent.config.local_environment import config_dir, state_dir
from codeagent.config.settings import Settings
from codeagent.core.errors import ConfigError
from codeagent.core.event_json import event_json, parse_event_json
from codeagent.core.events import KnownEvent, UnknownEvent
from codeagent.core.model import ModelRequest
from codeagent.core.redact import Redactor
from codeagent.core.runtime import Session
from codeagent.core.sandbox import SandboxInfo
from codeagent.extensions.replay.pictures import (
    FORMATS,
    PictureRequest,
    Recorded,
    add_picture_arguments,
    draw,
)
from codeagent.extensions.replay.player import SessionPlayer, in_time
from codeagent.session.outputs import FileOutputs
from codeagent.session.store import SessionStore
from codeagent.tui.app import run_app
from codeagent.tui.launcher import AppFolders, LaunchOptions, Missing
from codeagent.tui.session_client import SessionClient
from codeagent.tui.state import UiState
from codeagent.workspace.files import LocalWorkspace
from codeagent.workspace.skills import SkillFolders

if TYPE_CHECKING:
    from codeagent.commands.ports import App

_FASTEST = 1000.0
_NOTHING_RUNS = SandboxInfo(kind="replay", image="", image_origin="none", user="", network="none")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_session_argument(parser)
    parser.add_argument(
        "--speed",
        metavar="N",
        type=_speed,
        help="how many times as fast, such as 4 or 0.5 (default: 1)",
    )
    add_flag(parser, "--step", "pause before every batch of calls; Enter continues")
    parser.add_argument("--theme", metavar="NAME", help="theme of the screen")
    add_picture_arguments(parser)
    _add_against(parser)


def _add_against(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--against",
        metavar="MODEL",
        help="run the same prompts again with this model, on a copy of the files as the session found them",
    )
    add("--api-base", metavar="URL", help="with --against: address of the model's server")
    add_flag(parser, "--yes", "with --against: approve everything; what is denied stays denied")
    add_sandbox(
        parser,
        "with --against: off denies bash and python, as nothing would keep them in the copy (default: docker)",
    )
    add(
        "--output",
        choices=("text", "json"),
        help="with --against: text (default) or one json object",
    )


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0.01 <= speed <= _FASTEST:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number from 0.01 to {_FASTEST:g}")
    return speed


class ReplayLauncher(LocalLauncher):
    """Opens a recording instead of a conversation; everything else on the screen works."""

    def __init__(
        self, workspace: Path, app: "App", play: Callable[[], SessionPlayer], outputs: Path
    ) -> None:
        """`outputs` is the folder of the recorded session's outputs."""
        super().__init__(workspace, app)
        self._play = play
        self._outputs = outputs

    def settings(self, options: LaunchOptions) -> Settings:
        return replace(super().settings(options), bell=False)

    def extensions(self, settings: Settings) -> Extensions:
        """Return the extensions without those that notify the user: a recording needs nothing."""
        found = super().extensions(settings)
        quiet = (replace(each, screen=replace(each.screen, follower="")) for each in found.on)
        return replace(found, on=tuple(quiet))

    async def missing(self, settings: Settings, options: LaunchOptions) -> Missing | None:
        return None

    async def open(
        self, settings: Settings, *, resume: str | None, tell: Callable[[str], None]
    ) -> Session:
        player = self._play()
        return Session(
            agent=player,
            sandbox=None,
            sandbox_info=_NOTHING_RUNS,
            outputs=FileOutputs(self._outputs, Redactor(os.environ)),
            next_request=lambda: ModelRequest("", (), ()),
            close=player.close,
            skills=SkillFolders(LocalWorkspace(self._workspace)),
        )

    def recorded(self, session_id: str, after: int = 0) -> tuple[()]:
        """Return nothing, as the player emits all events, with numbers of its own."""
        return ()


class _PictureLauncher(ReplayLauncher):
    """Shows the recorded folder, whatever folder the pictures are made in, and nothing that changed
    since."""

    def __init__(
        self, recorded: Path, app: "App", play: Callable[[], SessionPlayer], outputs: Path
    ) -> None:
        super().__init__(Path.cwd(), app, play, outputs)
        self._recorded = recorded

    @property
    def workspace(self) -> Path:
        return self._recorded

    def git_status(self) -> tuple[str, int]:
        return "", 0


def main(args: argparse.Namespace, app: "App") -> int | Coroutine[Any, Any, int]:
    """Show the screen until the user leaves, or draw it. Raises SessionNotFound, SessionError,
    ConfigError."""
    store = open_store()
    session_id = chosen(store, args)
    _refuse_misplaced(args)
    if args.against is not None:
        from codeagent.extensions.replay.against import compare  # most replays compare nothing

        return compare(args, app, store, session_id)
    if (request := PictureRequest.of(args, session_id)) is not None:
        return _draw(request, args, app, store, session_id)
    events, outputs = _recorded(store, session_id), store.folder(session_id) / "outputs"
    require_terminal("`codeagent sessions show` and `sessions export` work without a screen")
    workspace = Path.cwd()
    play = partial(
        SessionPlayer, session_id, events, Jobs(), speed=args.speed or 1.0, step=args.step
    )

    async def open_client(state: UiState, options: LaunchOptions) -> SessionClient:
        if options.resume is not None:
            await asyncio.to_thread(app.prepare)
            return SessionClient(LocalLauncher(workspace, app), state)
        return SessionClient(ReplayLauncher(workspace, app, play, outputs), state)

    folders = AppFolders(state=state_dir(), config=config_dir(), workspace=workspace)
    return run_app(
        open_client, LaunchOptions(theme=args.theme, step=args.step), folders, every_extension
    )


def _refuse_misplaced(args: argparse.Namespace) -> None:
    """Raise ConfigError for a flag that would be ignored."""
    given = {name for name, value in vars(args).items() if value not in (None, False)}
    formats, with_against = FORMATS.keys() & given, ("api_base", "yes", "sandbox", "output")
    if args.against is not None:
        lost, why = (
            (*FORMATS, "size", "overwrite", "speed", "step", "theme"),
            "shows no screen with --against",
        )
    elif formats:
        lost, why = ("step", *with_against), "has no meaning for a recording"
    else:
        lost, why = ("size", "overwrite", *with_against), "needs --against, --cast, --svg or --gif"
    for name in lost:
        if name in given:
            raise ConfigError(f"--{name.replace('_', '-')} {why}; nothing was run")


async def _draw(
    request: PictureRequest,
    args: argparse.Namespace,
    app: "App",
    store: SessionStore,
    session_id: str,
) -> int:
    """Write the pictures of a session. Raises SessionError, ConfigError, CodeagentError."""
    summary, redactor = store.summary(session_id), Redactor(os.environ)
    masked = [
        parse_event_json(event_json(event, redactor)) for event in _recorded(store, session_id)
    ]
    player = SessionPlayer(
        session_id, masked, Jobs(), speed=(args.speed or 1.0) if request.moves else inf, tell=False
    )
    workspace = Path(redactor.clean(summary.workspace) or Path.cwd())
    launcher = _PictureLauncher(
        workspace, app, lambda: player, store.folder(session_id) / "outputs"
    )
    launcher.settings(
        LaunchOptions(theme=args.theme)
    )  # their faults are reported before anything takes time
    title, at = redactor.clean(summary.name), masked[0].ts if masked else 0.0
    about = Recorded(title, at, workspace, config_dir(), args.theme)
    return await draw(request, player, partial(SessionClient, launcher), about)


def _recorded(store: SessionStore, session_id: str) -> list[KnownEvent | UnknownEvent]:
    """Read the events to play, in the order in which they happened. Raises SessionError."""
    return in_time(store.with_children(store.read(session_id).events))
