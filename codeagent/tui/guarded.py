"""An app that survives errors and ends cleanly: terminal restored, right exit code, a crash in one
line."""

import contextlib
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from textual import events, on
from textual.app import App
from textual.dom import DOMNode
from textual.driver import Driver
from textual.message import Message
from textual.widget import Widget
from textual.worker import WorkerFailed

from codeagent.tui.crash import record_crash
from codeagent.tui.driver import TerminalDriver
from codeagent.tui.terminal import TerminalGuard, guard_terminal

_MOST_ERRORS, _WITHIN = 8, 5.0
"""So many errors within so many seconds end the app: continuing would only repeat them."""
_NOBODY_LISTENS = 0.5
"""Seconds for which keys are kept for a screen on which nothing has the focus yet."""


class GuardedApp(App[None]):
    """Base class of the app; started with `run_guarded`."""

    inline = False
    """Whether it is drawn below the shell's lines; the terminal then keeps the mouse."""
    guard: TerminalGuard | None = None
    """Set while `run_guarded` runs it."""
    crash: BaseException | None = None
    """The first uncaught exception, of the app or a worker."""
    ended_by: BaseException | None = None
    """The exception that ended the app, if it could not continue."""

    class FocusGiven(Message):
        """A widget that can be typed into has the focus."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._errors: deque[float] = deque(maxlen=_MOST_ERRORS)
        self._early: list[events.Key | events.Paste] | None = []

    @on(events.Mount)
    def look_for_focus(self) -> None:
        self.watch(self.screen, "focused", self._focus_changed)
        self.set_timer(_NOBODY_LISTENS, lambda: self.post_message(self.FocusGiven()))

    async def on_event(self, event: events.Event) -> None:
        """Handle an event; keys and pastes are kept until there is a widget to type into."""
        if self._early is not None and isinstance(event, events.Key | events.Paste):
            self._early.append(event)
        else:
            await super().on_event(event)

    def _focus_changed(self, focused: object) -> None:
        if focused is not None and self._early is not None:
            # The first focused widget may have the focus only until the screen gives it to another.
            self.call_after_refresh(self.post_message, self.FocusGiven())

    async def on_guarded_app_focus_given(self) -> None:
        early = self._early or []
        self._early = None
        for event in early:
            await super().on_event(event)

    @property
    def kept_session(self) -> str:
        """The id of the session that can be resumed; empty if none has begun."""
        return ""

    def leave(self, exit_code: int) -> None:
        """End soon and in an orderly way, after a signal. The terminal was already given back."""
        self.exit(return_code=exit_code)

    async def farewell(self) -> None:
        """End what the app has started; idempotent. Awaited once the screen is gone, for whatever
        reason."""

    async def _shutdown(self) -> None:
        """Run the farewell; Textual calls this at every end except that of the process."""
        try:
            await self.farewell()
        except Exception as error:
            self.crash = self.ended_by = self.ended_by or error
        await super()._shutdown()

    @contextlib.contextmanager
    def suspend(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            if self.guard is not None:
                stack.enter_context(self.guard.lent())
            stack.enter_context(super().suspend())
            yield

    @on(Driver.SignalResume)
    def draw_again(self) -> None:
        """Draw everything after a stop: the alternate screen is empty, and Textual would only draw
        what changes."""
        self.refresh(layout=True)

    def get_driver_class(self) -> type[Driver]:
        return TerminalDriver

    def survives(self, error: BaseException) -> bool:
        """Report an uncaught error so that the app can continue; False if the app has to end."""
        return False

    def _register_child(
        self, parent: DOMNode, child: Widget, before: int | None, after: int | None
    ) -> None:
        """Guard a child's handlers: at an error Textual would end its message loop, and it would
        ignore all keys."""
        dispatch = child._dispatch_message

        async def guarded(message: Message) -> None:
            with self._surviving():
                await dispatch(message)

        child._dispatch_message = guarded  # type: ignore[method-assign]  # all its messages go through here
        super()._register_child(parent, child, before, after)

    async def _dispatch_message(self, message: Message) -> None:
        with self._surviving():
            await super()._dispatch_message(message)

    @contextlib.contextmanager
    def _surviving(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not self._continues_after(error):
                raise

    def _continues_after(self, error: BaseException) -> bool:
        """Whether the error was reported and the app continues; too many in a short time end it."""
        self.crash = self.crash or error
        if self.ended_by is not None:
            return False
        now = time.monotonic()
        self._errors.append(now)
        if len(self._errors) == _MOST_ERRORS and now - self._errors[0] < _WITHIN:
            return False
        try:
            return self.survives(error)
        except Exception:  # reporting failed, so there is nothing to continue with
            return False

    def _handle_exception(self, error: Exception) -> None:
        """Report an error instead of Textual, whose traceback shows the values of all variables,
        including secrets."""
        cause = error.error if isinstance(error, WorkerFailed) else error
        if self._continues_after(cause):
            return
        if self.ended_by is None:
            self.ended_by = cause
            self._exception = error
            self._exception_event.set()
        self._return_code = 1
        self._close_messages_no_wait()

    def panic(self, *renderables: Any) -> None:
        """End the app if Textual's input thread failed, since no more keys arrive; the arguments
        are a traceback."""
        self._errors.extend([time.monotonic()] * _MOST_ERRORS)
        self._handle_exception(RuntimeError(f"the input could not be read: {sys.exc_info()[1]!r}"))


def run_guarded(app: GuardedApp, state: Path, redact: Callable[[str], str]) -> int:
    """Run the app on this process's terminal; returns the exit code of the process.

    `state` is the state folder, for crash reports and the marker of who owns the terminal; `redact`
    removes the secrets from a report. The code is 128 + n after signal n and 1 after a crash.
    """
    with guard_terminal(state, app.leave) as guard:
        app.guard = guard
        guard.below = b"\x1b[J\r\n" if app.inline else b""
        try:
            app.run(mouse=not app.inline)
        except Exception as error:
            app.ended_by = app.ended_by or error
            guard.restore()
    if app.ended_by is not None:
        sys.stderr.write(
            record_crash(app.ended_by, state, session=app.kept_session, redact=redact) + "\n"
        )
        return 1
    return guard.exit_code or app.return_code or 0
