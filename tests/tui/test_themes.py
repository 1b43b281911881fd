"""A theme is checked completely before it is used, and a refusal names file, line and key."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from codeagent.tui.settings_file import read_entries
from codeagent.tui.theme_file import BASE_KEYS, INK, TOKENS, BadTheme, theme_from
from codeagent.tui.themes import ThemeError, Themes, bundled_folder, load_theme
from tests.palettes import STYLES, styles_of

SMALL = """\
name: mine
dark: true
primary: "#88aaff"
secondary: "#88ccaa"
accent: "#ffcc88"
foreground: "#dddddd"
background: "#111111"
surface: "#181818"
panel: "#222222"
success: "#88cc88"
warning: "#cccc66"
error: "#ff8888"
boost: "#282828"
"""


def write(folder: Path, text: str, name: str = "mine") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return path


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ThemeError) as raised:
        load_theme(write(folder, text))
    return str(raised.value)


def test_a_theme_gives_textual_colours_and_a_palette(tmp_path: Path) -> None:
    text = (
        SMALL + 'variables:\n  border: "$accent 40%"\npalette:\n  added: bold $success on $panel\n'
    )
    theme = load_theme(write(tmp_path, text))
    assert (theme.name, theme.dark, theme.textual.primary) == ("mine", True, "#88aaff")
    assert theme.textual.variables == {"border": "#ffcc88 40%"}
    assert theme.palette.diff.added == Style.parse("bold #88cc88 on #222222")


def test_a_style_that_is_left_out_is_made_from_the_base_colours(tmp_path: Path) -> None:
    palette = load_theme(write(tmp_path, SMALL)).palette
    assert palette.warning == Style.parse("#cccc66")
    assert set(palette.code.tokens) == set(TOKENS)


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ("palette:\n  added: gren", "15: palette.added: no such colour 'gren'"),
        (
            "palette:\n  adedd: bold",
            "15: palette.adedd: no such key (did you mean 'palette.added'?)",
        ),
        ("colour: bold", "14: colour: no such key"),
        (
            "palette:\n  added: $acent",
            "15: palette.added: no such base colour '$acent' (did you mean 'accent'?)",
        ),
        (
            "palette:\n  added: bold #aabbcc",
            "15: palette.added: put quotes around the value: without them '#' begins a comment",
        ),
        (
            "palette:\n  added: #aabbcc",
            "15: palette.added: put quotes around the value: without them '#' begins a comment",
        ),
        ("palette:\n  added:", "15: palette.added: has no value"),
        (
            "palette:\n  added: red",
            "15: palette.added: 'red' belongs to themes with `ansi: true`; write '#rrggbb'",
        ),
        ("palette:\n  added: $accent on", "15: palette.added: no colour after 'on'"),
        (
            "palette:\n  added: $accent $error",
            "15: palette.added: two colours in '$accent $error'; write 'colour on background'",
        ),
        ("palette:\n  added: [a]", "15: palette.added: expected text, not a list"),
        (
            "variables:\n  bordr: $accent",
            "15: variables.bordr: no such variable (did you mean 'border'?)",
        ),
        ("variables:\n  border: heavy", "15: variables.border: no such colour 'heavy'"),
        (
            "variables:\n  border: $accent 300%",
            "15: variables.border: '$accent 300%' is not a colour with an optional percentage, such as '$accent 30%'",
        ),
        ("variables:\n  link-style: wavy", "15: variables.link-style: no such text style 'wavy'"),
        ("dark: false", "14: dark: is set twice, first on line 2"),
        ("dark", "15: is not YAML: could not find expected ':' (while scanning a simple key)"),
    ],
)
def test_a_mistake_is_named_with_file_line_and_key(tmp_path: Path, extra: str, said: str) -> None:
    assert refusal(tmp_path, SMALL + extra + "\n") == f"mine.yaml:{said}; the theme was not changed"


def test_what_is_missing_or_no_flag_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path, SMALL.replace("dark: true", "dark: maybe")) == (
        "mine.yaml:2: dark: 'maybe' is neither true nor false; the theme was not changed"
    )
    assert refusal(tmp_path, SMALL.replace('boost: "#282828"\n', "")) == (
        "mine.yaml:1: boost: is missing; the theme was not changed"
    )
    assert refusal(tmp_path, SMALL.replace("name: mine", "name: other")) == (
        "mine.yaml:1: name: 'other' is not the file's name; the theme was not changed"
    )


def test_a_file_that_is_no_theme_at_all_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path, "- a\n- b\n") == (
        "mine.yaml:1: expected lines of the form 'key: value'; the theme was not changed"
    )
    assert (
        refusal(tmp_path, "# " + "x" * 70_000)
        == "mine.yaml: is longer than 65,536 bytes; the theme was not changed"
    )
    (tmp_path / "mine.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(ThemeError, match=r"^mine.yaml: is not UTF-8; the theme was not changed$"):
        load_theme(tmp_path / "mine.yaml")


def test_a_value_that_would_act_on_the_terminal_is_shown_as_text(tmp_path: Path) -> None:
    assert "\x1b" not in refusal(tmp_path, SMALL + 'palette:\n  added: "\\e[2J"\n')
    assert "\x1b" not in refusal(tmp_path, SMALL + '"\\e[2J": bold\n')


@given(st.sampled_from([*BASE_KEYS, *(f"palette.{key}" for key in STYLES)]), st.text(max_size=12))
def test_any_value_is_either_a_style_or_refused(key: str, value: str) -> None:
    try:
        theme = theme_from({**INK, key: value})
    except BadTheme as problem:
        assert problem.key == key
        return
    theme.textual.to_color_system().generate()


def test_the_default_theme_that_needs_no_file_equals_its_file() -> None:
    entries = read_entries(bundled_folder() / "ink.yaml")
    assert {entry.key: entry.values[0] for entry in entries} == dict(INK)


def test_names_are_the_default_the_bundled_and_the_users_own(tmp_path: Path) -> None:
    write(tmp_path, SMALL)
    names = Themes([tmp_path]).names()
    assert names[0] == "ink"
    assert names[-1] == "mine"
    assert {"paper", "contrast", "terminal"} <= set(names)


def test_a_file_whose_name_no_theme_may_have_is_not_offered(tmp_path: Path) -> None:
    write(tmp_path, SMALL, "My theme")
    assert "My theme" not in Themes([tmp_path]).names()


def test_the_default_theme_is_had_without_reading_a_file() -> None:
    code = "from codeagent.tui.themes import Themes\nThemes().get('ink')\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"yaml", "pydantic"}.isdisjoint(done.stdout.split())


def test_an_own_theme_goes_before_a_bundled_one_and_is_read_again_when_it_changes(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, SMALL.replace("name: mine", "name: ink"), "ink")
    themes = Themes([tmp_path])
    assert themes.get("ink").textual.primary == "#88aaff"
    assert themes.get("ink") is themes.get("ink")
    path.write_text(path.read_text().replace("#88aaff", "#ffaa88"))
    os.utime(path, ns=(1, 1))
    assert themes.get("ink").textual.primary == "#ffaa88"
    assert themes.is_own("ink")
    assert not themes.is_own("paper")


def test_a_theme_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(ThemeError) as raised:
        Themes().get("papr")
    assert str(raised.value) == "unknown theme 'papr' (did you mean 'paper'?); see /theme"


def test_a_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    write(tmp_path, SMALL)
    (tmp_path / "sub").mkdir()
    with pytest.raises(ThemeError, match="unknown theme"):
        Themes([tmp_path / "sub"]).get("../mine")


def test_reading_needs_every_style_to_be_known() -> None:
    assert set(styles_of(theme_from(INK).palette)) == {
        key.removeprefix("palette.") for key in INK if "palette." in key
    }
