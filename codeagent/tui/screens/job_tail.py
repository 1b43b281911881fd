"""What a job prints, as it comes: follows the end unless somebody scrolled away from it."""

from textual.events import Resize

from codeagent.tui.job_board import JobBoard
from codeagent.tui.screens.output_pane import OutputPane
from codeagent.tui.screens.output_text import OutputText
from codeagent.tui.transcript.spelling import counted

_DIM, _END = "\x1b[2m", "\x1b[0m"


class JobTail(OutputPane):
    """The end of one job's output, and its beginning while it runs."""

    def __init__(self, board: JobBoard) -> None:
        super().__init__("")
        self._board = board
        self._job_id = ""
        self._missing = 0
        self._following = True

    @property
    def following(self) -> bool:
        """Its end is on screen, and stays there."""
        return self._following

    def show(self, job_id: str) -> None:
        """Another job, from its end; or the same, with what it printed meanwhile."""
        row = self._board.get(job_id)
        if row is None:
            return
        output = self._board.output(job_id)
        lines, missing = list(output.lines()), max(0, row.lines - len(output))
        if missing:
            words = f"{_DIM}… {counted(missing, 'line', 'lines')} more: o shows everything{_END}"
            lines.insert(output.gap_at or 0, words)
        fell, self._missing = missing - self._missing, missing
        if job_id != self._job_id:
            self._job_id, self._following = job_id, True
        self.text = OutputText(lines)
        self.virtual_size = self.virtual_size.with_height(len(self.text))
        if self._following:
            self.call_after_refresh(self._to_end)
        elif fell > 0:
            self._go(self.scroll_offset.x, self.scroll_offset.y - fell)
        self.refresh()

    def on_resize(self, event: Resize) -> None:
        self._to_end()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if new_value >= self.max_scroll_y:
            self._following = True
        elif new_value < old_value:
            self._following = False

    def _to_end(self) -> None:
        if self._following:
            self._go(self.scroll_offset.x, self.max_scroll_y)
