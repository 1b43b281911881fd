"""`codeagent batch work`: a process that works on one task after the other. The batch that started it
writes the tasks to its standard input; the process ends with that input."""

import argparse
import asyncio
import json
import os
import stat
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.config.checking import checked
from codeagent.core.errors import ConfigError
from codeagent.extensions.batch.pacing import PacingLine, SharedPacing
from codeagent.extensions.batch.perform import BatchContext, Tell, perform
from codeagent.extensions.batch.results import TaskFolder
from codeagent.extensions.batch.tasks import BatchTask
from codeagent.llm.server_knowledge import ServerKnowledge

if TYPE_CHECKING:
    from codeagent.commands.ports import App

LONGEST_LINE = 64 << 20
"""Bytes of a line between a batch and its workers."""


async def work(args: argparse.Namespace, app: "App") -> int:
    """Read tasks and write their progress and records, one JSON object per line; the end of the input
    stops the task in order.

    Raises ConfigError if standard input cannot come from a batch: it is neither a pipe nor a socket."""
    mode = os.fstat(0).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        raise ConfigError("only a batch starts this command; start one with codeagent batch run")
    tell = teller(os.dup(1))
    os.dup2(2, 1)  # nothing else may write between the lines
    lines = asyncio.StreamReader(LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    pacing = PacingLine(tell)
    ServerKnowledge.pacing_of = partial(SharedPacing, pacing)
    working: asyncio.Task[None] | None = None

    async def do(given: Mapping[str, Any]) -> None:
        task = checked(BatchTask, given["task"])
        context = BatchContext(Path(given["state"]), Path(given["mirrors"]), given["settings"])
        record = await perform(task, TaskFolder(Path(given["folder"])), context, app, tell)
        tell({"ended": json.loads(record.line())})

    while (line := await lines.readline()).endswith(b"\n"):
        given = json.loads(line)
        if "go" in given:
            pacing.go(*given["go"])
            continue
        working = asyncio.ensure_future(do(given))
        working.add_done_callback(_end_if_failed)
    if working is not None and not working.done():
        working.cancel()  # the task can be continued
        with suppress(asyncio.CancelledError):
            await working
    return 0


def teller(out: int) -> Tell:
    """Return a function that writes lines of JSON to a pipe. It ignores that nobody reads them: the end
    of the input tells that, and the task has not failed."""

    def tell(told: Mapping[str, Any]) -> None:
        data = json.dumps(told).encode() + b"\n"
        with suppress(BrokenPipeError):
            while data:
                data = data[os.write(out, data) :]

    return tell


def _end_if_failed(work: asyncio.Task[None]) -> None:
    """End this process if the task ended with an unexpected exception: the batch sees that and tries
    again."""
    if not work.cancelled() and (error := work.exception()) is not None:
        with suppress(OSError):  # the log may have no room
            traceback.print_exception(error)
        os._exit(1)
