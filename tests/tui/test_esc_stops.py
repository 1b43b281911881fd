"""Whatever was typed and whatever happened: Esc closes what is open, then pauses, then stops."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from textual import events
from textual.pilot import Pilot

from codeagent.core.acts import Stop
from codeagent.tui.launcher import LaunchOptions
from codeagent.tui.parts.find_bar import FindBar
from codeagent.tui.reduce import Reducer
from tests.effort import times
from tests.tui.replay import ReplayApp
from tests.tui.scripts import MOVES, Recording

Step = str | Callable[[Recording], object]

KEYS = (
    *(
        "a",
        "y",
        "n",
        "slash",
        "at",
        "exclamation_mark",
        "question_mark",
        "1",
        "enter",
        "alt+enter",
        "tab",
        "shift+tab",
    ),
    *(
        "up",
        "down",
        "pageup",
        "pagedown",
        "ctrl+end",
        "escape",
        "ctrl+o",
        "ctrl+f",
        "ctrl+t",
        "ctrl+b",
        "ctrl+r",
    ),
    *("ctrl+p", "f1", "alt+y", "alt+r", "alt+e", "alt+c", "ctrl+u", "ctrl+c"),
)
_MOST_LAYERS = 6
"""Presses of Esc after which nothing is open, whatever was."""


class StayingApp(ReplayApp):
    """Cannot be left: a key that would quit shows nothing about Esc."""

    async def action_quit(self) -> None:
        self.chat.tell("not now")


class OneScreen:
    """One app for all examples, each with a conversation of its own; on an event loop of its
    own."""

    def __init__(self, folder: Path) -> None:
        self._runner = asyncio.Runner()
        self._recording = Recording().run("x")
        self._app = StayingApp(self._recording.events, folder, now=self._recording.now)
        self._running = self._app.run_test(size=(80, 24))
        self._pilot: Pilot[None] = self._runner.run(self._running.__aenter__())

    def close(self) -> None:
        self._runner.run(self._running.__aexit__(None, None, None))
        self._runner.close()

    def presses_until_stopped(self, steps: list[Step]) -> int:
        """How many presses of Esc it took once nothing was open any more."""
        return self._runner.run(self._play(steps))

    async def _play(self, steps: list[Step]) -> int:
        app = self._app
        while app.screen is not app.chat:
            app.pop_screen()
        app.clients.clear()
        await app.change_to(LaunchOptions())
        await app.chat.outbox.ready()
        await self._pilot.pause()
        recording = Recording().run("x")
        reducer, seen = Reducer(app.chat.state, live=True), len(recording.events)
        for step in steps:
            if isinstance(step, str):
                await self._press(step)
                continue
            step(recording)
            for event in recording.events[seen:]:
                reducer.apply(event)
            seen = len(recording.events)
        return await self._stop()

    async def _stop(self) -> int:
        if Stop() in self._app.told:
            return 0
        for _ in range(_MOST_LAYERS):
            if not self._open:
                break
            await self._press("escape")
            if Stop() in self._app.told:
                return 0
        assert not self._open
        presses = 0
        while Stop() not in self._app.told and presses < 5:
            presses += 1
            await self._press("escape")
        return presses

    @property
    def _open(self) -> bool:
        chat = self._app.chat
        writing = self._app.screen is chat and chat.focused is chat.composer
        return not writing or chat.composer.choices.is_open or chat.query_one(FindBar).display

    async def _press(self, key: str) -> None:
        self._app.post_message(events.Key(key, key if len(key) == 1 else None))
        await self._pilot.pause()


@pytest.fixture(scope="module")
def screen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneScreen]:
    screen = OneScreen(tmp_path_factory.mktemp("esc"))
    yield screen
    screen.close()


@settings(max_examples=times(8), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(st.one_of(st.sampled_from(KEYS), st.sampled_from(MOVES)), max_size=8))
def test_once_nothing_is_open_esc_esc_always_ends_the_run(
    screen: OneScreen, steps: list[Step]
) -> None:
    assert screen.presses_until_stopped(steps) <= 2
