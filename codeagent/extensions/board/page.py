"""`/board` and `/detach`: the list of sessions, and leaving one to work without a terminal."""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from weakref import WeakSet

from textual import on, work
from textual.app import ComposeResult

from codeagent.config.extensions import all_extensions
from codeagent.config.local_environment import config_dir, state_dir
from codeagent.core.acts import Pause, Resume
from codeagent.core.errors import CodeagentError
from codeagent.core.host_programs import HostProgram, open_program
from codeagent.core.pulse import dollars
from codeagent.core.redact import Redactor
from codeagent.core.sanitize import one_line
from codeagent.core.watchdog import MARK
from codeagent.extensions.board import EXTENSION
from codeagent.extensions.board.attaching import held_session, leave
from codeagent.extensions.board.holder import HELD
from codeagent.extensions.board.sessions import NOT_RUNNING, SIGNS, BoardRow, SessionBoard
from codeagent.session.store import SessionStore
from codeagent.tui.bindings import bindings
from codeagent.tui.commands import page_rows, table_with
from codeagent.tui.guarded import GuardedApp, run_guarded
from codeagent.tui.keymap import Keymap, KeymapError, load_keymap
from codeagent.tui.launcher import FirstPrompt, LaunchOptions
from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.pages.page import Page, TextPane
from codeagent.tui.pages.slash import change_to, lend_terminal
from codeagent.tui.parts.guard import TOO_SOON
from codeagent.tui.parts.line_pane import wrapped_piece
from codeagent.tui.parts.marked_list import PickerList, PickerRow
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.state import Paused
from codeagent.tui.themes import DEFAULT_THEME, Themes, ThemeSwitch

DETACHED = HostProgram("codeagent without a terminal", None, "left")
Look = Callable[[], tuple[BoardRow, ...]]
_LOOK = 2.0
"""Seconds between two reads of the logs; only those that have changed are read."""
_MOVING = WeakSet[ChatScreen]()
"""The conversations that are being detached."""
_CONTINUE = "Continue where you stopped."
NOT_DETACHED = "not detached: {}; the session is open here again, and /detach tries again"


class BoardPage(Page[BoardRow | None], inherit_bindings=False):
    """Lists the sessions as they change; returns the one to open."""

    DEFAULT_CSS = """
    BoardPage {
        & > PickerList { height: auto; max-height: 60%; }
    }
    """
    BINDINGS = bindings("board", rows=page_rows(EXTENSION))

    def __init__(self, look: Look, stop: Callable[[str], str]) -> None:
        """`look` reads the sessions, `stop` ends the process of one; both block."""
        self.pane: TextPane
        super().__init__("Sessions", TextPane((), ""))
        self.hints = (
            "{board.close} back",
            "{board.open} opens",
            "{board.down} {board.up} move",
            "{board.stop} ends it",
        )
        self._look = look
        self._stop = stop
        self._rows: dict[str, BoardRow] = {}
        self._listed: list[PickerRow] = []
        self._list = PickerList(())
        self._asked = ""

    def compose(self) -> ComposeResult:
        self.show_hints()
        yield self.title_row
        yield self._list
        yield self.pane
        yield self.hint_row

    def on_mount(self) -> None:
        self._list.nothing = "reading the sessions …"
        self._read()
        self.set_interval(_LOOK, self._read)

    def action_open(self) -> None:
        if (row := self._marked) is not None:
            self.dismiss(row)

    def action_down(self) -> None:
        self._move(1)

    def action_up(self) -> None:
        self._move(-1)

    def action_stop(self) -> None:
        row = self._marked
        if row is None or not row.in_use:
            self.say(NOT_RUNNING)
            return
        self._asked = row.id
        self.guard.close()
        self.say(f"end the process of '{one_line(row.title, 40)}'? {self.key('board.yes')} yes")

    def action_yes(self) -> None:
        if not self._asked:
            return
        if not self.guard.admits("y"):
            self.say(TOO_SOON)
            return
        self._end(self._asked)
        self._asked = ""

    @work(group="stop")
    async def _end(self, session_id: str) -> None:
        self.say(await asyncio.to_thread(self._stop, session_id))

    @on(PickerList.Marked)
    def _other(self, message: PickerList.Marked) -> None:
        message.stop()
        self._draw()

    @on(PickerList.Clicked)
    def _clicked(self, message: PickerList.Clicked) -> None:
        message.stop()
        self.action_open()

    @work(exclusive=True, group="look")
    async def _read(self) -> None:
        rows = {row.id: row for row in await asyncio.to_thread(self._look)}
        listed = [_listed(row) for row in rows.values()]
        if listed and (rows, listed) == (self._rows, self._listed):
            return
        self._rows = rows
        self._listed = listed
        self._list.nothing = "no sessions yet: codeagent starts one"
        self._list.show(listed)
        counts = Counter(row.state for row in rows.values())
        self.title_row.tell(" · ".join(f"{counts[each]} {each}" for each in SIGNS if counts[each]))
        self._draw()

    def _move(self, step: int) -> None:
        self._asked = ""
        self.settle()
        self._list.move(step)

    @property
    def _marked(self) -> BoardRow | None:
        marked = self._list.marked
        return None if marked is None else self._rows.get(marked.key)

    def _draw(self) -> None:
        lines = [] if (row := self._marked) is None else list(_details(row))
        self.pane.change([wrapped_piece(line, "muted") for line in lines], "\n".join(lines))


