"""The text area of the composer: editing, pasting and drawing."""

from time import monotonic

from rich.text import Text
from textual.actions import SkipAction
from textual.events import Key, Paste
from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import TextArea
from textual.widgets.text_area import Edit, EditResult, Location, Selection

from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.sanitize import visible
from codeagent.tui.bindings import bindings
from codeagent.tui.parts.line_input import (
    give_usual_name,
    run_own_binding,
    tell_alt_enter_from_enter,
    types_text,
)
from codeagent.tui.rendering.lines import line
from codeagent.tui.rendering.palette import palette_of

_MOST_LINES = 10
_MOST_CHARACTERS = 1_000
# A chip has non-breaking spaces, which cannot be typed: only a paste, or its own text returning,
# makes a chip.
_CHIP = lazy_regex("\\[pasted\xa0[\\d,]+\xa0characters,\xa0[\\d,]+\xa0lines?\xa0#\\d+\\]")
_MARK = "❯ "
_SHELL_MARK = "$ "
_LONGEST_SHOWN = 50_000
"""Characters of the longest returned text that is shown as text; a longer one becomes a chip."""
_UNSTYLED = 0.02
"""Seconds until text without styles is drawn again."""


def unified(text: str) -> str:
    """Return the text with every line break as a newline: for pastes, terminals send carriage
    returns."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def harmless(text: str) -> str:
    """Return text that is safe in the composer: control characters are shown visibly."""
    return visible(unified(text))


def is_long(text: str) -> bool:
    """Whether a paste of this text becomes a chip."""
    return len(text) > _MOST_CHARACTERS or unified(text).count("\n") >= _MOST_LINES


class Chips:
    """The long texts behind chips; a chip is known by its exact words, `[pasted 5,000 characters,
    80 lines #1]`.

    Numbers are never reused, so that a chip restored by undo still means the same text.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._last = 0
        self._expanded = ("", "")

    def __bool__(self) -> bool:
        return bool(self._texts)

    def add(self, text: str) -> str:
        """Keep the text; returns its chip."""
        self._last += 1
        text = unified(text)
        lines = text.count("\n") + 1
        words = f"[pasted {len(text):,} characters, {lines:,} {'line' if lines == 1 else 'lines'} #{self._last}]"
        chip = words.replace(" ", "\xa0")
        self._texts[chip] = text
        return chip

    def replace(self, chip: str, text: str) -> None:
        """Put another text behind a chip."""
        self._texts[chip] = text
        self._expanded = ("", "")

    def behind(self, typed: str) -> dict[str, str]:
        """Return the chips of a text with the texts behind them, the longest first."""
        shown = {
            hit[0]: self._texts[hit[0]] for hit in _CHIP.finditer(typed) if hit[0] in self._texts
        }
        return dict(sorted(shown.items(), key=lambda item: len(item[1]), reverse=True))

    def clear(self) -> None:
        """Forget the texts."""
        self._texts.clear()
        self._expanded = ("", "")

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Return (start, end) of every chip in a line, in characters."""
        if not self._texts or "\xa0" not in line:
            return []
        return [hit.span() for hit in _CHIP.finditer(line) if hit[0] in self._texts]

    def expand(self, text: str) -> str:
        """Return the text with every chip replaced by the text behind it."""
        if not self._texts or "\xa0" not in text:
            return text
        if self._expanded[0] != text:
            whole = _CHIP.sub(lambda hit: self._texts.get(hit[0], hit[0]), text)
            self._expanded = (text, whole)
        return self._expanded[1]


class PromptText(TextArea, inherit_bindings=False):
    """A text area that grows up to two fifths of the screen; a long paste is a chip, edited as one
    character.

    Page keys are left to the screen. The cursor does not blink: an idle screen draws nothing.
    """

    DEFAULT_CSS = """
    PromptText {
        height: auto;
        min-height: 1;
        max-height: 40vh;
        border: none;
        padding: 0;
        background: transparent;
        scrollbar-size-vertical: 1;
        &:focus { border: none; }
        & .text-area--placeholder { color: $text-muted; }
    }
    """
    BINDINGS = bindings("composer", "PromptText")

    def __init__(self) -> None:
        self._chips = Chips()
        super().__init__(compact=True, highlight_cursor_line=False)
        self.cursor_blink = False
        self._killed = ""
        self.mark = _MARK
        """The sign before the first row; as wide as the gutter."""
        self.typed_at = float("-inf")
        """When the user last changed the text, on the clock of `time.monotonic`."""

    @property
    def typed(self) -> str:
        """The text as it is shown, with chips as chips."""
        return self.document.text

    @property
    def text(self) -> str:
        """The whole text, with the texts behind the chips."""
        return self._chips.expand(self.typed)

    @text.setter
    def text(self, value: str) -> None:
        self.set_text(value)

    @property
    def is_blank(self) -> bool:
        return not self.typed.strip()

    def set_text(self, text: str) -> None:
        """Replace the text, and put the cursor at its end; undo restores the previous one."""
        self._show(self._given(text))

    def insert_back(self, text: str) -> None:
        """Insert returned text before the typed text, on lines of its own."""
        if not text:
            return
        behind = f"\n{self.typed}" if self.typed else ""
        _, column = self.cursor_location
        at_end = self.cursor_at_end_of_text
        before = self._given(text)
        row = before.count("\n") + 1 + self.cursor_location[0]
        self._show(before + behind)
        if behind and not at_end:
            self.move_cursor((row, column))

    def pastes(self) -> dict[str, str]:
        """Return the chips with the texts behind them, the longest first; a prompt without any
        becomes one."""
        if not self._chips.behind(self.typed) and not self.typed.startswith("/"):
            self._show(self._chips.add(self.typed))
        return self._chips.behind(self.typed)

    def put_behind(self, chip: str, text: str) -> None:
        """Put another text behind a chip."""
        self._chips.replace(chip, text)

    def _given(self, text: str) -> str:
        return harmless(text) if len(text) <= _LONGEST_SHOWN else self._chips.add(text)

    def _show(self, typed: str) -> None:
        """Replace everything, chips included."""
        self.history.checkpoint()
        self.replace(typed, (0, 0), self.document.end, maintain_selection_offset=False)
        self.history.checkpoint()

    def forget(self) -> None:
        """Empty the text area for good: undo and the texts behind chips are dropped."""
        self._chips.clear()
        self.load_text("")

    async def _on_key(self, event: Key) -> None:
        give_usual_name(event)
        if types_text(event) and self.typed:
            return
        if not await run_own_binding(self, event) and not types_text(event):
            event.prevent_default()

    async def _on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        if event.text:
            self._take_in(event.text)
        else:  # some terminals send nothing for a clipboard that holds no text
            self.action_paste()

    def _take_in(self, text: str) -> None:
        """Insert foreign text at the cursor, as a chip if it is long."""
        if text:
            self._replace_via_keyboard(
                self._chips.add(text) if is_long(text) else harmless(text), *self.selection
            )

    def _replace_via_keyboard(
        self, insert: str, start: Location, end: Location
    ) -> EditResult | None:
        self.typed_at = monotonic()
        return super()._replace_via_keyboard(insert, start, end)

    def _delete_via_keyboard(self, start: Location, end: Location) -> EditResult | None:
        self.typed_at = monotonic()
        return super()._delete_via_keyboard(start, end)

    def edit(self, edit: Edit) -> EditResult:
        """Edit the text; an edit that begins or ends inside a chip includes all of it."""
        if edit.top == edit.bottom:
            edit.from_location = edit.to_location = self._beside_chip(edit.top, after=True)
        else:
            start = self._beside_chip(edit.top, after=False)
            end = self._beside_chip(edit.bottom, after=True)
            edit.from_location = start
            edit.to_location = end
        return super().edit(edit)

    def _beside_chip(self, location: Location, *, after: bool) -> Location:
        """Return the location, or the end or start of the chip that it is inside."""
        row, column = location
        if not self._chips or row >= self.document.line_count:
            return location
        for start, end in self._chips.spans(self.document.get_line(row)):
            if start < column < end:
                return row, end if after else start
        return location

    def _validate_selection(self, selection: Selection) -> Selection:
        start, end = super()._validate_selection(selection)
        before = self.selection
        return Selection(
            self._beside_chip(start, after=start > before.start),
            self._beside_chip(end, after=end > before.end),
        )

    def find_matching_bracket(self, bracket: str, search_from: Location) -> Location | None:
        """Return None: this is prose, and a search of all of it at every key is not worth the
        time."""
        return None

    def action_delete_right_or_skip(self) -> None:
        """Delete to the right; in an empty text area leave the key (Ctrl+D) to the screen."""
        if not self.typed:
            raise SkipAction()
        self.action_delete_right()

    def action_kill(self, what: str) -> None:
        """Cut from the cursor, so that `yank` can put it back."""
        start, end = self.selection
        if start == end:
            start, end = self._killed_range(what)
        result = self._delete_via_keyboard(start, end)
        if result is not None and result.replaced_text:
            self._killed = self._chips.expand(result.replaced_text)

    def _killed_range(self, what: str) -> tuple[Location, Location]:
        cursor = row, column = self.cursor_location
        match what:
            case "word_left":
                return self.get_cursor_word_left_location(), cursor
            case "word_right":
                return cursor, self.get_cursor_word_right_location()
            case "line_start":
                return ((row, 0) if column else self.get_cursor_left_location()), cursor
            case "line_end":
                length = len(self.document.get_line(row))
                return cursor, (
                    (row, length) if column < length else self.get_cursor_right_location()
                )
            case _:
                raise ValueError(what)

    def action_yank(self) -> None:
        """Insert what was last cut."""
        self._take_in(self._killed)

    def action_copy(self) -> None:
        """Copy the selection; without one, leave the key to others."""
        if not self.selected_text:
            raise SkipAction()
        self.app.copy_to_clipboard(self._chips.expand(self.selected_text))

    def action_cut(self) -> None:
        """Cut the selection."""
        if self.selected_text:
            self.app.copy_to_clipboard(self._chips.expand(self.selected_text))
            self._delete_via_keyboard(*self.selection)

    def action_paste(self) -> None:
        """Paste what was copied in this app."""
        self._take_in(self.app.clipboard)

    @property
    def gutter_width(self) -> int:
        """The width of the mark before every row, in cells."""
        return len(_MARK)

    def get_line(self, line_index: int) -> Text:
        content = super().get_line(line_index)
        for start, end in self._chips.spans(content.plain):
            content.stylize(palette_of(self).accent, start, end)
        return content

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw nothing until the style sheet is applied: Textual's own drawing would end the
        app."""
        if not self._component_styles:
            self.set_timer(_UNSTYLED, self.refresh)
            return [Strip.blank(crop.width)] * crop.height
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        first = y == 0 and self.scroll_offset.y == 0
        words = _SHELL_MARK if self.document.get_line(0).startswith("!") else self.mark
        mark = line([(words if first else "  ", palette_of(self).talk.user)]).strip.apply_style(
            self.rich_style
        )
        width = self.scrollable_content_region.width
        return Strip.join([mark, super().render_line(y)]).adjust_cell_length(width, self.rich_style)

    def on_resize(self) -> None:
        """Scroll to the cursor, whose row may be off screen after wrapping again."""
        self.call_after_refresh(self.scroll_cursor_visible)

    def on_mount(self) -> None:
        tell_alt_enter_from_enter()
