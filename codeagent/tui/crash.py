"""Writes reports without secrets: of a failure of the screen, and of what a user saw."""

import os
import platform
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from codeagent import __version__
from codeagent.core.programs import this_program, this_system
from codeagent.core.sanitize import one_line, visible
from codeagent.disk.opens import create_file
from codeagent.disk.private import make_private_folder

_KEPT = 20
"""How many reports are kept; the oldest are removed first."""
_TERMINAL_FACTS = (
    "TERM",
    "COLORTERM",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "LANG",
    "NO_COLOR",
    "TMUX",
)
_WIDTH = 200


def record_crash(
    error: BaseException, state: Path, *, session: str | None, redact: Callable[[str], str]
) -> str:
    """Write a report (mode 0600) below `state`; returns the one line to show the user.

    The report holds the traceback without the values of variables, versions and facts about the
    terminal, all passed through `redact`. `session` is the id of the one that is kept: empty if
    none had begun, None if that is unknown.
    """
    kept = f"the session is kept: {this_program()} --resume {session}; " if session else ""
    kept = "no session had begun; " if session == "" else kept
    said, where = _recorded(error, state, session=session, redact=redact)
    return f"codeagent: crashed (internal error) ({said}); {kept}{where}"


def record_survived(
    error: BaseException, state: Path, *, session: str, redact: Callable[[str], str]
) -> str:
    """As `record_crash`, for an error that the screen survives."""
    said, where = _recorded(error, state, session=session, redact=redact)
    return (
        f"internal error ({said}); nothing of the conversation was lost, and it continues; {where}"
    )


def record_feedback(said: str, state: Path, *, session: str, redact: Callable[[str], str]) -> str:
    """Write what the user says, with versions and facts about the terminal, into a file (mode 0600)
    below `state`; returns the one line to show."""
    where = _written(state / "feedback", redact(_report(said, session)))
    return (
        f"{where}; nothing was sent: attach it to an issue, with /export if the conversation helps"
    )


def _recorded(
    error: BaseException, state: Path, *, session: str | None, redact: Callable[[str], str]
) -> tuple[str, str]:
    """Write the report; returns what the error was, and where the report is."""
    found = "".join(traceback.format_exception(error))
    where = _written(state / "crashes", redact(_report(found, session)))
    return one_line(redact(_summary(error)), _WIDTH), where


def _written(folder: Path, report: str) -> str:
    try:
        return f"report: {_write(folder, report)}"
    except OSError as failure:
        return f"the report could not be written ({failure.strerror})"


def _summary(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


def _report(text: str, session: str | None) -> str:
    """The text below what is known about this installation and its terminal."""
    from importlib import metadata  # too slow to import on a start without a crash

    size = shutil.get_terminal_size()
    facts = {
        "codeagent": __version__,
        "textual": metadata.version("textual"),
        "python": f"{platform.python_version()} on {this_system()}",
        "session": session or "none",
        "size": f"{size.columns}x{size.lines}",
        "encoding": getattr(sys.__stdout__, "encoding", "unknown"),
        **{name: os.environ[name] for name in _TERMINAL_FACTS if name in os.environ},
    }
    lines = [f"{name}: {value}" for name, value in facts.items()]
    return visible("\n".join([*lines, "", text]))


def _write(folder: Path, text: str) -> Path:
    make_private_folder(folder)
    name = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.getpid()}"
    path = next(path for path in _names(folder, name) if not path.exists())
    with os.fdopen(create_file(path), "w", encoding="utf-8") as file:
        file.write(text)
    for old in sorted(folder.glob("*.txt"))[:-_KEPT]:
        old.unlink(missing_ok=True)
    return path


def _names(folder: Path, name: str) -> Iterator[Path]:
    """Yield file names, as several reports may be made within one second."""
    yield folder / f"{name}.txt"
    yield from (folder / f"{name}-{number}.txt" for number in count(2))
