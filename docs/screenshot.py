"""Draws the pictures of the screen in README and docs again: `python docs/screenshot.py`."""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs/images"
sys.path.insert(0, str(ROOT))

from codeagent.core.display import DiffBlock, TextBlock  # noqa: E402  # likewise
from tests.e2e.product import Product, say  # noqa: E402  # likewise
from tests.e2e.screens import READY  # noqa: E402  # likewise
from tests.tui.replay import ReplayApp, settled  # noqa: E402  # the tests are found by the line above
from tests.tui.scripts import BEFORE, Recording, after_failing_tests, looked_around  # noqa: E402  # likewise
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


async def screen() -> str:
    """The picture at the head of the README."""
    recording = asks_about_effects().queue("q1", "steer", "also cover 1900")
    return await drawn(recording, (108, 34))


async def notification() -> str:
    """A window that is titled while the agent waits."""
    return await drawn(asks_about_effects(), (90, 26), "waiting for you · acme-api · codeagent")


async def vim() -> str:
    """Normal mode of the composer."""
    keys = ("escape", "b", "v", "e")
    return await drawn(looked_around(), (90, 22), typed="say which tests cover 1900", keys=keys)


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
            return screen.picture("codeagent --inline").replace(
                folder, "/home/ada/github"
            )  # as long


async def drawn(
    recording: Recording,
    size: tuple[int, int],
    title: str = "codeagent",
    *,
    typed: str = "",
    keys: tuple[str, ...] = (),
) -> str:
    """Draw a recording with a text in the composer; `keys` are pressed with vim's keys on."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config"
        config.mkdir()
        (config / "keys.yaml").write_text(f"vim: {'true' if keys else 'false'}\n")
        app = ReplayApp(recording.events, Path(folder), now=recording.now + 12)
        async with app.run_test(size=size) as pilot:
            await settled(pilot)
            app.chat.composer.set_text(typed)
            await pilot.press(*keys)
            await pilot.pause()
            return app.export_screenshot(title=title)


PICTURES = (screen, notification, vim, inline)
"""Each draws `NAME.svg`."""


if __name__ == "__main__":
    for draw in PICTURES:
        path = FOLDER / f"{draw.__name__}.svg"
        path.write_text(asyncio.run(draw()), encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
