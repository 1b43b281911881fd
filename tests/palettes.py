"""The styles of a palette by the names that a theme gives them."""

from collections.abc import Mapping
from dataclasses import fields

from rich.style import Style

from codeagent.tui.rendering.palette import CodeStyles, Palette


def styles_of(palette: Palette) -> Mapping[str, Style]:
    found: dict[str, Style] = {}
    for part in fields(palette):
        value = getattr(palette, part.name)
        match value:
            case Style():
                found[part.name] = value
            case CodeStyles(text, tokens):
                found["code"] = text
                found |= {f"syntax.{token}": style for token, style in tokens.items()}
            case _:
                found |= {each.name: getattr(value, each.name) for each in fields(value)}
    return found


STYLES = tuple(styles_of(Palette()))
"""Without those of tokens, which the palette without colours leaves out."""
