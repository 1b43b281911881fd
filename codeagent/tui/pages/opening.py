"""Asks for what is missing before a conversation can begin."""

import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, assert_never
from urllib.parse import urlsplit

from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Static

from codeagent.core.errors import CodeagentError
from codeagent.core.redact import KEY_STARTS
from codeagent.core.sanitize import one_line, visible
from codeagent.tui.bindings import bindings
from codeagent.tui.launcher import Consent, LaunchOptions, Missing
from codeagent.tui.pages.page import Guarded, ListKeys
from codeagent.tui.pages.picker import Picker, session_rows
from codeagent.tui.parts.line_input import LineInput
from codeagent.tui.parts.marked_list import PickerList, PickerRow
from codeagent.tui.parts.rows import HintRow, TitleRow
from codeagent.tui.session_client import SessionClient

Asked = tuple[str, str, tuple[str, ...]]
"""A title, the question, and what the keys mean."""
_PLACE: Asked = (
    "Work here?",
    "work here anyway?",
    ("{question.no} no, leave (the default)", "{question.yes} yes, work here"),
)
GIT: Asked = (
    "Use this git directory?",
    "may commands in the sandbox read it, and may commits you approve be written to it? "
    "Commands cannot change it, and without it git does not work in bash.",
    ("{question.no} no (the default)", "{question.yes} yes, always for this folder"),
)
IMAGE: Asked = (
    "Use this repository's image?",
    "may it be built, and commands run in it? Building runs these instructions as root in a container of their own, "
    "without network unless you turned that on. Any change of the files is asked about again.",
    ("{question.no} no, the usual image (the default)", "{question.yes} yes, as it is now"),
)
_LEAST = 8
"""Characters of the shortest key that a provider gives out; a user's own server takes any."""

_ON_THIS_MACHINE = r"(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?(?:/|$)"
"""An address that may lack its `http://`: elsewhere, that would choose a connection without TLS."""

KeepKey = Callable[[str, str], Awaitable[str]]
"""Tries a key, stores it under a variable's name, and says how that went. Raises CodeagentError."""


class FolderQuestion(Guarded[bool]):
    """Returns True only for `y`, and not for one that was typed before the question could be
    read."""

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

    def __init__(self, text: str, *, asks: Asked = _PLACE) -> None:
        """`text` says what this folder is or has, such as `this is your home folder, not a
        project`."""
        super().__init__()
        self._title, asked, self._hints = asks
        self._text = f"{visible(text)}: {asked}"

    def compose(self) -> ComposeResult:
        with Vertical():
            yield TitleRow(self._title)
            yield Static(self._text, markup=False)
            yield HintRow(self._hints)

    def action_answer(self, answer: bool) -> None:
        if not answer or self.guard.admits("y"):
            self.dismiss(answer)


