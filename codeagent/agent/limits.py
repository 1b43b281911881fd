"""What ends a run: its limits, the user's budget, its deadline, the loss of the workspace, repeats
of the same call."""

import asyncio
import json
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from codeagent.agent.emitter import Emitter
from codeagent.core.budget import Budget
from codeagent.core.cancel import CancelToken
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CodeagentError, WorkspaceLost
from codeagent.core.events import LimitReached
from codeagent.core.json_types import MAIN
from codeagent.core.messages import ToolCall, Usage
from codeagent.core.notices import BudgetChanged
from codeagent.core.ports import Workspace
from codeagent.core.programs import this_program

TOO_OFTEN = 3
"""After this many answers in a row with the same call the user is asked, or the call refused if
nobody can be."""
_LOOK_SECONDS = 0.5
"""From one look at the workspace to the next while a run works."""


@dataclass(frozen=True)
class Limits:
    """The limits of one run; None means no limit."""

    max_turns: int | None = 200
    max_calls: int | None = 1000
    timeout_per_call: float | None = None
    """Seconds; a tool's own limit still applies if it is shorter."""
    max_cost_usd: float | None = None
    max_concurrency: int = 8
    """Calls that run at the same time; the others wait."""
    max_tokens: int | None = None
    """Input and output together."""
    max_seconds: float | None = None
    """Elapsed seconds, waiting for the user included."""
    max_repeated_tokens: int = 500
    """For how many tokens an answer may repeat the same span."""

    @property
    def in_force(self) -> Mapping[str, float]:
        """The limits that are set, by name."""
        return MappingProxyType(
            {name: most for name, most in vars(self).items() if most is not None}
        )


@dataclass(frozen=True)
class ContextLimits:
    """When a conversation is compacted, and who is asked."""

    compact_at: float = 0.8
    """The share of the window that may be full."""
    review: bool = True
    """A user who is there reads a summary before it replaces anything."""
    review_seconds: float = 30.0
    """How long that waits for an answer in mode auto; there the user may be away."""
    window: int | None = None
    """The window in tokens; None: what is known about the model."""


class RunMeter:
    """Counts what one run uses, and compares it with its limits."""

    def __init__(
        self,
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
        above: "RunMeter | None" = None,
    ) -> None:
        """The run begins now; `clock` gives seconds that never go back.

        `above` is the meter of the run whose call started this agent; what this run uses counts
        there, too.
        """
        self._above = above
        self._first: dict[str, float | None] = {
            "max_turns": limits.max_turns,
            "max_calls": limits.max_calls,
            "max_cost_usd": limits.max_cost_usd,
            "max_tokens": limits.max_tokens,
            "max_seconds": limits.max_seconds,
        }
        """The limits of the run, before they were extended."""
        self._clock = clock
        self._started = clock()
        self._extended: dict[str, float] = {}
        self.turns = 0
        self.calls = 0
        self.refused = 0
        """Calls that the model asked for past the limit."""
        self.usage = Usage()
        self._last = Usage()
        """The last request's: the estimate for the next one."""

    def add_request(self, usage: Usage) -> None:
        self._last = usage
        self._add(usage)

    def _add(self, usage: Usage) -> None:
        self.usage += usage
        if self._above is not None:
            self._above._add(usage)

    def before_request(self) -> LimitReached | None:
        """The limit that forbids another request; None if nothing does."""
        return self._reached({"max_turns": (float(self.turns), 1.0)}) or self._used_up(self._last)

    def _used_up(self, coming: Usage) -> LimitReached | None:
        """Return the limit, here or above, that forbids a request that uses as much as `coming`."""
        reached = self._reached(
            {
                "max_cost_usd": (self.usage.cost_usd or 0.0, coming.cost_usd or 0.0),
                "max_tokens": (float(_tokens(self.usage)), float(_tokens(coming))),
                "max_seconds": (self._clock() - self._started, 0.0),
            }
        )
        return reached or (None if self._above is None else self._above._used_up(coming))

    def _reached(self, spent: dict[str, tuple[float, float]]) -> LimitReached | None:
        """Return the first limit that was reached, or would be exceeded by what comes."""
        for limit, (used, coming) in spent.items():
            most = self._most(limit)
            if most is not None and (used >= most or used + coming > most):
                return LimitReached(limit=limit, maximum=most)
        return None

    def after_calls(self) -> LimitReached | None:
        """`max_calls`, if the model asked for more; asking for exactly that many is within it."""
        limit = self._most("max_calls")
        return (
            LimitReached(limit="max_calls", maximum=limit)
            if limit is not None and self.refused
            else None
        )

    def calls_left(self) -> int | None:
        """How many more calls may run; None without a limit."""
        limit = self._most("max_calls")
        return None if limit is None else max(0, int(limit) - self.calls)

    def extend(self, reached: LimitReached) -> None:
        """Allow as much again; time counts from now on, because it passed while the user was
        asked."""
        if reached.limit == "max_seconds":
            self._extended["max_seconds"] = self._clock() - self._started
        else:
            self._extended[reached.limit] = self._extended.get(reached.limit, 0.0) + (
                self._first[reached.limit] or 0.0
            )
        self.refused = 0

    def _most(self, limit: str) -> float | None:
        first = self._first[limit]
        return None if first is None else first + self._extended.get(limit, 0.0)


