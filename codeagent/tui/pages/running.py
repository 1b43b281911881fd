"""The commands about a run: /pause, /step, /plan, /compact, /pin, /stop, /budget, /jobs,
/background."""

from codeagent.core.acts import (
    Background,
    CancelCall,
    Compact,
    Pause,
    Pin,
    SendToJob,
    SetBudget,
    SetMode,
    SkipCall,
    Steer,
    Step,
    Stop,
    Unpin,
)
from codeagent.core.budget import Budget
from codeagent.core.errors import CodeagentError
from codeagent.core.jobs import Job
from codeagent.core.memory import how_far
from codeagent.core.policy import Mode
from codeagent.core.sanitize import one_line
from codeagent.tui.keymap import keymap_of
from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.pages.info import OutputScreen, TextScreen
from codeagent.tui.pages.jobs import JobsScreen, stop_of
from codeagent.tui.pages.picker import Picker
from codeagent.tui.parts.boundary import call_write, text_write
from codeagent.tui.parts.card_content import Continue, Say, StartPlan, UseSummary
from codeagent.tui.parts.marked_list import PickerRow
from codeagent.tui.state import Paused, PausedCall, PlanReady, SummaryReady
from codeagent.tui.transcript.spelling import whole

_NO_PLAN = "no plan is ready: /plan with a goal starts one"
_NO_JOB = "no jobs yet"
_NOT_PAUSED = "nothing is paused: /step on pauses before the next batch"


async def pause(chat: ChatScreen, argument: str) -> None:
    """Handle `/pause`."""
    chat.answer((await chat.outbox.ready()).do(Pause()))


async def step(chat: ChatScreen, argument: str) -> None:
    """Handle `/step [on|off|go|skip N [why]|unskip N|edit N]`."""
    word, _, rest = argument.partition(" ")
    client = await chat.outbox.ready()
    match word:
        case "":
            client.do(Step(not chat.state.status.now.run.stepping))
        case "on" | "off" if not rest:
            client.do(Step(word == "on"))
        case "go" if not rest:
            _paused(chat)
            await chat.card.at_boundary(Continue())
        case "skip":
            number, _, reason = rest.strip().partition(" ")
            await chat.card.at_boundary(SkipCall(_call(chat, number).call_id, reason.strip()))
        case "unskip":
            await chat.card.at_boundary(SkipCall(_call(chat, rest.strip()).call_id, on=False))
        case "edit":
            write = call_write(_call(chat, rest.strip().partition(" ")[0]))
            if isinstance(write, Say):
                raise CodeagentError(write.text)
            await chat.card.write_outside(write)
        case _:
            takes = "on, off, go, skip N, unskip N or edit N"
            chat.tell(f"/step takes {takes}, not '{one_line(argument, 40)}'")


async def plan(chat: ChatScreen, argument: str) -> None:
    """Handle `/plan [goal|start [accept-edits]|edit]`."""
    match argument:
        case "start" | "start accept-edits":
            _ready_plan(chat)
            mode: Mode = "ask" if argument == "start" else "accept-edits"
            await chat.card.at_boundary(StartPlan(chat.card.text, mode))
        case "edit":
            await chat.card.write_outside(text_write(_ready_plan(chat)))
        case _:
            client = await chat.outbox.ready()
            client.do(SetMode("plan"))
            if argument:
                client.do(Steer(argument))


async def compact(chat: ChatScreen, argument: str) -> None:
    """Handle `/compact [what the summary must cover]` or, while a summary waits, `/compact
    [use|edit|keep]`."""
    now, card = chat.state.boundary.now, chat.card
    match argument if isinstance(now, SummaryReady) else None:
        case "":
            await chat.app.push_screen_wait(TextScreen("Summary", card.text))
        case "use" if isinstance(now, SummaryReady):
            await card.at_boundary(UseSummary(card.text, now.text))
        case "edit" if isinstance(now, SummaryReady):
            await card.write_outside(text_write(now))
        case "keep":
            await card.at_boundary(UseSummary(None))
        case None:
            chat.answer((await chat.outbox.ready()).do(Compact(argument)))
        case _:
            chat.tell(
                f"a summary waits: /compact takes use, edit or keep, not '{one_line(argument, 40)}'"
            )


async def pin(chat: ChatScreen, argument: str) -> None:
    """Handle `/pin [text]`; without text, show what is pinned."""
    if argument:
        chat.answer((await chat.outbox.ready()).do(Pin(argument)))
    elif pins := chat.state.status.now.work.pins:
        lines = (f"{number}. {text}" for number, text in enumerate(pins, 1))
        await chat.app.push_screen_wait(TextScreen("Pinned", "\n".join(lines)))
    else:
        chat.tell("nothing is pinned: /pin TEXT pins a line")


async def unpin(chat: ChatScreen, argument: str) -> None:
    """Handle `/unpin number`. Raises CodeagentError."""
    if not argument.isdecimal():
        raise CodeagentError("/unpin takes the number of a pinned line; /pin shows them")
    chat.answer((await chat.outbox.ready()).do(Unpin(int(argument))))


async def todo(chat: ChatScreen, argument: str) -> None:
    """`/todo`: the whole list."""
    if items := chat.state.status.now.work.todo:
        await chat.app.push_screen_wait(
            TextScreen(
                "To-do list", "\n".join([how_far(items), "", *(f"- {item}" for item in items)])
            )
        )
    else:
        chat.tell("the to-do list is empty: the model writes one for work of several steps")


