"""The triggers of one session, which fire only between turns."""

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from codeagent.agent.parts import ConversationPart, Host, Opening
from codeagent.core.acts import Refused, StopTrigger
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import WorkspaceError
from codeagent.core.jobs import Trigger, TriggerAdded, TriggerFired, TriggerKind, TriggerStopped
from codeagent.core.messages import UserMessage
from codeagent.core.notes import trigger_note
from codeagent.core.tool import Failed

if TYPE_CHECKING:  # most sessions watch no files
    from codeagent.extensions.triggers.watching import FileWatch

MOST_TRIGGERS = 20
SHORTEST = 10.0
"""The fewest seconds between two times that a trigger fires."""
_POLL = 5.0
"""Seconds between two looks at watched files."""
_LONGEST_WAIT = 30.0
"""Seconds after which the clock is read again: it may have been set, or the machine may have
slept."""
_SET = 5.0
"""Seconds by which the clock must have been set before the times of triggers are moved along."""
_LATE = 60.0
"""Seconds of delay after which the model is told that a trigger fires late."""


class Clock:
    """The time, and waiting for it."""

    def now(self) -> float:
        return time.time()

    def steady(self) -> float:
        """Seconds that count on while the machine sleeps, and that setting the clock does not
        change."""
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))

    async def wait(self, seconds: float, event: asyncio.Event) -> None:
        """Return after some seconds, or once the event is set; perhaps earlier."""
        with suppress(TimeoutError):
            async with asyncio.timeout(min(max(seconds, 0.0), _LONGEST_WAIT)):
                await event.wait()


