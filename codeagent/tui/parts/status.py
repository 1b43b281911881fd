"""The header at the top of the screen, and the status line at the bottom."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.geometry import Region
from textual.timer import Timer

from codeagent import __version__
from codeagent.core.pulse import Pulse, duration
from codeagent.tui.parts.rows import SEPARATOR, Part, RowWidget, fit, joined_width, styled
from codeagent.tui.rendering.lines import Line, cut_end, cut_middle, flat, line
from codeagent.tui.rendering.palette import Palette, StyleName
from codeagent.tui.state import AtBoundary, PlanReady, StatusBoard, UiState
from codeagent.tui.status import ConversationStatus, Phase, RunStatus, Status, fields_of
from codeagent.tui.transcript.spelling import counted

if TYPE_CHECKING:  # few users have words of their own there
    from codeagent.config.settings import Settings
    from codeagent.tui.parts.own_status import OwnStatus, StatusProgram

_COMING: frozenset[Phase] = frozenset({"asking", "thinking", "answering", "writing", "retrying"})
_BUSY: frozenset[Phase] = _COMING | {"working", "compacting"}
MODE_MEANS = {
    "ask": "reads run, changes ask",
    "accept-edits": "reads and edits run, commands ask",
    "plan": "reads run, nothing is changed",
    "auto": "everything runs without asking",
}
"""What each mode allows without asking."""
_PROMPT = "What would you like to do?"
OFFERED_AFTER = 60.0
"""Seconds after which a hint offers to move a running call to the background."""
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME = 0.2
"""Seconds between two pictures of the spinner."""
_LEAD = 2
"""Cells before the words: the spinner and a space."""
_GAP = 2
_LABEL = "sandbox: "
_LONGEST_NAME = 40
_SHORTEST_NAME = 8
_ALL_KEYS = Part("? keys", 48)


def spins(run: RunStatus) -> bool:
    """Whether the spinner turns: the agent is doing something by itself."""
    return run.halt == "stopping" or (run.phase in _BUSY and run.halt != "paused")


def phase_words(run: RunStatus, now: float, pulse: Pulse) -> str:
    """Return the phase in plain words; `now` is in seconds since the epoch."""
    match run.halt:
        case "":
            pass
        case "pausing":
            return (
                f"pausing after this {'batch' if run.phase in ('working', 'waiting') else 'answer'}"
            )
        case "paused":
            return f"paused before batch {run.batch}" if run.batch else "paused"
        case "stopping":
            return run.halt
    match run.phase:
        case "starting":
            return run.phase
        case "idle":
            return "ready"
        case "working" | "compacting":
            return f"{run.phase} {duration(now - run.since)}"
        case "waiting":
            return "waiting for you"
        case "asking" | "thinking" | "answering" | "writing" | "retrying":
            words = flat(pulse.words(now)) or run.phase
            return f"{words}: {flat(run.retry_reason)}" if run.retry_reason else words


def status_parts(
    status: Status,
    now: float,
    pulse: Pulse,
    boundary: AtBoundary = None,
    to_background: str = "ctrl+b",
    own: tuple[str, ...] | None = None,
) -> tuple[Part, ...]:
    """Return everything the status line would show if there were room, in order.

    `boundary` is what its card shows; `to_background` the key that moves a call there; `own` what
    the user wants to see instead of the figures.
    """
    first = Part(phase_words(status.run, now, pulse), 100, _phase_style(status.run))
    figures = fields_of(status)
    jobs = Part(figures["jobs"], 77, "text")
    rest: tuple[Part, ...] = (
        Part(figures["context"], 70),
        Part(figures["cost"], 45 if status.usage.cost_usd is not None else 20),
        Part(figures["cache"], 30),
    )
    if own is not None:
        jobs = Part("", 0)
        keeps = (70, *range(_ALL_KEYS.keep - 1, 0, -1))
        rest = tuple(Part(flat(text), keep) for text, keep in zip(own, keeps, strict=False))
    facts = (
        Part(pulse.rate(now) if status.screen.detailed and status.run.phase in _COMING else "", 72),
        jobs,
        Part("step mode" if status.run.stepping else "", 75, "accent"),
        Part(f"budget: {flat(status.usage.budget)}" if status.usage.budget else "", 65),
        *rest,
    )
    if status.screen.notice:
        return (first, Part(flat(status.screen.notice), 90, "text"), *facts)
    keys = ("tab back to typing",) if status.screen.on_card else status.screen.reading
    hints = tuple(Part(key, 89 - place) for place, key in enumerate(keys))
    before, after = (hints, ()) if keys else _hints(status, boundary)
    offer = (
        f"{_waited(status.run, now)} · {to_background} moves it to the background"
        if _takes_long(status.run, now)
        else ""
    )
    return (first, Part(offer, 82, "text"), *before, *facts, *after, _ALL_KEYS)


def with_notice_cut(parts: tuple[Part, ...], status: Status, room: int) -> tuple[Part, ...]:
    """Cut the notice to fit beside the phase, so that it is not dropped."""
    if not status.screen.notice:
        return parts
    phase, notice, *rest = parts
    left = room - joined_width((phase, Part(" ", 0))) + 1
    return (phase, replace(notice, text=cut_end(notice.text, left)), *rest)


def with_reason_cut(status: Status, now: float, room: int, pulse: Pulse) -> Status:
    """The status with as much of the reason for a retry as fits between the countdown and the key
    that stops it."""
    if status.run.phase != "retrying" or status.run.halt:
        return status
    words = phase_words(replace(status.run, retry_reason=""), now, pulse)
    left = room - joined_width((Part(f"{words}: ", 0), *_hints(status, None)[0]))
    reason = cut_end(flat(status.run.retry_reason), left) if left >= _SHORTEST_NAME else ""
    return status.changed(retry_reason=reason)


def with_model_cut(status: Status, now: float, room: int, pulse: Pulse) -> Pulse:
    """The pulse with as much of the model's name as fits beside the keys of a wait for its
    answer."""
    if status.run.phase != "asking" or status.run.halt:
        return pulse
    keys = (*_hints(status, None)[0], _ALL_KEYS)
    over = joined_width((Part(phase_words(status.run, now, pulse), 0), *keys)) - room
    name = flat(pulse.model.rpartition("/")[2])
    return (
        replace(pulse, model=cut_middle(name, max(_SHORTEST_NAME, cell_len(name) - over)))
        if over > 0
        else pulse
    )


def ticks(run: RunStatus) -> bool:
    """Whether the words change as time passes."""
    return not run.halt and (run.phase in _COMING or run.phase == "working")


def prompt_words(status: Status, boundary: AtBoundary = None) -> str:
    """Return the placeholder of the composer: what typing, or the key for the card, would do
    now."""
    if status.screen.on_card:
        return "Tab to type here"
    if status.run.halt == "paused":
        return "Enter to continue, or type to steer"
    match status.run.phase:
        case "starting" | "idle":
            return (
                "Tab to start the plan, or say what to change"
                if isinstance(boundary, PlanReady)
                else _PROMPT
            )
        case "waiting":
            return "Tab to answer, or type to steer"
        case _:
            return "Type to steer"


def greeting(status: Status, folder: Path, all_keys: str) -> tuple[tuple[str, str], ...]:
    """Return the greeting of a new session as rows of (label, value); `all_keys` opens the key
    sheet."""
    changes = (
        f" · {counted(status.folder.changes, 'changed file', 'changed files')}"
        if status.folder.changes
        else ""
    )
    branch = f" · {flat(status.folder.branch)}{changes}" if status.folder.branch else ""
    means = MODE_MEANS.get(status.conversation.mode, "")
    return (
        ("codeagent", __version__),
        ("folder", f"{_from_home(folder)}{branch}"),
        ("model", status.conversation.model or "none yet"),
        ("mode", f"{status.conversation.mode}: {means}" if means else status.conversation.mode),
        ("start", "say what to change, or ask what this project does"),
        ("try", f"/ commands · @ files · {all_keys} all keys"),
    )


def _from_home(folder: Path) -> str:
    home = Path.home()
    return (
        f"~/{folder.relative_to(home)}"
        if folder.is_relative_to(home) and folder != home
        else str(folder)
    )


def mode_style(mode: str) -> StyleName:
    """Return the style of a mode: the more it allows, the more it stands out."""
    if mode == "auto":
        return "warning"
    return "text" if mode == "ask" else "accent"


def _waited(run: RunStatus, now: float) -> str:
    """Return a duration such as `60 s` or `2 min`, which changes only once a minute."""
    minutes = int(now - (run.waits_since or now)) // 60
    return "60 s" if minutes < 2 else f"{minutes} min"


def _takes_long(run: RunStatus, now: float) -> bool:
    """Whether a call takes so long that the user may want to continue without waiting for it."""
    since = run.waits_since
    works = run.phase == "working" and run.halt in ("", "pausing")
    return works and since is not None and now - since >= OFFERED_AFTER


def _hints(status: Status, boundary: AtBoundary) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """Return what the keys do now: the hints before the facts and those after them."""
    later = (Part("⏎ steer", 25), Part("alt+⏎ later", 20))
    answer = Part("tab answer" if status.run.phase == "waiting" else "", 85)
    if status.work.commands:
        return (Part("esc stop your command", 86), answer), ()
    match status.run.halt:
        case "pausing":
            return (Part("Esc again stops now", 86), answer), ()
        case "paused":
            return (
                Part("⏎ continue", 85),
                Part("tab step in" if boundary else "", 55),
                Part("esc stop", 50),
            ), ()
        case "stopping":
            return (), ()
        case "":
            pass
    if status.run.phase in _BUSY:
        return (Part("esc pause", 80),), later
    match status.run.phase:
        case "waiting":
            return (answer, Part("esc pause", 50)), later
        case "idle" if isinstance(boundary, PlanReady):
            return (Part("tab start the plan", 85),), ()
        case _:
            return (), ()


def _phase_style(run: RunStatus) -> StyleName:
    if run.halt:
        return "accent"
    match run.phase:
        case "waiting" | "retrying":
            return "warning"
        case "starting" | "idle":
            return "text"
        case _:
            return "running"


class StatusLine(RowWidget):
    """Draws the status whenever it changes; a timer runs only while the spinner turns or a duration
    is counting.

    `clock` gives seconds since the epoch.
    """

    def __init__(
        self,
        state: UiState,
        *,
        clock: Callable[[], float] = time.time,
        to_background: str = "ctrl+b",
    ) -> None:
        """`to_background` is the key that moves a call to the background."""
        super().__init__()
        self._to_background = to_background.lower()
        self._state = state
        self._board = state.status
        self._boundary = state.boundary
        self._pulse = state.pulse
        self._said = ""
        """The last notice that was too long for the row and was shown in the transcript."""
        self._clock = clock
        self._timer: Timer | None = None
        self._every = 0.0
        self._words = ""
        self._own: OwnStatus | None = None
        self._program: StatusProgram | None = None

    def on_mount(self) -> None:
        self._board.watch(self.sync)
        self._boundary.watch(self.sync)
        self.sync()

    def prefer(self, settings: "Settings", workspace: Path) -> None:
        """Show what the settings say instead of the figures."""
        if settings.status_template is None:
            return
        from codeagent.tui.parts.own_status import OwnStatus, StatusProgram  # few have it

        self._own = OwnStatus(settings.status_template)
        if settings.status_command is not None:
            self._program = StatusProgram(self, settings.status_command, workspace)
        self.sync()

    @property
    def ticking(self) -> bool:
        """Whether a timer is running."""
        return self._timer is not None

    def sync(self) -> None:
        """Draw the current status."""
        if not self.is_attached:
            return
        self._say_whole()
        if self._program is not None:
            self._program.look(self._board.now, fields_of(self._board.now))
        every = self._wanted_interval()
        if every != self._every:
            self._every = every
            if self._timer is not None:
                self._timer.stop()
            self._timer = self.set_interval(every, self.tick) if every else None
        self.refresh()

    def _say_whole(self) -> None:
        """Show a notice that does not fit the row in the transcript, once, so that it can be read
        in full."""
        status = self._board.now
        said = status.screen.notice or status.run.retry_reason
        words = phase_words(replace(status.run, retry_reason=""), self._clock(), self._pulse)
        keys = () if status.screen.notice else _hints(status, None)[0]
        room = self.size.width - _LEAD - 1 - joined_width((Part(words + SEPARATOR, 0), *keys))
        if said and said != self._said and 0 < room < cell_len(flat(said)):
            self._said = said
            self._state.document.remark(said)

    def row(self, width: int, palette: Palette) -> Line:
        now, room = self._clock(), max(1, width - _LEAD - 1)
        self._words = self._counting(now)
        status = with_reason_cut(self._board.now, now, room, self._pulse)
        pulse = with_model_cut(status, now, room, self._pulse)
        whole = status_parts(
            status, now, pulse, self._boundary.now, self._to_background, own=self._own_words(status)
        )
        parts = fit(with_notice_cut(whole, status, room), room)
        lead = f"{self._mark()} "
        if joined_width(parts) > room:
            return line(
                [
                    (lead, palette.running),
                    (cut_end(parts[0].text, room), palette.named(parts[0].style)),
                ]
            )
        return line([(lead, palette.running), *styled(parts, palette)])

    def _own_words(self, status: Status) -> tuple[str, ...] | None:
        if self._own is None:
            return None
        line = "" if self._program is None else self._program.line
        return self._own.sections(fields_of(status) | {"command": line})

    def _mark(self) -> str:
        if not self._spins():
            return " "
        return _SPINNER[int(self._clock() / _FRAME) % len(_SPINNER)]

    def _spins(self) -> bool:
        return spins(self._board.now.run) and self.app.animation_level != "none"

    def _wanted_interval(self) -> float:
        if self._spins():
            return _FRAME
        return 1.0 if ticks(self._board.now.run) else 0.0

    def _counting(self, now: float) -> str:
        """Return the words that change as time passes."""
        status = self._board.now
        rate = self._pulse.rate(now) if status.screen.detailed else ""
        return phase_words(status.run, now, self._pulse) + rate

    def tick(self) -> None:
        """Redraw the spinner's cell, and the whole row only if its words changed."""
        if self._counting(self._clock()) != self._words:
            self.refresh()
        elif self._spins():
            self.refresh(Region(0, 0, 1, 1))


