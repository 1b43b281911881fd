"""What can be completed at the cursor, and the list it is chosen from."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from textual.events import Click
from textual.geometry import Offset
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from codeagent.tui.actions import Action
from codeagent.tui.fuzzy import rank
from codeagent.tui.rendering.lines import cut_end, cut_middle, flat, line
from codeagent.tui.rendering.palette import PLAIN, palette_of

_COMMAND = re.compile(r"/([^\s/]*)")
_FILE = re.compile(r"(?:^|(?<=[\s(\[{'\"]))@(?:\"([^\"]*)|([^\s\"]*))$")
_MOST_ROWS = 8


@dataclass(frozen=True)
class Unfinished:
    """The word in front of the cursor that can be completed."""

    kind: Literal["command", "file"]
    start: int
    """Column of its slash or `@`."""
    query: str
    """What stands behind it."""


@dataclass(frozen=True)
class Completion:
    """One thing on offer."""

    label: str
    insert: str
    """What replaces the unfinished word."""
    about: str = ""


def unfinished_at(line: str, row: int, column: int) -> Unfinished | None:
    """The unfinished word that ends at the column; nothing inside a word that goes on behind the cursor."""
    if column < len(line) and not line[column].isspace():
        return None
    before = line[:column]
    if row == 0 and (command := _COMMAND.fullmatch(before)):
        return Unfinished("command", 0, command[1])
    if file := _FILE.search(before):
        return Unfinished("file", file.start(), file[1] if file[1] is not None else file[2])
    return None


def command_choices(query: str, commands: Sequence[Action]) -> tuple[Completion, ...]:
    """The commands that match by name or alias: those that begin so first, otherwise in their order."""
    by_word = {word: row for row in commands for word in (row.name, *row.aliases)}
    begin = [word for word in by_word if word.startswith(query.lower())]
    begin.sort(key=lambda word: word != query.lower())
    words = dict.fromkeys(begin + (rank(query, by_word, len(by_word)) if query else []))
    rows = dict.fromkeys(by_word[word] for word in words)
    return tuple(Completion(f"/{row.name}", f"/{row.name} ", row.about) for row in rows)


def file_choices(paths: Sequence[str]) -> tuple[Completion, ...]:
    """A file closes with a space; a directory stays open, so that what is in it is offered next."""
    return tuple(Completion(path, _mention(path)) for path in paths)


def _mention(path: str) -> str:
    if re.search(r"[\s\"]", path):
        return f'@"{path}" '
    return f"@{path}" if path.endswith("/") else f"@{path} "


class ChoiceList(Widget):
    """Stands directly above its place in the layout; the first choice is the best and chosen at first.

    The words about a choice are in a column of their own; in a narrow list they are left out.
    """

    DEFAULT_CSS = """
    ChoiceList {
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

    class Picked(Message):
        """A choice was clicked."""

        def __init__(self, choice: Completion) -> None:
            super().__init__()
            self.choice = choice

    def __init__(self) -> None:
        super().__init__()
        self._choices: tuple[Completion, ...] = ()
        self._footer = ""
        self._at = 0
        self._top = 0
        self._rows = 0

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    @property
    def chosen(self) -> Completion | None:
        """The choice that is marked; None where there is none."""
        return self._choices[self._at] if self._choices else None

    @property
    def moved(self) -> bool:
        """The user went to another choice than the first."""
        return self._at > 0

    def offer(self, choices: Sequence[Completion], *, footer: str = "") -> None:
        """Show these, the first one chosen; `footer` is a line below them, and all there is where none is left."""
        self._choices = tuple(choices)
        self._at = self._top = 0
        self._rows = min(_MOST_ROWS, len(self._choices), max(1, self.screen.size.height // 2))
        self._footer = footer or (f"{len(self._choices)} in all" if len(self._choices) > self._rows else "")
        height = self._rows + bool(self._footer)
        self.styles.height = height
        self.styles.offset = Offset(0, -height)
        self.display = height > 0
        self.refresh()

    def close(self) -> None:
        self._choices = ()
        self.display = False

    def move(self, step: int) -> None:
        """To the next or the one before, round the ends."""
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

    def render_line(self, y: int) -> Strip:
        width, style = self.size.width, self.rich_style
        if y == self._rows and self._footer:
            parts: list[tuple[str, Style | None]] = [(f"   {cut_end(self._footer, width - 4)}", palette_of(self).muted)]
            return line(parts).strip.adjust_cell_length(width, style).apply_style(style)
        at = self._top + y
        if y >= self._rows or at >= len(self._choices):
            return Strip.blank(width, style)
        return self._row(self._choices[at], at == self._at).adjust_cell_length(width, style).apply_style(style)

    def _row(self, choice: Completion, chosen: bool) -> Strip:
        palette = palette_of(self)
        width = self.size.width
        column = min(28, max((cell_len(flat(one.label)) for one in self._choices), default=0))
        mark = " ▸ " if chosen else "   "
        body = palette.selection if chosen else PLAIN
        label = cut_middle(flat(choice.label), width - 4)
        about = ""
        if choice.about and width >= column + 24:
            label = set_cell_size(cut_middle(label, column), column)
            about = "  " + cut_end(flat(choice.about), width - column - 6)
        rest = " " * max(0, width - 3 - cell_len(label) - cell_len(about))
        quiet = body if chosen else palette.muted
        return line([(mark, palette.accent + body), (label, palette.text + body), (about + rest, quiet)]).strip