class FirstRun(ListKeys, Guarded[LaunchOptions | None]):
    """Says what is missing, and returns the options to start with instead; None if the user leaves.

    A typed key is shown as dots only.
    """

    DEFAULT_CSS = """
    FirstRun {
        layout: vertical;
        background: $background;
        color: $foreground;
        & > .first-run--text { height: auto; padding: 1 3 0 3; }
        & > .first-run--missing { color: $warning; }
        & > PickerList { margin: 1 0 0 0; max-height: 50%; }
        & > LineInput { margin: 1 3 0 3; display: none; background: $surface; }
        & > HintRow { dock: bottom; }
    }
    """
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("picker"), *bindings("question", "FirstRun")]

    def __init__(
        self, missing: Missing, keep_key: KeepKey, *, options: LaunchOptions | None = None
    ) -> None:
        """`options` are those that were tried; None if there already is a conversation, which
        another key may help."""
        super().__init__()
        only_key = options is None
        self._options = options or LaunchOptions()
        self.key_kept = False
        """A key was stored: what was tried before may work now."""
        self._only_key = only_key
        self._missing = missing
        self._keep_key = keep_key
        self.list: PickerList = PickerList(
            _rows(missing), "server:0" if self._options.api_base else ""
        )
        self.list.display = not only_key
        self._hints = HintRow()
        self._key = LineInput(
            password=True, placeholder="Paste your API key (hidden)", compact=True, id="key"
        )
        self._address = LineInput(
            placeholder="http://127.0.0.1:8000/v1", compact=True, id="address"
        )

    def compose(self) -> ComposeResult:
        yield TitleRow("codeagent")
        yield Static(
            visible(self._missing.text), markup=False, classes="first-run--text first-run--missing"
        )
        if not self._only_key:
            yield Static("Choose how to start:", markup=False, classes="first-run--text")
        yield self.list
        yield self._key
        yield self._address
        yield self._hints

    def on_mount(self) -> None:
        hints = (
            "{picker.choose} chooses it",
            "{question.demo} demo",
            "{picker.up} and {picker.down} move",
            "{picker.close} leaves",
        )
        self._hints.show((), hints)
        if self._only_key:
            self._open(self._key)

    def action_choose(self) -> None:
        if self._key.has_focus:
            self._submit_key(self._key.value)
        elif self._address.has_focus:
            self._submit_address(self._address.value)
        elif self.list.marked is not None:
            self._take(self.list.marked.key)

    def action_close(self) -> None:
        """Go back to the list, or leave."""
        if self.focused is None or self._only_key:
            self.dismiss(None)
            return
        self._open(None)

    def settle(self) -> None:
        if not self._only_key:
            self._open(None)

    def action_demo(self) -> None:
        """Start the demo, unless its letter was typed before the screen could be read."""
        if self.guard.quiet and not self._only_key:
            self._begin_with("demo", None)

    def on_paste(self, event: events.Paste) -> None:
        """Accept a pasted key even if its row was not chosen first."""
        if self.focused is None and event.text.strip():
            event.stop()
            self._open(self._key)
            self._key.insert_text_at_cursor(event.text.strip().splitlines()[0])

    @on(PickerList.Clicked)
    def _clicked(self) -> None:
        self._open(None)
        self.action_choose()

    def _take(self, way: str) -> None:
        kind, _, number = way.partition(":")
        match kind:
            case "key":
                self._open(self._key)
            case "address":
                self._open(self._address)
            case "demo":
                self._begin_with("demo", None)
            case _:
                server = self._missing.servers[int(number)]
                self._begin_with(server.name, server.api_base)

    def _begin_with(self, model: str | None, api_base: str | None) -> None:
        self.dismiss(replace(self._options, model=model, api_base=api_base))

    def _open(self, box: LineInput | None) -> None:
        """Show the given text line, or none; a key that was not stored is forgotten."""
        self._key.value = ""
        self._key.display = box is self._key
        self._address.display = box is self._address
        self._hints.tell(
            ""
            if box is None
            else self.with_keys("{picker.choose} accepts it · {picker.close} goes back")
        )
        self.set_focus(box)

    def _submit_key(self, typed: str) -> None:
        key = typed.strip()
        of_server = "://" in self._missing.variable
        problem, variable = (
            _problem_of(key, 1 if of_server else _LEAST),
            self._missing.variable or _variable_of(key),
        )
        if not problem and not variable:
            problem = "no known provider has keys that begin like this: set its variable yourself, then start again"
        if problem:
            self._hints.tell(problem)
            return
        self._key.value = ""
        self._hints.tell(f"trying the key, then keeping it as {variable}")
        self.run_worker(self._store(variable, key), exclusive=True, description="store a key")

    async def _store(self, variable: str, key: str) -> None:
        try:
            await self._keep_key(variable, key)
        except CodeagentError as error:
            self._hints.tell(one_line(str(error).replace(key, "…"), 300))
            return
        self.key_kept = True
        self.dismiss(self._options)

    def _submit_address(self, typed: str) -> None:
        address = typed.strip()
        if re.match(_ON_THIS_MACHINE, address):
            address = f"http://{address}"
        try:
            parts = urlsplit(address)
            usable = (
                parts.scheme in ("http", "https")
                and bool(parts.hostname)
                and parts.username is None
            )
            usable = usable and (parts.port is None or parts.port > 0) and " " not in address
        except ValueError:
            usable = False
        if usable:
            self._begin_with(self._options.model, address)
        else:
            self._hints.tell("not an address: write it as http://127.0.0.1:8000/v1")


