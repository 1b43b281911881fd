"""No exception of a command, a worker, a handler or a page ends the app: it is a line, and
everything goes on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget

from codeagent.core.acts import Prompt
from codeagent.tui.actions import Action
from codeagent.tui.launcher import LaunchOptions
from codeagent.tui.pages import slash
from codeagent.tui.pages.info import TextScreen
from codeagent.tui.pages.page import Page
from codeagent.tui.parts.composer import Composer
from codeagent.tui.transcript.blocks import Remark
from tests.tui.replay import ReplayApp, settled, until
from tests.tui.scripts import Recording


@asynccontextmanager
async def chat(folder: Path) -> AsyncIterator[tuple[Pilot[None], ReplayApp]]:
    app = ReplayApp(Recording().run("x").answer("y").finish().events, folder, now=0.0)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        yield pilot, app
        assert app.ended_by is None


def errors(app: ReplayApp) -> list[str]:
    return [
        block.text
        for block in app.chat.state.document.blocks
        if isinstance(block, Remark) and block.level == "error"
    ]


async def still_works(pilot: Pilot[None], app: ReplayApp, error: str) -> None:
    """The error is a line, and what is typed afterwards is sent."""
    await until(pilot, lambda: app.screen is app.chat and bool(errors(app)))
    assert error in errors(app)[0] and "it continues" in errors(app)[0]
    app.chat.composer.focus()
    await pilot.press("h", "i", "enter")
    await until(pilot, lambda: Prompt("hi") in app.told)


def fail(*_: object, **__: object) -> Any:
    raise ValueError("a mistake of ours")


class Broken(TextScreen):
    """A page with a mistake."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("x", "fail", show=False)]

    def action_fail(self) -> None:
        fail()


class Uncomposed(TextScreen):
    def compose(self) -> ComposeResult:
        return fail()  # type: ignore[no-any-return]  # it never returns


class Undrawn(Widget):
    def render_lines(self, *_: object) -> list[Strip]:
        return fail()  # type: ignore[no-any-return]  # as above


class WithUndrawn(TextScreen):
    def compose(self) -> ComposeResult:
        yield Undrawn()


async def test_a_command_without_a_handler_is_a_line(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        slash.run(
            app.chat, Action("command.nothing", "does nothing", does="slash:nothing", group="about")
        )
        await still_works(pilot, app, "AttributeError")


async def test_a_worker_that_fails_is_a_line(tmp_path: Path) -> None:
    async def work() -> None:
        fail()

    async with chat(tmp_path) as (pilot, app):
        app.chat.run_worker(work())
        await still_works(pilot, app, "ValueError: a mistake of ours")


async def test_a_thread_that_fails_is_a_line(tmp_path: Path) -> None:
    async with chat(tmp_path) as (pilot, app):
        app.chat.run_worker(fail, thread=True)
        await still_works(pilot, app, "ValueError: a mistake of ours")


async def test_a_handler_of_the_screen_that_fails_is_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with chat(tmp_path) as (pilot, app):
        monkeypatch.setattr(app.chat.outbox, "shell", fail)
        await pilot.press("exclamation_mark", "l", "s", "enter")
        await still_works(pilot, app, "ValueError: a mistake of ours")


async def test_a_key_of_the_composer_that_fails_is_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Composer, "action_search_history", fail)
    async with chat(tmp_path) as (pilot, app):
        await pilot.press("ctrl+r")
        await still_works(pilot, app, "ValueError: a mistake of ours")


@pytest.mark.parametrize(
    ("page", "keys"),
    [(Broken, ("x",)), (Uncomposed, ()), (WithUndrawn, ())],
    ids=["key", "compose", "drawing"],
)
@pytest.mark.usefixtures("every_frame")
async def test_a_page_that_fails_closes_and_is_a_line(
    tmp_path: Path, page: type[TextScreen], keys: list[str]
) -> None:
    async with chat(tmp_path) as (pilot, app):
        app.push_screen(page("Page", "text"))
        await pilot.pause()
        await pilot.press(*keys)
        await still_works(pilot, app, "ValueError: a mistake of ours")


async def test_a_page_that_a_command_waits_for_fails_and_the_next_command_works(
    tmp_path: Path,
) -> None:
    async with chat(tmp_path) as (pilot, app):

        async def command() -> None:
            assert await app.push_screen_wait(Broken("Page", "text")) is None
            app.chat.tell("the command went on")

        app.chat.run_worker(command())
        await until(pilot, lambda: isinstance(app.screen, Page))
        await pilot.press("x")
        await until(pilot, lambda: "the command went on" in app.chat.state.status.now.screen.notice)
        await still_works(pilot, app, "ValueError: a mistake of ours")


async def test_the_report_is_written_and_no_secret_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-a-secret-of-some-length")

    async def work() -> None:
        raise ValueError("the key is sk-a-secret-of-some-length")

    async with chat(tmp_path) as (pilot, app):
        app.chat.run_worker(work())
        app.chat.run_worker(work())
        await until(pilot, lambda: len(errors(app)) == 2)
        reports = sorted((tmp_path / "state/crashes").iterdir())
        assert len(reports) == 2
        for text in (*errors(app), *(report.read_text() for report in reports)):
            assert "[secret SOME_API_KEY]" in text and "sk-a-secret" not in text


async def test_errors_without_end_end_the_app(tmp_path: Path) -> None:
    app = ReplayApp([], tmp_path, now=0.0)
    with pytest.raises(ValueError, match="a mistake of ours"):
        async with app.run_test() as pilot:
            await settled(pilot)
            for _ in range(20):
                app.chat.state.failed(ValueError("a mistake of ours"))
            await pilot.pause()
    assert isinstance(app.ended_by, ValueError) and app.return_code == 1
    assert ("close",) in app.told


async def test_an_end_while_one_conversation_takes_the_place_of_another_ends_both(
    tmp_path: Path,
) -> None:
    ended: list[int] = []
    async with chat(tmp_path) as (pilot, app):
        first, may_end = app.clients[0], asyncio.Event()

        async def close() -> None:
            await may_end.wait()
            ended.append(1)

        first.close = close  # type: ignore[method-assign]  # it takes its time
        app.run_worker(app.change_to(LaunchOptions()))
        await until(pilot, lambda: app.chat._opened is not first)
        app.exit()
        asyncio.get_running_loop().call_later(0, may_end.set)
    assert ended
