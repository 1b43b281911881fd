"""Opens a page in the user's browser, which is never looked up in the workspace as `webbrowser`
would do.

It is a module of its own because it starts a program, as its row in `core.host_programs` says.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from codeagent.core.host_programs import BROWSER, NOWHERE, open_program
from codeagent.core.programs import find_program


def open_in_browser(url: str, environment: Mapping[str, str], workspace: Path) -> bool:
    """Start the first browser that is found, and do not wait for it; False if there is none. Raises
    OSError."""
    for name, *arguments in _candidates(environment):
        if "/" in name and not name.startswith("/"):
            continue  # it would name a file of the folder that codeagent was started in
        if (program := find_program(name, workspace)) is None:
            continue
        given = [word.replace("%s", url) for word in arguments]
        if given == arguments:
            given.append(url)
        open_program(
            BROWSER,
            [program, *given],
            folder=NOWHERE,
            # `xdg-open` would run what is passed over here, itself among it without end.
            environment={**environment, "BROWSER": ""},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return True
    return False


def _candidates(environment: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield program and arguments: those of `$BROWSER`, where `%s` is the address, then the
    system's way."""
    for command in environment.get("BROWSER", "").split(os.pathsep):
        with suppress(ValueError):
            if words := shlex.split(command.removesuffix("&")):
                yield words
    yield ["open"] if sys.platform == "darwin" else ["xdg-open"]
