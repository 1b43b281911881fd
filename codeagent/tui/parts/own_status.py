"""The user's own status line: a template of fields, and the status command, whose first line is one
of them."""

import asyncio
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from string import Formatter
from subprocess import DEVNULL, TimeoutExpired

from rich.style import Style
from textual.widget import Widget

from codeagent.core.host_programs import NOWHERE, STATUS_LINE, minimal, run_program
from codeagent.core.programs import find_program, why_not_found
from codeagent.tui.rendering.ansi import ansi_line
from codeagent.tui.rendering.lines import cut_end
from codeagent.tui.status import Status

_EVERY = 5.0
"""Seconds between two starts of the program, except at the end of a turn."""
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
    """Runs the user's program when one of the fields has changed, and keeps its first line.

    It runs at most every few seconds, and at the end of a turn at once; never while nothing
    happens.
    """

    def __init__(self, widget: Widget, command: tuple[str, ...], workspace: Path) -> None:
        """`widget` is drawn again with each line."""
        self.line = ""
        self._widget = widget
        self._command = command
        self._workspace = workspace
        self._seen: Mapping[str, str] = {}
        self._idle = False
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()
        widget.run_worker(self._follow(), group="status", exclusive=True)

    def look(self, status: Status, fields: Mapping[str, str]) -> None:
        """Take note of the status as it is now."""
        was_idle = self._idle
        self._idle = status.run.phase == "idle"
        if self._idle and not was_idle:
            self._changed.set()
            self._ended.set()
        if fields != self._seen:
            self._seen = fields
            self._changed.set()

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._ended.clear()
            self.line = await asyncio.to_thread(
                first_line, self._command, self._workspace, self._seen
            )
            self._widget.refresh()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _EVERY)


def first_line(command: tuple[str, ...], workspace: Path, fields: Mapping[str, str]) -> str:
    """Run the program with the fields as JSON to read, and return the first line that it prints, in
    plain text, or what went wrong. Blocks."""
    program = find_program(command[0], workspace)
    if program is None:
        return f"status_command: {why_not_found(command[0], workspace)[0]}"
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as printed:
        os.set_blocking(reading, False)
        try:
            # A program that prints more than the pipe holds waits until it is ended.
            done = run_program(
                STATUS_LINE,
                (program, *command[1:]),
                folder=NOWHERE,
                environment=minimal(os.environ, outside=workspace)
                | {"CODEAGENT_WORKSPACE": str(workspace)},
                seconds=_SECONDS,
                data=json.dumps(dict(fields)).encode(),
                stdout=writing,
                stderr=DEVNULL,
                start_new_session=True,
            )
        except TimeoutExpired:
            return f"status_command: took longer than {_SECONDS:g} s"
        except OSError as error:
            return f"status_command: {error.strerror}"
        finally:
            os.close(writing)
        if done.returncode:
            return f"status_command: exited with {done.returncode}"
        lines = (printed.read(_MOST_BYTES) or b"").decode(errors="replace").splitlines()
    return cut_end(ansi_line(lines[0].strip(), Style()).text, _MOST_CELLS) if lines else ""
