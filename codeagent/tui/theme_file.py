"""A theme, checked completely before any of it is used: Textual's colours, and styles for drawn
lines.

A theme is a flat table of dotted keys, such as `palette.syntax.comment`, whatever format it was
written in.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from rich.style import Style
from textual.design import ColorSystem
from textual.theme import Theme

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.sanitize import one_line
from codeagent.tui.fuzzy import nearest
from codeagent.tui.rendering.palette import (
    CodeStyles,
    DiffStyles,
    MarkStyles,
    Palette,
    ProseStyles,
    TalkStyles,
)

PartT = TypeVar("PartT")

BASE_KEYS = (
    "primary",
    "secondary",
    "accent",
    "foreground",
    "background",
    "surface",
    "panel",
    "success",
    "warning",
    "error",
    "boost",
)
"""The colours that every theme must give."""
TOKENS = (
    "comment",
    "keyword",
    "name",
    "function",
    "type",
    "string",
    "number",
    "operator",
    "builtin",
    "error",
)
"""The kinds of token that code is coloured by: `palette.syntax.<token>`."""
TERMINAL_COLOURS = (
    "default",
    *("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"),
    *("bright_black", "bright_red", "bright_green", "bright_yellow"),
    *("bright_blue", "bright_magenta", "bright_cyan", "bright_white"),
)
"""The terminal's own sixteen, and its default."""
ATTRIBUTES = frozenset({"bold", "dim", "italic", "underline", "reverse", "strike"})

NAME = lazy_regex(r"[a-z][a-z0-9-]{0,39}")
"""The names that a theme may have; the name is also that of its file."""

