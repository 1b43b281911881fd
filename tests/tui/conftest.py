"""What tests of the screen share."""

import asyncio
import math
from asyncio.base_events import BaseEventLoop
from collections.abc import Iterator
from typing import Any

import pytest
from textual._compositor import Compositor
from textual.cache import LRUCache
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.css.types import CSSLocation

from tests.tui.guards import stop_time

SOON = 0.04
"""Seconds: a timer due that soon belongs to what a test waits for. Textual draws up to two frames
of 1/60 s later."""
_in_threads: set[asyncio.Future[Any]] = set()
_to_draw: set[Compositor] = set()


def remember_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what runs in threads in `_in_threads` until it has ended."""
    begin = BaseEventLoop.run_in_executor

    def run_in_executor(self: BaseEventLoop, *work: Any) -> asyncio.Future[Any]:
        future = begin(self, *work)
        _in_threads.add(future)
        future.add_done_callback(_in_threads.discard)
        return future

    monkeypatch.setattr(BaseEventLoop, "run_in_executor", run_in_executor)


async def nothing_left_to_do(min_sleep: float = 0, max_sleep: float = 1) -> None:
    """Stand in for Textual's `wait_for_idle`, which sleeps 20 ms at least and asks how much the
    processor did.

    Returns once the loop has nothing to run now or soon and no thread works for it, or after
    `max_sleep` seconds.
    """
    loop: Any = (
        asyncio.get_running_loop()
    )  # what it has to do, asyncio says in private attributes only
    ends = loop.time() + max_sleep
    while loop.time() < ends:
        await asyncio.sleep(0)
        if loop._ready:
            continue
        if working := [future for future in _in_threads if future.get_loop() is loop]:
            await asyncio.wait(
                working, timeout=ends - loop.time(), return_when=asyncio.FIRST_COMPLETED
            )
            continue
        due = [timer.when() for timer in loop._scheduled if not timer.cancelled()]
        if not due or min(due) > loop.time() + SOON:
            break
        await asyncio.sleep(max(0.0, min(due) - loop.time()))
    while _to_draw:
        _to_draw.pop().render_strips()


@pytest.fixture(autouse=True)
def stopped_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_time(monkeypatch)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    remember_threads(monkeypatch)
    for waits_for_the_next_key in ("pages.rewind_pages._PAUSE", "parts.composer._PAUSE"):
        monkeypatch.setattr(f"codeagent.tui.{waits_for_the_next_key}", 0)
    # On a busy machine every drawing is a slow one, and would put off the next by up to a quarter
    # of a second.
    monkeypatch.setattr("codeagent.tui.transcript.sheet_view._SLOW", math.inf)
    monkeypatch.setattr("textual.pilot.wait_for_idle", nothing_left_to_do)
    monkeypatch.setattr("textual.app.wait_for_idle", nothing_left_to_do)


@pytest.fixture
def every_frame() -> None:
    """Draw each frame, as on a terminal: for tests of drawing itself."""


@pytest.fixture(autouse=True)
def drawn_once_waited_for(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw what is there when a test has waited for everything, not each frame on the way; pictures
    are left alone."""
    if {"snap_compare", "every_frame"} & set(request.fixturenames):
        return
    _to_draw.clear()
    draw = Compositor.render_update

    def render_update(
        self: Compositor, full: bool = False, *rest: Any, simplify: bool = False, **more: Any
    ) -> Any:
        if simplify:  # somebody exports a picture
            return draw(self, full, *rest, simplify=simplify, **more)
        self._dirty_regions.clear()
        _to_draw.add(self)
        return None

    monkeypatch.setattr(Compositor, "render_update", render_update)
    monkeypatch.setattr("textual.screen.UPDATE_PERIOD", 0.001)


@pytest.fixture(autouse=True, scope="session")
def styles_parsed_once() -> Iterator[None]:
    """What one app has parsed of its style sheets, the next one with the same variables does not
    parse again."""
    parse = Stylesheet._parse_rules
    parsed: LRUCache[tuple[object, ...], list[RuleSet]] = LRUCache(4_096)

    def parse_once(
        sheet: Stylesheet,
        css: str,
        read_from: CSSLocation,
        is_default_rules: bool = False,
        tie_breaker: int = 0,
        scope: str = "",
    ) -> list[RuleSet]:
        key = (
            tuple(sheet._variables.items()),
            css,
            read_from,
            is_default_rules,
            tie_breaker,
            scope,
        )
        if (rules := parsed.get(key)) is None:
            parsed[key] = rules = parse(sheet, css, read_from, is_default_rules, tie_breaker, scope)
        return rules

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parse_once)
        yield
