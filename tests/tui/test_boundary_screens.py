"""Stepping in and going back as pictures, at two sizes, from recorded events with frozen time."""

import time
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.tui.boundary_scenes import SCENES, BoundaryScene
from tests.tui.guards import long_enough
from tests.tui.replay import ReplayApp, settled

SIZES = ((80, 24), (120, 40))


@pytest.fixture(autouse=True)
def in_one_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def app_of(scene: BoundaryScene, folder: Path) -> ReplayApp:
    recording = scene.record()
    return ReplayApp(recording.events, folder, now=recording.now + scene.later, **scene.status)


def play(scene: BoundaryScene, app: ReplayApp) -> Any:
    async def run(pilot: Pilot[None]) -> None:
        await settled(pilot)
        scene.prepare(app.talks[-1])
        for key in scene.keys:
            if key == "wait":
                long_enough()
                await pilot.pause()
            else:
                await pilot.press(key)
        await pilot.pause()

    return run


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCENES)
def test_a_state_of_a_boundary(name: str, size: tuple[int, int], snap_compare: Any, tmp_path: Path) -> None:
    scene = SCENES[name]
    app = app_of(scene, tmp_path)

    assert snap_compare(app, terminal_size=size, run_before=play(scene, app))
