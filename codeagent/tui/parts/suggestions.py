"""The lists above the composer: completions of a word, and earlier prompts."""

import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Literal

from rich.cells import cell_len, set_cell_size
from textual.events import Click, Key, Paste
from textual.geometry import Offset
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.sanitize import spelled
from codeagent.tui.actions import Action
from codeagent.tui.bindings import bindings
from codeagent.tui.fuzzy import rank
from codeagent.tui.parts.line_input import types_text
from codeagent.tui.rendering.lines import Line, cut_end, cut_middle, flat, line
from codeagent.tui.rendering.palette import PLAIN, Palette, palette_of

_COMMAND = lazy_regex(r"/([^\s/]*)")
_INPUT = lazy_regex(r"/(?P<command>[^\s/]+)\s(?:.*\s)?(?P<name>[\w-]*)")
_FILE = lazy_regex(r"(?:^|(?<=[\s(\[{'\"]))@(?:\"([^\"]*)|([^\s\"]*))$")
_MOST_ROWS = 8
_LONGEST_QUERY = 200


@dataclass(frozen=True)
class Unfinished:
    """A word before the cursor that can be completed."""

    kind: Literal["command", "file", "input"]
    start: int
    """The column of its slash or `@`, or of the first letter of an input's name."""
    query: str
    """The text after that; for an input, the part of the name typed so far."""
    line: str = ""
    """For an input: everything before it, which begins with the command."""


@dataclass(frozen=True)
class Completion:
    """One offered completion."""

    label: str
    insert: str
    """What replaces the unfinished word."""
    about: str = ""


def unfinished_at(line: str, row: int, column: int) -> Unfinished | None:
    """Return the unfinished word that ends at the column; None inside a word that continues after
    the cursor."""
    if column < len(line) and not line[column].isspace():
        return None
    before = line[:column]
    if row == 0 and (command := _COMMAND.fullmatch(before)):
        return Unfinished("command", 0, command[1])
    if row == 0 and (given := _INPUT.fullmatch(before)):
        return Unfinished("input", given.start("name"), given["name"], before)
    if file := _FILE.search(before):
        return Unfinished("file", file.start(), file[1] if file[1] is not None else file[2])
    return None


def command_choices(query: str, commands: Sequence[Action]) -> tuple[Completion, ...]:
    """Return commands that match by name or alias: those that begin with the query first, otherwise
    in order."""
    by_word = {word: row for row in commands for word in (row.name, *row.aliases)}
    begin = [word for word in by_word if word.startswith(query.lower())]
    begin.sort(key=lambda word: word != query.lower())
    words = dict.fromkeys(begin + (rank(query, by_word, len(by_word)) if query else []))
    rows = dict.fromkeys(by_word[word] for word in words)
    return tuple(Completion(f"/{row.name}", f"/{row.name} ", row.about) for row in rows)


def input_choices(word: Unfinished, commands: Sequence[Action]) -> tuple[Completion, ...]:
    """Return the inputs of the command that begin so and were not given by name yet."""
    name, *given = word.line.removeprefix("/").split()
    inputs = next((row.inputs for row in commands if row.name == name), ())
    named = {one.partition("=")[0] for one in given if "=" in one}
    left = [
        (one, about) for one, about in inputs if one.startswith(word.query) and one not in named
    ]
    return tuple(Completion(f"{one}=", f"{one}=", about) for one, about in left)


def file_choices(paths: Sequence[str]) -> tuple[Completion, ...]:
    """Return completions for paths: a file ends with a space; a directory does not, so its files
    are offered next."""
    return tuple(
        Completion(path, mention if mention.endswith("/") else f"{mention} ")
        for path in map(spelled, paths)
        for mention in (mention_of(path),)
    )


def mention_of(path: str) -> str:
    """Return what mentions a path, which `spelled` wrote, in a prompt."""
    return f'@"{path}"' if re.search(r"[\s\"]", path) else f"@{path}"


