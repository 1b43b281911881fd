"""`codeagent batch work`: a process that works on one task after the other, as the batch that started
it says on standard input; it ends with that."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.config.checking import checked
from codeagent.extensions.batch.perform import Place, perform
from codeagent.extensions.batch.results import TaskFolder
from codeagent.extensions.batch.tasks import BatchTask

if TYPE_CHECKING:
    from codeagent.commands.ports import App

LONGEST_LINE = 64 << 20


async def work(args: argparse.Namespace, app: "App") -> int:
    """Read tasks, and write what becomes of them, one JSON object per line; an end of the input
    stops the work."""
    out = os.dup(1)
    os.dup2(2, 1)  # nothing else may write between the lines

    def tell(told: Mapping[str, Any]) -> None:
        os.write(out, json.dumps(told).encode() + b"\n")

    lines = asyncio.StreamReader(LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    first = json.loads(await lines.readline())
    place = Place(Path(first["state"]), Path(first["mirrors"]), first["settings"])
    tell({"ready": True})
    following = asyncio.ensure_future(lines.readline())
    while line := await following:
        given = json.loads(line)
        following = asyncio.ensure_future(lines.readline())
        task = checked(BatchTask, given["task"])
        working = asyncio.ensure_future(
            perform(task, TaskFolder(Path(given["folder"])), place, app, tell)
        )
        await asyncio.wait((working, following), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()  # the batch wants no more: what was begun can be gone on with
            with suppress(asyncio.CancelledError):
                await working
            return 0
        tell({"ended": json.loads(working.result().line())})
    return 0
