"""Every state of the chat screen as a picture, at two sizes, from recorded events with frozen time."""

import time
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from codeagent.tui.themes import Themes
from tests.tui.guards import long_enough
from tests.tui.replay import ReplayApp, settled
from tests.tui.scenes import SCENES, Scene

SIZES = ((80, 24), (120, 40))


@pytest.fixture(autouse=True)
def in_one_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def app_of(scene: Scene, folder: Path) -> ReplayApp:
    recording = scene.record()
    return ReplayApp(recording.events, folder, now=recording.now + scene.later, missing=scene.missing, **scene.status)


def play(scene: Scene) -> Any:
    async def run(pilot: Pilot[None]) -> None:
        await settled(pilot)
        for key in scene.keys:
            if key == "wait":
                long_enough()
            else:
                await pilot.press(key)
        await pilot.pause()

    return run


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCENES)
def test_a_state_of_the_screen(name: str, size: tuple[int, int], snap_compare: Any, tmp_path: Path) -> None:
    scene = SCENES[name]

    assert snap_compare(app_of(scene, tmp_path), terminal_size=size, run_before=play(scene))


@pytest.mark.parametrize("theme", Themes().names())
def test_a_theme(theme: str, snap_compare: Any, tmp_path: Path) -> None:
    scene = SCENES["diff-approval"]
    app = app_of(scene, tmp_path)

    async def choose(pilot: Pilot[None]) -> None:
        await play(scene)(pilot)
        assert app.use_theme(theme) == ""
        await pilot.pause()

    assert snap_compare(app, terminal_size=(80, 24), run_before=choose)
