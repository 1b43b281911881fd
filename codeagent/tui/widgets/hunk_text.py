"""Where the new lines of a hunk are written, below the diff."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Paste
from textual.message import Message
from textual.widgets import TextArea

from codeagent.tui.widgets.card_keys import keymap_of
from codeagent.tui.widgets.fitting import Part
from codeagent.tui.widgets.hunk_foot import HunkFoot
from codeagent.tui.widgets.paste import harmless
from codeagent.tui.widgets.rule_row import RuleRow


class _Lines(TextArea):
    """Tab indents; what is pasted cannot act. The cursor does not blink, because an idle screen draws nothing."""

    DEFAULT_CSS = """
    _Lines {
        height: 1fr;
        border: none;
        padding: 0 1;
        background: $surface;
        &:focus { border: none; }
    }
    """

    def __init__(self) -> None:
        super().__init__(tab_behavior="indent", show_line_numbers=False, compact=True, highlight_cursor_line=False)
        self.cursor_blink = False

    async def _on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        self._replace_via_keyboard(harmless(event.text), *self.selection)


class HunkText(Vertical):
    """Hidden until `begin`. Gives the text in a message, and hides again."""

    DEFAULT_CSS = """
    HunkText {
        dock: bottom;
        height: 50%;
        min-height: 5;
        display: none;
        background: $surface;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "take", "take these lines", show=False, priority=True, id="lines.take"),
        Binding("escape", "leave", "back to the hunks", show=False, priority=True, id="lines.leave"),
        Binding("ctrl+g", "outside", "go on in $EDITOR", show=False, priority=True, id="lines.editor"),
    ]

    class Taken(Message):
        """These lines are to stand in place of the hunk's new ones."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Left(Message):
        """Nothing is changed; `text` is what was begun."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Outside(Message):
        """The person wants to go on in their own editor."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self) -> None:
        super().__init__()
        self._title = RuleRow(("─", "─"))
        self._lines = _Lines()
        self._foot = HunkFoot()

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._lines
        yield self._foot

    def begin(self, title: str, text: str) -> None:
        """Show the text to be edited. It must be one that a field to write in shows as it is."""
        keys = keymap_of(self)
        self._title.show((Part(title, 1, lambda palette: palette.heading),))
        self._foot.show(
            (),
            (
                f"{keys.shown('lines.take')} takes these lines",
                f"{keys.shown('lines.leave')} back",
                f"{keys.shown('lines.editor')} in your editor",
                "an empty text puts nothing there",
            ),
        )
        self._lines.indent_type = "tabs" if any(row.startswith("\t") for row in text.split("\n")) else "spaces"
        self._lines.load_text(text)
        self._lines.move_cursor((0, 0))
        self.display = True
        self.take_focus()

    def take_focus(self) -> None:
        self._lines.focus()

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    def action_take(self) -> None:
        self._end(self.Taken(self._lines.text))

    def action_leave(self) -> None:
        self._end(self.Left(self._lines.text))

    def action_outside(self) -> None:
        self._end(self.Outside(self._lines.text))

    def _end(self, message: Message) -> None:
        self.display = False
        self.screen.set_focus(None)
        self.post_message(message)