async def stop(chat: ChatScreen, argument: str) -> None:
    """Handle `/stop [job]`: stop a job, or what is running now or waits for the start."""
    if chat.outbox.waits:
        chat.outbox.stop()
    elif argument:
        await _stop_job(chat, argument)
    elif (refused := (await chat.outbox.ready()).do(Stop())) is not None:
        jobs = chat.state.status.now.work.jobs
        chat.tell(refused.reason + ("; /stop JOB stops a job" if jobs else ""))


async def budget(chat: ChatScreen, argument: str) -> None:
    """Handle `/budget [$2|200k tokens|30 min|10 batches|off]`. Raises ConfigError."""
    client = await chat.outbox.ready()
    if argument:
        client.do(SetBudget(None if argument.strip().lower() == "off" else Budget.parse(argument)))
    chat.tell(f"budget: {chat.state.status.now.usage.budget or client.agent.budget or 'none'}")


def _paused(chat: ChatScreen) -> Paused:
    if not isinstance(now := chat.state.boundary.now, Paused):
        raise CodeagentError(_NOT_PAUSED)
    return now


def _call(chat: ChatScreen, number: str) -> PausedCall:
    calls = _paused(chat).calls
    if not number.isdecimal() or not 1 <= int(number) <= len(calls):
        raise CodeagentError(f"unknown call '{one_line(number, 20)}': the batch has {len(calls)}")
    return calls[int(number) - 1]


def _ready_plan(chat: ChatScreen) -> PlanReady:
    if not isinstance(now := chat.state.boundary.now, PlanReady):
        raise CodeagentError(_NO_PLAN)
    return now


async def jobs(chat: ChatScreen, argument: str) -> None:
    """Handle `/jobs [job [output|send TEXT]]`. Raises CodeagentError."""
    client = await chat.outbox.ready()
    name, _, rest = argument.partition(" ")
    word, _, text = rest.strip().partition(" ")
    if not chat.state.jobs.rows:
        key = keymap_of(chat).shown("chat.background")
        chat.tell(f"{_NO_JOB}; {key} moves a running call to the background")
        return
    row = _job(chat, name) if name else None
    match word:
        case "":
            marked = "" if row is None else row.id
            await chat.app.push_screen_wait(
                JobsScreen(chat.state, client, marked=marked, clock=chat.clock)
            )
        case "output" if row is not None and not text:
            output = await client.job_output(row.id)
            if output is None:
                raise CodeagentError("that output is gone: it was not kept")
            await chat.app.push_screen_wait(OutputScreen(f"{row.id} · {row.title}", output))
        case "send" if row is not None:
            chat.answer(client.do(SendToJob(row.id, text)), f"sent to {row.id}")
        case _:
            chat.tell(
                f"/jobs takes a job, and then output or send TEXT, not '{one_line(rest, 40)}'"
            )


async def _stop_job(chat: ChatScreen, name: str) -> None:
    """Handle `/stop job-1`, or just its number; `/stop reviewer.1` for a child, `/stop reviewer.1
    bash` for its call.

    Raises CodeagentError.
    """
    document, (agent, _, tool) = chat.state.document, name.partition(" ")
    stop: CancelCall | None = None
    if (call_id := document.running_child(name)) is not None:
        stop = CancelCall(call_id)
    elif (call_id := document.running_call_of(agent, tool.strip())) is not None:
        stop = CancelCall(call_id, agent)
    if stop is not None:
        chat.answer((await chat.outbox.ready()).do(stop), f"stopping {name}")
        return
    row = _job(chat, name)
    if row.status not in ("running", "waiting"):
        raise CodeagentError(f"{row.id} is no longer running: {row.status}")
    chat.tell(f"stopping {row.id}")
    chat.answer(await (await chat.outbox.ready()).finish(stop_of(row)))


async def background(chat: ChatScreen, argument: str) -> None:
    """Handle `/background [number]`; if there are several calls, the user chooses. Raises
    CodeagentError."""
    client = await chat.outbox.ready()
    calls = chat.state.document.running_calls()
    if not calls:
        raise CodeagentError("no call of the agent is running: nothing was moved to the background")
    chosen: str | None = calls[0].call_id
    if argument:
        if not argument.isdecimal() or not 1 <= int(argument) <= len(calls):
            raise CodeagentError(f"unknown call '{one_line(argument, 20)}': {len(calls)} running")
        chosen = calls[int(argument) - 1].call_id
    elif len(calls) > 1:
        now = chat.clock()
        rows = [
            PickerRow(
                card.call_id,
                f"{number}  {card.name}  {one_line(card.target, 80)}",
                "" if card.began is None else f"running {whole(now - card.began)}",
            )
            for number, card in enumerate(calls, 1)
        ]
        chosen = await chat.app.push_screen_wait(Picker("Move to the background", rows))
    if chosen is not None and (refused := client.do(Background(chosen))) is not None:
        chat.tell(refused.reason)


def _job(chat: ChatScreen, name: str) -> Job:
    """Return the job with that id or number. Raises CodeagentError."""
    board = chat.state.jobs
    row = board.get(name) or board.get(f"job-{name}")
    if row is None:
        known = ", ".join(row.id for row in board.rows[-6:])
        there = f"there are {known}" if known else _NO_JOB
        raise CodeagentError(f"no job '{one_line(name, 20)}': {there}")
    return row
