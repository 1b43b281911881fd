"""The tools over triggers: set a timer or a schedule, watch files, list them, stop one."""

from abc import abstractmethod
from datetime import datetime, timedelta
from typing import Annotated, Any

from codeagent.core.deferred import AfterValidator, Field
from codeagent.core.display import TextBlock
from codeagent.core.jobs import Trigger
from codeagent.core.json_types import MAIN
from codeagent.core.policy import ApprovalKey
from codeagent.core.tool import (
    ArgsT,
    Failed,
    InvalidArgs,
    NotFound,
    Preview,
    Tool,
    ToolArgs,
    ToolContext,
    ToolResult,
)
from codeagent.extensions.triggers.triggers import Triggers
from codeagent.tools.arguments import AS_SECONDS, Count, written
from codeagent.tools.extension import ExtensionContext
from codeagent.tools.jobs import NoArgs

_LONGEST_PROMPT = 4000
_MOST = 1000
_USUAL = 10
"""How often a trigger fires if no maximum is given."""
_LONGEST = 366 * 86_400

Words = Annotated[str, Field(max_length=_LONGEST_PROMPT), written("prompt")]
MostCount = Annotated[Count, Field(le=_MOST)]


def _moment(text: str) -> str:
    datetime.fromisoformat(text)
    return text


class SetArgs(ToolArgs):
    prompt: Words


class TimerArgs(SetArgs):
    seconds: Annotated[float, Field(gt=0, le=_LONGEST), AS_SECONDS] | None = None
    at: Annotated[str, AfterValidator(_moment)] | None = None
    repeat: bool = False
    max_count: MostCount | None = None


class ScheduleArgs(SetArgs):
    cron: Annotated[str, Field(max_length=200), written("schedule")]
    max_count: MostCount = _USUAL


class WatchFileArgs(SetArgs):
    glob: Annotated[str, Field(max_length=1000), written("pattern")]
    max_count: MostCount = _USUAL


class StopArgs(ToolArgs):
    id: str


class _SetTool(Tool[ArgsT]):
    """Asks by default: a trigger begins runs later, whose calls are checked like any other."""

    permission = "prompt"
    effect = "nothing"

    def __init__(self, triggers: Triggers) -> None:
        self._triggers = triggers

    def approval_key(self, args: ArgsT) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=(self.target(args),))

    async def preview(self, args: ArgsT, ctx: ToolContext) -> Preview:
        prompt = getattr(args, "prompt", "")
        text = f"{self.target(args)}\nThe agent is told then, and may begin to work without being asked:\n{prompt}"
        return Preview(self.target(args), (TextBlock(text=text),))

    async def run(self, args: ArgsT, ctx: ToolContext) -> ToolResult:
        if ctx.agent != MAIN:
            raise Failed("only the agent that the user talks to can set triggers")
        trigger = await self._set(args)
        return ToolResult.from_text(
            f"Set: {trigger_line(trigger, self._triggers.now())}", details={"trigger": trigger.id}
        )

    @abstractmethod
    async def _set(self, args: ArgsT) -> Trigger:
        """Set the trigger. Raises ToolError."""


class AddTimer(_SetTool[TimerArgs]):
    name = "add_timer"
    label = "Set timer"
    description = (
        "Be told prompt after seconds, or at a local time (2026-01-31T09:00). With repeat, every so many seconds, "
        f"max_count times ({_USUAL})."
    )
    documentation = (
        "A trigger fires only between turns: when you would stop, or while you rest, and then it begins a run. You are "
        "told by a message in parentheses, which is not the user's. Triggers outlive a restart of the session: what "
        "became due in the meantime fires once. A trigger fires at most every 10 seconds. `trigger_stop` ends one, and "
        "so can the user."
    )
    Args = TimerArgs

    def target(self, args: TimerArgs) -> str:
        first = (
            f"at {args.at}"
            if args.at is not None
            else f"{'every' if args.repeat else 'in'} {args.seconds or 0:g} s"
        )
        return f"{first}, at most {args.max_count or _USUAL} times" if args.repeat else first

    async def _set(self, args: TimerArgs) -> Trigger:
        if (args.seconds is None) == (args.at is None):
            raise InvalidArgs("give either seconds or at")
        if args.repeat and args.seconds is None:
            raise InvalidArgs(
                "a timer that repeats needs seconds; for times of the day use add_schedule"
            )
        due = self._triggers.now() + (args.seconds or 0)
        if args.at is not None:
            due = datetime.fromisoformat(args.at).timestamp()
            if due <= self._triggers.now():
                raise InvalidArgs(f"{args.at} has passed; it is {local_time(self._triggers.now())}")
            if due > self._triggers.now() + _LONGEST:
                raise InvalidArgs(
                    f"{args.at} is more than {timedelta(seconds=_LONGEST).days} days away"
                )
        every = args.seconds if args.repeat else None
        at_most = (args.max_count or _USUAL) if args.repeat else 1
        when = "once" if every is None else f"every {every:g} s"
        return await self._triggers.add(
            "timer", when, args.prompt, at_most=at_most, every=every, due=due
        )


