"""The findings of a review as a page that opens each in the editor, and the panel of a side
question."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from codeagent.core.errors import CodeagentError
from codeagent.core.events import KnownEvent
from codeagent.extensions.review import page
from codeagent.extensions.review.findings import ReviewFinding
from codeagent.extensions.review.page import AsidePanel, FindingsScreen
from tests.tui.fake_launcher import FakeLauncher
from tests.tui.replay import ReplayApp, enter, settled, until
from tests.tui.scripts import Recording

LONG = "src/" + "deep/" * 12 + "loans.py"
FOUND = (
    ReviewFinding(path="src/dates.py", line=42, severity="high", what="1900 leaps", why="Why 1."),
    ReviewFinding(path=LONG, line=7, severity="low", what="[red]kind[/red]", why="Why 2. " * 200),
)


def shown(app: ReplayApp) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


def reported(*findings: object) -> list[KnownEvent]:
    recording = Recording().run("review")
    recording.plan(("c1", "report_findings", "", "auto"))
    recording.result("c1", "report_findings", details={"findings": list(findings)})
    return recording.events


def log(app: ReplayApp, events: list[KnownEvent]) -> None:
    launcher = app.clients[-1].launcher
    assert isinstance(launcher, FakeLauncher)
    launcher.log = tuple(events)


def notice(app: ReplayApp) -> str:
    return app.chat.state.status.now.screen.notice


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)])
async def test_enter_opens_the_marked_finding_and_all_of_it_can_be_read(
    size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[str, int]] = []

    async def open_place(app: Any, workspace: Path, path: str, line: int) -> None:
        opened.append((path, line))
        if path == LONG:
            raise CodeagentError("it is gone")

    monkeypatch.setattr(page, "open_place", open_place)
    app = ReplayApp([], tmp_path, now=0.0)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        log(app, reported(*map(asdict, FOUND), {"path": "x"}, "no finding"))
        await enter(pilot, "/findings")
        await until(pilot, lambda: isinstance(app.screen, FindingsScreen))
        await pilot.press("enter")
        await until(pilot, lambda: opened == [("src/dates.py", 42)])
        assert "2 findings" in shown(app) and "✗ high" in shown(app) and "Why 1." in shown(app)
        await pilot.press("down")
        await pilot.pause()
        assert "[red]kind[/red]" in shown(app) and "· low" in shown(app)
        assert LONG in shown(app).replace("\n", "").replace(" ", "")
        await pilot.press("enter")
        await until(pilot, lambda: "it is gone" in shown(app))
        assert opened[1:] == [(LONG, 7)]
        assert app.screen.whole().count("Why") == 201  # type: ignore[attr-defined]  # the page's
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
    assert app.crash is None


async def test_without_a_review_it_says_how_to_begin_one(tmp_path: Path) -> None:
    app = ReplayApp([], tmp_path, now=0.0)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await enter(pilot, "/findings")
        await until(pilot, lambda: "/review starts one" in notice(app))
        log(app, reported())
        await enter(pilot, "/findings")
        await until(pilot, lambda: notice(app) == "the last review found nothing")


class Answers:
    """Answers a side question in two pieces, or fails; notes that it was closed."""

    def __init__(self, error: str = "") -> None:
        self.error = error
        self.closed = False

    async def ask(self, question: str) -> AsyncGenerator[str, None]:
        with self._noted():
            yield "half"
            if self.error:
                raise CodeagentError(self.error)
            yield "the **whole** answer"

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.closed = True


@pytest.mark.parametrize("error", ["", "the budget is used up"])
async def test_a_side_question_is_answered_over_the_conversation_and_esc_closes_it(
    error: str, tmp_path: Path
) -> None:
    app, answers = ReplayApp([], tmp_path, now=0.0), Answers(error)
    async with app.run_test(size=(60, 20)) as pilot:
        await settled(pilot)
        app.push_screen(AsidePanel(answers, "why \x1b[31m so?"))  # type: ignore[arg-type]  # it answers as one does
        await until(pilot, lambda: (error or "the whole answer") in shown(app))
        assert "acme-api" in shown(app) and "btw: why" in shown(app) and answers.closed
        assert app.told == []
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
    assert app.crash is None