class Header(RowWidget):
    """Workspace and branch on the left; model and sandbox on the right, the sandbox kept
    longest."""

    DEFAULT_CSS = """
    Header {
        dock: top;
    }
    """

    def __init__(self, board: StatusBoard) -> None:
        super().__init__()
        self._board = board

    def on_mount(self) -> None:
        self._board.watch(self.sync)

    def sync(self) -> None:
        """Draw the current status."""
        if self.is_attached:
            self.refresh()

    def row(self, width: int, palette: Palette) -> Line:
        room = max(1, width - 2)
        model = Part(cut_middle(flat(self._board.now.conversation.model), _LONGEST_NAME), 40)
        right = fit((model, _sandbox(self._board.now.conversation)), room)
        if joined_width(right) > room:
            return line(
                [
                    (" ", None),
                    (
                        cut_end(right[0].text.removeprefix(_LABEL), room),
                        palette.named(right[0].style),
                    ),
                ]
            )
        left = _left(self._board.now, room - joined_width(right) - _GAP)
        used = joined_width(left, "  ") + joined_width(right)
        pad = " " * max(0, room - used)
        return line(
            [
                (" ", None),
                *styled(left, palette, "  "),
                (pad, None),
                *styled(right, palette, SEPARATOR),
            ]
        )


