"""A theme in force follows its file; a mistake in it is said once and the old colours stay."""

import os
from pathlib import Path

import pytest
from textual.pilot import Pilot

from codeagent.tui.app import CodeagentApp
from codeagent.tui.launcher import AppFolders, LaunchOptions
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.session_client import SessionClient
from codeagent.tui.state import UiState
from codeagent.tui.themes import ThemeSwitch, built_in, bundled_folder
from tests.tui.pages.stand_in import StandIn
from tests.tui.replay import ReplayClient, until


def own_theme(folder: Path) -> Path:
    path = folder / "mine.yaml"
    path.write_text(
        (bundled_folder() / "paper.yaml").read_text().replace("name: paper", "name: mine")
    )
    return path


def rewrite(path: Path, before: str, after: str, stamp: int) -> None:
    path.write_text(path.read_text().replace(before, after))
    os.utime(path, ns=(stamp, stamp))


async def test_a_changed_file_is_read_again_and_drawn_at_once(tmp_path: Path) -> None:
    path = own_theme(tmp_path)
    app = StandIn("mine", (tmp_path,))
    async with app.run_test() as pilot:
        rewrite(path, 'background: "#faf8f3"', 'background: "#fafafa"', 1)
        app.look.look()
        await pilot.pause()
        assert app.said == ["theme mine: read again"]
        assert app.screen.styles.background.hex.lower() == "#fafafa"
        app.look.look()
        assert len(app.said) == 1


def test_a_theme_that_the_screen_begins_with_follows_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codeagent.tui.themes._LOOK_EVERY", 0.01)
    folders = AppFolders(tmp_path / "state", tmp_path, tmp_path)
    folder = tmp_path / "themes"
    folder.mkdir()
    path = own_theme(folder)

    async def open_client(state: UiState, options: LaunchOptions) -> SessionClient:
        return ReplayClient(state, [], None)

    async def change(pilot: Pilot[object]) -> None:
        rewrite(path, 'background: "#faf8f3"', 'background: "#fafafa"', 1)
        await until(pilot, lambda: "theme mine: read again" in app.chat.view.plain_text())
        await app.action_quit()

    app = CodeagentApp(open_client, LaunchOptions(theme="mine"), folders)
    app.run(headless=True, auto_pilot=change)
    assert app.crash is None and app.look.name == "mine"


async def test_a_mistake_is_said_once_and_the_old_theme_stays(tmp_path: Path) -> None:
    path = own_theme(tmp_path)
    app = StandIn("mine", (tmp_path,))
    async with app.run_test():
        before = app.palette
        rewrite(path, "  added: ", "  aded: ", 1)
        app.look.look()
        app.look.look()
        (said,) = app.said
        assert said.startswith("mine.yaml:")
        assert said.endswith("(did you mean 'palette.added'?); the theme was not changed")
        assert app.palette is before


async def test_no_timer_runs_for_a_bundled_theme(tmp_path: Path) -> None:
    own_theme(tmp_path)
    app = StandIn("mine", (tmp_path,))
    async with app.run_test():
        assert app.look.watching
        app.look.use("ink")
        assert not app.look.watching


@pytest.mark.parametrize("name", ["ink", "paper"])
async def test_what_programs_print_is_shown_in_the_themes_colours(name: str) -> None:
    app = StandIn(name)
    async with app.run_test():
        red = app.ansi_theme.ansi_colors[1]
        assert "#{:02x}{:02x}{:02x}".format(*red) == app.themes.get(name).textual.error


async def test_a_name_that_is_not_there_changes_nothing() -> None:
    app = StandIn()
    async with app.run_test():
        assert app.look.use("inc") == "unknown theme 'inc' (did you mean 'ink'?); see /theme"
        assert app.look.name == "ink"


async def test_where_even_the_default_is_broken_the_built_in_one_is_in_force(
    tmp_path: Path,
) -> None:
    (tmp_path / "ink.yaml").write_text("name: ink\n")
    app = StandIn("paper", (tmp_path,))
    switch = ThemeSwitch(app, app.themes, paint=app.paint, tell=app.said.append)
    async with app.run_test():
        assert switch.use("ink") == "ink.yaml:1: dark: is missing; the theme was not changed"
        assert (switch.name, app.palette) == ("ink", built_in().palette)


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
async def test_without_colours_lines_are_drawn_plain(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    app = StandIn("dusk")
    async with app.run_test():
        assert app.palette == Palette()
        assert app.current_theme.ansi == (variable == "NO_COLOR")
