"""A one-line text input, and keys that terminals send in ways that Textual misreads."""

from collections.abc import MutableMapping
from enum import Enum
from typing import ClassVar, cast

from textual import _ansi_sequences  # the table is read where it is, so it is changed there
from textual.binding import Binding, BindingType
from textual.events import Key
from textual.widget import Widget
from textual.widgets import Input

from codeagent.core.sanitize import visible

_ODD_NAMES = {"shift+\r": "shift+enter", "ctrl+\r": "ctrl+enter", "\r": "alt+enter"}
"""Textual's names for the keys of xterm's modifyOtherKeys."""
_MODIFIERS = ("alt+", "ctrl+", "super+", "hyper+", "meta+")


class _Known(Enum):
    ALT_ENTER = "alt+enter"


def tell_alt_enter_from_enter() -> None:
    """Tell Alt+Enter from Enter: without the kitty protocol, as in most tmux sessions, it arrives
    as ESC CR."""
    sequences = cast(MutableMapping[str, tuple[Enum, ...]], _ansi_sequences.ANSI_SEQUENCES_KEYS)
    sequences["\x1b\r"] = (_Known.ALT_ENTER,)


def give_usual_name(event: Key) -> None:
    """Rename a key to its name in bindings; Textual's odd names cannot be bound."""
    event.key = _ODD_NAMES.get(event.key, event.key)


async def run_own_binding(widget: Widget, event: Key) -> bool:
    """Run the widget's binding of the key at once: the app would run it after keys that were typed
    later.

    False if the widget does not bind it.
    """
    bound = widget.screen.active_bindings.get(event.key)
    if bound is None or bound.node is not widget:
        return False
    event.prevent_default()
    if await widget.app.run_action(bound.binding.action, widget):
        event.stop()
    return True


def types_text(event: Key) -> bool:
    """Whether the key types its character; Alt+Y has one as well, but does not type it."""
    return event.is_printable and not event.key.startswith(_MODIFIERS)


class LineInput(Input):
    """An `Input` without a frame; its cursor does not blink, because an idle screen draws
    nothing."""

    DEFAULT_CSS = """
    LineInput {
        height: 1;
        border: none;
        padding: 0;
        background: transparent;
        &:focus { border: none; }
        & .input--placeholder { color: $text-muted; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("alt+b", "cursor_left_word", "a word back", show=False),
        Binding("alt+f", "cursor_right_word", "a word forward", show=False),
    ]

    def on_mount(self) -> None:
        self.cursor_blink = False

    async def _on_key(self, event: Key) -> None:
        if not types_text(event):
            await run_own_binding(self, event)

    def replace(self, text: str, start: int, end: int) -> None:
        """Make all incoming text harmless, whether typed or pasted."""
        super().replace(visible(text).replace("\n", " ").replace("\t", " "), start, end)
