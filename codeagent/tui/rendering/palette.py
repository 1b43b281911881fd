"""The colours of everything that is drawn line by line, made from the theme in use."""

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Literal

from rich.style import Style

from codeagent.core.dataclass import dataclass

PLAIN = Style()
StyleName = Literal[
    "text", "muted", "accent", "heading", "strong", "running", "success", "warning", "error"
]
"""The styles that data names, see `Palette.named`."""
PERMISSION: dict[Literal["auto", "prompt", "deny"], StyleName] = {
    "auto": "success",
    "prompt": "warning",
    "deny": "error",
}


@dataclass(frozen=True)
class TalkStyles:
    """What the two sides of the conversation say."""

    user: Style = Style(bold=True)
    """The bar and the word before what the user said."""
    thinking: Style = Style(italic=True, dim=True)


@dataclass(frozen=True)
class ProseStyles:
    """Text in Markdown."""

    emphasis: Style = Style(italic=True)
    quote: Style = Style(italic=True)
    link: Style = Style(underline=True)


@dataclass(frozen=True)
class CodeStyles:
    """Source code."""

    text: Style = PLAIN
    """Inline code and the text of code blocks."""
    tokens: Mapping[str, Style] = field(default_factory=lambda: MappingProxyType({}))
    """Over it, by token: comment, keyword, name, function, type, string, number, operator, builtin,
    error."""


@dataclass(frozen=True)
class DiffStyles:
    """The changed lines of a diff."""

    added: Style = PLAIN
    """Whole added lines."""
    removed: Style = PLAIN
    added_word: Style = Style(reverse=True)
    """The changed words within an added line."""
    removed_word: Style = Style(reverse=True)


@dataclass(frozen=True)
class MarkStyles:
    """What lies over other styles."""

    match: Style = Style(reverse=True)
    """The matches of a search."""
    selection: Style = Style(reverse=True)
    """What is selected, and the marked row of a list."""


@dataclass(frozen=True)
class Palette:
    """Rich styles by purpose. Every state also has a word or a mark, never only a colour.

    The defaults are without colour, for `NO_COLOR` and for tests without a theme.
    """

    text: Style = PLAIN
    muted: Style = Style(dim=True)
    """Secondary text: durations, counts, hints."""
    accent: Style = Style(bold=True)
    heading: Style = Style(bold=True)
    strong: Style = Style(bold=True)
    rule: Style = Style(dim=True)
    """Lines, borders and gutters."""
    running: Style = Style(bold=True)
    success: Style = PLAIN
    warning: Style = Style(bold=True)
    error: Style = Style(bold=True)
    talk: TalkStyles = TalkStyles()
    prose: ProseStyles = ProseStyles()
    code: CodeStyles = CodeStyles()
    diff: DiffStyles = DiffStyles()
    marks: MarkStyles = MarkStyles()

    def named(self, name: StyleName) -> Style:
        style: Style = getattr(self, name)
        return style


def palette_of(widget: object) -> Palette:
    """Return the palette of the widget's app, or the colourless one if the app has none."""
    palette = getattr(getattr(widget, "app", None), "palette", None)
    return palette if isinstance(palette, Palette) else Palette()
