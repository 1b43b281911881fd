"""The one table of what every key does."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Action:
    """Something a key does."""

    id: str
    """`scope.name`; the Bindings of Textual that do it have this id."""
    keys: tuple[str, ...]
    """By default, as Textual spells them."""
    about: str
    """One line for a person."""

    @property
    def scope(self) -> str:
        return self.id.partition(".")[0]


@dataclass(frozen=True)
class Typed:
    """What is typed rather than bound, and cannot be changed."""

    scope: str
    keys: str
    about: str


SCOPES = {
    "chat": "Anywhere",
    "composer": "Writing",
    "card": "Approval card: after Tab, or with Alt",
    "transcript": "Conversation: after Tab or a click",
    "picker": "Lists",
    "page": "Pages and whole outputs",
    "question": "Questions before the start",
}
"""Every scope, in the order of the key sheet, with its heading."""

ACTIONS = (
    Action("chat.pause", ("escape",), "close what is open, else pause at the next boundary; twice: stop now"),
    Action("chat.cancel", ("ctrl+c",), "copy the selection, else stop, else clear; twice within 2 s: quit"),
    Action("chat.quit", ("ctrl+d",), "quit, when nothing is written"),
    Action("chat.suspend", ("ctrl+z",), "back to the shell; fg returns"),
    Action("chat.redraw", ("ctrl+l",), "draw the screen again"),
    Action("chat.mode", ("shift+tab",), "mode: ask, accept edits, plan"),
    Action("chat.detail", ("ctrl+o",), "detail: quiet, normal, full"),
    Action("chat.find", ("ctrl+f",), "find in the conversation"),
    Action("chat.palette", ("ctrl+p",), "command palette"),
    Action("chat.keys", ("f1",), "this sheet"),
    Action("composer.send", ("enter",), "send; while the agent works: steer it"),
    Action("composer.follow_up", ("alt+enter",), "send when the agent is done"),
    Action("composer.newline", ("shift+enter", "ctrl+j"), "new line"),
    Action("composer.history", ("ctrl+r",), "search what you wrote before"),
    Action("composer.editor", ("ctrl+g",), "write in $EDITOR"),
    Action("card.once", ("y",), "yes, once"),
    Action("card.session", ("a",), "yes, this call for the session"),
    Action("card.deny", ("n",), "no"),
    Action("card.because", ("r",), "no, and say why"),
    Action("card.all", ("A",), "yes to the whole batch"),
    Action("picker.choose", ("enter",), "take the marked row"),
    Action("picker.close", ("escape", "ctrl+c"), "close, nothing changed"),
    Action("picker.up", ("up", "ctrl+p"), "row above"),
    Action("picker.down", ("down", "ctrl+n"), "row below"),
    Action("picker.page_up", ("pageup",), "a page up"),
    Action("picker.page_down", ("pagedown",), "a page down"),
    Action("page.close", ("escape", "q"), "close"),
    Action("page.find", ("slash",), "find"),
    Action("page.next", ("n",), "next match"),
    Action("page.previous", ("N",), "match before"),
    Action("page.copy", ("c", "ctrl+c"), "copy the selection, else everything"),
    Action("page.up", ("up", "k"), "a line up"),
    Action("page.down", ("down", "j"), "a line down"),
    Action("page.page_up", ("pageup", "b"), "a page up"),
    Action("page.page_down", ("pagedown", "space"), "a page down"),
    Action("page.home", ("home", "g"), "to the beginning"),
    Action("page.end", ("end", "G"), "to the end"),
    Action("question.yes", ("y",), "yes"),
    Action("question.no", ("n", "enter", "escape", "ctrl+c"), "no"),
    Action("page.left", ("left",), "to the left"),
    Action("page.right", ("right",), "to the right"),
)

TYPED = (
    Typed("composer", "\\ Enter", "new line, where Shift+Enter does not arrive"),
    Typed("composer", "Up", "when empty: take back what was queued last, else what you wrote before"),
    Typed("composer", "?", "when empty: this sheet"),
    Typed("composer", "/", "commands"),
    Typed("composer", "@", "files"),
    Typed("composer", "!", "a shell command in the sandbox, shown to the model"),
    Typed("composer", "!!", "the same, not shown to the model"),
    Typed("picker", "any letter", "narrows the list"),
)
