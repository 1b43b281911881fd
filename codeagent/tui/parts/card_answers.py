"""What a card is about, and what becomes of an answer: shows what waits for the user, and sends
what they decide."""

import time
from collections.abc import Callable
from typing import assert_never

from textual.message import Message

from codeagent.core.acts import Answer
from codeagent.core.display import HunkAnswer
from codeagent.core.policy import Decision
from codeagent.tui.keymap import keymap_of
from codeagent.tui.parts.card_content import (
    CardAct,
    CardContent,
    Fill,
    KeyMeaning,
    LazyMeaning,
    MarkChoice,
    MarkRow,
    Say,
    Scroll,
    Send,
    ShowAs,
    Tell,
    Writing,
)
from codeagent.tui.parts.card_frame import CardFrame
from codeagent.tui.parts.card_keys import keep_label, letters_of
from codeagent.tui.parts.checks import fits_line
from codeagent.tui.parts.external_editor import EditorFailed, edit_in_editor
from codeagent.tui.parts.guard import Guard, ReadGate, allows
from codeagent.tui.parts.line_pane import SPLIT_FROM
from codeagent.tui.parts.waiting import Waiting
from codeagent.tui.state import UiState

_EDGES_AND_KEYS = 3
"""Rows of a card that are not its body."""


class CardAnswers(CardFrame):
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
    def plan(self) -> str:
        """The plan that would be started, with the user's changes; empty if none is ready."""
        return self._waiting.plan

    @property
    def summary(self) -> str:
        """The summary that would be used, with the user's changes; empty if none waits."""
        return self._waiting.summary

    def put_away(self) -> bool:
        """Hide a plan until Tab is pressed or another is ready; False if none is shown."""
        if self.scope != "plan":
            return False
        self._perform(ShowAs("away", True))
        self._show()
        return True

    def take_hunks(self, approval_id: str, answers: tuple[HunkAnswer, ...]) -> bool:
        """Allow these hunks of the change; False if its question is no longer waiting."""
        if not self._waiting.waits(approval_id):
            return False
        self._send(Send((Answer(approval_id, Decision("once", hunks=answers)),), "in part"))
        self._show()
        return True

    def refuse(self, call_id: str, problem: str) -> bool:
        """Say why the edit of a call was refused; False if the call is gone."""
        known = self._waiting.refuse(call_id, problem)
        self._show()
        return known

    def not_sent(self) -> None:
        """Accept keys again: what the user wanted at a boundary could not be done."""
        self._waiting.not_sent()
        self._show()

    async def write_outside(self, write: Writing) -> None:
        """Let the user write in their editor; the text is never lost."""
        try:
            text = await edit_in_editor(self.app, self._waiting.begun(write), suffix=write.suffix)
        except EditorFailed as error:
            self._do(Tell(str(error)))
            return
        finally:
            self._guard.close()
        if not self._waiting.waits(write.subject):
            back = text if text != write.text else ""
            kept = "; your text is in the composer" if back else ""
            self._do(Tell(f"the {write.about} is no longer pending{kept}", back))
            return
        if text.strip():
            self._waiting.keep(write, text)
        if problem := write.judge(text).problem if write.judge is not None else "":
            self._do(
                Tell(f"not sent: {problem}; the {write.about} waits as before; e opens it again")
            )
        elif (does := write.then(text)) is not None:
            self._perform(does)
        self._show()

    def _perform(self, does: KeyMeaning) -> None:
        """Do what a key means; a call is allowed only once all of it was on screen."""
        if allows(does) and (why := self._why_closed()):
            self.say(why)
            self.call_after_refresh(self._look)
            return
        match does:
            case Send():
                self._send(does)
            case Writing():
                self._write(does)
            case Say():
                pass  # its text is shown below
            case MarkRow() | MarkChoice():
                self._waiting.mark(does)
            case ShowAs():
                self._waiting.turn(does)
            case Fill():
                self._waiting.fill(does)
                if self.line.write is not None:
                    self.close_line()
            case Scroll():
                self.pane.turn(does.key)
            case _:
                assert_never(does)
        self.say(does.text if isinstance(does, Say) else "")

    def _why_closed(self) -> str:
        content = self._content
        if content is None or not content.to_read:
            return ""
        return self._gate.why_closed(content.to_read, whole=content.whole, key=self.reading_key)

    def _send(self, send: Send) -> None:
        if self.line.write is not None:
            self.close_line()
        for act in self._waiting.send(send).acts:
            self._do(act)

    def _write(self, write: Writing) -> None:
        """Let the user write: in the line if it can show all of the text, else in their editor."""
        begun = self._waiting.begun(write)
        if write.suffix and not (write.purpose == "command" and fits_line(begun)):
            self.run_worker(self.write_outside(write), group="edit", exclusive=True)
            return
        self.open_line(write, begun)

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
        self.draw(content, self._why_closed)

    def _look(self) -> None:
        """Record what is on screen, and update the keys as time passes."""
        if self._content is not None:
            self._gate.look(self._content.to_read)
            self._show()

    def _window_came_back(self, focused: bool) -> None:
        if focused:
            self._guard.close()