async def ask(
    app: App[Any], client: SessionClient, options: LaunchOptions, missing: Missing
) -> LaunchOptions | None:
    """Ask for what is missing. Returns the options to open with then, or None if the user left.
    Call it from a worker.

    Raises CodeagentError.
    """
    match missing.kind:
        case "place":
            return (
                replace(options, proceed=True)
                if await app.push_screen_wait(FolderQuestion(missing.text))
                else None
            )
        case "git":
            answer = await app.push_screen_wait(FolderQuestion(missing.text, asks=GIT))
            return replace(options, git=Consent(bool(answer), missing.digest))
        case "image":
            answer = await app.push_screen_wait(FolderQuestion(missing.text, asks=IMAGE))
            return replace(options, image=Consent(bool(answer), missing.digest))
        case "model" | "key":
            page = FirstRun(missing, client.keep_key, options=options)
            following = await app.push_screen_wait(page)
            if following is None:
                return None
            # A key alone does not name a model: the user chooses among those that it opens.
            if page.key_kept and options.model is None and missing.kind == "model":
                following = await _with_model(app, client, options)
            if following.model is not None and following.model != options.model:
                await client.keep({"model": following.model, "api_base": following.api_base})
                return replace(following, chosen=True)
            return following
        case "session":
            return await _instead(app, client, options)
        case "error":
            raise CodeagentError(missing.text)
        case _:
            assert_never(missing.kind)


async def _with_model(
    app: App[Any], client: SessionClient, options: LaunchOptions
) -> LaunchOptions:
    ready = [row for row in await client.models() if row.ready]
    chosen = await app.push_screen_wait(
        Picker("Choose the model", [PickerRow(row.name, row.name, row.about) for row in ready])
    )
    row = next((row for row in ready if row.name == chosen), None)
    return options if row is None else replace(options, model=row.name, api_base=row.api_base)


async def _instead(app: App[Any], client: SessionClient, options: LaunchOptions) -> LaunchOptions:
    """Ask what to open instead of a session that cannot be continued; the transcript says why it
    cannot."""
    ways = (
        PickerRow("new", "Start a new session", "in this folder"),
        PickerRow("other", "Resume another session", "of this folder"),
        PickerRow("again", "Try again", f"to open {options.resume}"),
    )
    while (
        way := await app.push_screen_wait(Picker("How would you like to start?", ways))
    ) == "other":
        rows = session_rows([row for row in await client.sessions() if not row.in_use], time.time())
        if (chosen := await app.push_screen_wait(Picker("Resume a session", rows))) is not None:
            return replace(options, resume=chosen)
    return options if way == "again" else replace(options, resume=None)


def _rows(missing: Missing) -> Sequence[PickerRow]:
    kept = "tried once, then kept on this machine"
    return (
        PickerRow(
            "key", "Paste an API key", f"{missing.variable}: {kept}" if missing.variable else kept
        ),
        *(PickerRow(f"server:{at}", row.name, row.about) for at, row in enumerate(missing.servers)),
        PickerRow("address", "Another server", "its address; it speaks the OpenAI format"),
        PickerRow(
            "demo", "Look around", "press d · demo model, no key: nothing leaves this machine"
        ),
    )


def _variable_of(key: str) -> str:
    return next((variable for start, variable in KEY_STARTS if key.startswith(start)), "")


def _problem_of(key: str, least: int) -> str:
    """Return what is wrong with a key, without quoting any of it; `least`: characters of the
    shortest one."""
    if not key:
        return "nothing was pasted yet"
    if not (key.isascii() and key.isprintable()) or " " in key:
        return "that is not a key: it has characters that keys do not have"
    return "that is not a key: it is too short" if len(key) < least else ""
