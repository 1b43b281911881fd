"""What a card is about: shows what waits for the user, and when it could be read."""

import time
from collections.abc import Callable

from textual import on
from textual.events import Resize
from textual.message import Message

from codeagent.tui.keymap import keymap_of
from codeagent.tui.parts.card_content import CardAct, CardContent, LazyMeaning
from codeagent.tui.parts.card_frame import CardFrame
from codeagent.tui.parts.card_keys import keep_label, letters_of
from codeagent.tui.parts.guard import Guard, ReadGate
from codeagent.tui.parts.line_pane import SPLIT_FROM, LinePane
from codeagent.tui.parts.waiting import Waiting
from codeagent.tui.state import UiState

_EDGES_AND_KEYS = 3
"""Rows of a card that are not its body."""


class ShownCard(CardFrame):
    """Shows the oldest question in full, or all waiting calls; if there are none, a pause, a plan
    or a summary.

    The card never changes what waits: an answer is shown as sent until the asker has removed the
    question.

    `do` does what the user wants. `clock` gives seconds that never go back, `now` seconds since the
    epoch. If `rings`, new content rings the bell once.
    """

    class Left(Message, namespace="card"):
        """The card gives the focus back."""

    def __init__(
        self,
        state: UiState,
        do: Callable[[CardAct], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self.rings = True
        self._state = state
        self._do = do
        self._clock = clock
        self._now = now
        self._guard = Guard(clock)
        self._gate = ReadGate(self.pane)
        self._waiting = Waiting()
        self._content: CardContent | None = None
        self._means: dict[str, LazyMeaning] = {}
        """What the keys do now, by letter."""
        self._letters: dict[str, str] = {}

    def on_mount(self) -> None:
        self.watch(self.app, "app_focus", self._window_came_back, init=False)
        for model in (self._state.approvals, self._state.boundary, self._state.status):
            model.watch(self.sync)
        self._ages = self.set_interval(1.0, self._look, pause=True)
        self.sync()

    def sync(self) -> None:
        """Show what is waiting now."""
        approvals = self._state.approvals
        self._gate.forget(approvals.waiting)
        if self._waiting.update(approvals, self._state.boundary.now) and self.rings:
            self.app.bell()
        self._show()

    @property
    def scope(self) -> str:
        """The scope of its keys: `card` for a question, `boundary` for a pause, `plan`, `summary`;
        empty if hidden."""
        return self._content.scope if self._content is not None else ""

    @property
    def is_new(self) -> bool:
        """Whether a pause, a plan or a summary has not been shown long enough to be noticed."""
        return self.scope in ("boundary", "plan", "summary") and self._guard.new

    @property
    def text(self) -> str:
        """The plan that would be started, or the summary that would be used, with the user's
        changes; empty if none waits."""
        return self._waiting.text

    def refuse(self, call_id: str, problem: str) -> bool:
        """Say why the edit of a call was refused; False if the call is gone."""
        known = self._waiting.refuse(call_id, problem)
        self._show()
        return known

    def not_sent(self) -> None:
        """Accept keys again: what the user wanted at a boundary could not be done."""
        self._waiting.not_sent()
        self._show()

    def on_resize(self, event: Resize) -> None:
        self.fit()
        self._show()
        if self._content is not None and self._content.row is not None:
            self.call_after_refresh(self.keep_on_screen, self._content.row)

    @on(LinePane.Moved)
    def _pane_moved(self, event: LinePane.Moved) -> None:
        event.stop()
        self.call_after_refresh(self._look)

    def _show(self) -> None:
        """Show what should be in front; if that has changed, the wait starts again."""
        keymap, before = keymap_of(self), self._content
        self._content = content = self._waiting.content(
            stepping=self._state.status.now.run.stepping,
            focused=self.has_focus_within,
            wide=self.pane.layout_width >= SPLIT_FROM,
            rows=self.app.size.height // 2 - _EDGES_AND_KEYS,
            now=self._now(),
            keep_key=keep_label(keymap),
        )
        self.display = content is not None
        (self._ages.pause if content is None else self._ages.resume)()
        if before is not None and (content is None or content.scope != before.scope):
            had_focus = self.has_focus_within
            self.close_line()
            self.say("")
            if had_focus:
                self.post_message(self.Left())
        if content is None:
            return
        offered = {choice.key: choice.does for choice in content.choices if choice.does is not None}
        self._means = {**content.beside, **offered}
        self._letters = letters_of(content.scope, keymap, self._means)
        if before is None or content.id != before.id:
            self._guard.appear()
            self.close_line()
        if before is None or (content.id, content.drawn_of) != (before.id, before.drawn_of):
            self.fill(content)
        self.draw(content, lambda: self._why_closed(content))

    def _why_closed(self, content: CardContent) -> str:
        """Return what to say about reading on; nothing while a page covers the card."""
        if self.app.screen is not self.screen:
            return ""
        return self._gate.why_closed(content.to_read, key=self.reading_key)

    def _look(self) -> None:
        """Record what is on screen, and update the keys as time passes."""
        if self._content is not None:
            self._gate.look(self._content.to_read)
            self._show()

    def _window_came_back(self, focused: bool) -> None:
        if focused:
            self._guard.close()