def _listed(row: BoardRow) -> PickerRow:
    facts = (row.state, row.age, dollars(row.cost_usd), row.last)
    about = " · ".join(filter(None, facts))
    title = f"{SIGNS[row.state]} {one_line(row.title, 48)}"
    return PickerRow(row.id, title, about, warn=row.state == "waiting for you")


def _details(row: BoardRow) -> Iterator[str]:
    yield row.title
    yield f"{row.state}{' · in use' if row.in_use else ''} · {dollars(row.cost_usd)} · {row.id}"
    yield row.folder
    if row.last:
        yield f"last: {row.last}"


class BoardApp(GuardedApp):
    """Shows the board alone; `chosen` is the id of the session to open."""

    def __init__(self, page: BoardPage, theme: str) -> None:
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        extensions = all_extensions().on
        keys = Keymap()
        try:
            keys = load_keymap(config_dir() / "keys.yaml", lambda: extensions)
        except KeymapError as error:
            page.say(str(error))
        self.keys = replace(keys, table=table_with(extensions))
        self.palette = Palette()
        self.chosen = ""
        self._page = page
        themes = Themes([config_dir() / "themes"])
        ThemeSwitch(self, themes, paint=self._paint, tell=page.say).use(theme)

    async def on_mount(self) -> None:
        self.set_keymap(self.keys.overrides)
        await self.push_screen(self._page, self._choose)

    def _choose(self, row: BoardRow | None) -> None:
        self.chosen = "" if row is None else row.id
        self.exit(return_code=0)

    def _paint(self, palette: Palette) -> None:
        self.palette = palette


def show_board(look: Look, stop: Callable[[str], str], theme: str | None) -> tuple[int, str]:
    """Show the board alone until the user leaves; return the exit code, and the session to open,
    empty if there is none."""
    app = BoardApp(BoardPage(look, stop), theme or DEFAULT_THEME)
    return run_guarded(app, state_dir(), Redactor(os.environ).clean), app.chosen


async def board(chat: ChatScreen, argument: str) -> None:
    """Handle `/board`. Raises SessionInUse."""
    store = SessionStore(chat.folders.state, Redactor(os.environ))
    sessions = SessionBoard(store)
    row = await chat.app.push_screen_wait(BoardPage(sessions.rows, sessions.stop))
    if row is None or row.id == chat.state.status.now.conversation.session:
        return
    held = await asyncio.to_thread(held_session, store, row.id)
    if held is None:
        if (client := chat.outbox.client) is not None and client.running:
            chat.tell(f"this session is working: codeagent --resume {row.id} opens the other")
            return
        await change_to(chat, row.id)
        return
    if await lend_terminal(chat, "attach", row.id):
        chat.tell(f"it could not be shown here; codeagent attach {row.id} says why")


