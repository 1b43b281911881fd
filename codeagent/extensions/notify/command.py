"""Runs the user's own command for a notification.

It is a module of its own because it starts a program, as its row in `core.host_programs` says.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from subprocess import DEVNULL

from codeagent.core.attention import Terminal
from codeagent.core.host_programs import NOTIFIER, NOWHERE, finish_program, minimal
from codeagent.core.programs import find_program
from codeagent.core.sanitize import plain_line

_PATIENCE = 10.0
"""Seconds after which a command is killed; until then no other is started."""
_DESKTOP = ("DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
"""The variables with which a program finds the user's desktop."""


async def run(argv: Sequence[str], workspace: Path, terminal: Terminal) -> None:
    """Run the user's command to its end, or kill it; report a failure."""
    program = find_program(argv[0], workspace)
    problem = "ended with an error"
    try:
        if program is None or not Path(program).is_absolute():
            problem = "is not a program on PATH or an absolute path outside the workspace"
        elif await _ends_well([program, *argv[1:]], workspace):
            return
    except TimeoutError:
        problem = f"was stopped after {_PATIENCE:.0f} seconds"
    except OSError as error:
        problem = f"does not start ({error.strerror})"
    terminal.tell(f"notify.command: {plain_line(argv[0], 60)} {problem}")


async def _ends_well(argv: Sequence[str], workspace: Path) -> bool:
    done = await finish_program(
        NOTIFIER,
        argv,
        folder=NOWHERE,
        environment=minimal(os.environ, *_DESKTOP, outside=workspace),
        seconds=_PATIENCE,
        stdout=DEVNULL,
        stderr=DEVNULL,
    )
    return done.returncode == 0
