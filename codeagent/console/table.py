"""Prints tables that fit the terminal, or plain lines for programs."""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from codeagent.console.colour import WORDS, for_eyes, has_colours, write_styled
from codeagent.core.dataclass import dataclass
from codeagent.core.sanitize import visible

if TYPE_CHECKING:
    from rich.text import Text


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    heading: str = ""
    style: str = ""
    """A style of rich; if it is empty, words that have a colour of their own are shown in it."""
    cut: bool = False
    """Whether cells that are too wide are cut, with an ellipsis; otherwise the last column
    wraps."""
    right: bool = False


LABEL = Column(style="bold")
TEXT = Column()


def print_table(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], plain: Iterable[str]
) -> None:
    """Print the rows under the headings of their columns, or the plain lines if no user reads them.
    A column without a heading is left out if it is empty."""
    if not for_eyes(sys.stdout):
        for line in plain:
            sys.stdout.write(f"{line}\n")
        return
    # Only on a terminal: they take 50 ms.
    from rich.table import Table
    from rich.text import Text

    from codeagent.console.drawing import lines_of

    table = Table(box=None, pad_edge=False, show_header=any(each.heading for each in columns))
    if not (rows := list(rows)):
        return
    shown = [at for at, each in enumerate(columns) if each.heading or any(row[at] for row in rows)]
    for each in (columns[at] for at in shown):
        table.add_column(
            Text(each.heading, "dim", no_wrap=True, overflow="ellipsis"),
            no_wrap=not (each.cut or each is columns[-1]),
            overflow="fold",
            justify="right" if each.right else "left",
        )
    for row in rows:
        table.add_row(*(_cell(row[at], columns[at]) for at in shown))
    lines = lines_of(table, colours=has_colours(sys.stdout))
    write_styled(sys.stdout, "\n".join([*lines, ""]))


def _cell(text: str, column: Column) -> "Text":
    from rich.text import Text

    shown = visible(text).replace("\n", " ")
    style = column.style or WORDS.get(shown, "")
    return (
        Text(shown, style, no_wrap=True, overflow="ellipsis") if column.cut else Text(shown, style)
    )


def print_facts(facts: Iterable[tuple[str, str]], width: int) -> None:
    """Print each label with its text; `width` is that of the labels and the blanks after them."""
    found = list(facts)
    plain = (f"{label:<{width}}{visible(text)}" for label, text in found)
    print_table((LABEL, TEXT), ((label.ljust(width - 2), text) for label, text in found), plain)
