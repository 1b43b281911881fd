"""What the commands about the run that goes on do: /step, /plan, /stop and /budget."""

from codeagent.core.acts import SetBudget, SetMode, SkipCall, Steer, Step, Stop
from codeagent.core.budget import Budget
from codeagent.core.errors import CodeagentError
from codeagent.core.sanitize import one_line
from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.pages.job_commands import stop_job
from codeagent.tui.parts.boundary import call_write, plan_write
from codeagent.tui.parts.card_content import Continue, Say, StartPlan
from codeagent.tui.state import Paused, PausedCall, PlanReady

_NO_PLAN = "no plan is ready: /plan and a goal begins one"
_NOT_PAUSED = "nothing is paused: /step on pauses before the next batch"


async def step(chat: ChatScreen, argument: str) -> None:
    """`/step [on|off|go|skip N [why]|edit N]`."""
    word, _, rest = argument.partition(" ")
    client = await chat.outbox.ready()
    match word:
        case "":
            client.do(Step(not chat.state.status.now.stepping))
        case "on" | "off" if not rest:
            client.do(Step(word == "on"))
        case "go" if not rest:
            _paused(chat)
            await chat.card.at_boundary(Continue())
        case "skip":
            number, _, reason = rest.strip().partition(" ")
            await chat.card.at_boundary(SkipCall(_call(chat, number).call_id, reason.strip()))
        case "edit":
            write = call_write(_call(chat, rest.strip().partition(" ")[0]))
            if isinstance(write, Say):
                raise CodeagentError(write.text)
            await chat.card.write_outside(write)
        case _:
            chat.tell(f"/step takes on, off, go, skip N or edit N, not '{one_line(argument, 40)}'")


async def plan(chat: ChatScreen, argument: str) -> None:
    """`/plan [goal|start [accept-edits]|edit]`."""
    match argument:
        case "start":
            _ready_plan(chat)
            await chat.card.at_boundary(StartPlan(chat.card.plan, "ask"))
        case "start accept-edits":
            _ready_plan(chat)
            await chat.card.at_boundary(StartPlan(chat.card.plan, "accept-edits"))
        case "edit":
            await chat.card.write_outside(plan_write(_ready_plan(chat)))
        case _:
            client = await chat.outbox.ready()
            client.do(SetMode("plan"))
            if argument:
                client.do(Steer(argument))


async def stop(chat: ChatScreen, argument: str) -> None:
    """`/stop [job]`: what was sent and waits for the start, a job, or what runs now."""
    if chat.outbox.waits:
        chat.outbox.stop()
    elif argument:
        await stop_job(chat, argument)
    elif (refused := (await chat.outbox.ready()).do(Stop())) is not None:
        jobs = chat.state.status.now.jobs
        chat.tell(refused.reason + ("; /stop and a job's name stops that" if jobs else ""))


async def budget(chat: ChatScreen, argument: str) -> None:
    """`/budget [$2|200k tokens|30 min|10 batches|off]`. Raises ConfigError."""
    client = await chat.outbox.ready()
    if argument:
        client.do(SetBudget(None if argument.strip().lower() == "off" else Budget.parse(argument)))
    chat.tell(f"budget: {chat.state.status.now.budget or client.agent.budget or 'none'}")


def _paused(chat: ChatScreen) -> Paused:
    if not isinstance(now := chat.state.boundary.now, Paused):
        raise CodeagentError(_NOT_PAUSED)
    return now


def _call(chat: ChatScreen, number: str) -> PausedCall:
    calls = _paused(chat).calls
    if not number.isdecimal() or not 1 <= int(number) <= len(calls):
        raise CodeagentError(f"there is no call '{one_line(number, 20)}': the batch has {len(calls)}")
    return calls[int(number) - 1]


def _ready_plan(chat: ChatScreen) -> PlanReady:
    if not isinstance(now := chat.state.boundary.now, PlanReady):
        raise CodeagentError(_NO_PLAN)
    return now
