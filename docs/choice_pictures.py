"""Draws what you choose on the screen, model, theme and status line: `python docs/choice_pictures.py`."""

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from textual.pilot import Pilot

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs/images"
sys.path.insert(0, str(ROOT))

from codeagent.config.checking import checked  # noqa: E402  # the line above finds it
from codeagent.config.model_marks import MarkedModel, ModelMarksFile  # noqa: E402  # likewise
from codeagent.config.settings import Settings  # noqa: E402  # likewise
from codeagent.tui.pages.models import ModelPicker  # noqa: E402  # likewise
from codeagent.tui.pages.picker import ThemePicker  # noqa: E402  # likewise
from tests.tui.model_scenes import SILENT  # noqa: E402  # likewise
from tests.tui.replay import ReplayApp, enter, settled, until  # noqa: E402  # likewise
from tests.tui.scripts import after_failing_tests, asks_to_edit  # noqa: E402  # likewise

TEMPLATE = "{model} | {mode} on {branch} | {context} | cost {cost} | {command}"
PROGRAM = "echo kube: staging"
Play = Callable[[Pilot[None], ReplayApp, Path], Awaitable[None]]


async def model_picker(pilot: Pilot[None], app: ReplayApp, folder: Path) -> None:
    marks = ModelMarksFile(folder / "state/models.json")
    marks.toggle(MarkedModel(name="anthropic/claude-opus-4-5"))
    marks.use(MarkedModel(name="openai/gpt-5"))
    app.clients[0].launcher.offered = (SILENT,)
    await enter(pilot, "/model")
    await until(pilot, lambda: isinstance(app.screen, ModelPicker) and bool(app.screen.models))
    await pilot.press("up")


async def theme_picker(pilot: Pilot[None], app: ReplayApp, folder: Path) -> None:
    await enter(pilot, "/theme")
    await until(pilot, lambda: isinstance(app.screen, ThemePicker))
    await pilot.press("down", "down")


async def status_line(pilot: Pilot[None], app: ReplayApp, folder: Path) -> None:
    command = ["/bin/sh", "-c", PROGRAM]
    given = {"status_line": TEMPLATE, "status_command": command}
    app.chat.state.prefer(checked(Settings, given))
    line = app.chat._status_line
    await until(pilot, lambda: "staging" in line.render_line(0).text)


async def drawn(play: Play) -> str:
    recording = asks_to_edit() if play is theme_picker else after_failing_tests()
    figures = {} if play is theme_picker else {"cost_usd": 0.041, "phase": "idle"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        app = ReplayApp(recording.events, folder, now=recording.now + 12, **figures)
        async with app.run_test(size=(116, 16 if play is status_line else 32)) as pilot:
            await settled(pilot)
            await play(pilot, app, folder)
            await pilot.pause()
            return app.export_screenshot(title="codeagent")


if __name__ == "__main__":
    for play in (model_picker, theme_picker, status_line):
        path = FOLDER / f"{play.__name__.replace('_', '-')}.svg"
        path.write_text(asyncio.run(drawn(play)), encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
