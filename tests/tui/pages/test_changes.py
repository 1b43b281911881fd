"""/diff: every file that differs from the session's beginning, and a way back for each part that
was asked about."""

import asyncio

import pytest
from textual.pilot import Pilot

from codeagent.core.acts import Restore, RestoreFile
from codeagent.core.checkpoints import Node
from codeagent.tui.pages.changes import ChangesScreen
from codeagent.tui.parts.guard import Guard
from codeagent.tui.state import UiState
from tests.table import for_each
from tests.tui.fake_rewind import FakeRewind
from tests.tui.pages.stand_in import MANNERS, Clock, StandIn
from tests.tui.replay import ReplayClient

OLD = "".join(f"line {at}\n" for at in range(1, 31))
NEW = OLD.replace("line 3\n", "line three\n").replace("line 20\n", "line twenty\n")
FILES = (("src/a.py", OLD, NEW), ("new.txt", None, "x\n"), ("gone.txt", "y\n", None))


class Page:
    """The page over a past, and whether the agent works."""

    def __init__(self, files: tuple[tuple[str, str | None, str | None], ...] = FILES) -> None:
        self.rewind = FakeRewind(files)
        self.clock = Clock()
        self.client = ReplayClient(UiState(), (), None)
        self.client.past = self.rewind
        self.app = StandIn()
        self.page = ChangesScreen(self.client)
        self.page.guard = Guard(self.clock)

    async def open(self, pilot: Pilot[None]) -> None:
        self.app.push_screen(self.page, self.app.given.append)
        await self.settle(pilot)

    async def press(self, pilot: Pilot[None], *keys: str) -> None:
        for key in keys:
            self.clock.now += 1.0
            await pilot.press(key)
            await self.settle(pilot)

    async def settle(self, pilot: Pilot[None]) -> None:
        await asyncio.wait_for(self.app.workers.wait_for_complete(), 10)
        await pilot.pause()
        await pilot.pause()

    @property
    def puts(self) -> list[Restore | RestoreFile]:
        return self.rewind.told


async def test_every_file_is_listed_with_what_happened_to_it() -> None:
    page = Page()
    async with page.app.run_test(size=(80, 24)) as pilot:
        await page.open(pilot)
        assert [row.split() for row in page.app.rows[1:4]] == [
            ["▸", "src/a.py", "modified", "·", "+2", "−2"],
            ["new.txt", "added", "·", "+1", "−0"],
            ["gone.txt", "deleted", "·", "+0", "−1"],
        ]
        assert "file 1 of 3" in page.app.rows[0]
        assert "hunk 1 of 2 · line 3" in page.app.shown
        assert "line three" in page.app.shown


async def test_files_and_hunks_are_gone_through_with_keys() -> None:
    page = Page()
    async with page.app.run_test(size=(80, 24)) as pilot:
        await page.open(pilot)
        await page.press(pilot, "j")
        assert page.page.pane.current == 1
        await page.press(pilot, "]")
        assert "a new file" in page.app.shown
        await page.press(pilot, "]", "]")
        assert "deleted" in page.app.rows[5]
        assert "- y" in page.app.shown
        await page.press(pilot, "[", "[", "[")
        assert "line three" in page.app.shown


async def test_a_hunk_is_taken_back_after_a_yes_and_what_is_left_is_shown() -> None:
    page = Page()
    async with page.app.run_test(size=(80, 24)) as pilot:
        await page.open(pilot)
        await page.press(pilot, "j", "x")
        assert "revert hunk 2 of 2 in src/a.py? y yes · any other key: no" in page.app.rows[-1]
        assert page.puts == []
        await page.press(pilot, "y")
        without = Node("file", NEW.replace("line twenty\n", "line 20\n").encode())
        assert page.puts == [RestoreFile("src/a.py", without, Node("file", NEW.encode()))]
        assert "reverted: hunk 2 of 2 in src/a.py (/redo to restore)" in page.app.rows[-1]
        assert "hunk 1 of 1" in page.app.shown


@for_each("key", ["n", "escape", "enter", "x", "j", "]"])
async def test_any_key_but_yes_takes_nothing_back_and_does_nothing_else(key: str) -> None:
    page = Page()
    async with page.app.run_test(size=(80, 24)) as pilot:
        await page.open(pilot)
        await page.press(pilot, "x", key)
        assert "nothing was changed" in page.app.rows[-1]
        await page.press(pilot, "y")
        assert page.puts == []
        assert page.app.given == []
        assert page.page.pane.current == 0


