"""The review of a change by hunks and /diff as pictures, at two sizes, over the real app."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from codeagent.core.display import DiffBlock
from codeagent.tui.pages.hunk_review import HunkReview
from codeagent.tui.parts.guard import Guard
from tests.tui.fake_rewind import FakeRewind
from tests.tui.guards import long_enough
from tests.tui.replay import ReplayApp, settled
from tests.tui.scripts import Recording

SIZES = ((80, 24), (120, 40))
BEFORE = '''"""Dates as the invoices write them."""

import re


def is_leap(year: int) -> bool:
    return year % 4 == 0


def days(year: int) -> int:
    if is_leap(year):
        return 366
    return 365


def parse(text: str) -> re.Match[str] | None:
    return re.match(r"(\\d+)-(\\d+)", text)


def month_name(month: int) -> str:
    return NAMES[month]
'''
AFTER = (
    BEFORE.replace("import re\n", "import calendar\nimport re\n")
    .replace("year % 4 == 0", "year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)")
    .replace("NAMES[month]", "calendar.month_name[month]  # \u200bnot a list any more")
)
REVIEWS: dict[str, Sequence[str]] = {
    "review": ("j", "space"),
    "review-split": ("t", "j"),
    "review-edited": ("e", "end", "comma", "space", "o", "s", "ctrl+s", "j", "r"),
    "review-writing": ("j", "e", "end"),
    "review-all-lines": ("f", "end"),
}


@dataclass(frozen=True)
class Changed:
    """What /diff compares, and the keys that follow."""

    files: tuple[tuple[str, str | None, str | None], ...]
    keys: Sequence[str] = ()
    left_out: tuple[str, ...] = ()


FILES = (
    ("src/dates.py", BEFORE, AFTER),
    ("src/old_dates.py", "def leap(y):\n    return y % 4 == 0\n", None),
    (
        "tests/test_dates.py",
        None,
        "from src.dates import days\n\n\ndef test_leap():\n    assert days(2000) == 366\n",
    ),
)
CHANGES = {
    "diff": Changed(FILES, ("j",), ("data.bin: larger than 20 MiB",)),
    "diff-split": Changed(FILES, ("t",)),
    "diff-asks": Changed(FILES, ("x",)),
    "diff-deleted": Changed(FILES, ("right_square_bracket",)),
    "diff-empty": Changed((("src/dates.py", BEFORE, BEFORE),)),
    "diff-left-out": Changed(
        FILES,
        ("left_square_bracket", *["right_square_bracket"] * 3),
        ("data.bin: larger than 20 MiB",),
    ),
}


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", REVIEWS)
def test_a_change_under_review(
    name: str, size: tuple[int, int], snap_compare: Any, tmp_path: Path
) -> None:
    recording = Recording()
    app = ReplayApp(recording.events, tmp_path, now=recording.now)

    async def run(pilot: Pilot[None]) -> None:
        await settled(pilot)
        page = HunkReview(DiffBlock(path="src/dates.py", before=BEFORE, after=AFTER))
        page.guard = Guard(count().__next__)
        app.push_screen(page)
        await pilot.pause()
        for key in REVIEWS[name]:
            await pilot.pause()
            await pilot.press(key)
        await pilot.pause()
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=run)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", CHANGES)
def test_what_changed_in_the_session(
    name: str, size: tuple[int, int], snap_compare: Any, tmp_path: Path
) -> None:
    changed = CHANGES[name]
    recording = Recording()
    app = ReplayApp(recording.events, tmp_path, now=recording.now)

    async def run(pilot: Pilot[None]) -> None:
        await settled(pilot)
        app.clients[-1].past = FakeRewind(changed.files)
        app.clients[-1].past.left_out = changed.left_out
        await pilot.press(*"/diff", "enter")
        await pilot.pause()
        long_enough()
        for key in changed.keys:
            await pilot.press(key)
            await pilot.pause()
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=run)
