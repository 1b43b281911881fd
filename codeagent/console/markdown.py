"""Draws Markdown for a terminal without a screen."""

import os
import sys
from functools import cache

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, ImageItem, Markdown, TableElement
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from codeagent.console.colour import has_colours, write_styled
from codeagent.console.drawing import lines_of
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.sanitize import visible

_THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "italic",
        "markdown.item.bullet": "dim",
        "markdown.item.number": "dim",
        "markdown.block_quote": "dim",
        "markdown.hr": "dim",
        "markdown.table.border": "dim",
    }
)
_INDENT = 2
_LINE_END = lazy_regex(r"\r\n?|\n")
"""What Markdown takes for the end of a line; Python takes more characters for one."""


class _PlainHeading(Heading):
    """A heading at the left, without a frame."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text


class _PlainCode(CodeBlock):
    """Code without a background of its own, which would be copied as blanks."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        # The colours of the text and of the background, as many terminals report them.
        light = os.environ.get("COLORFGBG", "").endswith((";7", ";15"))
        theme = "ansi_light" if light else "ansi_dark"
        drawn = Syntax(code, self.lexer_name, theme=theme, word_wrap=True)
        yield Padding(drawn, (0, 0, 0, _INDENT))


class _PlainTable(TableElement):
    """A table without blank lines around it, whose cells are wrapped and never cut."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                table.show_edge = False
                for column in table.columns:
                    column.overflow = "fold"
            yield table


class _PlainImage(ImageItem):
    """An image, as its address and its description."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(f"{self.text.plain or 'image'} ({self.destination})", end="")


class _Drawn(Markdown):
    elements = {  # noqa: RUF012  # as in the class above
        **Markdown.elements,
        "heading_open": _PlainHeading,
        "fence": _PlainCode,
        "code_block": _PlainCode,
        "table_open": _PlainTable,
        "image": _PlainImage,
    }


def drawn(text: str, columns: int, *, colours: bool) -> list[str]:
    """Return the lines, each with its escape codes, without blank lines at the ends."""
    # The target of a link is printed, so that its text cannot hide it.
    document = _Drawn("", hyperlinks=False)
    document.parsed = _parser().parse(visible(text))
    lines = lines_of(document, columns, colours=colours, theme=_THEME)
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        del lines[0]
    return lines


def print_markdown(text: str) -> None:
    """Print Markdown on standard output, for a user."""
    lines = drawn(text, Console().width, colours=has_colours(sys.stdout))
    write_styled(sys.stdout, "\n".join([*lines, ""]))


def finished(text: str) -> int:
    """Return the length of the part of a growing text that can no longer change: all blocks but the
    last."""
    starts = [token.map[0] for token in _parser().parse(text) if token.level == 0 and token.map]
    ends = [found.end() for found in _LINE_END.finditer(text)]
    return ends[most - 1] if (most := max(starts, default=0)) else 0


@cache
def _parser() -> MarkdownIt:
    # rich leaves out HTML, which may be all that an answer says: Vec<String>. The address of a link
    # that comes at the end would be missing from what was printed before.
    rules = MarkdownIt().enable(["strikethrough", "table"])
    return rules.disable(["html_block", "html_inline", "reference"])
