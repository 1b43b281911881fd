"""`codeagent send-selection`: what an editor runs to send its selection."""

import argparse
import os
from pathlib import Path

from codeagent.config.local_environment import state_dir
from codeagent.core.errors import ConfigError
from codeagent.core.extension import Finding
from codeagent.core.sanitize import one_line
from codeagent.disk.sockets import connect_to
from codeagent.extensions.editor.listeners import (
    LINES,
    SelectionListener,
    listeners_for,
    why_impossible,
)

_SECONDS = 5.0
_LONGEST_REPLY = 4096
_IMPOSSIBLE = "selections cannot be received: no socket can be made in the state folder ({})"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "selection", metavar="PATH[:LINE[-LINE]]", help="such as src/app.py:10-20 or src/app.py:7"
    )


def main(args: argparse.Namespace, app: object) -> int:
    """Send it to the first screen that takes it. Raises ConfigError."""
    before, _, after = args.selection.rpartition(":")
    name, lines = (before, after) if before and LINES.fullmatch(after) else (args.selection, "")
    path = Path(os.path.realpath(name))  # `resolve` raises RuntimeError for a link to itself
    for file, listener in listeners_for(state_dir(), path):
        try:
            reply = _sent(listener, listener.message(path, lines))
        except (ConnectionRefusedError, FileNotFoundError):
            file.unlink(missing_ok=True)  # its process was killed
            continue
        except OSError:
            continue
        if reply != "ok":
            raise ConfigError(one_line(reply, 400) or "it gave no answer; nothing was sent")
        print(f"sent to the codeagent in {one_line(listener.workspace, 400)}")
        return 0
    if reason := why_impossible(state_dir()):
        raise ConfigError(_IMPOSSIBLE.format(reason))
    raise ConfigError(
        f"no codeagent is open in a project with {one_line(str(path), 400)}; start one there"
    )


def findings(workspace: Path) -> list[Finding]:
    """Report if selections cannot be received."""
    reason = why_impossible(state_dir())
    return [Finding("editor", "note", _IMPOSSIBLE.format(reason))] if reason else []


def _sent(listener: SelectionListener, message: bytes) -> str:
    """Send a message and return the answer. Raises OSError."""
    with connect_to(Path(listener.socket), _SECONDS) as connection:
        connection.sendall(message)
        return connection.makefile("rb").readline(_LONGEST_REPLY).decode(errors="replace").strip()
