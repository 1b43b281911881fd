"""The rows of a facts page: in columns, each with what Enter does."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field

from codeagent.core.dataclass import dataclass, record
from codeagent.tui.rendering.palette import StyleName

COPIES = "copies it"
"""What Enter does with a row that has no other action."""


@record
class Fact:
    """One row."""

    cells: tuple[str, ...]
    about: str = ""
    """Shown below the list while the row is marked."""
    does: str = COPIES
    """What Enter does, for the footer."""
    command: str = ""
    """The slash command that Enter runs once the page is closed."""
    opens: Callable[[], Awaitable[str | None]] | None = field(default=None, compare=False)
    """Reads the text that Enter opens over the page; None: it is gone."""
    copies: str = ""
    """What Enter copies if it does nothing else; empty: the last cell."""
    bar: float = 0.0
    """The length of the bar behind the cells, as a share of the longest."""
    style: StyleName = "text"


@dataclass(frozen=True)
class Caption:
    """Says what the rows below it have in common, or what their columns are."""

    cells: tuple[str, ...]


@dataclass(frozen=True)
class Bar:
    """One line over the whole width: its parts, each a sign, its share of the whole and a style."""

    parts: tuple[tuple[str, float, StyleName], ...]


FactRow = Fact | Caption | Bar


@dataclass(frozen=True)
class Facts:
    """What a page shows."""

    title: str
    rows: Sequence[FactRow]
    note: str = ""
    """At the right of the title."""
    marked: str = ""
    """The first cell of the row to mark first; empty: the topmost."""


def opened(text: str) -> Callable[[], Awaitable[str]]:
    """Return a reader of a text that is already known."""

    async def read() -> str:
        return text

    return read


def share(part: int, whole: int) -> str:
    """Return the percentage, which is 0% only if the part is empty."""
    exact = 100 * part / whole if whole else 0
    return "<1%" if 0 < exact < 1 else f"{exact:.0f}%"
