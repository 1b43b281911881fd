"""The way from a first frame to a conversation: asks for what is missing until nothing is, or the person leaves."""

import time
from dataclasses import replace
from typing import Any, assert_never

from textual.app import App

from codeagent.core.errors import CodeagentError
from codeagent.tui.ports import Missing, Wish
from codeagent.tui.screens.first_run import AddressGiven, DemoChosen, FirstRun, KeyKept, ServerChosen, WayOn
from codeagent.tui.screens.folder_question import FolderQuestion, GitQuestion
from codeagent.tui.screens.host import Host
from codeagent.tui.screens.picker import Picker
from codeagent.tui.screens.picker_list import PickerRow
from codeagent.tui.screens.rows import model_rows, session_rows
from codeagent.tui.session_client import SessionClient
from codeagent.tui.stage import Stage
from codeagent.tui.widgets.status_text import greeting


def greet(stage: Stage, host: Host, wish: Wish) -> None:
    """A new session begins with what it is, as far as that is known yet; one that is continued has a beginning."""

    def say() -> None:
        key = host.keys.shown("composer.keys")
        stage.document.greet(greeting(stage.status.now, host.folders.workspace, key))

    if wish.resume is None:
        stage.status.watch(say)
        say()


async def open_conversation(app: App[Any], client: SessionClient, wish: Wish) -> Wish | None:
    """What it was opened with in the end; None where the person left. Call it from a worker. Raises CodeagentError."""
    while (missing := await client.open(wish)) is not None:
        following = await _ask(app, client, wish, missing)
        if following is None:
            return None
        wish = following
    return wish


async def _ask(app: App[Any], client: SessionClient, wish: Wish, missing: Missing) -> Wish | None:
    match missing.kind:
        case "place":
            return replace(wish, proceed=True) if await app.push_screen_wait(FolderQuestion(missing.text)) else None
        case "git":
            answer = await app.push_screen_wait(GitQuestion(missing.text))
            return replace(wish, read_git=bool(answer))
        case "model" | "key":
            way = await app.push_screen_wait(FirstRun(missing, client.keep_key))
            return None if way is None else await _taken(app, client, wish, way)
        case "session":
            return await _instead(app, client, wish)
        case "error":
            raise CodeagentError(missing.text)
        case _:
            assert_never(missing.kind)


async def _instead(app: App[Any], client: SessionClient, wish: Wish) -> Wish:
    """What to open where a session cannot be continued; the transcript says why it cannot."""
    ways = (
        PickerRow("new", "Start a new session", "in this folder"),
        PickerRow("other", "Resume another session", "of this folder"),
        PickerRow("again", "Try again", f"to open {wish.resume}"),
    )
    while (way := await app.push_screen_wait(Picker("How would you like to start?", ways))) == "other":
        rows = session_rows([row for row in await client.sessions() if not row.in_use], time.time())
        if (chosen := await app.push_screen_wait(Picker("Resume a session", rows))) is not None:
            return replace(wish, resume=chosen)
    return wish if way == "again" else replace(wish, resume=None)


async def _taken(app: App[Any], client: SessionClient, wish: Wish, way: WayOn) -> Wish | None:
    match way:
        case KeyKept():
            return await _with_key(app, client, wish)
        case ServerChosen(row=row):
            return replace(wish, model=row.name, api_base=row.api_base)
        case AddressGiven(api_base=address):
            return replace(wish, api_base=address)
        case DemoChosen():
            return replace(wish, model="demo", api_base=None)
        case _:
            assert_never(way)


async def _with_key(app: App[Any], client: SessionClient, wish: Wish) -> Wish:
    """A key alone is no model: where none was named, the person chooses among those it opens."""
    if wish.model is not None:
        return wish
    ready = [row for row in await client.models() if row.ready]
    chosen = await app.push_screen_wait(Picker("Choose the model", model_rows(ready)))
    row = next((row for row in ready if row.name == chosen), None)
    return wish if row is None else replace(wish, model=row.name, api_base=row.api_base)