def _left(status: Status, room: int) -> tuple[Part, ...]:
    """Return as much of workspace and branch as fits `room` cells; names are cut before they are
    dropped."""
    changes = f" ±{status.folder.changes}" if status.folder.changes else ""
    name, branch = flat(status.folder.workspace), flat(status.folder.branch)
    over = cell_len(name) + (2 + cell_len(branch + changes) if branch else 0) - room
    if over > 0 and branch:
        branch = cut_middle(branch, max(_SHORTEST_NAME, cell_len(branch) - over))
    over = cell_len(name) + (2 + cell_len(branch + changes) if branch else 0) - room
    if over > 0:
        name = cut_middle(name, max(_SHORTEST_NAME, cell_len(name) - over))
    parts = fit((Part(name, 90, "strong"), Part(branch + changes, 50)), room, "  ")
    return parts if joined_width(parts, "  ") <= room else ()


def _sandbox(now: ConversationStatus) -> Part:
    """Return the state of the sandbox; without one, commands are not confined, or are disabled."""
    match now.sandbox:
        case "none":
            return Part("no sandbox: bash disabled", 90, "warning")
        case "off":
            return Part("no sandbox: commands run on this machine", 90, "error")
        case "docker" if now.network == "open":
            return Part(f"{_LABEL}docker, net open", 90, "error")
        case "docker":
            net = "off" if now.network == "none" else now.network
            return Part(f"{_LABEL}docker, net {net}", 90)
        case sandbox:
            return Part(f"{_LABEL}{flat(sandbox)}" if sandbox else "", 90)
