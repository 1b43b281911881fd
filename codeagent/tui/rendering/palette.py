"""The colours of everything that is drawn line by line, made from the theme in use."""

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from rich.style import Style

from codeagent.core.dataclass import dataclass

PLAIN = Style()


@dataclass(frozen=True)
class Palette:
    """Rich styles by purpose. Every state also has a word or a mark, never only a colour.

    The defaults are without colour, for `NO_COLOR` and for tests without a theme.
    """

    text: Style = PLAIN
    muted: Style = Style(dim=True)
    """Secondary text: durations, counts, hints."""
    accent: Style = Style(bold=True)
    user: Style = Style(bold=True)
    """The bar and the word before what the user said."""
    heading: Style = Style(bold=True)
    strong: Style = Style(bold=True)
    emphasis: Style = Style(italic=True)
    code: Style = PLAIN
    """Inline code and the text of code blocks."""
    quote: Style = Style(italic=True)
    link: Style = Style(underline=True)
    rule: Style = Style(dim=True)
    """Lines, borders and gutters."""
    running: Style = Style(bold=True)
    success: Style = PLAIN
    warning: Style = Style(bold=True)
    error: Style = Style(bold=True)
    thinking: Style = Style(italic=True, dim=True)
    added: Style = PLAIN
    """Whole added lines of a diff."""
    removed: Style = PLAIN
    added_word: Style = Style(reverse=True)
    """The changed words within an added line."""
    removed_word: Style = Style(reverse=True)
    match: Style = Style(reverse=True)
    """The matches of a search."""
    selection: Style = Style(reverse=True)
    syntax: Mapping[str, Style] = field(default_factory=lambda: MappingProxyType({}))
    """Colours of code by token: comment, keyword, name, function, type, string, number, operator,
    builtin, error."""


def palette_of(widget: object) -> Palette:
    """Return the palette of the widget's app, or the colourless one if the app has none."""
    palette = getattr(getattr(widget, "app", None), "palette", None)
    return palette if isinstance(palette, Palette) else Palette()
