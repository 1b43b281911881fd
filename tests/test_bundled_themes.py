"""The themes that come with codeagent: complete, readable, and in the wheel."""

import tomllib
from pathlib import Path

from rich.color import Color as RichColor
from textual.color import Color

from codeagent.tui.settings_file import read_entries
from codeagent.tui.theme_file import BASE_KEYS, TERMINAL_COLOURS, TOKENS, ThemeFile
from codeagent.tui.themes import Themes
from tests.palettes import STYLES, styles_of
from tests.table import for_each

ROOT = Path(__file__).parent.parent
NAMES = sorted(path.stem for path in (ROOT / "themes").glob("*.yaml"))
GROUNDS = ("background", "surface", "panel")
DECORATION = 3.0
"""Lines and borders: what a graphical part needs."""


def least(name: str) -> float:
    return 7.0 if name == "contrast" else 4.5


def test_there_is_a_choice() -> None:
    themes = [Themes().get(name) for name in NAMES]
    assert len(themes) >= 7
    assert {theme.dark for theme in themes} == {True, False}
    assert [theme.name for theme in themes if theme.textual.ansi] == ["terminal"]


@for_each("name", NAMES)
def test_a_bundled_theme_sets_every_key_itself(name: str) -> None:
    keys = {entry.key for entry in read_entries(ROOT / "themes" / f"{name}.yaml")}
    styles = {f"palette.{key}" for key in STYLES} | {f"palette.syntax.{token}" for token in TOKENS}
    assert keys >= {"name", "dark", *BASE_KEYS, *styles}


@for_each("name", [name for name in NAMES if name != "terminal"])
def test_every_text_can_be_read_on_every_ground(name: str) -> None:
    theme = Themes().get(name)
    low = {
        (part, ground): round(ratio, 2)
        for part, ground, ratio in contrasts(theme)
        if ratio < (DECORATION if part == "rule" else least(name))
    }
    assert low == {}


@for_each("name", NAMES)
def test_every_variable_of_a_bundled_theme_is_a_colour_or_a_style(name: str) -> None:
    variables = Themes().get(name).textual.to_color_system().generate()
    for key, value in variables.items():
        if not key.endswith(("-style", "-style-hover", "link-background")):
            assert value.startswith("auto ") or Color.parse(value.split(" ")[0])


def test_a_theme_of_the_terminals_colours_defines_what_every_other_theme_defines() -> None:
    """Textual's style sheets refer to these, and one that is missing would end the app."""
    others, own = (
        set(Themes().get(name).textual.to_color_system().generate()) for name in ("ink", "terminal")
    )
    assert others - own == set()


def test_the_sixteen_colour_theme_uses_only_the_terminals_own() -> None:
    theme = Themes().get("terminal")
    colours = [
        colour
        for style in styles_of(theme.palette).values()
        for colour in (style.color, style.bgcolor)
        if colour
    ]
    assert {colour.name for colour in colours} <= set(TERMINAL_COLOURS)
    base = [getattr(theme.textual, key) for key in BASE_KEYS]
    assert all(
        colour.startswith("ansi_")
        for colour in [*base, *theme.textual.variables.values()]
        if colour != "reverse"
    )


def test_the_wheel_takes_the_themes_along() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included["themes"] == "codeagent/tui/bundled_themes"


def contrasts(theme: ThemeFile) -> list[tuple[str, str, float]]:
    """Part, what it is drawn on, and the ratio of their luminances."""
    grounds = {name: Color.parse(getattr(theme.textual, name)) for name in GROUNDS}
    diffs = {name: rich(getattr(theme.palette.diff, name).bgcolor) for name in ("added", "removed")}
    found = []
    for part, style in styles_of(theme.palette).items():
        own = {} if style.bgcolor is None else {"its own": rich(style.bgcolor)}
        for ground, colour in (
            own or (grounds | diffs if part.startswith("syntax.") else grounds)
        ).items():
            found.append((part, ground, ratio(rich(style.color), colour)))
    for key in ("primary", "secondary", "accent", "foreground", "success", "warning", "error"):
        colour = Color.parse(getattr(theme.textual, key))
        found.extend((key, ground, ratio(colour, behind)) for ground, behind in grounds.items())
    return found


def rich(colour: RichColor | None) -> Color:
    assert colour is not None
    return Color.from_rich_color(colour)


def ratio(one: Color, other: Color) -> float:
    """From 1 to 21, as the accessibility guidelines of the web define it."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: Color) -> float:
    def linear(part: int) -> float:
        share = part / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    return 0.2126 * linear(colour.r) + 0.7152 * linear(colour.g) + 0.0722 * linear(colour.b)
