"""What marked tests need of the machine: where it is missing they fail in CI, and are skipped
elsewhere."""

import os
import shutil
from functools import cache
from typing import NoReturn

import pytest

from codeagent.core.errors import SandboxUnavailable
from codeagent.sandbox.engine_socket import engine_socket, probe_socket


def check_needs(item: pytest.Item) -> None:
    """Fail or skip a test whose mark names what is not there."""
    for mark, problem_of in _PROBLEMS.items():
        if item.get_closest_marker(mark) and (problem := problem_of()):
            give_up(f"needs {mark}: {problem}")


def give_up(reason: str) -> NoReturn:
    """Fail the test where CI is set; elsewhere skip it."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


@cache
def _engine_problem() -> str:
    """Why no engine answers, asked of the engine itself; empty where one does."""
    try:
        probe_socket(engine_socket(os.environ.get("DOCKER_HOST")))
    except SandboxUnavailable as problem:
        return f"{problem}; {problem.remedy}"
    return ""


def _root_problem() -> str:
    return "" if os.geteuid() == 0 else "this is not root"


@cache
def _strace_problem() -> str:
    return "" if shutil.which("strace") else "strace is not on PATH; install it"


_PROBLEMS = {"docker": _engine_problem, "root": _root_problem, "strace": _strace_problem}
"""By mark."""