@pytest.mark.parametrize(
    ("moves", "put"),
    [
        ([], RestoreFile("src/a.py", Node("file", OLD.encode()), Node("file", NEW.encode()))),
        (["]"], RestoreFile("new.txt", None, Node("file", b"x\n"))),
        (["]", "]"], RestoreFile("gone.txt", Node("file", b"y\n"), None)),
    ],
)
async def test_a_whole_file_is_taken_back(moves: list[str], put: RestoreFile) -> None:
    page = Page()
    async with page.app.run_test(size=(80, 24)) as pilot:
        await page.open(pilot)
        await page.press(pilot, *moves, "X", "y")
        assert page.puts == [put]
        assert put.path not in [row.split()[0] for row in page.app.rows[1:3]]
        assert "file 1 of 2" in page.app.rows[0] or "file 2 of 2" in page.app.rows[0]


async def test_the_question_says_where_the_user_edited_the_file_too() -> None:
    page = Page()
    page.rewind.edited = frozenset({"src/a.py"})
    async with page.app.run_test(size=(80, 24)) as pilot:
        await page.open(pilot)
        assert "you edited it, too" in page.app.rows[1]
        await page.press(pilot, "X")
        assert "revert all of src/a.py, though you edited it, too? y yes" in page.app.rows[-1]


async def test_while_the_agent_works_nothing_is_taken_back() -> None:
    page = Page()
    async with page.app.run_test(size=(120, 24)) as pilot:
        await page.open(pilot)
        page.client.running = True
        await page.press(pilot, "x", "y", "X", "y")
        assert page.puts == []
        page.client.running = False
        await page.press(pilot, "x")
        page.client.running = True
        await page.press(pilot, "y")
        assert page.puts == []
        assert "the agent is working: changes can be undone when it is done" in page.app.rows[-1]


async def test_a_refusal_is_said_in_one_line_and_everything_is_compared_again() -> None:
    page = Page()
    async with page.app.run_test(size=(80, 24)) as pilot:
        await page.open(pilot)
        await page.press(pilot, "x")
        page.rewind.refuses = "src/a.py changed since; nothing was changed"
        await page.press(pilot, "y")
        assert "src/a.py changed since; nothing was changed" in page.app.rows[-1]


async def test_without_checkpoints_the_page_says_why() -> None:
    page = Page()
    page.rewind.refuses = "no checkpoints are kept here"
    async with page.app.run_test(size=(80, 24)) as pilot:
        await page.open(pilot)
        assert "no checkpoints are kept here" in page.app.shown


@pytest.mark.parametrize("begun", [True, False])
async def test_where_nothing_changed_it_says_so(begun: bool) -> None:
    page = Page((("a", "x", "x"),))
    page.rewind.moments = page.rewind.moments if begun else ()
    async with page.app.run_test(size=(80, 24)) as pilot:
        await page.open(pilot)
        assert "no file has changed since this session began" in page.app.shown
        await page.press(pilot, "x", "X", "y", "j", "]", "t", "f", "escape")
        assert page.puts == []
        assert page.app.given == [None]


async def test_what_is_not_compared_is_listed_with_its_reasons() -> None:
    page = Page()
    page.rewind.left_out = ("data.bin: larger than 20 MiB", "vendor/x: a repository of its own")
    async with page.app.run_test(size=(80, 24)) as pilot:
        await page.open(pilot)
        assert page.app.rows[4].split() == ["(not", "compared)", "2"]
        await page.press(pilot, "]", "]", "]", "X")
        assert "data.bin: larger than 20 MiB" in page.app.shown
        assert "vendor/x: a repository of its own" in page.app.shown
        assert "no file here to revert" in page.app.rows[-1]


async def test_nothing_in_names_or_contents_acts() -> None:
    page = Page(((MANNERS, None, MANNERS),))
    async with page.app.run_test(size=(120, 24)) as pilot:
        await page.open(pilot)
        assert not any(char in page.app.shown for char in "\x1b\x07\u202e")
        assert "\\u202egnp.exe" in page.app.shown


async def test_it_stands_the_smallest_terminal_and_many_files() -> None:
    page = Page(tuple((f"file-{at:03}.txt", "a\n", "b\n") for at in range(100)))
    async with page.app.run_test(size=(20, 5)) as pilot:
        await page.open(pilot)
        await page.press(pilot, *["]"] * 5, "[", "j", "t", "f", "x", "y", "end", "q")
        assert page.puts[0].path == "file-004.txt"
        assert page.app.given == [None]