class Triggers(ConversationPart):
    """The triggers of one session. Made before the tools that set them, and empty until it is
    connected.

    A trigger fires when the agent would stop or is idle, and then begins a run if there is a user.
    A note tells the model. A trigger whose note has not been delivered yet does not fire again.
    """

    def __init__(self, clock: Clock | None = None, *, awaited: bool = False) -> None:
        """`awaited`: a run without a user ends only once no trigger is left."""
        self._clock = clock or Clock()
        self._awaited = awaited
        self._active: dict[str, Trigger] = {}
        self._told: dict[str, UserMessage] = {}
        """The last note about each trigger."""
        self._quiet: dict[str, float] = {}
        """The time before which each must not fire again."""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._made = 0
        self._ahead = self._clock.now() - self._clock.steady()

    def connect(self, host: Host) -> None:
        """Also take over the triggers that earlier processes of the session have set."""
        past = host.history.triggers
        self._emitter = host.context.emitter
        self._queue = host.context.queue
        self._workspace = host.context.workspace
        self._wake = host.runs.rouse
        self._busy = host.runs.busy
        self._active = {trigger.id: trigger for trigger in past if not trigger.over}
        self._made = max((int(trigger.id.rpartition("-")[2]) for trigger in past), default=0)

    @cached_property
    def _watch(self) -> "FileWatch":
        from codeagent.extensions.triggers.watching import FileWatch  # only once files are watched

        return FileWatch(self._workspace)

    def now(self) -> float:
        """Return seconds since the epoch."""
        return self._clock.now()

    def triggers(self) -> tuple[Trigger, ...]:
        """Return those that can still fire, in the order in which they were set."""
        return tuple(self._active.values())

    async def add(
        self,
        kind: TriggerKind,
        when: str,
        prompt: str,
        *,
        at_most: int,
        every: float | None = None,
        due: float | None = None,
    ) -> Trigger:
        """Set a trigger; `when` says how often, or gives a schedule or files. Raises Failed."""
        if len(self._active) >= MOST_TRIGGERS:
            raise Failed(f"{MOST_TRIGGERS} triggers are set already; stop one with trigger_stop")
        if every is not None and every < SHORTEST:
            raise Failed(f"a trigger fires at most every {SHORTEST:g} s; nothing was set")
        if kind == "schedule":
            due = next_time(when, self.now())
        try:
            mark = await asyncio.to_thread(self._watch.begin, when) if kind == "file" else ""
        except WorkspaceError as error:
            raise Failed(f"{error}; nothing was set") from None
        self._made += 1
        trigger = Trigger(
            id=f"trigger-{self._made}",
            kind=kind,
            when=when,
            prompt=prompt,
            at_most=at_most,
            every=every,
            due=due,
            mark=mark,
        )
        self._active[trigger.id] = trigger
        self._emitter.emit(TriggerAdded(trigger=trigger))
        self.begin()
        self.look()
        return trigger

    def stop(self, trigger_id: str, by: Literal["agent", "user"]) -> Trigger | None:
        """Stop a trigger and return it; None if the id is unknown."""
        if (trigger := self._active.pop(trigger_id, None)) is None:
            return None
        self._emitter.emit(TriggerStopped(trigger=replace(trigger, at_most=trigger.fired), by=by))
        self.look()
        return trigger

    def begin(self) -> None:
        """Fire from now on while the agent is idle; needs a running event loop."""
        if self._active and self._task is None:
            self._task = asyncio.create_task(self._work())

    def look(self) -> None:
        """Look again now: a trigger was changed, or a run has ended."""
        self._changed.set()

    async def at_rest(self, token: CancelToken) -> None:
        """Fire what is due when the agent would stop, or wait for the next awaited trigger. Raises
        RunCancelled."""
        if not self._active:
            self._follow_clock()
            return
        await token.guard(self._fire_due())
        while self._awaited and self._active and not self._queue.wakes:
            self._changed.clear()
            await token.guard(self._clock.wait(self._delay(), self._changed))
            await token.guard(self._fire_due())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _work(self) -> None:
        while True:
            self._changed.clear()
            if not self._active or self._busy():
                await self._changed.wait()
                continue
            await self._clock.wait(self._delay(), self._changed)
            if not self._busy() and await self._fire_due(resting=True):
                self._wake()

    def _delay(self) -> float:
        """Return the seconds until something may be due."""
        self._follow_clock()
        now = self.now()
        times = [
            max(
                now + _POLL if trigger.due is None else trigger.due,
                self._quiet.get(trigger.id, now),
            )
            for trigger in self._active.values()
        ]
        return max(0.0, min(times, default=now + _LONGEST_WAIT) - now)

    def _follow_clock(self) -> None:
        """If the clock was set, keep the intervals of timers, and have schedules mean the new
        time."""
        now = self.now()
        moved = now - self._clock.steady() - self._ahead
        if abs(moved) < _SET:
            return
        self._ahead += moved
        self._quiet = {trigger_id: at + moved for trigger_id, at in self._quiet.items()}
        for trigger in self.triggers():
            due = trigger.due
            if trigger.kind == "timer" and due is not None:
                due += moved
            elif trigger.kind == "schedule" and moved < 0:
                due = self._next(trigger)
            self._active[trigger.id] = replace(trigger, due=due)

    async def _fire_due(self, *, resting: bool = False) -> bool:
        """Fire what is due; True if something was. `resting`: only if the agent is still idle."""
        self._follow_clock()
        happened = [(trigger, await self._happened(trigger)) for trigger in self.triggers()]
        if resting and self._busy():
            return False
        fired = False
        for trigger, found in happened:
            if found is not None and self._active.get(trigger.id) is trigger:
                fired |= self._fire(trigger, *found)
        return fired

    async def _happened(self, trigger: Trigger) -> tuple[str, str] | None:
        """Return what happened, as a phrase, and its mark; None if it is not due."""
        now = self.now()
        if now < self._quiet.get(trigger.id, now):
            return None
        if trigger.kind == "file":
            return await asyncio.to_thread(self._watch.changed, trigger.when, trigger.mark)
        if trigger.due is None or now < trigger.due:
            return None
        late = f"it was due at {_local(trigger.due)}" if now - trigger.due > _LATE else ""
        return late, ""

    def _fire(self, trigger: Trigger, what: str, mark: str) -> bool:
        """Fire it, unless the model has not read its last note yet; its next time is set either
        way."""
        untold = trigger.id in self._told and self._queue.waits(self._told[trigger.id])
        after = replace(
            trigger,
            fired=trigger.fired + (not untold),
            due=self._next(trigger),
            mark=mark or trigger.mark,
        )
        self._active[trigger.id] = after
        self._quiet[trigger.id] = self.now() + SHORTEST
        if untold:
            return False
        if after.over:
            del self._active[trigger.id]
        event = self._emitter.emit(TriggerFired(trigger=after, what=what))
        self._told[trigger.id] = trigger_note(event)
        self._queue.add_note(self._told[trigger.id], wakes=True)
        return True

    def _next(self, trigger: Trigger) -> float | None:
        """Return when it is due again; times that have already passed are skipped."""
        now = self.now()
        if trigger.kind == "schedule":
            with suppress(Failed):
                return next_time(trigger.when, now)
            return None
        if trigger.every is None or trigger.due is None:
            return None
        passed = max(0, int((now - trigger.due) // trigger.every))
        return trigger.due + (passed + 1) * trigger.every


def stop_trigger(host: Host, act: StopTrigger) -> Refused | None:
    """Stop a trigger for the user."""
    triggers = host.part(Triggers)
    if triggers is None or triggers.stop(act.trigger_id, "user") is None:
        return Refused(f"{act.trigger_id} is no longer set; nothing was stopped")
    return None


def trigger_parts(opening: Opening) -> tuple[ConversationPart, ...]:
    """Make the part of a conversation that is being opened."""
    return (Triggers(awaited=opening.waits),)


def next_time(words: str, after: float) -> float:
    """Return the next time of a cron schedule with five fields, in local time. Raises Failed."""
    from cronsim import CronSim, CronSimError  # only if a schedule is set

    if len(words.split()) != 5:
        raise Failed(
            f"{words!r} is not a schedule: give minute, hour, day, month and weekday, as in '0 9 * * 1-5'"
        )
    try:
        return float(
            next(CronSim(words, datetime.fromtimestamp(after))).timestamp()
        )  # local time, as for cron
    except CronSimError as error:
        raise Failed(f"{words!r} is not a schedule: {error}; nothing was set") from None
    except StopIteration:
        raise Failed(f"the schedule {words!r} never comes; nothing was set") from None


def _local(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")
