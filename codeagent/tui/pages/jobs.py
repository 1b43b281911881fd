"""The page of background jobs, running and ended: follow their output, stop them, send them
text."""

import time
from collections.abc import Callable

from rich.cells import cell_len, set_cell_size
from textual import on
from textual.containers import Vertical
from textual.events import Resize
from textual.timer import Timer

from codeagent.core.acts import SendToJob, StopJob, StopTrigger
from codeagent.core.errors import CodeagentError
from codeagent.core.jobs import Job, JobStatus
from codeagent.tui.bindings import bindings
from codeagent.tui.pages.escape import AGAIN
from codeagent.tui.pages.info import OutputScreen
from codeagent.tui.pages.page import ListPanel
from codeagent.tui.parts.line_input import LineInput
from codeagent.tui.parts.marked_list import MarkedList
from codeagent.tui.parts.output import JobTail
from codeagent.tui.parts.rows import HintKey, Part, TitleRow, fit, joined_width, styled
from codeagent.tui.rendering.lines import Styled, cut_end, flat
from codeagent.tui.rendering.palette import Palette, StyleName
from codeagent.tui.session_client import SessionClient
from codeagent.tui.state import JobBoard, UiState
from codeagent.tui.transcript.spelling import counted, whole

_STYLES: dict[JobStatus, StyleName] = {
    "running": "running",
    "done": "success",
    "failed": "error",
    "stopped": "warning",
    "lost": "warning",
    "waiting": "accent",
}
_WORD = 7
"""The width of `running` and `stopped`, in cells."""
_LONGEST_ID = 10
_TOGETHER = 0.05
"""Seconds within which changes are drawn together."""
_SMALL = 30
"""Rows up to which the panel covers the whole screen."""


def ports_text(row: Job) -> str:
    """Return `port 8000`, `ports 8000, 8001`, or an empty text if the job does not listen."""
    if not row.ports:
        return ""
    return f"port{'s' if len(row.ports) > 1 else ''} {', '.join(map(str, row.ports))}"


def stop_of(row: Job) -> StopJob | StopTrigger:
    """Return the act that stops the job or the trigger."""
    return StopTrigger(row.id) if row.status == "waiting" else StopJob(row.id)


