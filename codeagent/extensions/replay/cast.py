"""Records the real screen without a terminal: what it writes, when, and a picture of it at the
end."""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from textual.app import App
from textual.driver import Driver
from textual.drivers.headless_driver import HeadlessDriver
from textual.pilot import Pilot

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CodeagentError
from codeagent.tui.app import CodeagentApp
from codeagent.tui.launcher import AppFolders, LaunchOptions
from codeagent.tui.pages.chat import OpenClient

Size = tuple[int, int]
"""Columns and rows."""
Written = tuple[tuple[float, str], ...]
"""The written pieces, each with its time in seconds from the beginning."""
IDLE = 2.0
"""Seconds of the longest pause without changes; longer ones are cut."""
_LOOK_EVERY = 0.5
"""Seconds between two checks whether the screen has ended."""
_ALTERNATE_SCREEN = "\x1b[?1049h\x1b[?25l"
_LOADED = re.compile(r"\s*@font-face\s*\{[^}]*\}")
"""The fonts that an exported picture would load from the network."""


@dataclass(frozen=True)
class Cast:
    """A recording of the screen."""

    size: Size
    written: Written
    last: str
    """The screen at the end, as SVG that loads nothing."""

    def asciinema(self, title: str, at: float) -> str:
        """Return the recording in asciinema's format, version 2; `at` is in seconds since the
        epoch."""
        width, height = self.size
        head = {
            "version": 2,
            "width": width,
            "height": height,
            "timestamp": int(at),
            "idle_time_limit": IDLE,
        }
        rows: list[object] = [head | {"title": title, "env": {"TERM": "xterm-256color"}}]
        rows += [[round(when, 3), "o", text] for when, text in self.written]
        return "".join(f"{json.dumps(row)}\n" for row in rows)


class _CastDriver(HeadlessDriver):
    """Keeps what the screen writes instead of sending it to a terminal."""

    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        assert isinstance(app, _RecordedApp)
        self._keep = app.keep

    @property
    def is_headless(self) -> bool:
        """Return False, as Textual draws nothing for a headless driver."""
        return False

    def write(self, data: str) -> None:
        self._keep(data)


class _RecordedApp(CodeagentApp):
    """The app with a driver that keeps what it draws."""

    def __init__(self, keep: Callable[[str], None], *given: Any) -> None:
        self.keep = keep
        super().__init__(*given)

    def get_driver_class(self) -> type[Driver]:
        return _CastDriver


async def record(
    open_client: OpenClient,
    options: LaunchOptions,
    folders: AppFolders,
    size: Size,
    *,
    begun: Callable[[], bool],
    shown: Callable[[], Awaitable[None]],
) -> Cast:
    """Record the screen until `shown` returns; time passes from when `begun` says so, and no wait
    is longer than IDLE.

    Raises CodeagentError if the screen ends before.
    """
    written = [(0.0, _ALTERNATE_SCREEN)]
    pictures: list[str] = []
    before = time.monotonic()

    def keep(data: str) -> None:
        nonlocal before
        passed, before = min(time.monotonic() - before, IDLE), time.monotonic()
        if not pictures:
            written.append((written[-1][0] + (passed if begun() else 0.0), data))

    async def watch(pilot: Pilot[object]) -> None:
        showing = asyncio.ensure_future(shown())
        while app.is_running and not showing.done():
            await asyncio.wait({showing}, timeout=_LOOK_EVERY)
        if not showing.done():
            showing.cancel()
            return
        await showing
        await pilot.pause()  # a card that came last takes its room first
        app.chat.view.flush()
        await pilot.pause()
        pictures.append(_to_keep(app.export_screenshot(title=app.TITLE)))
        await app.action_quit()

    app = _RecordedApp(keep, open_client, options, folders)
    await app.run_async(size=size, mouse=False, auto_pilot=watch)
    if (task := asyncio.current_task()) is not None and task.cancelling():
        raise asyncio.CancelledError  # Textual treats it as an ordinary end
    if app.ended_by is not None or not pictures:
        why = f" ({type(app.ended_by).__name__})" if app.ended_by is not None else ""
        raise CodeagentError(
            f"the screen could not be recorded{why}; nothing was written"
        ) from app.ended_by
    return Cast(size, tuple(written), pictures[0])


def _to_keep(picture: str) -> str:
    """Return an exported picture that loads nothing, and whose spaces every program draws: some
    leave out those at the ends of a piece of text otherwise."""
    return _LOADED.sub("", picture).replace("<svg ", '<svg xml:space="preserve" ', 1)
