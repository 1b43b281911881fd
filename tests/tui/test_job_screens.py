"""Jobs and tools as pictures, at two sizes, from recorded events with frozen time."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.tui.job_scenes import SCENES, JobScene
from tests.tui.pictures import SIZES, Album, Play
from tests.tui.replay import ReplayApp, settled


def app_of(scene: JobScene, folder: Path) -> ReplayApp:
    recording = scene.record()
    return ReplayApp(recording.events, folder, now=recording.now + scene.later, **scene.status)


def play(scene: JobScene) -> Play:
    async def run(pilot: Pilot[None]) -> None:
        await settled(pilot)
        app = pilot.app
        assert isinstance(app, ReplayApp)
        scene.prepare(app.clients[-1])
        for key in scene.keys:
            if key == "wait":
                await pilot.pause()
                async with asyncio.timeout(10):
                    # Changes that come together are drawn as one.
                    while getattr(app.screen, "_pending", None) is not None:
                        await pilot.pause()
                await pilot.pause()
            else:
                await pilot.press("slash" if key == "/" else key)
        await pilot.pause()

    return run


@pytest.fixture(scope="module")
def album() -> Album[JobScene]:
    return Album(SCENES, app_of, play, SIZES[::-1])


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCENES)
def test_a_state_of_the_background(
    name: str, size: tuple[int, int], album: Album[JobScene], snap_compare: Any, tmp_path: Path
) -> None:
    assert snap_compare(album.of(name, tmp_path), terminal_size=size)
