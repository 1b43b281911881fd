"""What every slash command does; keys and the palette come here as well."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from codeagent.core.acts import Pause, SetEffort, SetModel
from codeagent.core.budget import parse_effort, said_effort
from codeagent.core.errors import CodeagentError
from codeagent.core.policy import Mode
from codeagent.core.sanitize import one_line
from codeagent.tui.clipboard import copy
from codeagent.tui.commands import Parsed, Unknown, call, help_markdown, parse
from codeagent.tui.pages.changes import ChangesScreen
from codeagent.tui.pages.commanded import Chat
from codeagent.tui.pages.first_run import FirstRun, KeyKept, WayOn
from codeagent.tui.pages.host import Host
from codeagent.tui.pages.info import KeySheet, OutputScreen, TextScreen
from codeagent.tui.pages.job_commands import JobCommands
from codeagent.tui.pages.permissions import PermissionsScreen
from codeagent.tui.pages.picker import Picker, ThemePicker, model_rows, palette_rows, session_rows
from codeagent.tui.pages.queue import QueuePage
from codeagent.tui.pages.rewind import GoingBack
from codeagent.tui.pages.sending import Sending
from codeagent.tui.pages.stepping import Stepping
from codeagent.tui.pages.tools import ToolCommands
from codeagent.tui.parts.boundary_sheet import BoundaryAct
from codeagent.tui.parts.marked_list import PickerRow
from codeagent.tui.ports import Missing, ModelRow

_MODES: tuple[Mode, ...] = ("ask", "accept-edits", "plan", "auto")
_PAGES: tuple[Literal["status", "cost", "context", "config", "skills"], ...] = (
    "status",
    "cost",
    "context",
    "config",
    "skills",
)
_ANOTHER_KEY = "another key"
"""Row of the models list; no model has such a name."""
_KEYS = {
    "detail": "screen.next_detail",
    "redraw": "screen.redraw",
    "suspend": "app.suspend_process",
    "editor": "edit_outside",
    "history": "search_history",
}
"""Commands that do what a key does."""
_ANY_TIME = frozenset(
    {
        *("exit", "find", "copy", "print", "theme", "keys", "help", "new", "resume", "stop", "queue", "jobs", "mode"),
        *("permissions", "tools", *_PAGES, *_KEYS),
    }
)
"""Commands that need no conversation, or say themselves that there is none yet; the others wait for one."""


class Slash:
    """Runs commands on a chat screen; what goes wrong is told in one line."""

    def __init__(self, chat: Chat, host: Host, sending: Sending) -> None:
        self._chat = chat
        self._sending = sending
        self._host = host

    def run(self, name: str, argument: str = "") -> None:
        """A command by its name, as the composer or the palette gives it."""
        match call(name, argument):
            case Unknown() as unknown:
                self._chat.tell(str(unknown))
                self._chat.restore(f"/{name} {argument}".rstrip())
            case parsed if not parsed.command.while_running and self._running:
                self._chat.tell(f"/{name} waits until the agent is done; Esc pauses it, Esc again stops it")
                self._chat.restore(f"/{name} {argument}".rstrip())
            case parsed if parsed.command.name not in _ANY_TIME and self._sending.holds:
                late = parsed
                self._sending.hold(f"/{name} {argument}".rstrip(), lambda: self._late(late))
            case parsed:
                self._start(self._do(parsed.command.name, parsed.argument))

    async def _late(self, parsed: Parsed) -> None:
        """A command that waited for the start."""
        if parsed.command.while_running or not self._running:
            await self._told(self._do(parsed.command.name, parsed.argument))
        else:
            self.run(parsed.command.name, parsed.argument)

    def unknown(self, text: str) -> None:
        """A slash and a word that is not a command."""
        found = parse(text)
        self._chat.tell(str(found) if isinstance(found, Unknown) else f"{one_line(text, 40)} is not a command")

    def copy_text(self, text: str) -> None:
        try:
            self._chat.tell(copy(self._chat.app, text, self._host.folders.state / "copies"))
        except OSError as error:
            self._chat.tell(f"not copied: {error.strerror}; nothing was changed")

    def show_output(self, call_id: str) -> None:
        """The whole output of a call, on a page of its own."""
        self._start(self._show_output(call_id))

    def act(self, act: BoundaryAct) -> None:
        self._start(Stepping(self._chat).do(act))

    def palette(self) -> None:
        self._start(self._palette())

    @property
    def _running(self) -> bool:
        return self._chat.client is not None and self._chat.client.running

    def _start(self, work: Any) -> None:
        self._chat.app.run_worker(self._told(work), exit_on_error=True)

    async def _told(self, work: Any) -> None:
        try:
            await work
        except CodeagentError as error:
            self._chat.tell(str(error))

    async def _do(self, name: str, argument: str) -> None:
        """One command; pages and lists are waited for."""
        simple: dict[str, Callable[[], None]] = {
            "print": lambda: self._host.print_below(self._chat.view.plain_text()),
            "find": lambda: self._chat.open_find(argument),
            "exit": self._host.quit,
            "copy": lambda: self._copy(argument),
            "mode": lambda: self._mode(argument),
            "pause": self._pause,
        }
        if name in simple:
            simple[name]()
            return
        if name in _KEYS:
            await self._chat.press(_KEYS[name])
            return
        match name:
            case "new":
                await self._change_to(None)
            case "resume":
                await self._resume(argument)
            case "model":
                await self._model(argument)
            case "effort":
                await self._effort(argument)
            case "theme":
                await self._theme(argument)
            case "keys":
                await self._page(KeySheet(self._host.keys))
            case "help":
                await self._page(TextScreen("Help", help_markdown()))
            case "permissions":
                await self._page(PermissionsScreen(await self._chat.ready(), self._chat.state))
            case "diff":
                await self._diff()
            case "undo" | "redo" | "rewind":
                await GoingBack(self._chat).run(name, argument)
            case "jobs" | "background":
                await JobCommands(self._chat, self._host).run(name, argument)
            case "stop" if self._sending.waits:
                self._sending.stop()
            case "stop" if argument:
                await JobCommands(self._chat, self._host).stop(argument)
            case "tools":
                await ToolCommands(self._chat).run(argument)
            case "step" | "plan" | "budget" | "stop":
                await Stepping(self._chat).run(name, argument)
            case "queue":
                await self._queue()
            case _:
                await self._facts(name)

    def _copy(self, argument: str) -> None:
        if argument and argument != "all":
            self._chat.tell(f"/copy takes nothing or all, not '{one_line(argument, 40)}'")
            return
        text = self._chat.view.plain_text() if argument else self._chat.state.document.last_answer()
        if text.strip():
            self.copy_text(text)
        else:
            self._chat.tell("there is nothing to copy yet")

    def _mode(self, argument: str) -> None:
        chosen = next((mode for mode in _MODES if mode == argument), None)
        if chosen is None:
            now = self._chat.state.status.now.mode
            self._chat.tell(f"mode: {now}; /mode {'|'.join(_MODES)} changes it")
        else:
            self._sending.set_mode(chosen)

    def _pause(self) -> None:
        refused = None if self._chat.client is None else self._chat.client.do(Pause())
        if self._chat.client is None or refused is not None:
            self._chat.tell("nothing is running that could be paused")

    async def _diff(self) -> None:
        await self._page(ChangesScreen(await self._chat.ready()))

    async def _queue(self) -> None:
        client, queue = await self._chat.ready(), self._chat.state.queue
        if queue.items:
            await self._page(QueuePage(queue, client, self._host.keys, self._chat.restore))
        else:
            self._chat.tell("the queue is empty")

    async def _resume(self, argument: str) -> None:
        if argument:
            await self._change_to(argument)
            return
        present = self._chat.state.status.now.session
        sessions = [row for row in await (await self._chat.ready()).sessions() if row.id != present]
        if not sessions:
            self._chat.tell("there is no other session in this folder yet")
            return
        chosen = await self._pick("Resume a session", session_rows(sessions, self._host.now()))
        if chosen is not None:
            await self._change_to(chosen)

    async def _change_to(self, session: str | None) -> None:
        """Another conversation, with what this one was begun with."""
        await self._host.change_to(replace(self._chat.launch_options, proceed=True, resume=session, prompt=""))

    async def _model(self, argument: str) -> None:
        models = {row.name: row for row in await (await self._chat.ready()).models()}
        present = self._chat.state.status.now.model
        rows = [*model_rows(models.values()), PickerRow(_ANOTHER_KEY, "Paste an API key", "tried once, then kept")]
        name = argument or await self._pick("Choose the model", rows, marked=present)
        if name == _ANOTHER_KEY:
            asked = Missing("key", "Paste the key that the provider of your model gave you")
            name = present if await self._new_key(asked) else None
        if not name:
            return
        row = models.get(name) or ModelRow(name, "", ready=True)
        client = await self._chat.ready()
        missing = await client.missing(row)
        if missing is not None and missing.kind == "key" and await self._new_key(missing):
            missing = await client.missing(row)
        if missing is not None:
            self._chat.tell(missing.text)
        elif (refused := await client.finish(SetModel(row.name, row.api_base))) is not None:
            self._chat.tell(refused.reason)
        else:
            self._chat.launch_options = replace(self._chat.launch_options, model=row.name, api_base=row.api_base)
            self._chat.tell(f"model: {name}")

    async def _effort(self, argument: str) -> None:
        """`/effort [off|low|medium|high|TOKENS]`. Raises ConfigError."""
        client = await self._chat.ready()
        if not argument:
            now = client.model.effort
            self._chat.tell("thinking: " + ("as the provider has it" if now is None else said_effort(now)))
            return
        effort = parse_effort(argument)
        refused = await client.finish(SetEffort(effort))
        said = f"thinking: {said_effort(effort)}, from the next answer on"
        self._chat.tell(said if refused is None else refused.reason)

    async def _new_key(self, missing: Missing) -> bool:
        """Whether one was kept."""
        page = FirstRun(missing, (await self._chat.ready()).keep_key, only_key=True)
        way: WayOn | None = await self._chat.app.push_screen_wait(page)
        return isinstance(way, KeyKept)

    async def _theme(self, argument: str) -> None:
        if argument:
            self._chat.tell(self._host.use_theme(argument) or f"theme: {argument}")
            return
        host = self._host
        chosen = await self._chat.app.push_screen_wait(ThemePicker(host.themes, host.theme_name, host.use_theme))
        if chosen:
            self._chat.tell(f'theme: {chosen}; theme = "{chosen}" in config.toml keeps it')

    async def _palette(self) -> None:
        models = () if self._chat.client is None or self._running else await self._chat.client.models()
        rows = palette_rows(self._host.themes.names(), models, running=self._running)
        line = await self._pick("Commands", rows)
        match parse(line or ""):
            case Parsed(command=command, argument=argument):
                self.run(command.name, argument)
            case _:
                pass  # nothing was chosen

    async def _facts(self, name: str) -> None:
        about = next(page for page in _PAGES if page == name)
        await self._page(TextScreen(name.capitalize(), (await self._chat.ready()).info_page(about)))

    async def _show_output(self, call_id: str) -> None:
        text = await (await self._chat.ready()).full_output(call_id)
        if text is None:
            self._chat.tell("that output is gone: it was not kept")
            return
        await self._page(OutputScreen("Whole output", text))

    async def _pick(self, title: str, rows: Any, *, marked: str = "") -> str | None:
        return await self._chat.app.push_screen_wait(Picker(title, rows, marked=marked))

    async def _page(self, page: Any) -> None:
        await self._chat.app.push_screen_wait(page)
