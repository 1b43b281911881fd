"""Reviews a proposed change hunk by hunk: each is taken, left out or rewritten before anything is
applied."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import PurePath
from typing import Literal

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.events import Key, Paste
from textual.message import Message
from textual.widgets import TextArea

from codeagent.core.dataclass import dataclass
from codeagent.core.display import DiffBlock, HunkAnswer
from codeagent.tui.bindings import bindings
from codeagent.tui.clipboard import copy
from codeagent.tui.pages.diff_page import VIEWS, DiffPage
from codeagent.tui.parts.external_editor import EditorFailed, edit_difference, edit_in_editor
from codeagent.tui.parts.guard import TOO_SOON
from codeagent.tui.parts.hunk_pane import HunkRows, HunkSheet, Word, hunk_rows
from codeagent.tui.parts.prompt_text import harmless
from codeagent.tui.parts.rows import HintRow, Part, RuleRow
from codeagent.tui.rendering.diff import line_end_notes
from codeagent.tui.rendering.palette import StyleName
from codeagent.tui.transcript.spelling import counted

_STYLES: dict[Word, StyleName] = {"accept": "success", "reject": "error", "edited": "warning"}
_ODD = "it contains invisible characters: {key} edits it in your editor"


class _NewLines(TextArea):
    """Tab indents; a paste is made harmless. The cursor does not blink, because an idle screen
    draws nothing."""

    DEFAULT_CSS = """
    _NewLines {
        height: 1fr;
        border: none;
        padding: 0 1;
        background: $surface;
        &:focus { border: none; }
    }
    """

    def __init__(self) -> None:
        super().__init__(
            tab_behavior="indent",
            show_line_numbers=False,
            compact=True,
            highlight_cursor_line=False,
        )
        self.cursor_blink = False

    async def _on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        self._replace_via_keyboard(harmless(event.text), *self.selection)


class HunkText(Vertical):
    """Edits the new lines of a hunk: hidden until `begin`; it sends the text as a message and hides
    again."""

    DEFAULT_CSS = """
    HunkText {
        dock: bottom;
        height: 50%;
        min-height: 5;
        display: none;
        background: $surface;
    }
    """
    BINDINGS = bindings("lines")

    @dataclass
    class Ended(Message):
        """Editing ended with this text: it replaces the hunk's new lines, is only kept, or is to be
        continued in the user's own editor."""

        text: str
        how: Literal["take", "leave", "outside"]

    def __init__(self) -> None:
        super().__init__()
        self._title = RuleRow(("─", "─"))
        self._lines = _NewLines()
        self._foot = HintRow()

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._lines
        yield self._foot

    def begin(self, title: str, text: str) -> None:
        """Show the text for editing. It must not contain characters that a text field would not
        show."""
        self._title.show((Part(title, 1, "heading"),))
        self._foot.show(
            (),
            (
                "{lines.take} takes these lines",
                "{lines.leave} back",
                "{lines.editor} in your editor",
                "an empty text removes the lines",
            ),
        )
        self._lines.indent_type = (
            "tabs" if any(row.startswith("\t") for row in text.split("\n")) else "spaces"
        )
        self._lines.load_text(text)
        self._lines.move_cursor((0, 0))
        self.display = True
        self.take_focus()

    def take_focus(self) -> None:
        self._lines.focus()

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    def action_end(self, how: Literal["take", "leave", "outside"]) -> None:
        self.display = False
        self.screen.set_focus(None)
        self.post_message(self.Ended(self._lines.text, how))


