"""Plays a recorded session as if it happened now: an agent that runs nothing and whose events are
those of the log."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter

from codeagent.core.acts import Act, Pause, Queued, Refused, Resume, RunGroup, RunRecipe, Step, Stop
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.budget import Budget
from codeagent.core.checkpoints import Rewind
from codeagent.core.dataclass import dataclass
from codeagent.core.events import (
    BatchPlanned,
    KnownEvent,
    MessageAdded,
    Notice,
    RunStarted,
    TextDelta,
    UnknownEvent,
)
from codeagent.core.jobs import SessionJobs
from codeagent.core.json_types import MAIN
from codeagent.core.messages import AssistantMessage, UserMessage
from codeagent.core.model import ModelInUse
from codeagent.core.notices import (
    AgentStarted,
    PauseReason,
    RunPaused,
    RunPausing,
    RunResumed,
    StepModeChanged,
)
from codeagent.core.policy import Rule
from codeagent.core.runtime import Mentioned, OfferedText, PartT, TextKind
from codeagent.core.toolbox import Toolbox

REFUSED = "this is a replay: nothing is run, asked or changed; Esc pauses it, Enter continues"
_LONGEST = 2.0
"""Seconds of the longest wait between two events, whatever it was; a question is shown for at least
half of it."""
_READING = 1.2
"""Seconds before a prompt is answered."""
_PIECE, _TYPING = 24, 0.04
"""Characters of an answer that are shown at once, and seconds between them."""
Wait = Callable[[asyncio.Event, float], Awaitable[bool]]
"""Waits for the event, or so many seconds; returns whether the event came."""


@dataclass(frozen=True)
class _Step:
    delay: float
    """Seconds before it, at speed 1."""
    event: KnownEvent


async def wait_in_time(woken: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await woken.wait()
    except TimeoutError:
        return False
    return True


def in_time(events: Iterable[KnownEvent | UnknownEvent]) -> list[KnownEvent | UnknownEvent]:
    """Put the events of children, which come in one piece each, between those of their parent, as
    they happened.

    The session of a child is played as if it were the user's own.
    """
    times: dict[str, float] = {}
    timed: list[tuple[float, KnownEvent | UnknownEvent]] = []
    for event in events:
        # A clock that was set back must not change the order of what one agent did, nor when a
        # child began.
        at = times[event.agent] = max(event.ts, times.get(event.agent, times.get(MAIN, 0.0)))
        timed.append((at, event))
    ordered = [event for _, event in sorted(timed, key=itemgetter(0))]
    if MAIN in times:
        return ordered
    return [replace(event, agent=MAIN) for event in ordered if not isinstance(event, AgentStarted)]


class SessionPlayer:
    """The AgentHandle of a replay: Pause, Resume and Step set its pace, Stop shows the rest at
    once."""

    def __init__(
        self,
        session_id: str,
        events: Sequence[KnownEvent | UnknownEvent],
        jobs: SessionJobs,
        *,
        speed: float = 1.0,
        step: bool = False,
        tell: bool = True,
        clock: Callable[[], float] = time.time,
        wait: Wait = wait_in_time,
    ) -> None:
        """`speed`: how many times as fast, infinity for all at once; `tell`: say first that it is a
        replay.

        `clock`: seconds since the epoch, which the events then carry.
        """
        self.session_id = session_id
        self.jobs = jobs
        self.queued: tuple[Queued, ...] = ()
        self.rules: tuple[Rule, ...] = ()
        self.budget: Budget | None = None
        self.rewind: Rewind | None = None
        self.toolbox: Toolbox | None = None
        models = [event.model for event in events if isinstance(event, RunStarted)]
        self.model = ModelInUse(models[0] if models else "")
        self._steps = list(_steps(events, speed))
        self._at = 0
        self._speed = speed
        self._stepping = step
        self._held = ""
        """The agent that is held; empty while none is."""
        about = f"a replay of {session_id}: Esc pauses, Enter continues, Esc twice shows the rest"
        self._notices = deque(
            [self._notice(Notice, code="session.replayed", text=about)] if tell else []
        )
        self._observers: list[Callable[[KnownEvent], None]] = []
        self._woken = asyncio.Event()
        self._taken = asyncio.Event()
        self._closed = False
        self._number = 0
        self._clock = clock
        self._wait = wait

    def part(self, kind: type[PartT]) -> PartT | None:
        return None

    async def texts(self, kind: TextKind) -> tuple[OfferedText, ...]:
        return ()

    async def mentioned(self, text: str) -> Mentioned:
        return Mentioned()

    @property
    def running(self) -> bool:
        return self._at < len(self._steps) and not self._closed

    @property
    def begun(self) -> bool:
        return self._at > 0

    @property
    def seconds(self) -> float:
        """How long it takes if nobody pauses it."""
        return sum(step.delay for step in self._steps) / self._speed

    async def played(self) -> None:
        """Return once the reader of `events` has taken the last one and asks for more."""
        await self._taken.wait()

    def do(self, act: Act) -> Refused | None:
        match act:
            case _ if not self.running:
                return Refused(
                    "the replay is over: nothing is run"
                    if isinstance(act, Pause | Stop)
                    else REFUSED
                )
            case Pause():
                if not self._held:
                    self._hold(MAIN, "asked", "paused")
            case Resume():
                self._go_on()
            case Step(on):
                self._stepping = on
                word = "the replay pauses before every batch" if on else "the replay runs on"
                self._notices.append(self._notice(StepModeChanged, text=word, on=on))
            case Stop():
                self._speed = float("inf")
                self._stepping = False
                self._go_on()
            case _:
                return Refused(REFUSED)
        self._woken.set()
        return None

    async def finish(self, act: Act) -> Refused | None:
        return self.do(act)

    async def settled(self) -> None:
        """Return at once: nothing takes time."""

    async def run(self, prompt: str | RunRecipe | RunGroup | None) -> AsyncIterator[KnownEvent]:
        """Yield the events of the replay; nothing begins because of a prompt."""
        async for event in self.events():
            yield event
            if not self.running:
                return

    def observe(self, observer: Callable[[KnownEvent], None]) -> None:
        self._observers.append(observer)

    async def close(self) -> None:
        self._closed = True
        self._woken.set()

    async def events(self) -> AsyncIterator[KnownEvent]:
        while not self._closed:
            self._woken.clear()
            if self._notices:
                yield self._shown(self._notices.popleft())
                continue
            if self._at == len(self._steps):
                self._taken.set()
            if self._held or self._at == len(self._steps):
                await self._woken.wait()
                continue
            step = self._steps[self._at]
            if step.delay / self._speed > 0 and await self._wait(
                self._woken, step.delay / self._speed
            ):
                continue
            self._at += 1
            if isinstance(step.event, TextDelta) and self._speed == float("inf"):
                continue  # the message that follows has all of the text
            if self._stepping and isinstance(step.event, BatchPlanned):
                calls = tuple(call.call_id for call in step.event.calls)
                self._hold(step.event.agent, "step", "before this batch", calls)
            yield self._shown(step.event)

    def _hold(self, agent: str, why: PauseReason, text: str, calls: tuple[str, ...] = ()) -> None:
        """Pause, before the calls of the batch that this agent just planned, or wherever it is."""
        events = [step.event for step in self._steps[: self._at] if step.event.agent == agent]
        planned = [event.batch for event in events if isinstance(event, BatchPlanned)]
        batch = planned[-1] if planned else 1
        self._held = agent
        self._notices.append(
            self._notice(RunPaused, agent=agent, text=text, batch=batch, why=why, calls=calls)
        )

    def _go_on(self) -> None:
        if self._held:
            agent = self._held
            self._held = ""
            self._notices.append(self._notice(RunResumed, agent=agent, text="continued"))

    def _notice(self, kind: type[KnownEvent], **fields: object) -> KnownEvent:
        return kind(seq=0, ts=0.0, session=self.session_id, **fields)  # type: ignore[arg-type]  # of each kind

    def _shown(self, event: KnownEvent) -> KnownEvent:
        self._number += 1
        now = replace(event, seq=self._number, ts=round(self._clock(), 3))
        for observer in self._observers:
            observer(now)
        return now


def _steps(events: Sequence[KnownEvent | UnknownEvent], speed: float) -> Iterator[_Step]:
    """Yield what is shown, each after the time that passed in the recording, but never long.

    How its user paused it is left out: the pace is another one now. Faster, an answer comes in
    larger pieces, not in more of them in a second.
    """
    before: KnownEvent | None = None
    for event in events:
        if isinstance(event, UnknownEvent | RunPausing | RunPaused | RunResumed | StepModeChanged):
            continue
        match event:
            case MessageAdded(message=AssistantMessage(text=text)) if text:
                size = round(min(_PIECE * max(speed, 1.0), len(text)))
                for start in range(0, len(text), size):
                    yield _Step(_TYPING * size / _PIECE, _piece(event, text[start : start + size]))
                yield _Step(0.0, event)
            case _:
                yield _Step(_delay(before, event), event)
        before = event


def _delay(before: KnownEvent | None, event: KnownEvent) -> float:
    passed = 0.0 if before is None else min(max(event.ts - before.ts, 0.0), _LONGEST)
    match before:
        case MessageAdded(message=UserMessage()):
            return max(passed, _READING)
        case ApprovalRequested():
            return max(passed, _LONGEST / 2)
        case _:
            return passed


def _piece(event: MessageAdded, text: str) -> TextDelta:
    return TextDelta(
        seq=event.seq, ts=event.ts, session=event.session, agent=event.agent, text=text
    )
