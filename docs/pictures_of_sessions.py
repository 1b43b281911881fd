"""Draws the pictures of several sessions at once again: `python docs/pictures_of_sessions.py`."""

import asyncio
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs/images"
sys.path.insert(0, str(ROOT))

from codeagent.core.changes import Change  # noqa: E402  # likewise
from codeagent.core.checkpoints import Node  # noqa: E402  # likewise
from codeagent.extensions.board.page import BoardPage  # noqa: E402  # likewise
from codeagent.extensions.board.sessions import BoardRow, State  # noqa: E402  # likewise
from codeagent.extensions.worktrees.merging import MergeOffer  # noqa: E402  # likewise
from codeagent.extensions.worktrees.page import merge_picker  # noqa: E402  # likewise
from tests.tui.replay import ReplayApp, settled  # noqa: E402  # the tests are found by the line above
from tests.tui.scripts import after_failing_tests  # noqa: E402  # likewise

SESSIONS: tuple[tuple[State, str, str, float, float, str], ...] = (
    ("waiting for you", "cover 1900 in the leap days", "acme-api", 0.041, 130, "asks about edit src/dates.py"),
    ("working", "move the loans to the new API", "acme-api", 0.312, 4, "bash pytest -q tests/test_loans.py"),
    ("done", "why is the import slow?", "acme-web", 0.018, 2_400, "It imports pandas for one function."),
    ("done", "write the release notes", "acme-api", 0.009, 9_000, "The notes are in CHANGELOG.md."),
    ("failed", "sort the fixtures", "acme-web", 0.0, 90_000, "the provider refused the key"),
    ("stopped", "upgrade the linter", "acme-api", 0.12, 200_000, "bash ruff check --fix"),
)  # fmt: skip


def rows() -> tuple[BoardRow, ...]:
    return tuple(
        BoardRow(
            id=f"20261128-1900{at:02}-5e55{at:04}",
            state=state,
            title=title,
            folder=f"/home/ada/{folder}",
            cost_usd=cost,
            modified=time.time() - age,
            last=last,
            in_use=at < 2,
        )
        for at, (state, title, folder, cost, age, last) in enumerate(SESSIONS)
    )


def offers() -> tuple[MergeOffer, ...]:
    old, new = Node("file", b"a\n"), Node("file", b"b\n")
    return (
        MergeOffer(Change("src/dates.py", old, new)),
        MergeOffer(Change("src/loans.py", old, new), clashes=True),
        MergeOffer(Change("tests/test_leap.py", None, new)),
    )


async def picture(name: str, size: tuple[int, int] = (100, 24)) -> str:
    """Draw one of the pages over a conversation."""
    recording = after_failing_tests()
    with tempfile.TemporaryDirectory() as folder:
        app = ReplayApp(recording.events, Path(folder), now=recording.now + 12)
        async with app.run_test(size=size) as pilot:
            await settled(pilot)
            page = (
                BoardPage(rows, lambda session: "")
                if name == "board"
                else merge_picker(Path("/home/ada/acme-api"), offers())
            )
            await app.push_screen(page)
            await asyncio.sleep(0.5)
            await settled(pilot)
            return app.export_screenshot(title="codeagent")


if __name__ == "__main__":
    for name in ("board", "merge"):
        (IMAGES / f"{name}.svg").write_text(asyncio.run(picture(name)), encoding="utf-8")
        print(f"wrote docs/images/{name}.svg")
