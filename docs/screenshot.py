"""Draws the pictures of the screen again: `python docs/screenshot.py`."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Coroutine
from pathlib import Path

from rich.console import COLOR_SYSTEMS

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs/images"
sys.path.insert(0, str(ROOT))

from codeagent.core.display import DiffBlock, TextBlock  # noqa: E402  # likewise
from tests.tui.replay import ReplayApp, settled  # noqa: E402  # the tests are found by the line above
from tests.tui.scripts import BEFORE, Recording, after_failing_tests, asks_to_edit  # noqa: E402  # likewise

LOANS = "PERIODS = {'book': 28, 'film': 7}\n\n\ndef period(kind):\n    return PERIODS[kind]\n"


def asks_about_effects() -> Recording:
    """A formatter changed two files."""
    recording = after_failing_tests()
    recording.answer("The code is not formatted yet, so that comes first.")
    recording.plan(("c5", "bash", "black src", "auto"))
    recording.start("c5", "bash", "black src", command="black src")
    untidy = BEFORE.replace("y % 4 == 0", "y%4==0")
    return recording.ask(
        "c5",
        "effects",
        "`black src` changed 2 files +2 −2",
        TextBlock(text="M src/dates.py\nM src/loans.py"),
        DiffBlock(path="src/dates.py", before=untidy, after=BEFORE, start_line=41),
        DiffBlock(path="src/loans.py", before=LOANS, after=LOANS.replace("'", '"')),
        proposal="effects(src/**)",
        by_hunk=True,
    )


async def picture(
    recording: Recording,
    size: tuple[int, int] = (108, 34),
    theme: str = "ink",
    depth: str = "",
    keys: tuple[str, ...] = (),
) -> str:
    """The screen once the keys were pressed; `depth` is what Rich calls the colours of the terminal, empty for all
    of them."""
    with tempfile.TemporaryDirectory() as folder:
        app = ReplayApp(recording.events, Path(folder), now=recording.now + 12)
        async with app.run_test(size=size) as pilot:
            await settled(pilot)
            if depth:
                app.console._color_system = COLOR_SYSTEMS[depth]
            assert app.look.use(theme) == ""
            await pilot.press(*keys)
            await settled(pilot)
            return app.export_screenshot(title="codeagent")


def pictures() -> dict[str, Coroutine[None, None, str]]:
    screen = asks_about_effects().queue("q1", "steer", "also cover 1900")
    return {
        "screen": picture(screen),
        "colours-256": picture(asks_to_edit(), (92, 24), depth="256"),
        "colours-16": picture(asks_to_edit(), (92, 24), depth="standard"),
        "colours-16-light": picture(asks_to_edit(), (92, 24), "paper", "standard"),
        "quiet": picture(after_failing_tests(), (92, 20), keys=("ctrl+o", "ctrl+o")),
        "find": picture(after_failing_tests(), (92, 24), keys=("ctrl+f", *"leap", "enter")),
        "commands": picture(Recording(), (92, 32), keys=("ctrl+p",)),
    }


if __name__ == "__main__":
    os.environ["COLORTERM"] = "truecolor"
    for name, drawn in pictures().items():
        (IMAGES / f"{name}.svg").write_text(asyncio.run(drawn), encoding="utf-8")
        print(f"wrote docs/images/{name}.svg")
