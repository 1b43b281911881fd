"""Earlier prompts: gone through with Up and Down, and searched with Ctrl+R."""

from collections.abc import Callable, Sequence
from time import monotonic

from rich.cells import set_cell_size
from textual.events import Key, Paste
from textual.geometry import Offset
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from codeagent.tui.actions import bindings
from codeagent.tui.parts.line_input import types_text
from codeagent.tui.rendering.lines import cut_end, flat, line
from codeagent.tui.rendering.palette import PLAIN, palette_of

_MOST_ROWS = 8
_LONGEST_QUERY = 200


class HistoryWalk:
    """Stands at the text being typed until `older` is called; changes made on the way are kept until it ends."""

    def __init__(self, entries: Sequence[str]) -> None:
        """`entries`: the oldest first."""
        self._entries = entries
        self._at = len(entries)
        self._changed: dict[int, str] = {}

    @property
    def at_typed(self) -> bool:
        """At the text being typed, not at an earlier one."""
        return self._at == len(self._entries)

    def older(self, current: str) -> str | None:
        """The text before; None at the oldest. `current` is what the composer shows now."""
        return self._go(self._at - 1, current)

    def newer(self, current: str) -> str | None:
        """The text after, at last what was being typed; None where that is shown already."""
        return self._go(self._at + 1, current)

    def _go(self, to: int, current: str) -> str | None:
        if not 0 <= to <= len(self._entries):
            return None
        self._changed[self._at] = current
        self._at = to
        return self._changed.get(to, "") if self.at_typed else self._changed.get(to, self._entries[to])


class HistorySearch(Widget, can_focus=True):
    """Has the focus while it is open; the best match is the lowest, next to what is typed."""

    DEFAULT_CSS = """
    HistorySearch {
        overlay: screen;
        constrain: none inside;
        display: none;
        width: 1fr;
        height: auto;
        background: $panel;
        color: $foreground;
    }
    """
    ALLOW_SELECT = False
    BINDINGS = bindings("history")

    class Closed(Message):
        """The search is over."""

        def __init__(self, text: str | None, took_focus: bool) -> None:
            super().__init__()
            self.text = text
            """What was chosen; None leaves everything as it was."""
            self.took_focus = took_focus
            """The focus is still here, and belongs back to the composer."""

    def __init__(self) -> None:
        super().__init__()
        self._find: Callable[[str], Sequence[str]] = lambda query: ()
        self._query = ""
        self._found: Sequence[str] = ()
        self._at = 0
        self.typed_at = float("-inf")
        """When the user last typed here, on the clock of `time.monotonic`."""

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    def open(self, find: Callable[[str], Sequence[str]]) -> None:
        """`find` gives the prompts for what is typed, the best first; it is called at every key."""
        self._find = find
        self.display = True
        self.focus()
        self._search("")

    def _search(self, query: str) -> None:
        self._query = query[:_LONGEST_QUERY]
        self._found = self._find(self._query)
        self._at = 0
        height = self._rows + 1
        self.styles.height = height
        self.styles.offset = Offset(0, -height)
        self.refresh()

    @property
    def _rows(self) -> int:
        return max(1, min(_MOST_ROWS, len(self._found), self.screen.size.height // 2))

    def _close(self, text: str | None, *, took_focus: bool = True) -> None:
        if self.is_open:
            self.display = False
            self.post_message(self.Closed(text, took_focus))

    async def _on_key(self, event: Key) -> None:
        if types_text(event) and event.character is not None:
            event.stop()
            event.prevent_default()
            self.typed_at = monotonic()
            self._search(self._query + event.character)

    def on_paste(self, event: Paste) -> None:
        event.stop()
        self.typed_at = monotonic()
        self._search(self._query + flat(event.text[:_LONGEST_QUERY]))

    def on_blur(self) -> None:
        """The user went elsewhere in the app; while they are at another window the search waits."""
        if self.app.app_focus:
            self._close(None, took_focus=False)

    def action_take(self) -> None:
        """Put the chosen prompt into the composer; it is not sent."""
        self._close(self._found[self._at] if self._found else None)

    def action_leave(self) -> None:
        self._close(None)

    def action_move(self, step: int) -> None:
        """Positive to an older or worse match."""
        self._at = min(max(0, self._at + step), max(0, len(self._found) - 1))
        self.refresh()

    def action_delete(self) -> None:
        self._search(self._query[:-1])

    def action_delete_all(self) -> None:
        self._search("")

    def render_line(self, y: int) -> Strip:
        width, style = self.size.width, self.rich_style
        strip = self._query_line(width) if y == self._rows else self._row(y, width)
        return strip.adjust_cell_length(width, style).apply_style(style)

    def _query_line(self, width: int) -> Strip:
        palette = palette_of(self)
        hint = "  enter takes it · esc back" if width >= len(self._query) + 56 else ""
        return line(
            [
                (" search history: ", palette.accent),
                (self._query, palette.text),
                ("▏", palette.accent),
                (hint, palette.muted),
            ]
        ).strip

    def _row(self, y: int, width: int) -> Strip:
        palette = palette_of(self)
        top = max(0, self._at - self._rows + 1)
        at = top + self._rows - 1 - y
        if at >= len(self._found):
            words = "   nothing you typed before matches" if not self._found and y == self._rows - 1 else ""
            return line([(words, palette.muted)]).strip
        chosen = at == self._at
        body = palette.selection if chosen else PLAIN
        text = set_cell_size(cut_end(flat(self._found[at][: 4 * width]), width - 4), width - 3)
        return line([(" ▸ " if chosen else "   ", palette.accent + body), (text, palette.text + body)]).strip