class Overlay(Widget):
    """A few rows that cover what is directly above them in the layout."""

    DEFAULT_CSS = """
    Overlay {
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

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    def lie_over(self, rows: int) -> None:
        """Show that many rows; 0 hides the overlay."""
        self.styles.height = rows
        self.styles.offset = Offset(0, 0 if self.app.is_inline else -rows)
        self.display = rows > 0
        self.refresh()

    @abstractmethod
    def row(self, y: int, width: int, palette: Palette) -> Line:
        """Return what row `y` (from 0) shows in `width` cells."""

    def render_line(self, y: int) -> Strip:
        width, style = self.size.width, self.rich_style
        return (
            self.row(y, width, palette_of(self))
            .strip.adjust_cell_length(width, style)
            .apply_style(style)
        )


class ChoiceList(Overlay):
    """The list of completions; the first one is the best, and marked at first.

    Descriptions have a column of their own; a narrow list leaves them out.
    """

    @dataclass
    class Picked(Message):
        """A choice was clicked."""

        choice: Completion

    def __init__(self) -> None:
        super().__init__()
        self._choices: tuple[Completion, ...] = ()
        self._footer = ""
        self._at = 0
        self._top = 0
        self._rows = 0

    @property
    def chosen(self) -> Completion | None:
        """The marked completion; None if the list is empty."""
        return self._choices[self._at] if self._choices else None

    @property
    def moved(self) -> bool:
        """Whether the user moved to a completion other than the first."""
        return self._at > 0

    def offer(self, choices: Sequence[Completion], *, footer: str = "") -> None:
        """Show these with the first one marked; `footer` is a line below them, or the only line if
        there are none."""
        self._choices = tuple(choices)
        self._at = self._top = 0
        self._rows = min(_MOST_ROWS, len(self._choices), max(1, self.app.size.height // 2))
        self._footer = footer or (
            f"{len(self._choices)} in all" if len(self._choices) > self._rows else ""
        )
        self.lie_over(self._rows + bool(self._footer))

    def close(self) -> None:
        self._choices = ()
        self._at = 0
        self.display = False

    def move(self, step: int) -> None:
        """Move the mark to the next or the previous completion, wrapping around."""
        if not self._choices:
            return
        self._at = (self._at + step) % len(self._choices)
        self._top = min(max(self._top, self._at - self._rows + 1), self._at)
        self.refresh()

    def on_click(self, event: Click) -> None:
        event.stop()
        at = self._top + event.y
        if event.y < self._rows and at < len(self._choices):
            self.post_message(self.Picked(self._choices[at]))

    def row(self, y: int, width: int, palette: Palette) -> Line:
        if y == self._rows and self._footer:
            return line([(f"   {cut_end(self._footer, width - 4)}", palette.muted)])
        at = self._top + y
        return (
            self._choice(at, width, palette)
            if y < self._rows and at < len(self._choices)
            else line([])
        )

    def _choice(self, at: int, width: int, palette: Palette) -> Line:
        choice, chosen = self._choices[at], at == self._at
        column = min(28, max((cell_len(flat(one.label)) for one in self._choices), default=0))
        mark = " ▸ " if chosen else "   "
        body = palette.marks.selection if chosen else PLAIN
        label = cut_middle(flat(choice.label), width - 4)
        about = ""
        if choice.about and width >= column + 24:
            label = set_cell_size(cut_middle(label, column), column)
            about = "  " + cut_end(flat(choice.about), width - column - 6)
        rest = " " * max(0, width - 3 - cell_len(label) - cell_len(about))
        quiet = body if chosen else palette.muted
        return line(
            [(mark, palette.accent + body), (label, palette.text + body), (about + rest, quiet)]
        )


class HistorySearch(Overlay, can_focus=True):
    """The search of earlier prompts. Has the focus while open; the best match is lowest, next to
    the typed text."""

    BINDINGS = bindings("history")

    @dataclass
    class Closed(Message):
        """The search is over."""

        text: str | None
        """The chosen prompt; None if nothing changes."""
        took_focus: bool
        """Whether the focus is still here and has to return to the composer."""

    def __init__(self) -> None:
        super().__init__()
        self._find: Callable[[str], Sequence[str]] = lambda query: ()
        self._query = ""
        self._found: Sequence[str] = ()
        self._at = 0
        self.typed_at = float("-inf")
        """When the user last typed here, on the clock of `time.monotonic`."""

    def open(self, find: Callable[[str], Sequence[str]]) -> None:
        """Open the search; `find` returns the prompts for the typed text, the best first; called at
        every key."""
        self._find = find
        self._search("")
        self.focus()

    def _search(self, query: str) -> None:
        self._query = query[:_LONGEST_QUERY]
        self._found = self._find(self._query)
        self._at = 0
        self.lie_over(self._rows + 1)

    @property
    def _rows(self) -> int:
        return max(1, min(_MOST_ROWS, len(self._found), self.app.size.height // 2))

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
        """Close the search if the focus moved elsewhere in the app; stay open while another window
        has the focus."""
        if self.app.app_focus:
            self._close(None, took_focus=False)

    def action_take(self) -> None:
        """Put the chosen prompt into the composer without sending it."""
        self._close(self._found[self._at] if self._found else None)

    def action_leave(self) -> None:
        self._close(None)

    def action_move(self, step: int) -> None:
        """Move the mark; a positive step goes to older or worse matches."""
        self._at = min(max(0, self._at + step), max(0, len(self._found) - 1))
        self.refresh()

    def action_delete(self) -> None:
        self._search(self._query[:-1])

    def action_delete_all(self) -> None:
        self._search("")

    def row(self, y: int, width: int, palette: Palette) -> Line:
        return (
            self._query_line(width, palette) if y == self._rows else self._match(y, width, palette)
        )

    def _query_line(self, width: int, palette: Palette) -> Line:
        hint = "  enter uses it · esc back" if width >= len(self._query) + 56 else ""
        return line(
            [
                (" search history: ", palette.accent),
                (self._query, palette.text),
                ("▏", palette.accent),
                (hint, palette.muted),
            ]
        )

    def _match(self, y: int, width: int, palette: Palette) -> Line:
        top = max(0, self._at - self._rows + 1)
        at = top + self._rows - 1 - y
        if at >= len(self._found):
            words = (
                "   no earlier prompt matches" if not self._found and y == self._rows - 1 else ""
            )
            return line([(words, palette.muted)])
        chosen = at == self._at
        body = palette.marks.selection if chosen else PLAIN
        text = set_cell_size(cut_end(flat(self._found[at][: 4 * width]), width - 4), width - 3)
        return line(
            [(" ▸ " if chosen else "   ", palette.accent + body), (text, palette.text + body)]
        )
