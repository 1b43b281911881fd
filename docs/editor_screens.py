"""Draws the pictures of the how-tos about reviews and editors again: `python
docs/editor_screens.py`."""

import asyncio
import sys
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs/images"
sys.path.insert(0, str(ROOT))

from textual.screen import ModalScreen  # noqa: E402  # as the package below, from this tree

from codeagent.extensions.review.findings import ReviewFinding  # noqa: E402  # likewise
from codeagent.extensions.review.page import AsidePanel, FindingsScreen  # noqa: E402  # likewise
from tests.tui.replay import ReplayApp, settled  # noqa: E402  # likewise
from tests.tui.scripts import Recording, running_tests  # noqa: E402  # likewise

FINDINGS = (
    ReviewFinding(
        path="src/dates.py",
        line=42,
        severity="high",
        what="1900 counts as a leap year",
        why="`y % 4 == 0` is also true for centuries, so `days(1900)` is 366 and every later date is "
        "off by one. Add `and (y % 100 != 0 or y % 400 == 0)`, and a test for 1900 and 2000.",
    ),
    ReviewFinding(
        path="src/loans.py",
        line=7,
        severity="medium",
        what="an unknown kind raises KeyError in the middle of a request",
        why="Return the default period, or refuse the kind where it is read.",
    ),
    ReviewFinding(
        path="tests/test_dates.py",
        line=3,
        severity="low",
        what="the new branch has no test",
        why="Nothing calls `days` with a century.",
    ),
)
ANSWER = (
    "Because `test_leap` needs the fixture that the first call writes. I run it again once "
    "`src/dates.py` is changed:\n\n- first the edit you allowed\n- then `pytest -q tests`"
)


class Answered:
    """Has answered a side question."""

    async def ask(self, question: str) -> AsyncGenerator[str, None]:
        yield ANSWER


def places() -> Recording:
    recording = Recording().run("why does the build fail?")
    recording.plan(("c1", "bash", "make check", "auto"))
    recording.start("c1", "bash", "make check", command="make check")
    printed = "src/dates.py:42: error: incompatible return type\nFound 1 error in 1 file"
    recording.output("c1", "bash", printed)
    recording.result("c1", "bash", printed)
    recording.end_batch(executed=1)
    return recording.answer(
        "`days` returns a string since the last change, see `src/dates.py:42`. Its caller in "
        "src/loans.py:7 expects a number."
    )


async def draw(recording: Recording, screen: ModalScreen[Any] | None, size: tuple[int, int]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "acme-api"
        (workspace / "src").mkdir(parents=True)
        for name in ("dates", "loans"):
            (workspace / f"src/{name}.py").write_text("")
        app = ReplayApp(recording.events, Path(folder), now=recording.now)
        async with app.run_test(size=size) as pilot:
            await settled(pilot)
            app.chat.view.use_workspace(workspace)
            if screen is not None:
                app.push_screen(screen)
                await pilot.pause(0.5)
            await pilot.pause()
            return app.export_screenshot(title="codeagent")


async def pictures() -> dict[str, str]:
    question = "why did you skip the second test?"
    working = running_tests()
    return {
        "findings": await draw(Recording(), FindingsScreen(FINDINGS, ROOT), (100, 22)),
        "btw": await draw(working, AsidePanel(Answered(), question), (100, 26)),  # type: ignore[arg-type]  # it answers as one does
        "places": await draw(places(), None, (100, 26)),
    }


if __name__ == "__main__":
    for name, drawn in asyncio.run(pictures()).items():
        (PICTURES / f"{name}.svg").write_text(drawn, encoding="utf-8")
        print(f"wrote docs/images/{name}.svg")
