"""Pages of facts: aligned, filtered, and Enter does what the footer says."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from codeagent.tui.facts import Bar, Caption, Fact, Facts, opened
from codeagent.tui.pages.facts import FactsPage
from codeagent.tui.pages.info import OutputScreen
from tests.table import for_each
from tests.tui.replay import ReplayApp, settled, until

LONG = "a description that is much longer than the screen is wide and therefore cut " * 2
ROWS = (
    Bar((("█", 0.25, "accent"), ("·", 0.75, "muted"))),
    Caption(("name", "count", "about")),
    Fact(cells=("first", "1,200", "short"), does="copies its name", copies="first"),
    Fact(cells=("second\x1b[2J", "7", LONG), does="opens it", opens=opened("all of it")),
    Fact(cells=("third", "31", "[b]runs[/b]"), about="It runs.", does="runs it", command="/help"),
)


@asynccontextmanager
async def page(
    folder: Path, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[Pilot[None], ReplayApp, list[str | None]]]:
    app = ReplayApp([], folder, now=0.0)
    closed: list[str | None] = []
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        await app.push_screen(FactsPage(Facts("Facts", ROWS, "3 facts")), closed.append)
        await until(pilot, lambda: "Enter copies its name" in shown(app))
        yield pilot, app, closed
    assert app.crash is None


def shown(app: ReplayApp) -> str:
    lines = app.screen._compositor.render_strips()
    return "\n".join("".join(part.text for part in line) for line in lines)


def rows(app: ReplayApp) -> list[str]:
    return [line.rstrip() for line in shown(app).splitlines() if line.strip()]


async def test_columns_are_aligned_and_numbers_end_where_their_header_ends(tmp_path: Path) -> None:
    async with page(tmp_path) as (_, app, _):
        title, bar, head, *facts = rows(app)[:6]
        ends = [
            head.index("count") + 5,
            *(
                row.index(text) + len(text)
                for row, text in zip(facts, ("1,200", "7", "31"), strict=False)
            ),
        ]
        assert len(set(ends)) == 1
        assert "3 facts" in title and bar.count("█") == 19
        assert "\x1b" not in shown(app) and "[b]runs[/b]" in shown(app)


async def test_a_cut_row_is_shown_in_full_below_the_list(tmp_path: Path) -> None:
    async with page(tmp_path) as (pilot, app, _):
        assert "therefore" not in shown(app)
        await pilot.press("down")
        await until(
            pilot,
            lambda: "than the screen is wide and therefore cut" in " ".join(shown(app).split()),
        )


@for_each(("downs", "footer"), [(0, "copies its name"), (1, "opens it"), (2, "runs it")])
async def test_the_footer_says_what_enter_does(downs: int, footer: str, tmp_path: Path) -> None:
    folder = tmp_path / str(downs)
    folder.mkdir()
    async with page(folder) as (pilot, app, closed):
        await pilot.press(*["down"] * downs)
        await until(pilot, lambda: f"Enter {footer}" in shown(app))
        await pilot.press("enter")
        match downs:
            case 0:
                await until(pilot, lambda: "copied" in shown(app))
            case 1:
                await until(pilot, lambda: isinstance(app.screen, OutputScreen))
            case _:
                await until(pilot, lambda: closed == ["/help"])


async def test_a_filter_counts_what_it_shows_and_esc_ends_it_first(tmp_path: Path) -> None:
    async with page(tmp_path) as (pilot, app, closed):
        await pilot.press("slash", *"runs")
        await until(pilot, lambda: "1 of 3" in shown(app) and "first" not in shown(app))
        assert "Enter runs it" in shown(app)
        await pilot.press("x")
        await until(pilot, lambda: "nothing matches" in shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: "3 facts" in shown(app) and "first" in shown(app))
        assert closed == []
        await pilot.press("q")
        await until(pilot, lambda: closed == [None])


async def test_a_narrow_screen_cuts_the_widest_column_only(tmp_path: Path) -> None:
    async with page(tmp_path, (40, 12)) as (_, app, _):
        assert "1,200" in shown(app) and "count" in shown(app) and "third" in shown(app)