class HunkReview(DiffPage[tuple[HunkAnswer, ...] | None]):
    """Returns an answer for each hunk that `core.display.cut` makes of the two texts; None if the
    user went back.

    Enter applies once every taken hunk was on screen.
    """

    BINDINGS = bindings("hunks", "HunkReview")

    def __init__(self, diff: DiffBlock, number: int = 1, of: int = 1) -> None:
        """This is file `number` of the `of` files of one call."""
        super().__init__(f"Hunks of {diff.path}" + (f", file {number} of {of}" if of > 1 else ""))
        self._is_last = number == of
        self.sheet = HunkSheet(diff)
        self.hints = (
            "{hunks.close} back",
            "{hunks.toggle} toggles",
            "{hunks.edit} edits",
            *self.several("{hunks.accept_all} all", "{hunks.reject_all} none"),
            *VIEWS,
        )
        self._text = HunkText()
        self._edited_at = 0

    def body(self) -> ComposeResult:
        yield self.pane
        yield self._text

    def on_mount(self) -> None:
        diff = self.sheet.diff
        self.pane.show_hunks(diff.path, self.rows(), line_end_notes(diff.before, diff.after))

    @property
    def count(self) -> int:
        return len(self.sheet)

    def heading(self, at: int) -> Sequence[Part]:
        word = self.sheet.word(at)
        line = self.sheet.diff.start_line + self.sheet.hunks[at].start
        return (
            Part(f"hunk {at + 1} of {self.count}", 2, "strong"),
            Part(word, 3, _STYLES[word]),
            Part(f"line {line}", 0),
            Part("" if at in self.pane.seen else "not seen yet", 1),
        )

    def draw(self) -> None:
        self.hint_row.display = not self._text.is_open
        counts = self.sheet.counts()
        taken = counts["accept"] + counts["edited"]
        self.title_row.tell(f"hunk {self.pane.current + 1} of {self.count}" if self.count else "")
        standing = [Part(f"{taken} of {counted(self.count, 'hunk')}", 3, "strong")]
        if counts["edited"]:
            standing.append(Part(f"{counts['edited']} edited", 2, _STYLES["edited"]))
        why = self._why_not_yet()
        does = "applies" if self._is_last else "goes to the next file"
        standing.append(
            Part(why or f"{self.key('hunks.apply')} {does}", 4, "warning" if why else "strong")
        )
        self.show_hints(standing)
        self.pane.rejected = [at for at in range(self.count) if self.sheet.word(at) == "reject"]
        self.pane.refresh()

    def copied(self, at: int) -> str:
        removed = [f"-{line}" for line in self.sheet.hunks[at].old]
        return "\n".join([*removed, *(f"+{line}" for line in self.sheet.new_lines(at))])

    def on_key(self, event: Key) -> None:
        """Keep keys typed for the lines from answering a hunk, even if a click moved the focus
        away."""
        if self._text.is_open and self.focused is None:
            self._text.take_focus()
            event.stop()
            event.prevent_default()

    def action_answer(self, how: Literal["toggle", "accept", "reject"]) -> None:
        answers = {
            "toggle": self.sheet.toggle,
            "accept": self.sheet.accept,
            "reject": self.sheet.reject,
        }
        if self.count:
            self._change(self.pane.current, answers[how])

    def action_accept_all(self) -> None:
        for at in range(self.count):
            if self.sheet.word(at) == "reject":
                self.sheet.toggle(at)
        self._redraw()

    def action_reject_all(self) -> None:
        for at in range(self.count):
            self.sheet.reject(at)
        self._redraw()

    def action_edit(self) -> None:
        at = self.pane.current
        if not self.count:
            return
        if not self.sheet.can_be_written_here(at):
            self.say(_ODD.format(key=self.key("hunks.editor")))
            return
        self._edited_at = at
        self._text.begin(f"the new lines of hunk {at + 1} of {self.count}", self.sheet.text(at))
        self.draw()
        self.call_after_refresh(self.pane.go_to_hunk, at)

    def action_editor(self) -> None:
        if self.count:
            self._edited_at = self.pane.current
            self._edit_outside(self.sheet.text(self.pane.current))

    def action_apply(self) -> None:
        why = self._why_not_yet()
        if why:
            self.say(why)
        elif not self.guard.admits("enter"):
            self.say(TOO_SOON)
        else:
            self.dismiss(self.sheet.answers)

    def action_difference(self) -> None:
        """Edit the whole file beside the old one, in the user's own diff view."""
        if self.count:
            self._edit_difference()

    @work(exclusive=True, group="editor")
    async def _edit_difference(self) -> None:
        diff, present = self.sheet.diff, self.sheet.result
        self.say("waiting for your editor: what you save there is shown here")
        name = PurePath(diff.path).name
        saved = await self._edited(present, edit_difference(self.app, name, (diff.before, present)))
        if saved is None:
            return
        if self.sheet.take(saved):
            self.pane.seen.clear()
            self.pane.replace_hunks(self.rows())
            self._redraw()
        else:
            said = copy(self.app, saved)
            self.say(f"not taken: you also changed lines outside these hunks; your text: {said}")

    @on(HunkText.Ended)
    def _text_ended(self, event: HunkText.Ended) -> None:
        at, text = self._edited_at, event.text
        match event.how:
            case "take":
                self._write(text)
            case "outside":
                self.sheet.keep(at, text)
                self._edit_outside(text)
            case "leave":
                if text != self.sheet.text(at):
                    self.sheet.keep(at, text)
                    self.say(f"not taken; {self.key('hunks.edit')} opens it again")
                self.draw()

    @work(exclusive=True, group="editor")
    async def _edit_outside(self, text: str) -> None:
        suffix = PurePath(self.sheet.diff.path).suffix or ".txt"
        edited = await self._edited(text, edit_in_editor(self.app, text, suffix=suffix))
        if edited is not None:
            self._write(edited)

    async def _edited(self, before: str, editing: Awaitable[str]) -> str | None:
        """Return what the user's editor made of a text; None if it did not change, which is said."""
        try:
            text = await editing
        except EditorFailed as error:
            self.say(str(error))
            return None
        finally:
            self.guard.close()
        if text != before:
            return text
        self.say("nothing was changed in your editor")
        return None

    def _write(self, text: str) -> None:
        self._change(self._edited_at, lambda at: self.sheet.write(at, text))
        self.guard.close()

    def _change(self, at: int, change: Callable[[int], None]) -> None:
        """Change the answer for a hunk, and draw it."""
        before = self.sheet.new_lines(at)
        change(at)
        if self.sheet.new_lines(at) != before:
            self.pane.replace_hunks(self.rows(), changed=at)
        self._redraw()

    def _redraw(self) -> None:
        self.say("")
        self.draw()

    def _why_not_yet(self) -> str:
        """Return what has to happen before anything is applied; empty if nothing has to."""
        unseen = [
            at
            for at in range(self.count)
            if self.sheet.word(at) != "reject" and at not in self.pane.seen
        ]
        if not unseen:
            return ""
        what = "1 hunk was" if len(unseen) == 1 else f"{len(unseen)} hunks were"
        return f"{what} not seen to the end: {self.key('hunks.next')} reads on"

    def rows(self) -> tuple[HunkRows, ...]:
        news = [self.sheet.new_lines(at) for at in range(self.count)]
        return hunk_rows(self.sheet.diff, self.sheet.hunks, news, everything=self.shows_everything)
