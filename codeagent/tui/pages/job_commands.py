"""What /jobs, /background and `/stop JOB` do."""

from codeagent.core.acts import Background, SendToJob, StopJob
from codeagent.core.errors import CodeagentError
from codeagent.core.jobs import Job
from codeagent.core.sanitize import one_line
from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.pages.info import OutputScreen
from codeagent.tui.pages.jobs import JobsScreen
from codeagent.tui.pages.picker import Picker
from codeagent.tui.parts.card_keys import keymap_of
from codeagent.tui.parts.marked_list import PickerRow
from codeagent.tui.transcript.spelling import whole

_NONE = "there is no job yet"


async def jobs(chat: ChatScreen, argument: str) -> None:
    """`/jobs [job [output|send TEXT]]`. Raises CodeagentError."""
    client = await chat.outbox.ready()
    name, _, rest = argument.partition(" ")
    word, _, text = rest.strip().partition(" ")
    if not chat.state.jobs.rows:
        key = keymap_of(chat).shown("chat.background")
        chat.tell(f"{_NONE}; {key} moves a call that runs to the background")
        return
    row = _job(chat, name) if name else None
    match word:
        case "":
            marked = "" if row is None else row.id
            await chat.app.push_screen_wait(JobsScreen(chat.state, client, marked=marked, clock=chat.clock))
        case "output" if row is not None and not text:
            output = await client.job_output(row.id)
            if output is None:
                raise CodeagentError("that output is gone: it was not kept")
            await chat.app.push_screen_wait(OutputScreen(f"{row.id} · {row.title}", output))
        case "send" if row is not None:
            refused = client.do(SendToJob(row.id, text))
            chat.tell(f"sent to {row.id}" if refused is None else refused.reason)
        case _:
            chat.tell(f"/jobs takes a job, and then output or send TEXT, not '{one_line(rest, 40)}'")


async def stop_job(chat: ChatScreen, name: str) -> None:
    """`/stop job-1`, or only its number. Raises CodeagentError."""
    row = _job(chat, name)
    if row.status != "running":
        raise CodeagentError(f"{row.id} is no longer running: {row.status}")
    chat.tell(f"stopping {row.id}")
    refused = await (await chat.outbox.ready()).finish(StopJob(row.id))
    chat.tell("" if refused is None else refused.reason)


async def background(chat: ChatScreen, argument: str) -> None:
    """`/background [number]`: of several calls, the user says which. Raises CodeagentError."""
    client = await chat.outbox.ready()
    calls = chat.state.document.running_calls()
    if not calls:
        raise CodeagentError("nothing is running: nothing was moved to the background")
    chosen: str | None = calls[0].call_id
    if argument:
        if not argument.isdecimal() or not 1 <= int(argument) <= len(calls):
            raise CodeagentError(f"there is no call '{one_line(argument, 20)}': {len(calls)} run")
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
    """By its id or its number. Raises CodeagentError."""
    board = chat.state.jobs
    row = board.get(name) or board.get(f"job-{name}")
    if row is None:
        known = ", ".join(row.id for row in board.rows[-6:])
        there = f"there are {known}" if known else _NONE
        raise CodeagentError(f"no job '{one_line(name, 20)}': {there}")
    return row