class JobList(MarkedList[Job]):
    """Lists the jobs. `clock` gives seconds since the epoch."""

    def __init__(self, board: JobBoard, marked: str = "", *, clock: Callable[[], float]) -> None:
        """`marked` is the id of the job to mark first; if there is no such job, the newest running
        one is marked."""
        rows = [row.id for row in board.rows]
        running = [row.id for row in board.rows if row.status == "running"]
        super().__init__(
            board.rows, mark=marked if marked in rows else (running or rows or [""])[-1]
        )
        self._board = board
        self._clock = clock

    def key(self, row: Job) -> object:
        return row.id

    @property
    def marked(self) -> Job | None:
        """The marked job as it is now, even if the list was not drawn since."""
        marked = super().marked
        return None if marked is None else self._board.get(marked.id)

    def sync(self) -> None:
        """Draw the jobs as they are now; the mark stays on its job."""
        self.show(self._board.rows)

    def parts(self, row: Job, width: int, palette: Palette, *, marked: bool) -> Styled:
        head = f"{cut_end(flat(row.id), _LONGEST_ID):<6}  "
        room = max(0, width - cell_len(head) - _WORD - 2)
        facts = fit(self._facts(row), room * 3 // 5)
        beside = joined_width(facts) if facts and joined_width(facts) <= room * 3 // 5 else 0
        about = max(0, room - beside - (2 if beside else 0))
        parts: Styled = [
            (head, palette.text),
            (f"{row.status:<{_WORD}}  ", palette.named(_STYLES[row.status])),
            (set_cell_size(cut_end(flat(row.title), about), about), palette.text),
        ]
        return [*parts, ("  ", None), *styled(facts, palette)] if beside else parts

    def _facts(self, row: Job) -> tuple[Part, ...]:
        return (
            Part(ports_text(row), 3, "accent"),
            Part(f"exit {row.exit_code}" if row.exit_code else "", 2, "error"),
            Part(counted(row.lines, "line") if row.lines else "", 0),
            Part("" if row.status == "lost" else whole(row.seconds(self._clock())), 1),
        )


class JobsScreen(ListPanel):
    """Covers the lower part of the conversation, which continues; on a small screen it covers all
    of it."""

    DEFAULT_CSS = """
    JobsScreen {
        & > Vertical { height: 75%; }
        & > Vertical.-whole { height: 100%; }
        & JobTail { padding: 0 1 0 3; }
    }
    """
    BINDINGS = bindings("jobs")

    def __init__(
        self,
        state: UiState,
        client: SessionClient,
        *,
        marked: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`marked` is the id of the job to mark first. `clock` gives seconds since the epoch."""
        self._about = TitleRow("")
        self._tail = JobTail(state.jobs)
        self.rows: JobList
        rows, line = (
            JobList(state.jobs, marked, clock=clock),
            LineInput(placeholder="text for the job", compact=True),
        )
        super().__init__("Jobs", rows, line, between=(self._about, self._tail))
        self._state = state
        self._client = client
        self._writing_to = ""
        """The id of the job that the line is, or was last, opened for."""
        self._asked = ("", -AGAIN)
        """The job that the question about stopping is for, and when it was asked, in seconds that
        never go back."""
        self._pending: Timer | None = None
        self._ticker: Timer | None = None

    def on_mount(self) -> None:
        self._state.jobs.watch(self._changed)
        self._state.approvals.watch(self._changed)
        self._sync()

    def on_unmount(self) -> None:
        self._state.jobs.unwatch(self._changed)
        self._state.approvals.unwatch(self._changed)

    @property
    def ticking(self) -> bool:
        """Whether a timer is running."""
        return self._ticker is not None

    def on_resize(self, event: Resize) -> None:
        whole = event.size.height < _SMALL
        self.query_one(Vertical).set_class(whole, "-whole")
        self.rows.styles.max_height = max(
            1, (event.size.height if whole else event.size.height * 3 // 4) // 3
        )

    def action_turn(self, key: str) -> None:
        self.settle()
        self._tail.turn(key)

    def action_output(self) -> None:
        if (row := self.rows.marked) is not None and not self.writing:
            self.settle()
            self.app.run_worker(self._open_output(row))

    def action_stop(self) -> None:
        row = self.rows.marked
        if row is None:
            return
        if row.status not in ("running", "waiting"):
            self.hints.tell(f"{row.id} is no longer running")
            return
        asked, when = self._asked
        if asked == row.id and time.monotonic() - when < AGAIN:
            self.action_yes()
            return
        self._asked = (row.id, time.monotonic())
        self.hints.tell(
            f"stop {row.id}? s again within 2 s, or y, stops it; any other key leaves it"
        )

    def action_yes(self) -> None:
        asked, _ = self._asked
        self.settle()
        if asked:
            self.app.run_worker(
                self._stop(asked)
            )  # a worker of the app, so that closing the panel does not cancel it halfway

    def action_send(self) -> None:
        row = self.rows.marked
        self.settle()
        if row is None:
            return
        if not row.takes_input:
            self.hints.tell(f"{row.id} does not accept text")
            return
        self._writing_to = row.id
        self.write(self.line.value, "sends it", "ends writing")

    @on(JobList.Marked)
    @on(JobList.Clicked)
    def _marked(self) -> None:
        self.settle()
        self._sync()

    def sent(self, text: str) -> None:
        refused = self._client.do(SendToJob(self._writing_to, text))
        if refused is not None:
            self.hints.tell(refused.reason)
            return
        self.line.value = ""
        self.hints.tell(f"sent to {self._writing_to}")

    async def _stop(self, job_id: str) -> None:
        self.hints.tell(f"stopping {job_id}")
        row = self._state.jobs.get(job_id)
        refused = await self._client.finish(StopJob(job_id) if row is None else stop_of(row))
        self.hints.tell("" if refused is None else refused.reason)

    async def _open_output(self, row: Job) -> None:
        try:
            text = await self._client.job_output(row.id)
        except CodeagentError as error:
            self.hints.tell(str(error))
            return
        if text is None:
            self.hints.tell("only the end of what it printed was kept")
            return
        self.app.push_screen(OutputScreen(f"{row.id} · {row.title}", text))

    def settle(self) -> None:
        """Withdraw the question and restore the hints."""
        self._asked = ("", -AGAIN)
        super().settle()

    def _changed(self) -> None:
        if self._pending is None and self.is_attached:
            self._pending = self.set_timer(_TOGETHER, self._sync)

    def _sync(self) -> None:
        """Draw the jobs as they are now; a timer runs only while a duration is counting."""
        self._pending = None
        running, count = self._state.jobs.running, len(self._state.jobs.rows)
        waits = ("approval needed: Esc to return",) if self._state.approvals.waiting else ()
        self.title_row.tell(" · ".join([*waits, f"{running} running", f"{count} in all"]))
        self.rows.sync()
        if (row := self.rows.marked) is not None:
            self._about.name_it(f"{row.id} · {row.title}")
            self._about.tell(
                row.summary or (f"{ports_text(row)} inside the sandbox" if row.ports else "")
            )
            self._tail.show(row.id)
        if not self.writing:
            self.hints.show((), self.keys())
        if running and self._ticker is None:
            self._ticker = self.set_interval(1.0, self._tick)
        elif not running and self._ticker is not None:
            self._ticker.stop()
            self._ticker = None

    def _tick(self) -> None:
        self._state.jobs.count(self._client.job_lines())
        self.rows.sync()

    def keys(self) -> tuple[HintKey, ...]:
        """Return hints for what can be done with the marked job."""
        row = self.rows.marked
        names = [("output", "whole output")]
        if row is not None and row.status in ("running", "waiting"):
            names.append(("stop", "stop"))
        if row is not None and row.takes_input:
            names.append(("send", "send text"))
        return tuple(
            self.hint(f"jobs.{name}", words) for name, words in (*names, ("close", "closes"))
        )
