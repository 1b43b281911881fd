"""The page of queued messages: each can be edited, moved, and taken back into the composer."""

from collections.abc import Callable, Sequence

from textual import on
from textual.events import Resize
from textual.widgets import Input

from codeagent.core.acts import Queued, Refused, Reorder, Rewrite, TakeBack
from codeagent.core.errors import CodeagentError
from codeagent.tui.bindings import bindings
from codeagent.tui.pages.page import ListPanel
from codeagent.tui.parts.checks import fits_line
from codeagent.tui.parts.external_editor import edit_in_editor
from codeagent.tui.parts.line_input import LineInput
from codeagent.tui.parts.marked_list import MarkedList
from codeagent.tui.parts.queued import by_lane, lane_of, text_parts, title_parts
from codeagent.tui.parts.rows import HintKey
from codeagent.tui.rendering.lines import Styled
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.session_client import SessionClient
from codeagent.tui.state import QueuedMessages

_AROUND = 3
"""Rows of the panel besides the list."""
_GONE = "the agent has already read it"


class QueueList(MarkedList[Queued | str]):
    """Lists the queued texts, each lane below its title."""

    def __init__(self, queue: QueuedMessages) -> None:
        super().__init__(_rows(queue))
        self._queue = queue

    @property
    def text(self) -> Queued | None:
        """The marked text."""
        return self.marked if isinstance(self.marked, Queued) else None

    def sync(self) -> None:
        """Show the current queue; the mark stays on its text, or near where it was."""
        self.show(_rows(self._queue))

    def is_heading(self, row: Queued | str) -> bool:
        return isinstance(row, str)

    def key(self, row: Queued | str) -> object:
        return row if isinstance(row, str) else row.id

    def parts(self, row: Queued | str, width: int, palette: Palette, *, marked: bool) -> Styled:
        return (
            title_parts(row, width, palette)
            if isinstance(row, str)
            else text_parts(row, width, palette)
        )

    def place(self, step: int) -> int | None:
        """Return the index in the whole queue to which the marked text has to move to swap places
        within its lane."""
        item, items = self.text, [row for row in self._rows if isinstance(row, Queued)]
        if item is None:
            return None
        at = items.index(item) + step
        if not 0 <= at < len(items) or lane_of(items[at]) != lane_of(item):
            return None
        return self._queue.items.index(items[at])


def _rows(queue: QueuedMessages) -> list[Queued | str]:
    rows: list[Queued | str] = []
    for title, waiting in by_lane(queue.items):
        rows += [title, *waiting]
    return rows


class QueuePage(ListPanel):
    """Covers the lower part of the conversation; closes when the queue is empty."""

    BINDINGS = bindings("queue")

    def __init__(
        self, queue: QueuedMessages, client: SessionClient, restore: Callable[[str], None]
    ) -> None:
        """`restore` puts text that would otherwise be lost into the composer."""
        self.rows: QueueList
        super().__init__(
            "Queued messages", QueueList(queue), LineInput(compact=True, select_on_focus=False)
        )
        self._queue = queue
        self._client = client
        self._restore = restore
        self._edited: Queued | None = None
        """The queued text that the line was opened for."""

    def on_mount(self) -> None:
        self.title_row.tell(f"{len(self._queue.items)}")
        self.hints.show((), self.keys())
        self._queue.watch(self._sync)

    def on_unmount(self) -> None:
        self._queue.unwatch(self._sync)

    def on_resize(self, event: Resize) -> None:
        self.rows.styles.max_height = max(1, event.size.height * 3 // 4 - _AROUND)

    def keys(self) -> Sequence[HintKey]:
        words = {
            "edit": "edit",
            "later": "later",
            "earlier": "earlier",
            "take_back": "take it back",
            "close": "closes",
        }
        return [self.hint(f"queue.{name}", said) for name, said in words.items()]

    def action_shift(self, step: int) -> None:
        item = self.rows.text
        if self._edited is not None or item is None:
            return
        place = self.rows.place(step)
        if place is None:
            self.hints.tell(
                "it is the first of its lane" if step < 0 else "it is the last of its lane"
            )
            return
        self.settle()
        self._tell(self._client.do(Reorder(item.id, place)))

    def action_take_back(self) -> None:
        item = self.rows.text
        if self._edited is None and item is not None:
            self.settle()
            self._tell(self._client.do(TakeBack(item.id)))

    def action_edit(self) -> None:
        item = self.rows.text
        if self._edited is not None or item is None:
            return
        self.settle()
        if not fits_line(item.text):
            self.run_worker(self._edit_outside(item), group="edit", exclusive=True)
            return
        self._edited = item
        self.write(item.text, "keeps it", "leaves it as it was")

    @on(Input.Changed)
    def _written(self) -> None:
        self.settle()

    def _sync(self) -> None:
        """Show the current queue, after the change to it is complete."""
        self.rows.sync()
        self.call_later(self._changed)

    def _changed(self) -> None:
        waiting = self._queue.items
        self.title_row.tell(f"{len(waiting)}")
        if self._edited is not None and all(item.id != self._edited.id for item in waiting):
            self._lost(self._edited, self.line.value)
        if not waiting and self.is_current:
            self.dismiss(None)

    def sent(self, text: str) -> None:
        item = self._edited
        if item is None:
            return
        if not text.strip():
            self.hints.tell("it is empty: Esc leaves it as it was")
            return
        self.stop_writing()
        self._rewrite(item, text)

    def _rewrite(self, item: Queued, text: str) -> None:
        if text == item.text:
            return
        if (refused := self._client.do(Rewrite(item.id, text))) is not None:
            self._lost(item, text, refused.reason)

    def _lost(self, item: Queued, text: str, why: str = _GONE) -> None:
        """Put the text into the composer, because the agent was faster."""
        changed = text.strip() and text != item.text
        if changed:
            self._restore(text)
        self.stop_writing()
        self.hints.tell(f"{why}; your text is in the composer" if changed else why)

    def stop_writing(self) -> None:
        self._edited = None
        super().stop_writing()

    def _tell(self, refused: Refused | None) -> None:
        if refused is not None:
            self.hints.tell(refused.reason)

    async def _edit_outside(self, item: Queued) -> None:
        try:
            text = await edit_in_editor(self.app, item.text)
        except CodeagentError as error:
            self.hints.tell(str(error))
            return
        if text.strip():
            self._rewrite(item, text)
        else:
            self.hints.tell("the text would be empty; it was not changed")