_TEXT_STYLE_WORDS = ATTRIBUTES | {"none", "not", "b", "i", "u"}
_HEX = lazy_regex(r"#(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
_VARIABLE = lazy_regex(r"(?P<colour>\S+)(?: (?P<percent>\d{1,3})%)?")


# Variables that Textual's own style sheets use but its `ansi` themes do not define.
_ANSI_GAPS = dict.fromkeys(
    ("ansi-background", "ansi-foreground", "foreground-disabled", "surface-active"), "ansi_default"
)

# The default for a style that a theme leaves out, made from the theme's own base colours.
_DERIVED = {
    "text": "$foreground",
    "muted": "dim $foreground",
    "accent": "bold $accent",
    "user": "bold $primary",
    "heading": "bold $primary",
    "strong": "bold",
    "emphasis": "italic",
    "code": "$secondary",
    "quote": "italic $foreground",
    "link": "underline $primary",
    "rule": "dim $foreground",
    "running": "bold $accent",
    "success": "$success",
    "warning": "$warning",
    "error": "bold $error",
    "thinking": "dim italic $foreground",
    "added": "$success",
    "removed": "$error",
    "added_word": "reverse $success",
    "removed_word": "reverse $error",
    "match": "reverse $accent",
    "selection": "reverse",
    "syntax.comment": "dim italic $foreground",
    "syntax.keyword": "$primary",
    "syntax.name": "$foreground",
    "syntax.function": "$secondary",
    "syntax.type": "$accent",
    "syntax.string": "$success",
    "syntax.number": "$warning",
    "syntax.operator": "$foreground",
    "syntax.builtin": "$secondary",
    "syntax.error": "$error",
}

INK: Mapping[str, str] = {
    "name": "ink",
    "dark": "true",
    "primary": "#86b0e0",
    "secondary": "#86c1b4",
    "accent": "#e2ae70",
    "foreground": "#d5dae2",
    "background": "#14171c",
    "surface": "#1a1e25",
    "panel": "#20252e",
    "success": "#8fc48a",
    "warning": "#dcb966",
    "error": "#ec8780",
    "boost": "#262c36",
    "variables.scrollbar": "#687384",
    "variables.scrollbar-hover": "#8d97a8",
    "variables.scrollbar-active": "$primary",
    "variables.scrollbar-background": "$surface",
    "variables.scrollbar-background-hover": "$surface",
    "variables.scrollbar-background-active": "$surface",
    "variables.scrollbar-corner-color": "$background",
    "variables.screen-selection-background": "$primary 40%",
    "palette.text": "$foreground",
    "palette.muted": "#8d97a8",
    "palette.accent": "bold $accent",
    "palette.user": "bold $primary",
    "palette.heading": "bold $primary",
    "palette.strong": "bold $foreground",
    "palette.emphasis": "italic $foreground",
    "palette.code": "$secondary",
    "palette.quote": "italic #8d97a8",
    "palette.link": "underline $primary",
    "palette.rule": "#687384",
    "palette.running": "bold $accent",
    "palette.success": "$success",
    "palette.warning": "$warning",
    "palette.error": "bold $error",
    "palette.thinking": "italic #8d97a8",
    "palette.added": "$foreground on #17291d",
    "palette.removed": "$foreground on #2f1b1e",
    "palette.added_word": "bold #e4f6e2 on #2c5236",
    "palette.removed_word": "bold #fbe4e2 on #6a2f33",
    "palette.match": "#14171c on #dcb966",
    "palette.selection": "#eef2f8 on #344a68",
    "palette.syntax.comment": "italic #8d97a8",
    "palette.syntax.keyword": "#c3a5e6",
    "palette.syntax.name": "#d5dae2",
    "palette.syntax.function": "#86b0e0",
    "palette.syntax.type": "#7fc8d0",
    "palette.syntax.string": "#a5cd8f",
    "palette.syntax.number": "#e2ae70",
    "palette.syntax.operator": "#a9b4c4",
    "palette.syntax.builtin": "#86c1b4",
    "palette.syntax.error": "#ec8780",
}
"""The default theme, equal to `themes/ink.yaml`: the first frame is drawn without reading a
file."""


class BadTheme(Exception):
    """A value cannot be used; `key` is its dotted key, and the message says what is wrong."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key


@dataclass(frozen=True)
class ThemeFile:
    """A checked theme."""

    textual: Theme
    palette: Palette

    @property
    def name(self) -> str:
        return self.textual.name

    @property
    def dark(self) -> bool:
        return self.textual.dark


def theme_from(table: Mapping[str, str]) -> ThemeFile:
    """Make a theme from a table with the keys name, dark, ansi, the base colours, `variables.*` and
    `palette.*`.

    name, dark and the base colours are required; a missing style is made from the base colours.
    Raises BadTheme.
    """
    _check_keys(table)
    ansi = _flag(table, "ansi") if "ansi" in table else False
    base = {key: _colour(key, table[key], {}, ansi=ansi) for key in BASE_KEYS}
    theme = _textual_theme(_name(table["name"]), base, dark=_flag(table, "dark"), ansi=ansi)
    styles = {
        key: _style(f"palette.{key}", table.get(f"palette.{key}", _DERIVED[key]), base, ansi)
        for key in _DERIVED
    }
    theme.variables = _variables(table, base, theme)
    return ThemeFile(theme, _palette(styles))


def _palette(styles: Mapping[str, Style]) -> Palette:
    def part(kind: Callable[..., PartT]) -> PartT:
        return kind(**{name: styles[name] for name in kind.__annotations__ if name in styles})

    tokens = MappingProxyType({token: styles[f"syntax.{token}"] for token in TOKENS})
    return replace(
        part(Palette),
        talk=part(TalkStyles),
        prose=part(ProseStyles),
        code=CodeStyles(styles["code"], tokens),
        diff=part(DiffStyles),
        marks=part(MarkStyles),
    )


def _check_keys(table: Mapping[str, str]) -> None:
    known = {"name", "dark", "ansi", *BASE_KEYS, *(f"palette.{key}" for key in _DERIVED)}
    for key in table:
        if key not in known and not key.startswith("variables."):
            raise BadTheme(key, f"no such key{nearest(key, known)}")
    for key in ("name", "dark", *BASE_KEYS):
        if key not in table:
            raise BadTheme(key, "is missing")


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise BadTheme(
            "name", f"'{one_line(text, 40)}' is not lower-case letters, digits and hyphens"
        )
    return text


def _flag(table: Mapping[str, str], key: str) -> bool:
    if table[key] not in ("true", "false"):
        raise BadTheme(key, f"'{one_line(table[key], 40)}' is neither true nor false")
    return table[key] == "true"


def _colour(key: str, word: str, base: Mapping[str, str], *, ansi: bool) -> str:
    """Return a colour: `#rrggbb`, or for an `ansi` theme the name of one of the terminal's
    sixteen."""
    if word.startswith("$"):
        if word[1:] not in base:
            raise BadTheme(
                key, f"no such base colour '{one_line(word, 40)}'{nearest(word[1:], base)}"
            )
        return base[word[1:]]
    if word in TERMINAL_COLOURS:
        if ansi:
            return word
        raise BadTheme(key, f"'{word}' belongs to themes with `ansi: true`; write '#rrggbb'")
    if not _HEX.fullmatch(word):
        raise BadTheme(key, f"no such colour '{one_line(word, 40)}'")
    if ansi:
        raise BadTheme(
            key,
            f"'{word}' is not one of the terminal's own colours, and this theme says `ansi: true`",
        )
    return (
        word.lower() if len(word) == 7 else "#" + "".join(2 * digit for digit in word[1:].lower())
    )


def _for_textual(colour: str) -> str:
    return colour if colour.startswith("#") else f"ansi_{colour}"


def _textual_theme(name: str, base: Mapping[str, str], *, dark: bool, ansi: bool) -> Theme:
    colours = {key: _for_textual(colour) for key, colour in base.items()}
    return Theme(name, dark=dark, ansi=ansi, **colours)  # type: ignore[arg-type]  # every base key is a colour of it


def _style(key: str, text: str, base: Mapping[str, str], ansi: bool) -> Style:
    """Read a style such as `bold dim colour on colour`, in any order, except that a colour follows
    `on`."""
    attributes: list[str] = []
    colours: dict[str, str] = {}
    behind = False
    for word in text.split():
        if word == "on" and not behind:
            behind = True
        elif word in ATTRIBUTES and not behind:
            attributes.append(word)
        else:
            place = "on " if behind else ""
            if place in colours:
                raise BadTheme(
                    key, f"two colours in '{one_line(text, 60)}'; write 'colour on background'"
                )
            colours[place] = _colour(key, word, base, ansi=ansi)
            behind = False
    if behind:
        raise BadTheme(key, "no colour after 'on'")
    return Style.parse(
        " ".join([*attributes, *(place + colour for place, colour in colours.items())])
    )


def _variables(table: Mapping[str, str], base: Mapping[str, str], theme: Theme) -> dict[str, str]:
    given = {
        key.removeprefix("variables."): value
        for key, value in table.items()
        if key.startswith("variables.")
    }
    gaps = _ANSI_GAPS if theme.ansi else {}
    if not given:
        return dict(gaps)
    known = {*theme.to_color_system().generate(), *ColorSystem.COLOR_NAMES, *gaps}
    for name in given:
        if name not in known:
            raise BadTheme(f"variables.{name}", f"no such variable{nearest(name, known)}")
    return gaps | {
        name: _variable(f"variables.{name}", text, base, theme.ansi) for name, text in given.items()
    }


def _variable(key: str, text: str, base: Mapping[str, str], ansi: bool) -> str:
    """Check text styles if the key ends in `style`, else a colour, `transparent` or `auto`, with or
    without `NN%`.

    Raises BadTheme.
    """
    if key.endswith(("-style", "-style-hover")):
        wrong = next((word for word in text.split() if word not in _TEXT_STYLE_WORDS), None)
        if wrong is not None or not text.strip():
            raise BadTheme(key, f"no such text style '{one_line(wrong or text, 40)}'")
        return text
    parts = _VARIABLE.fullmatch(text)
    if parts is None:
        raise BadTheme(key, f"no such colour '{one_line(text, 40)}'")
    colour = parts["colour"]
    if colour not in ("transparent", "auto", "initial"):
        colour = _for_textual(_colour(key, colour, base, ansi=ansi))
    if parts["percent"] is None:
        return colour
    if colour in ("transparent", "initial") or int(parts["percent"]) > 100:
        raise BadTheme(
            key,
            f"'{one_line(text, 40)}' is not a colour with an optional percentage, such as '$accent 30%'",
        )
    return text.replace(parts["colour"], colour)
