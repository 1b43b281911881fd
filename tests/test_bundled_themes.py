"""The themes that come with codeagent: complete, readable, and in the wheel."""

import tomllib
from pathlib import Path

from rich.color import Color as RichColor
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from textual.color import Color
from textual.filter import LineFilter

from codeagent.tui.settings_file import read_entries
from codeagent.tui.theme_file import BASE_KEYS, INK, TERMINAL_COLOURS, TOKENS, ThemeFile, theme_from
from codeagent.tui.themes import Themes, for_depth
from tests.palettes import STYLES, styles_of
from tests.table import for_each

ROOT = Path(__file__).parent.parent
NAMES = sorted(path.stem for path in (ROOT / "themes").glob("*.yaml"))
GROUNDS = ("background", "surface", "panel")
DECORATION = 3.0
"""Lines and borders: what a graphical part needs."""
DECORATION_OF_SIXTEEN = 2.7
"""Black's only neighbour among VGA's colours."""
BLACK = Color(0, 0, 0)


def terminal_theme(hexes: str) -> TerminalTheme:
    colours = [Color.parse(f"#{each}").rgb for each in hexes.split()]
    return TerminalTheme(colours[0], colours[7], colours[:8], colours[8:])


TABLES = {
    "VGA": terminal_theme(
        "000000 aa0000 00aa00 aa5500 0000aa aa00aa 00aaaa aaaaaa "
        "555555 ff5555 55ff55 ffff55 5555ff ff55ff 55ffff ffffff"
    ),
    "xterm": terminal_theme(
        "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5 "
        "7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff"
    ),
}
"""What terminals show for the sixteen."""


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


@for_each("table", TABLES)
@for_each("depth", ("256", "standard"))
@for_each("name", NAMES)
def test_every_text_can_be_read_with_fewer_colours(name: str, depth: str, table: str) -> None:
    low = {
        where: round(ratio, 2)
        for where, ratio in at_depth(name, depth, TABLES[table]).items()
        if ratio < (DECORATION_OF_SIXTEEN if where[0] == "rule" else 4.5)
    }
    assert low == {}


def test_the_how_to_gives_the_least_contrast_of_each_theme() -> None:
    page = (ROOT / "docs/how-to/themes.md").read_text()
    for name in NAMES:
        assert table_row(name) in page


@for_each("depth", ("256", "standard"))
@for_each("name", [name for name in NAMES if name != "terminal"])
def test_the_lines_of_a_diff_differ_with_fewer_colours(name: str, depth: str) -> None:
    diff = {part: drawn(name, depth, part) for part in ("added", "removed", "text")}
    words = {part: drawn(name, depth, part).bgcolor for part in ("added_word", "removed_word")}
    assert len({(style.color, style.bgcolor) for style in diff.values()}) == 3
    assert len({*words.values(), diff["added"].bgcolor, diff["removed"].bgcolor}) >= 3


def test_a_user_theme_without_any_style_can_be_read_with_fewer_colours() -> None:
    bare = theme_from({key: value for key, value in INK.items() if "." not in key})
    for depth in ("256", "standard"):
        found = contrasts_at(bare, depth, TABLES["VGA"])
        low = {where: ratio for where, ratio in found.items() if ratio < 4.5}
        assert {part for part, _ in low} <= {"rule"}


def test_a_colour_drawn_by_number_is_not_changed_when_it_is_drawn_again() -> None:
    for depth in ("256", "standard"):
        theme, (draw,) = for_depth(Themes().get("dusk"), depth)
        once = draw.apply([Segment("x", theme.palette.diff.added_word)], BLACK)
        assert draw.apply(once, BLACK) == once


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


def table_row(name: str) -> str:
    """The least contrast of any text: in true colour, 256 colours, and the sixteen of VGA and of
    xterm."""
    columns = [("truecolor", "VGA"), ("256", "VGA"), ("standard", "VGA"), ("standard", "xterm")]
    least = (
        min(
            found
            for (part, _), found in at_depth(name, depth, TABLES[table]).items()
            if part != "rule"
        )
        for depth, table in columns
    )
    return f"| {name} | " + " | ".join(f"{each:.1f}" for each in least) + " |"


def drawn(name: str, depth: str, part: str) -> Style:
    theme, filters = for_depth(Themes().get(name), depth)
    return through(filters, styles_of(theme.palette)[part], theme)


def through(filters: tuple[LineFilter, ...], style: Style, theme: ThemeFile) -> Style:
    segments = [Segment("x", style)]
    for each in filters:
        segments = each.apply(segments, Color.parse(theme.textual.background or ""))
    assert segments[0].style is not None
    return segments[0].style


def at_depth(name: str, depth: str, table: TerminalTheme) -> dict[tuple[str, str], float]:
    return contrasts_at(Themes().get(name), depth, table)


def contrasts_at(
    theme: ThemeFile, depth: str, table: TerminalTheme
) -> dict[tuple[str, str], float]:
    """The ratio of each style on each ground, by both names, as a terminal of that depth draws
    it."""
    theme, filters = for_depth(theme, depth)
    styles = styles_of(theme.palette)
    grounds = {
        name: Style.from_color(bgcolor=Color.parse(getattr(theme.textual, name)).rich_color)
        for name in GROUNDS
    }
    bands = {part: Style(bgcolor=styles[part].bgcolor) for part in ("added", "removed")}
    found = {}
    for part, style in styles.items():
        own = {"its own": style} if style.bgcolor else {}
        for name, ground in (
            own or (grounds | bands if part.startswith("syntax.") else grounds)
        ).items():
            shown = through(filters, grounds["background"] + ground + style, theme)
            if depth == "standard":
                shown = Style.from_color(
                    *(each and each.downgrade(ColorSystem.STANDARD) for each in colours_of(shown))
                )
            found[part, name] = ratio(
                *(
                    Color(*(each or RichColor.default()).get_truecolor(table, foreground=front))
                    for each, front in zip(colours_of(shown), (True, False), strict=True)
                )
            )
    return found


def colours_of(style: Style) -> tuple[RichColor | None, RichColor | None]:
    return style.color, style.bgcolor


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
