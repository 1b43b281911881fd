"""Stepping in and going back as pictures, at two sizes, from recorded events with frozen time."""

import time
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.tui.boundary_scenes import SCENES, BoundaryScene
from tests.tui.fake_rewind import FakeRewind
from tests.tui.guards import long_enough
from tests.tui.pictures import SIZES, Album, Play
from tests.tui.replay import ReplayApp, settled


@pytest.fixture(autouse=True)
def in_one_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def app_of(scene: BoundaryScene, folder: Path) -> ReplayApp:
    recording = scene.record()
    return ReplayApp(recording.events, folder, now=recording.now + scene.later, **scene.status)


def play(scene: BoundaryScene) -> Play:
    async def run(pilot: Pilot[None]) -> None:
        await settled(pilot)
        assert isinstance(pilot.app, ReplayApp)
        client = pilot.app.clients[-1]
        client.past = FakeRewind()
        scene.prepare(client)
        for key in scene.keys:
            if key == "wait":
                long_enough()
                await pilot.pause()
            else:
                await pilot.press(key)
        await pilot.pause()

    return run


@pytest.fixture(scope="module")
def album() -> Album[BoundaryScene]:
    return Album(SCENES, app_of, play, SIZES[::-1])


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCENES)
def test_a_state_of_a_boundary(
    name: str, size: tuple[int, int], album: Album[BoundaryScene], snap_compare: Any, tmp_path: Path
) -> None:
    assert snap_compare(album.of(name, tmp_path), terminal_size=size)
