"""`/jobs`, `/background` and `/stop JOB`, and what Ctrl+T and Ctrl+B do."""

from typing import Literal

from codeagent.core.acts import Background, SendToJob, StopJob
from codeagent.core.errors import CodeagentError
from codeagent.core.jobs import Job
from codeagent.core.sanitize import one_line
from codeagent.tui.pages.commanded import Chat
from codeagent.tui.pages.host import Host
from codeagent.tui.pages.info import OutputScreen
from codeagent.tui.pages.jobs import JobsScreen
from codeagent.tui.pages.picker import Picker
from codeagent.tui.parts.marked_list import PickerRow
from codeagent.tui.transcript.blocks import CallCard
from codeagent.tui.transcript.spelling import whole

_NONE = "there is no job yet"
_ENDED = "nothing is running: nothing was moved to the background"


class JobCommands:
    """Says what cannot be done in one line."""

    def __init__(self, chat: Chat, host: Host) -> None:
        self._chat = chat
        self._host = host

    async def run(self, name: Literal["jobs", "background"], argument: str) -> None:
        """Pages and lists are waited for. Raises CodeagentError."""
        if name == "jobs":
            await self._jobs(argument)
        else:
            await self._background(argument)

    async def stop(self, argument: str) -> None:
        """`/stop job-1`, or only its number. Raises CodeagentError."""
        row = self._job(argument)
        if row.status != "running":
            raise CodeagentError(f"{row.id} is no longer running: {row.status}")
        self._chat.tell(f"stopping {row.id}")
        refused = await (await self._chat.ready()).finish(StopJob(row.id))
        self._chat.tell("" if refused is None else refused.reason)

    async def _jobs(self, argument: str) -> None:
        """`/jobs [job [output|send TEXT]]`."""
        client = await self._chat.ready()
        name, _, rest = argument.partition(" ")
        word, _, text = rest.strip().partition(" ")
        if not self._chat.state.jobs.rows:
            key = self._host.keys.shown("chat.background")
            self._chat.tell(f"{_NONE}; {key} moves a call that runs to the background")
            return
        row = self._job(name) if name else None
        match word:
            case "":
                marked = "" if row is None else row.id
                page = JobsScreen(self._chat.state, client, self._host.keys, marked=marked, clock=self._host.now)
                await self._chat.app.push_screen_wait(page)
            case "output" if row is not None and not text:
                await self._output(row)
            case "send" if row is not None:
                refused = client.do(SendToJob(row.id, text))
                self._chat.tell(f"sent to {row.id}" if refused is None else refused.reason)
            case _:
                self._chat.tell(f"/jobs takes a job, and then output or send TEXT, not '{one_line(rest, 40)}'")

    async def _output(self, row: Job) -> None:
        text = await (await self._chat.ready()).job_output(row.id)
        if text is None:
            raise CodeagentError("that output is gone: it was not kept")
        await self._chat.app.push_screen_wait(OutputScreen(f"{row.id} · {row.title}", text))

    async def _background(self, argument: str) -> None:
        """`/background [number]`: of several calls, the user says which."""
        client = await self._chat.ready()
        calls = self._chat.state.document.running_calls()
        if not calls:
            raise CodeagentError(_ENDED)
        call_id = calls[0].call_id
        if argument:
            call_id = _numbered(calls, argument).call_id
        elif len(calls) > 1:
            chosen = await self._pick(calls)
            if chosen is None:
                return
            call_id = chosen
        if (refused := client.do(Background(call_id))) is not None:
            self._chat.tell(refused.reason)

    async def _pick(self, calls: tuple[CallCard, ...]) -> str | None:
        now = self._host.now()
        rows = [
            PickerRow(
                card.call_id,
                f"{number}  {card.name}  {one_line(card.target, 80)}",
                "" if card.began is None else f"running {whole(now - card.began)}",
            )
            for number, card in enumerate(calls, 1)
        ]
        return await self._chat.app.push_screen_wait(Picker("Move to the background", rows))

    def _job(self, name: str) -> Job:
        """By its id or its number. Raises CodeagentError."""
        board = self._chat.state.jobs
        row = board.get(name) or board.get(f"job-{name}")
        if row is None:
            known = ", ".join(row.id for row in board.rows[-6:])
            there = f"there are {known}" if known else _NONE
            raise CodeagentError(f"no job '{one_line(name, 20)}': {there}")
        return row


def _numbered(calls: tuple[CallCard, ...], number: str) -> CallCard:
    if not number.isdecimal() or not 1 <= int(number) <= len(calls):
        raise CodeagentError(f"there is no call '{one_line(number, 20)}': {len(calls)} run")
    return calls[int(number) - 1]
