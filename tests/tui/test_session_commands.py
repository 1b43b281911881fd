"""/rename, /export and /fork act on the session on screen, and say what they did."""

from pathlib import Path

import pytest

from codeagent.tui.launcher import LaunchOptions
from tests.tui.fake_launcher import SESSION, FakeLauncher
from tests.tui.replay import ReplayApp, until


@pytest.fixture
def app(tmp_path: Path) -> ReplayApp:
    return ReplayApp([], tmp_path, now=0.0)


def kept(app: ReplayApp) -> list[tuple[str, str]]:
    launcher = app.clients[0].launcher
    assert isinstance(launcher, FakeLauncher)
    return launcher.kept


@pytest.mark.parametrize(
    ("line", "done", "said"),
    [
        ("/rename Leap years", ("title", "Leap years"), "title: Leap years"),
        ("/rename", ("title", ""), "no longer has a title"),
        ("/export a.html", ("export", "a.html"), "a.html"),
        ("/export", ("export", "codeagent-"), ".md"),
    ],
)
async def test_it_is_done_to_this_session_and_told(
    app: ReplayApp, line: str, done: tuple[str, str], said: str
) -> None:
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.settled)
        app.chat.composer.set_text(line)
        await pilot.press("enter")
        await until(pilot, lambda: bool(kept(app)))
        [(what, value)] = kept(app)
        assert what == done[0] and value.startswith(done[1])
        await until(pilot, lambda: said in app.chat.state.status.now.screen.notice)


@pytest.mark.parametrize(("line", "before"), [("/fork", "None"), ("/fork 3", "3")])
async def test_a_fork_is_continued_on_the_screen(app: ReplayApp, line: str, before: str) -> None:
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.settled)
        app.chat.composer.set_text(line)
        await pilot.press("enter")
        await until(pilot, lambda: len(app.clients) == 2)
        assert kept(app) == [("fork", before)]
        assert app.chat.launch_options == LaunchOptions(proceed=True, resume=SESSION)


@pytest.mark.parametrize("argument", ["0", "x", "-1", "1.5"])
async def test_a_fork_takes_nothing_but_the_number_of_a_prompt(
    app: ReplayApp, argument: str
) -> None:
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.settled)
        app.chat.composer.set_text(f"/fork {argument}")
        await pilot.press("enter")
        await until(pilot, lambda: "from 1" in app.chat.state.status.now.screen.notice)
        assert kept(app) == [] and len(app.clients) == 1
