"""Every state of the chat screen as a picture, at two sizes, from recorded events with frozen
time."""

import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import COLOR_SYSTEMS
from textual.pilot import Pilot

from codeagent.tui.themes import Themes
from tests.tui.guards import long_enough
from tests.tui.pictures import SIZES, Album, Play
from tests.tui.replay import ReplayApp, settled
from tests.tui.scenes import SCENES, Scene


@pytest.fixture(autouse=True)
def in_one_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def app_of(scene: Scene, folder: Path) -> ReplayApp:
    recording = scene.record()
    return ReplayApp(
        recording.events,
        folder,
        now=recording.now + scene.later,
        missing=scene.missing,
        **scene.status,
    )


def play(scene: Scene) -> Play:
    async def run(pilot: Pilot[None]) -> None:
        await settled(pilot)
        for key in scene.keys:
            if key == "wait":
                long_enough()
            else:
                await pilot.press(key)
        await pilot.pause()

    return run


@pytest.fixture(scope="module")
def album() -> Album[Scene]:
    return Album(SCENES, app_of, play)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCENES)
def test_a_state_of_the_screen(
    name: str, size: tuple[int, int], album: Album[Scene], snap_compare: Any, tmp_path: Path
) -> None:
    assert snap_compare(album.of(name, tmp_path), terminal_size=size)


THEMES = Themes().names()
IN_THEMES = {
    theme: replace(SCENES["diff-approval"], theme=theme, after=before)
    for before, theme in pairwise(("", *THEMES))
}


@pytest.fixture(scope="module")
def album_of_themes() -> Album[Scene]:
    return Album(IN_THEMES, app_of, use_theme, SIZES[:1])


def use_theme(scene: Scene) -> Play:
    async def run(pilot: Pilot[None]) -> None:
        await settled(pilot)
        assert isinstance(pilot.app, ReplayApp)
        if scene.depth:
            pilot.app.console._color_system = COLOR_SYSTEMS[scene.depth]
        assert pilot.app.look.use(scene.theme) == ""
        await pilot.pause()

    return run


@pytest.mark.parametrize("theme", THEMES)
def test_a_theme(
    theme: str, album_of_themes: Album[Scene], snap_compare: Any, tmp_path: Path
) -> None:
    assert snap_compare(album_of_themes.of(theme, tmp_path), terminal_size=SIZES[0])


SHOWN = ("ink-256", "ink-standard", "paper-256", "paper-standard")
DEPTHS = {
    name: replace(
        SCENES["diff-approval"],
        theme=name.partition("-")[0],
        depth=name.partition("-")[2],
        after=before,
    )
    for before, name in pairwise(("", *SHOWN))
}


@pytest.fixture(scope="module")
def album_of_depths() -> Album[Scene]:
    return Album(DEPTHS, app_of, use_theme, SIZES[:1])


@pytest.mark.parametrize("depth", SHOWN)
def test_a_depth_of_colour(
    depth: str, album_of_depths: Album[Scene], snap_compare: Any, tmp_path: Path
) -> None:
    assert snap_compare(album_of_depths.of(depth, tmp_path), terminal_size=SIZES[0])


async def test_without_colour_every_distinction_has_a_sign(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = app_of(SCENES["diff-approval"], tmp_path)
    async with app.run_test(size=(80, 40)) as pilot:
        await settled(pilot)
        rows = [
            list(strip) for strip in app.screen._compositor.render_strips() if strip.text.strip()
        ]
        shown = "\n".join("".join(part.text for part in row) for row in rows)
        for sign in (" - ", " + ", "✓ read", "▸ ✗ bash", "▾ ● edit", "›", "❯"):
            assert sign in shown
        coloured = {
            part.style.color.name
            for row in rows
            for part in row
            if part.style is not None and part.style.color is not None
        }
        assert coloured == {"default"}
