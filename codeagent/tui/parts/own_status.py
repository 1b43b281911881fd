"""The user's own words in the status line: a template of fields, and a program whose first line is
one of them."""

import asyncio
import json
import os
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from string import Formatter

from rich.style import Style
from textual.timer import Timer
from textual.widget import Widget

from codeagent.core.host_programs import NOWHERE, STATUS_LINE, minimal, start_program
from codeagent.core.programs import find_program, why_not_found
from codeagent.tui.rendering.ansi import ansi_line
from codeagent.tui.rendering.lines import cut_end
from codeagent.tui.status import Status

_PROGRAM = "command"
"""The field of the program's first line."""
_EVERY = 5.0
"""Seconds between two starts of the program, but for the end of a turn."""
_SECONDS = 2.0
"""How long the program may take."""
_MOST_BYTES = 4096
_MOST_CELLS = 120


class OwnStatus:
    """The template, filled in; its sections are separated by `|`, and those whose fields are all
    empty are left out."""

    def __init__(self, template: str) -> None:
        """`template` was checked with the settings."""
        self._sections = [
            (section.strip(), {name for _, name, _, _ in Formatter().parse(section) if name})
            for section in template.split("|")
        ]

    def sections(self, fields: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(
            section.format_map(fields)
            for section, names in self._sections
            if not names or any(fields[name] for name in names)
        )


class StatusProgram:
    """Runs the user's program when what it may be about has changed, and keeps its first line.

    It runs at most every few seconds, and at the end of a turn at once; never while nothing
    happens.
    """

    def __init__(self, widget: Widget, command: tuple[str, ...], workspace: Path) -> None:
        """`widget` is drawn again with each line; its timers and workers are used."""
        self.line = ""
        self._widget = widget
        self._command = command
        self._workspace = workspace
        self._seen: Mapping[str, str] = {}
        self._was_idle = False
        self._begun = -_EVERY
        self._due: Timer | None = None
        self._running = False

    def look(self, status: Status, fields: Mapping[str, str]) -> None:
        """Take note of the status as it is now."""
        idle = status.run.phase == "idle"
        ended = idle and not self._was_idle
        changed = fields != self._seen
        self._was_idle = idle
        self._seen = fields
        if (changed or ended) and (self._due is None or ended):
            self._arm(0.0 if ended else self._begun + _EVERY - time.monotonic())

    def _arm(self, seconds: float) -> None:
        if self._due is not None:
            self._due.stop()
        self._due = self._widget.set_timer(max(0.01, seconds), self._begin)

    def _begin(self) -> None:
        if self._running:
            self._arm(_SECONDS)
            return
        self._due = None
        self._begun = time.monotonic()
        self._running = True
        self._widget.run_worker(self._run())

    async def _run(self) -> None:
        try:
            self.line = await first_line(self._command, self._workspace, self._seen)
        except (OSError, ValueError) as error:
            self.line = f"status_command: {error}"
        finally:
            self._running = False
        self._widget.refresh()


async def first_line(command: tuple[str, ...], workspace: Path, fields: Mapping[str, str]) -> str:
    """Start the program with the fields as JSON to read, and return the first line that it prints,
    in plain text.

    Raises OSError or ValueError, whose text is a phrase, if it cannot be started, fails or takes
    too long.
    """
    program = await asyncio.to_thread(find_program, command[0], workspace)
    if program is None:
        raise ValueError(why_not_found(command[0], workspace)[0])
    environment = minimal(os.environ, outside=workspace) | {"CODEAGENT_WORKSPACE": str(workspace)}
    process = await start_program(
        STATUS_LINE,
        (program, *command[1:]),
        folder=NOWHERE,
        environment=environment,
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        start_new_session=True,
        limit=_MOST_BYTES,
    )
    try:
        async with asyncio.timeout(_SECONDS):
            line = await _answer(process, json.dumps(dict(fields)).encode())
    except TimeoutError:
        raise ValueError(f"took longer than {_SECONDS:g} s") from None
    finally:
        await _end(process)
    return cut_end(ansi_line(line, Style()).text, _MOST_CELLS)


async def _end(process: Process) -> None:
    """Kill the program and what it started, and wait for its end, unless something else holds its
    pipe open."""
    assert process.stdout is not None
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(_SECONDS):
            while await process.stdout.read(_MOST_BYTES):
                pass  # a full pipe would keep it from being seen to end
            await process.wait()


async def _answer(process: Process, told: bytes) -> str:
    assert process.stdin is not None and process.stdout is not None
    with suppress(ConnectionError):  # it need not read
        process.stdin.write(told)
        await process.stdin.drain()
    process.stdin.close()
    try:
        line = await process.stdout.readline()
    except ValueError:
        raise ValueError(f"its first line has more than {_MOST_BYTES} bytes") from None
    code = await process.wait()
    if code:
        raise ValueError(f"exited with {code}")
    return line.decode(errors="replace").strip()
