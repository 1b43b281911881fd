"""The prompt's text with vim's keys, for users whose `keys.yaml` turns them on."""

from typing import TYPE_CHECKING, Literal

from textual.events import Key
from textual.message import Message
from textual.widgets.text_area import Edit, EditResult, Location, Selection

from codeagent.tui.keymap import keymap_of
from codeagent.tui.parts.line_input import give_usual_name, types_text
from codeagent.tui.parts.prompt_text import PromptText

if TYPE_CHECKING:  # most users do without it
    from codeagent.tui.parts.vim import Do, Vim, VimEdit

_ARROWS = {"left": "h", "right": "l", "up": "k", "down": "j"}
_MARKS = {"": "❯ ", "insert": "❯ ", "normal": "❮ ", "visual": "◆ "}
_BEGINS = ("/", "@", "!")
"""What begins a prompt even in normal mode, if it is empty."""


class VimPrompt(PromptText):
    """Starts in insert mode, where its keys are those of any prompt, except Esc."""

    DEFAULT_CSS = """
    VimPrompt {
        &.-insert .text-area--cursor { color: $foreground; background: transparent; text-style: underline; }
        &.-visual .text-area--cursor { color: $foreground; background: transparent; text-style: none; }
    }
    """

    class ModeShown(Message):
        """The mode has changed."""

    def __init__(self) -> None:
        super().__init__()
        self._vim: Vim | None = None
        self._at = 0
        """Where vim's cursor is in visual mode; the selection ends behind it."""

    def on_mount(self) -> None:
        if keymap_of(self).vim:
            from codeagent.tui.parts.vim import Vim  # most users do without it

            self._vim = Vim()
            self._show_mode()

    @property
    def vim_mode(self) -> Literal["", "insert", "normal", "visual"]:
        """The mode; empty without vim's keys."""
        if self._vim is None:
            return ""
        return "visual" if self._vim.mode == "lines" else self._vim.mode

    @property
    def closes_first(self) -> bool:
        """Whether Esc closes something before it is vim's."""
        return False

    def forget(self) -> None:
        super().forget()
        if self._vim is not None:
            self._vim.insert("", 0)
            self._show_mode()

    async def _on_key(self, event: Key) -> None:
        if self._vim is not None and self._pressed(self._vim, event):
            event.stop()
            event.prevent_default()

    def _pressed(self, vim: "Vim", event: Key) -> bool:
        """Handle a key; False if it means what it does without vim's keys."""
        from codeagent.tui.parts.vim import on_letter  # just imported

        give_usual_name(event)
        text, visual = self.typed, self.vim_mode == "visual"
        at = self._at if visual else self._offset_of_cursor
        key = event.character if types_text(event) else _ARROWS.get(event.key) if visual else None
        if event.key == "escape" and not vim.idle and not self.closes_first:
            self._carry_out(vim.escape(text, at))
        elif vim.mode == "insert" or (self.is_blank and key in (*_BEGINS, "?")):
            if vim.mode == "normal" and key in _BEGINS:
                vim.insert(text, at)
                self._show_mode()
            return False
        elif pressed := "\x12" if event.key == "ctrl+r" else key:
            for done in vim.press(pressed, text, on_letter(text, at)):
                self._carry_out(done)
        else:
            return False
        self._show_mode()
        return True

    def edit(self, edit: Edit) -> EditResult:
        """Edit the text; what visual mode has selected is then something else."""
        done = super().edit(edit)
        if self._vim is not None and self.vim_mode == "visual":
            self._vim.escape(self.typed, 0)
            self._show_mode()
        return done

    def action_up(self) -> None:
        self.action_cursor_up()

    def action_down(self) -> None:
        self.action_cursor_down()

    def _carry_out(self, done: "VimEdit | Do") -> None:
        from codeagent.tui.parts.vim import VimEdit, on_letter  # just imported

        if not isinstance(done, VimEdit):
            {"u": self.undo, "\x12": self.redo, "j": self.action_down, "k": self.action_up}[done]()
            self.move_cursor(self._place(on_letter(self.typed, self._offset_of_cursor)))
            return
        wanted = done.applied(self.typed)
        if wanted != self.typed:
            self.history.checkpoint()
            self._replace_via_keyboard(done.put, self._place(done.start), self._place(done.end))
            self.history.checkpoint()
        if wanted == self.typed:  # else it was part of a chip, and the cursor is there
            self._at = done.cursor
            self.move_cursor(self._place(done.cursor))

    def _place(self, at: int) -> Location:
        before = self.typed[:at].split("\n")
        return len(before) - 1, len(before[-1])

    @property
    def _offset_of_cursor(self) -> int:
        row, column = self.cursor_location
        return sum(len(each) + 1 for each in self.typed.split("\n")[:row]) + column

    def _show_mode(self) -> None:
        vim = self._vim
        if vim is None:
            return
        if self.vim_mode == "visual":
            start, end = vim.selected(self.typed, self._at)
            self.selection = Selection(self._place(start), self._place(end))
        self.mark = _MARKS[self.vim_mode]
        for each in ("insert", "normal", "visual"):
            self.set_class(each == self.vim_mode, f"-{each}")
        self.refresh()
        self.post_message(self.ModeShown())
