"""The colours everything that is drawn line by line uses; made from the theme in force."""

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from rich.style import Style

from codeagent.core.dataclass import dataclass

PLAIN = Style()


@dataclass(frozen=True)
class Palette:
    """Rich styles by what they are for. Every state also has a word or a mark, never only a colour.

    The defaults have no colour at all: they are what `NO_COLOR` and tests without a theme use.
    """

    text: Style = PLAIN
    muted: Style = Style(dim=True)
    """Secondary text: durations, counts, hints."""
    accent: Style = Style(bold=True)
    user: Style = Style(bold=True)
    """The bar and the word in front of what the user said."""
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
    """The words within an added line that differ."""
    removed_word: Style = Style(reverse=True)
    match: Style = Style(reverse=True)
    """What a search found."""
    selection: Style = Style(reverse=True)
    syntax: Mapping[str, Style] = field(default_factory=lambda: MappingProxyType({}))
    """Colours of code by token: comment, keyword, name, function, type, string, number, operator, builtin, error."""


def palette_of(widget: object) -> Palette:
    """The palette of the app a widget lives in; the colourless one if it has none."""
    palette = getattr(getattr(widget, "app", None), "palette", None)
    return palette if isinstance(palette, Palette) else Palette()