class AddSchedule(_SetTool[ScheduleArgs]):
    name = "add_schedule"
    label = "Set schedule"
    description = (
        "Be told prompt at the times of a cron schedule: minute, hour, day, month, weekday in local time, as in "
        "'0 9 * * 1-5'."
    )
    documentation = AddTimer.documentation
    Args = ScheduleArgs

    def target(self, args: ScheduleArgs) -> str:
        return f"schedule {args.cron}, at most {args.max_count} times"

    async def _set(self, args: ScheduleArgs) -> Trigger:
        return await self._triggers.add(
            "schedule", " ".join(args.cron.split()), args.prompt, at_most=args.max_count
        )


class WatchFile(_SetTool[WatchFileArgs]):
    name = "watch_file"
    label = "Watch files"
    description = "Be told prompt and which files when files that match a glob change, are new or gone, whoever did it."
    documentation = AddTimer.documentation
    Args = WatchFileArgs

    def target(self, args: WatchFileArgs) -> str:
        return f"watch {args.glob}, at most {args.max_count} times"

    async def _set(self, args: WatchFileArgs) -> Trigger:
        return await self._triggers.add("file", args.glob, args.prompt, at_most=args.max_count)


class TriggerListTool(Tool[NoArgs]):
    name = "trigger_list"
    label = "Triggers"
    description = "List the triggers that are set."
    Args = NoArgs
    permission = "auto"
    concurrency = "shared"
    effect = "nothing"
    repeatable = True

    def __init__(self, triggers: Triggers) -> None:
        self._triggers = triggers

    async def run(self, args: NoArgs, ctx: ToolContext) -> ToolResult:
        lines = [
            trigger_line(trigger, self._triggers.now()) for trigger in self._triggers.triggers()
        ]
        return ToolResult.from_text("\n".join(lines) or "No trigger is set.")


class TriggerStopTool(Tool[StopArgs]):
    """Does not need approval: it only ends what was allowed."""

    name = "trigger_stop"
    label = "Stop trigger"
    description = "Stop a trigger."
    Args = StopArgs
    permission = "auto"
    effect = "nothing"

    def __init__(self, triggers: Triggers) -> None:
        self._triggers = triggers

    def approval_key(self, args: StopArgs) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=(args.id,))

    async def run(self, args: StopArgs, ctx: ToolContext) -> ToolResult:
        trigger = self._triggers.stop(args.id, "agent")
        if trigger is None:
            known = ", ".join(trigger.id for trigger in self._triggers.triggers()) or "none"
            raise NotFound(f"unknown trigger {args.id[:40]!r}; there are: {known}")
        return ToolResult.from_text(f"{trigger.id} was stopped; it fired {trigger.fired} times.")


def trigger_tools(triggers: Triggers) -> tuple[Tool[Any], ...]:
    """Return the tools in the order in which the model sees them."""
    return (
        AddTimer(triggers),
        AddSchedule(triggers),
        WatchFile(triggers),
        TriggerListTool(triggers),
        TriggerStopTool(triggers),
    )


def trigger_set(context: ExtensionContext) -> tuple[Tool[Any], ...]:
    """Make the set `triggers` of a conversation."""
    return trigger_tools(context.part(Triggers) or Triggers())


def trigger_line(trigger: Trigger, now: float) -> str:
    """Return id, condition, number of firings, maximum and due time of a trigger, in one line."""
    parts = [
        f"{trigger.id}, {trigger.kind} {trigger.when}",
        f"fired {trigger.fired} of {trigger.at_most}",
    ]
    if trigger.due is not None:
        parts.append(f"next at {local_time(trigger.due)}, in {max(0.0, trigger.due - now):.0f} s")
    return f"{', '.join(parts)}: {trigger.prompt}"


def local_time(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
