"""A folder that is no project is worked in only after a yes that was meant."""

from codeagent.tui.pages.opening import GIT, FolderQuestion
from codeagent.tui.parts.guard import Guard
from tests.table import for_each
from tests.tui.pages.stand_in import Clock, StandIn

TEXT = "this is your home folder, not a project"


@for_each("key", ["enter", "n", "escape", "ctrl+c"])
async def test_everything_but_y_means_no(key: str) -> None:
    app = StandIn()
    async with app.run_test() as pilot:
        app.push_screen(FolderQuestion(TEXT), app.given.append)
        await pilot.pause()
        assert f"{TEXT}: work here anyway?" in app.shown
        await pilot.press("space", "x", key)
        await pilot.pause()
        assert app.given == [False]


async def test_a_y_that_was_typed_before_the_question_could_be_read_does_not_count() -> None:
    app, clock = StandIn(), Clock()
    async with app.run_test(size=(20, 5)) as pilot:
        page = FolderQuestion(TEXT)
        page.guard = Guard(clock)
        app.push_screen(page, app.given.append)
        await pilot.pause()
        clock.now = 0.3
        await pilot.press("y")
        assert app.given == []
        clock.now = 2.0
        await pilot.press("y")
        await pilot.pause()
        assert app.given == [True]


async def test_a_git_directory_elsewhere_is_named_and_read_after_a_yes_alone() -> None:
    app, clock = StandIn(), Clock()
    async with app.run_test() as pilot:
        page = FolderQuestion("this is a worktree, at /main/.git", asks=GIT)
        page.guard = Guard(clock)
        app.push_screen(page, app.given.append)
        await pilot.pause()
        asked = "/main/.git: may commands in the sandbox read it, and may commits you approve be written to it?"
        assert asked in " ".join(app.shown.split())
        clock.now = 2.0
        await pilot.press("y")
        await pilot.pause()
        assert app.given == [True]