class BudgetMeter:
    """Counts what was spent since the user set a budget, over all runs; time spent waiting for the
    user is free."""

    def __init__(self, emitter: Emitter, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds that never go back."""
        self._emitter = emitter
        self._clock = clock
        self._usage = Usage()
        self._last = Usage()
        """The last request's: the estimate for the next one."""
        self._batches = 0
        self._seconds = 0.0
        self._since: float | None = None
        self._working = 0
        """The runs in progress: an agent's, and its children's."""
        self._waits = 0
        self._allowed = 0.0
        self.budget: Budget | None = None

    def set(self, budget: Budget | None) -> None:
        self.budget = budget
        self._usage = Usage()
        self._batches = 0
        self._seconds = 0.0
        self._since = None if self._since is None else self._clock()
        self._allowed = 0.0 if budget is None else budget.amount
        text = "the budget was removed" if budget is None else f"the budget is {budget} from now on"
        self._tell(text)

    def extend(self) -> None:
        """Allow as much again; a budget that cannot be tracked is removed."""
        if self.budget is not None and self._uncountable:
            self.set(None)
        elif self.budget is not None:
            self._allowed += self.budget.amount
            self._tell(f"another {self.budget} is allowed")

    def work(self) -> None:
        """Start counting time; `rest` has to be called as often as this."""
        self._working += 1
        self._count()

    def rest(self) -> None:
        self._working -= 1
        self._count()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Do not count the time of the block, which waits for the user; blocks may overlap."""
        self._waits += 1
        self._count()
        try:
            yield
        finally:
            self._waits -= 1
            self._count()

    def add_request(self, usage: Usage) -> None:
        self._usage += usage
        self._last = usage
        if self.budget is not None:
            self._tell("")

    def add_batch(self) -> None:
        self._batches += 1

    def exhausted(self) -> str | None:
        """Say why the next request does not fit, in one line; None if it fits, as far as is
        known."""
        if self.budget is None:
            return None
        if self._uncountable:
            return "the price of this model is unknown, so a budget in dollars cannot be tracked"
        spent, coming = self._spent()
        if spent >= self._allowed:
            return f"the budget of {self._total()} is used up"
        if spent + coming > self._allowed:
            return f"the next request would exceed the budget of {self._total()}"
        return None

    @property
    def allowed(self) -> float:
        """The budget with its extensions, in its own unit."""
        return self._allowed

    @property
    def left(self) -> str:
        """Say what is left of the budget in a few words; empty if there is none."""
        if self.budget is None:
            return ""
        spent, _ = self._spent()
        rest = Budget(self.budget.kind, round(max(0.0, self._allowed - spent), 4))
        return f"{rest} of {self._total()} left"

    def _count(self) -> None:
        """Start or stop the clock."""
        counts = self._working > 0 and not self._waits
        if counts and self._since is None:
            self._since = self._clock()
        elif not counts and self._since is not None:
            self._seconds += self._clock() - self._since
            self._since = None

    @property
    def _uncountable(self) -> bool:
        dollars = self.budget is not None and self.budget.kind == "usd"
        return dollars and self._last.cost_usd is None and _tokens(self._last) > 0

    def _spent(self) -> tuple[float, float]:
        """Return what was spent, and the estimate for the next request."""
        assert self.budget is not None
        match self.budget.kind:
            case "usd":
                return self._usage.cost_usd or 0.0, self._last.cost_usd or 0.0
            case "tokens":
                return float(_tokens(self._usage)), float(_tokens(self._last))
            case "seconds":
                running = 0.0 if self._since is None else self._clock() - self._since
                return self._seconds + running, 0.0
            case "batches":
                return float(self._batches), 0.0

    def _total(self) -> Budget:
        assert self.budget is not None
        return Budget(self.budget.kind, self._allowed)

    def _tell(self, text: str) -> None:
        self._emitter.emit(BudgetChanged(text=text, budget=str(self.budget or ""), left=self.left))


class Deadline:
    """Cancels a run's token when its time is up; the calls under way are settled as for any other
    cancellation."""

    def __init__(self, seconds: float | None, token: CancelToken, emitter: Emitter) -> None:
        """`seconds` from now; None for no deadline. Needs a running event loop."""
        self._token = token
        self._emitter = emitter
        self.passed = False
        self._alarm: asyncio.TimerHandle | None = None
        if seconds is not None:
            self._alarm = asyncio.get_running_loop().call_later(seconds, self._pass, seconds)

    def close(self) -> None:
        """Stop the clock when the run has ended; idempotent."""
        if self._alarm is not None:
            self._alarm.cancel()

    def _pass(self, seconds: float) -> None:
        if self._token.cancelled:
            return
        self.passed = True
        self._emitter.emit(LimitReached(limit="max_seconds", maximum=seconds))
        self._token.cancel(f"the limit max_seconds = {seconds:g} is reached")


class WorkspaceWatch:
    """Cancels a run's token once the workspace is lost; calls under way are settled as for any
    other cancellation."""

    def __init__(
        self, workspace: Workspace, token: CancelToken, emitter: Emitter, *, attended: bool
    ) -> None:
        """Needs a running event loop. `attended`: whether the user continues the session on the
        screen."""
        self._workspace = workspace
        self._token = token
        self._emitter = emitter
        self._attended = attended
        self.lost: str | None = None
        """Why the run fails; None while the workspace is there."""
        self._alarm: asyncio.TimerHandle | None = None
        self._look()

    def close(self) -> None:
        """The run has ended; idempotent."""
        if self._alarm is not None:
            self._alarm.cancel()

    def said(self, failure: CodeagentError) -> str:
        """What ended the run, in one line; if that is the workspace, also notify the user how to
        continue."""
        if not isinstance(failure, WorkspaceLost) or self._emitter.agent != MAIN:
            return str(failure)
        self._emitter.notice("workspace.lost", self._how_to_continue(failure.moved_to))
        return f"{failure}; the session is kept"

    def _look(self) -> None:
        try:
            self._workspace.check()
        except WorkspaceLost as failure:
            self.lost = self.said(failure)
            self._token.cancel(str(failure))
        else:
            self._alarm = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)

    def _how_to_continue(self, moved_to: str | None) -> str:
        when = "once the folder is back, " if moved_to is None else ""
        folder = () if moved_to is None else (moved_to,) if self._attended else ("--cwd", moved_to)
        resume = (*folder, "--resume", self._emitter.session_id)
        words = resume if self._attended else ("run", *resume, "continue")
        return f"{when}continue with: {this_program()} {shlex.join(words)}"


class RepeatCounter:
    """Counts the answers in a row that contain the same call.

    Answers, not calls: asking twice in one answer is not being stuck. Looking at a job again does
    not count either, as time has passed.
    """

    def __init__(
        self, repeatable: Callable[[ToolCall], bool], unread: Callable[[ToolCall], bool]
    ) -> None:
        """`repeatable` says whether the call may give another result each time.

        `unread`: it is refused until its documentation is read; the call that runs then does not
        count as a repeat.
        """
        self._repeatable = repeatable
        self._unread = unread
        self._rows: dict[tuple[str, str, bool], int] = {}

    def note(self, calls: Sequence[ToolCall]) -> dict[str, int]:
        """Count the next answer; return, by call id, how many answers in a row contain the call,
        from 1."""
        keys = {call.id: self._key(call) for call in calls if not self._repeatable(call)}
        self._rows = {key: self._rows.get(key, 0) + 1 for key in set(keys.values())}
        return {call.id: self._rows[keys[call.id]] if call.id in keys else 1 for call in calls}

    def coming(self, call: ToolCall) -> int:
        """Return what `note` will return for a call whose answer is still coming."""
        return 1 if self._repeatable(call) else self._rows.get(self._key(call), 0) + 1

    def _key(self, call: ToolCall) -> tuple[str, str, bool]:
        return call.name, _canonical(call.arguments), self._unread(call)


def _canonical(arguments: str) -> str:
    """Return the same text for every spelling of the same arguments."""
    try:
        decoded: Any = json.loads(arguments)
        return json.dumps(decoded, sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def _tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens
