"""The way from a first frame to a conversation: asks for what is missing until nothing is, or the user leaves."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, assert_never

from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from codeagent.core.errors import CodeagentError
from codeagent.core.sanitize import visible
from codeagent.tui.actions import bindings
from codeagent.tui.pages.first_run import AddressGiven, DemoChosen, FirstRun, KeyKept, ServerChosen, WayOn
from codeagent.tui.pages.page import Guarded
from codeagent.tui.pages.picker import Picker, model_rows, session_rows
from codeagent.tui.parts.marked_list import PickerRow
from codeagent.tui.parts.rows import HintRow, TitleRow
from codeagent.tui.parts.status import greeting
from codeagent.tui.ports import LaunchOptions, Missing
from codeagent.tui.session_client import SessionClient
from codeagent.tui.state import UiState


class FolderQuestion(Guarded[bool]):
    """Gives True only for `y`, and not for one that was typed before the question could be read."""

    DEFAULT_CSS = """
    FolderQuestion {
        align: left bottom;
        background: $background;
        & > Vertical { height: auto; background: $surface; color: $foreground; }
        & Static { height: auto; padding: 1 3; }
    }
    """
    BINDINGS = bindings("question")
    AUTO_FOCUS = ""
    TITLE = "Work here?"
    ASKED = "work here anyway?"
    HINTS: ClassVar[list[str]] = ["n no, leave (the default)", "y yes, work here"]

    def __init__(self, text: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`text`: what this folder is, as `this is your home folder, not a project`."""
        super().__init__(clock)
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical():
            yield TitleRow(self.TITLE)
            yield Static(f"{visible(self._text)}: {self.ASKED}", markup=False)
            yield HintRow(self.HINTS)

    def action_answer(self, answer: bool) -> None:
        if not answer or self.guard.admits("y"):
            self.dismiss(answer)


class GitQuestion(FolderQuestion):
    """The same for a git directory that a worktree or a submodule uses; `text` names it."""

    TITLE = "Use this git directory?"
    ASKED = (
        "may commands in the sandbox read it, and may commits you approve be written to it? "
        "Commands cannot change it, and without it git does not work in bash."
    )
    HINTS: ClassVar[list[str]] = ["n no (the default)", "y yes, always for this folder"]


def greet(state: UiState, options: LaunchOptions, workspace: Path, key: str) -> None:
    """A new session begins with what it is, as far as that is known yet; one that is continued has a beginning.

    `key` is the one that shows all keys.
    """

    def say() -> None:
        state.document.greet(greeting(state.status.now, workspace, key))

    if options.resume is None:
        state.status.watch(say)
        say()


async def open_conversation(app: App[Any], client: SessionClient, options: LaunchOptions) -> LaunchOptions | None:
    """What it was opened with in the end; None where the user left. Call it from a worker. Raises CodeagentError."""
    while (missing := await client.open(options)) is not None:
        following = await _ask(app, client, options, missing)
        if following is None:
            return None
        options = following
    return options


async def _ask(app: App[Any], client: SessionClient, options: LaunchOptions, missing: Missing) -> LaunchOptions | None:
    match missing.kind:
        case "place":
            return replace(options, proceed=True) if await app.push_screen_wait(FolderQuestion(missing.text)) else None
        case "git":
            answer = await app.push_screen_wait(GitQuestion(missing.text))
            return replace(options, read_git=bool(answer))
        case "model" | "key":
            way = await app.push_screen_wait(FirstRun(missing, client.keep_key))
            return None if way is None else await _taken(app, client, options, way)
        case "session":
            return await _instead(app, client, options)
        case "error":
            raise CodeagentError(missing.text)
        case _:
            assert_never(missing.kind)


async def _instead(app: App[Any], client: SessionClient, options: LaunchOptions) -> LaunchOptions:
    """What to open where a session cannot be continued; the transcript says why it cannot."""
    ways = (
        PickerRow("new", "Start a new session", "in this folder"),
        PickerRow("other", "Resume another session", "of this folder"),
        PickerRow("again", "Try again", f"to open {options.resume}"),
    )
    while (way := await app.push_screen_wait(Picker("How would you like to start?", ways))) == "other":
        rows = session_rows([row for row in await client.sessions() if not row.in_use], time.time())
        if (chosen := await app.push_screen_wait(Picker("Resume a session", rows))) is not None:
            return replace(options, resume=chosen)
    return options if way == "again" else replace(options, resume=None)


async def _taken(app: App[Any], client: SessionClient, options: LaunchOptions, way: WayOn) -> LaunchOptions | None:
    match way:
        case KeyKept():
            return await _with_key(app, client, options)
        case ServerChosen(row=row):
            return replace(options, model=row.name, api_base=row.api_base)
        case AddressGiven(api_base=address):
            return replace(options, api_base=address)
        case DemoChosen():
            return replace(options, model="demo", api_base=None)
        case _:
            assert_never(way)


async def _with_key(app: App[Any], client: SessionClient, options: LaunchOptions) -> LaunchOptions:
    """A key alone is not a model: where none was named, the user chooses among those it opens."""
    if options.model is not None:
        return options
    ready = [row for row in await client.models() if row.ready]
    chosen = await app.push_screen_wait(Picker("Choose the model", model_rows(ready)))
    row = next((row for row in ready if row.name == chosen), None)
    return options if row is None else replace(options, model=row.name, api_base=row.api_base)
