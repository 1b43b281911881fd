"""The first screen where no conversation can begin yet: what is missing, and the ways on from there."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlsplit

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Static

from codeagent.core.errors import CodeagentError
from codeagent.core.sanitize import one_line, visible
from codeagent.tui.actions import bindings
from codeagent.tui.pages.page import Guarded
from codeagent.tui.parts.line_input import LineInput
from codeagent.tui.parts.marked_list import PickerList, PickerRow
from codeagent.tui.parts.rows import HintRow, TitleRow
from codeagent.tui.ports import Missing, ModelRow

_VARIABLES = (
    ("sk-ant-", "ANTHROPIC_API_KEY"),
    ("sk-or-", "OPENROUTER_API_KEY"),
    ("AIza", "GEMINI_API_KEY"),
    ("gsk_", "GROQ_API_KEY"),
    ("xai-", "XAI_API_KEY"),
    ("sk-", "OPENAI_API_KEY"),
)
"""How the keys of providers begin, and where they are looked for; the first that fits."""
_LEAST = 8
"""Characters of the shortest key."""

KeepKey = Callable[[str, str], Awaitable[str]]
"""Tries a key, stores it under a variable's name, and says how that went. Raises CodeagentError."""


@dataclass(frozen=True)
class KeyKept:
    """A key was stored; the conversation can be tried again."""

    variable: str


@dataclass(frozen=True)
class ServerChosen:
    """A local server that answered."""

    row: ModelRow


@dataclass(frozen=True)
class AddressGiven:
    """A server the user knows of."""

    api_base: str


@dataclass(frozen=True)
class DemoChosen:
    """Look around with the model that needs nothing."""


WayOn = KeyKept | ServerChosen | AddressGiven | DemoChosen


class FirstRun(Guarded[WayOn | None]):
    """Gives the way the user took, None where they leave. What is typed as a key is shown as dots only."""

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
        self,
        missing: Missing,
        keep_key: KeepKey,
        clock: Callable[[], float] = time.monotonic,
        *,
        only_key: bool = False,
    ) -> None:
        """`only_key`: there is a conversation already, which another key may help."""
        super().__init__(clock)
        self._only_key = only_key
        self._missing = missing
        self._keep_key = keep_key
        self._list = PickerList(_rows(missing)[: 1 if only_key else None])
        self._hints = HintRow(["Enter takes it", *([] if only_key else ["d demo", "Up and Down move"]), "Esc leaves"])
        self._key = LineInput(password=True, placeholder="Paste your API key (hidden)", compact=True, id="key")
        self._address = LineInput(placeholder="http://127.0.0.1:8000/v1", compact=True, id="address")

    def compose(self) -> ComposeResult:
        yield TitleRow("codeagent")
        yield Static(visible(self._missing.text), markup=False, classes="first-run--text first-run--missing")
        yield Static("Choose how to start:", markup=False, classes="first-run--text")
        yield self._list
        yield self._key
        yield self._address
        yield self._hints

    def on_mount(self) -> None:
        if self._only_key:
            self._open(self._key)

    def action_choose(self) -> None:
        if self._key.has_focus:
            self._submit_key(self._key.value)
        elif self._address.has_focus:
            self._submit_address(self._address.value)
        elif self._list.marked is not None:
            self._take(self._list.marked.key)

    def action_close(self) -> None:
        """Back to the list, or away."""
        if self.focused is None:
            self.dismiss(None)
            return
        self._open(None)

    def action_move(self, step: int) -> None:
        self._open(None)
        self._list.move(step)

    def action_page(self, direction: int) -> None:
        self._open(None)
        self._list.page(direction)

    def action_demo(self) -> None:
        """By its letter, unless that was on its way before the screen could be read."""
        if self.guard.quiet and not self._only_key:
            self.dismiss(DemoChosen())

    def on_paste(self, event: events.Paste) -> None:
        """A key may be pasted without choosing its row first."""
        if self.focused is None and event.text.strip():
            event.stop()
            self._open(self._key)
            self._key.insert_text_at_cursor(event.text.strip().splitlines()[0])

    @on(PickerList.Clicked)
    def _clicked(self, message: PickerList.Clicked) -> None:
        message.stop()
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
                self.dismiss(DemoChosen())
            case _:
                self.dismiss(ServerChosen(self._missing.servers[int(number)]))

    def _open(self, box: LineInput | None) -> None:
        """Show that line to write in, or none; a key that was not stored is forgotten."""
        self._key.value = ""
        self._key.display, self._address.display = box is self._key, box is self._address
        self._hints.tell("" if box is None else "Enter takes it · Esc goes back")
        self.set_focus(box)

    def _submit_key(self, typed: str) -> None:
        key = typed.strip()
        problem, variable = _problem_of(key), self._missing.variable or _variable_of(key)
        if not problem and not variable:
            problem = "no provider is known whose keys begin so: set its variable yourself, then start again"
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
        self.dismiss(KeyKept(variable))

    def _submit_address(self, typed: str) -> None:
        address = typed.strip()
        try:
            parts = urlsplit(address)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
            usable = usable and (parts.port is None or parts.port > 0) and " " not in address
        except ValueError:
            usable = False
        if usable:
            self.dismiss(AddressGiven(address))
        else:
            self._hints.tell("not an address: write it as http://127.0.0.1:8000/v1")


def _rows(missing: Missing) -> Sequence[PickerRow]:
    kept = "tried once, then kept in the keyring or a private file"
    return (
        PickerRow("key", "Paste an API key", f"{missing.variable}: {kept}" if missing.variable else kept),
        *(PickerRow(f"server:{at}", row.name, row.about) for at, row in enumerate(missing.servers)),
        PickerRow("address", "Another server", "its address; it speaks the OpenAI format"),
        PickerRow("demo", "Look around", "press d · demo model, no key: nothing leaves this machine"),
    )


def _variable_of(key: str) -> str:
    return next((variable for start, variable in _VARIABLES if key.startswith(start)), "")


def _problem_of(key: str) -> str:
    """What is wrong with it, without saying any of it."""
    if not key:
        return "nothing was pasted yet"
    if not (key.isascii() and key.isprintable()) or " " in key:
        return "that is not a key: it has characters that keys do not have"
    return "that is not a key: it is too short" if len(key) < _LEAST else ""