async def detach(chat: ChatScreen, argument: str) -> None:
    """Handle `/detach`: a detached session lets its terminal go; any other ends here, and continues
    as a detached one. Raises ConfigError."""
    if os.environ.get(HELD) == str(os.getppid()):
        leave()
        return
    if chat in _MOVING:
        return
    _MOVING.add(chat)
    try:
        await _move(chat)
    finally:
        _MOVING.discard(chat)


async def _move(chat: ChatScreen) -> None:
    client = await chat.outbox.ready()
    prompt = ""
    if client.running and not client.job_lines():
        chat.tell("the session moves when the running calls have ended")
        await _paused(chat)
        prompt = _CONTINUE if client.running else ""  # it may have ended, or been stopped
    if client.job_lines():  # also one that a call has become in the meantime
        if prompt:
            client.do(Resume())
        chat.tell("a job is running and would end with this process: stop it first (/jobs)")
        return
    status = chat.state.status.now
    options = replace(
        chat.launch_options,
        mode=status.conversation.mode,
        theme=chat.themes.name,
        thinking=client.agent.model.effort,
        step=status.run.stepping,
    )
    session = client.agent.session_id
    await chat.end()
    started, said = await asyncio.to_thread(start_held, _words(options, session, prompt))
    if started:
        chat.state.document.remark(one_line(said, 300), "info")
        chat.state.status.set(session="")  # --resume could not open it while it works
        await chat.run_action("app.quit")
        return
    await chat.change_to(replace(options, proceed=True, resume=session, prompt=FirstPrompt(prompt)))
    if isinstance(again := chat.app.screen, ChatScreen):
        with suppress(CodeagentError):
            await again.outbox.ready()
        again.state.document.remark(NOT_DETACHED.format(one_line(said, 300)), "error")


def start_held(arguments: Sequence[str]) -> tuple[bool, str]:
    """Run codeagent with arguments that detach it, in a process of its own, as this one has
    threads; return whether that went well, and what it said. Blocks."""
    words = [sys.executable, "-P", "-m", "codeagent", *arguments]
    # It outlives this process. If a command of another codeagent started this one, the mark of that
    # command stays: it ends what the command started.
    try:
        with open_program(
            DETACHED,
            words,
            folder=None,
            environment=os.environ,
            mark=os.environ.get(MARK),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:
            _, told = process.communicate()
    except OSError as error:
        return False, error.strerror or str(error)
    said = told.decode(errors="replace").strip().rpartition("\n")[2].removeprefix("codeagent: ")
    return process.returncode == 0, said or f"it ended with code {process.returncode}"


async def _paused(chat: ChatScreen) -> None:
    """Pause the run; return at the boundary, or at its end."""
    client, boundary = await chat.outbox.ready(), chat.state.boundary
    reached = asyncio.Event()

    def look() -> None:
        if isinstance(boundary.now, Paused) or not client.running:
            reached.set()

    boundary.watch(look)
    chat.state.status.watch(look)
    client.do(Pause())
    look()
    await reached.wait()


def _words(options: LaunchOptions, session_id: str, prompt: str) -> list[str]:
    """Return the arguments that continue a session without a terminal, with these options."""
    words = ["--resume", session_id, "--detach", prompt]
    own = ("model", "api_base", "thinking", "mode", "theme", "step")
    given = {name: getattr(options, name) for name in own}
    for name, value in {**given, **options.flags}.items():
        flag = f"--{name.replace('_', '-')}"
        match value:
            case None | False:
                pass
            case True:
                words.append(flag)
            case list():
                words += [word for each in value for word in (flag, str(each))]
            case tuple():
                words += [flag, ",".join(value)]
            case _:
                words += [flag, str(value)]
    return words
