"""Draws the picture at the head of the README again: `python docs/screenshot.py`."""

import asyncio
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs/images/screen.svg"
sys.path.insert(0, str(ROOT))

from tests.tui.replay import ReplayApp, settled  # noqa: E402  # the tests are found by the line above
from tests.tui.scripts import asks_to_edit  # noqa: E402  # likewise


async def picture() -> str:
    recording = asks_to_edit().queue("q1", "steer", "also cover 1900")
    with tempfile.TemporaryDirectory() as folder:
        app = ReplayApp(recording.events, Path(folder), now=recording.now + 12)
        async with app.run_test(size=(108, 34)) as pilot:
            await settled(pilot)
            return app.export_screenshot(title="codeagent")


if __name__ == "__main__":
    PICTURE.write_text(asyncio.run(picture()), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")
