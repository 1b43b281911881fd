"""Draws the pictures of the screen again: `python docs/screenshot.py`."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Coroutine
from pathlib import Path

from rich.console import COLOR_SYSTEMS

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs/images"
sys.path.insert(0, str(ROOT))

from codeagent.core.display import DiffBlock, TextBlock  # noqa: E402  # likewise
from tests.e2e.product import Product, say  # noqa: E402  # likewise
from tests.e2e.screens import READY  # noqa: E402  # likewise
from tests.tui.replay import ReplayApp, settled  # noqa: E402  # the tests are found by the line above
from tests.tui.scripts import BEFORE, Recording, after_failing_tests, asks_to_edit, looked_around  # noqa: E402  # likewise
from tests.tui.test_inline import open_inline  # noqa: E402  # likewise

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
    *,
    title: str = "codeagent",
    vim: bool = False,
) -> str:
    """The screen once the keys were pressed; `depth` is what Rich calls the colours of the terminal, empty for all
    of them."""
    with tempfile.TemporaryDirectory() as folder:
        if vim:
            keys_file = Path(folder) / "config/keys.yaml"
            keys_file.parent.mkdir()
            keys_file.write_text("vim: true\n")
        app = ReplayApp(recording.events, Path(folder), now=recording.now + 12)
        async with app.run_test(size=size) as pilot:
            await settled(pilot)
            if depth:
                app.console._color_system = COLOR_SYSTEMS[depth]
            assert app.look.use(theme) == ""
            await pilot.press(*keys)
            await settled(pilot)
            return app.export_screenshot(title=title)


async def inline() -> str:
    """A turn that was printed, and the screen below it, on a real terminal."""
    with tempfile.TemporaryDirectory() as folder:
        product = Product(Path(folder) / "acme-api", Path(folder))
        product.workspace.mkdir()
        subprocess.run(["git", "init", "-q", product.workspace], check=True)  # noqa: ASYNC221  # nothing else runs
        answer = "1900 is covered by `test_leap`, 2000 by `test_century`."
        with open_inline(product, say(answer), size=(90, 18)) as screen:
            screen.send("which tests cover full centuries?", "enter")
            screen.wait_for(lambda: "test_century" in screen.text() and READY in screen.text())
            screen.send("/di")
            screen.wait_for("/diff")
            screen.wait_until_silent()
            same_length = "/home/ada/github"
            return screen.picture("codeagent --inline").replace(folder, same_length)


def pictures() -> dict[str, Coroutine[None, None, str]]:
    screen = asks_about_effects().queue("q1", "steer", "also cover 1900")
    return {
        "screen": picture(screen),
        "colours-256": picture(asks_to_edit(), (92, 24), depth="256"),
        "colours-16": picture(asks_to_edit(), (92, 24), depth="standard"),
        "colours-16-light": picture(asks_to_edit(), (92, 24), "paper", "standard"),
        "quiet": picture(after_failing_tests(), (92, 20), keys=("ctrl+o", "ctrl+o")),
        "find": picture(after_failing_tests(), (92, 24), keys=("ctrl+f", *"leap", "enter")),
        "notification": picture(
            asks_about_effects(), (90, 26), title="waiting for you · acme-api · codeagent"
        ),
        "vim": picture(
            looked_around(), (90, 22), keys=(*"tests for 1900", "escape", "b", "v", "e"), vim=True
        ),
        "inline": inline(),
        "commands": picture(Recording(), (92, 32), keys=("ctrl+p",)),
    }


if __name__ == "__main__":
    os.environ["COLORTERM"] = "truecolor"
    for name, drawn in pictures().items():
        (IMAGES / f"{name}.svg").write_text(asyncio.run(drawn), encoding="utf-8")
        print(f"wrote docs/images/{name}.svg")
