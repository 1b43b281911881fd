"""Draws the picture of docs/how-to/attach.md again: `python docs/attach_picture.py`."""

import asyncio
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs/images/attach.svg"
sys.path.insert(0, str(ROOT))

from codeagent.core.events import MessageAdded  # noqa: E402  # the tests are found by the line above
from codeagent.core.messages import Attached, UserMessage  # noqa: E402  # likewise
from codeagent.core.notes import framed  # noqa: E402  # likewise
from codeagent.core.runtime import Mentioned  # noqa: E402  # likewise
from codeagent.tools.pictures import picture  # noqa: E402  # likewise
from codeagent.tui.parts.composer_area import ComposerArea  # noqa: E402  # likewise
from tests.extensions.attachments.drawn import chart  # noqa: E402  # likewise
from tests.tui.replay import ReplayApp, settled, until  # noqa: E402  # likewise
from tests.tui.scripts import Recording  # noqa: E402  # likewise

PROMPT = "The chart @sales.png looks wrong: is it drawn by @src/report.py:40-72 as @docs/ says?"
NEXT = "Compare it with @image:pasted-5d1c07a9 and @src/axes.py"


def attached() -> UserMessage:
    """What the prompt of the picture brought with it."""
    found = picture(chart())
    return replace(
        framed("", ""),
        attached=(
            Attached(name="sales.png", about=found.about, thumbnail=found.thumbnail),
            Attached(name="src/report.py:40-72", about="33 lines · ~410 tokens"),
            Attached(name="docs/", about="12 names · ~95 tokens"),
        ),
    )


def mentions(text: str) -> Mentioned:
    """What is typed in the picture would bring with it."""
    found = (
        Attached(name="image:pasted-5d1c07a9", about="1280×800 · 96.4 kB"),
        Attached(name="src/axes.py", about="118 lines · ~1.2k tokens"),
    )
    return Mentioned(replace(framed("", ""), attached=found) if "@" in text else None)


async def drawn(size: tuple[int, int] = (100, 34)) -> str:
    recording = Recording().run(PROMPT)
    recording.add(MessageAdded, message=attached())
    recording.answer("Yes: `report.py` cuts the axis at 40, so the first bar looks twice as high.")
    recording.finish()
    with tempfile.TemporaryDirectory() as folder:
        app = ReplayApp(recording.events, Path(folder), now=recording.now)
        async with app.run_test(size=size) as pilot:
            await settled(pilot)
            app.clients[-1].agent_shown.mentions = mentions
            app.chat.composer.insert(NEXT)
            await until(pilot, lambda: app.chat.query_one(ComposerArea).shows_attached)
            await pilot.pause()
            return app.export_screenshot(title="codeagent")


if __name__ == "__main__":
    os.environ["COLORTERM"] = "truecolor"
    PICTURE.write_text(asyncio.run(drawn()), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")
