"""Loads the person's own hook files; one that cannot be loaded denies what it might have judged (FEATURES F11)."""

import importlib.util
import re
import stat
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from codeagent.agent.hook_decorator import Registration, collected
from codeagent.agent.hook_subjects import Compaction, Prompt
from codeagent.agent.hook_threads import HookThreads
from codeagent.agent.hooks import Deny, Hook
from codeagent.core.messages import ToolCall
from codeagent.core.sanitize import one_line

_NAMED = re.compile(
    r"\b(before_tool|after_tool|before_update|after_update|prompt_submit|run_finished|session_start|session_end"
    r"|compaction)\b"
)
_LONGEST = 300


@dataclass(frozen=True)
class HookFileProblem:
    """Why a file was not loaded; nothing of it is called."""

    file: Path
    line: int
    what: str
    """A phrase."""

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line}: {self.what}; what this hook file might have judged is denied until you repair "
            "or remove it and start again"
        )


class _Broken(Exception):
    def __init__(self, line: int, what: str, text: str = "") -> None:
        super().__init__(what)
        self.line = line
        self.text = text
        """The file's, as far as it could be read."""


def load_python_hooks(
    folder: Path, workspace: Path | None = None
) -> tuple[tuple[Hook, ...], tuple[HookFileProblem, ...]]:
    """The hooks of `folder/*.py`, by the names of the files and then in the order they stand in; and what is wrong.

    Runs the files, so it may take as long as they do. The folder is the person's own; a file that turns out to lie in
    the workspace, where the agent writes, is not run. Names that begin with `_` or a dot are left alone. In place of a
    broken file stands a hook that denies. Raises nothing.
    """
    threads = HookThreads()
    hooks: list[Hook] = []
    problems: list[HookFileProblem] = []
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".py" and path.name[0] not in "._")
    except FileNotFoundError:
        return (), ()
    except OSError as error:
        problem = HookFileProblem(folder, 1, f"the folder cannot be read ({error.strerror})")
        return (_denying(problem, ""),), (problem,)
    for path in files:
        try:
            registered = _load(path, workspace)
        except _Broken as broken:
            problem = HookFileProblem(path, broken.line, one_line(str(broken), _LONGEST))
            problems.append(problem)
            hooks.append(_denying(problem, broken.text))
        else:
            hooks += [_hook(path, registration, threads) for registration in registered]
    return tuple(hooks), tuple(problems)


def _load(path: Path, workspace: Path | None) -> Sequence[Registration]:
    """Raises _Broken."""
    text = _read(path, workspace)
    module = ModuleType(f"codeagent_hook_file_{path.stem}")
    module.__file__ = str(path)
    try:
        code = compile(text, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise _Broken(error.lineno or 1, f"{error.msg}", text) from error
    except (ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise _Broken(1, f"it cannot be compiled: {error}", text) from error
    sys.modules[module.__name__] = module
    with collected() as registered:
        try:
            exec(code, module.__dict__)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            del sys.modules[module.__name__]
            what = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise _Broken(_line(error, path), what, text) from error
    if not registered:
        raise _Broken(1, "it registers no hook: decorate a function with @hook(…)", text)
    return registered


def _read(path: Path, workspace: Path | None) -> str:
    """Raises _Broken, also for a file that somebody else could have written."""
    try:
        if not path.is_file():
            raise _Broken(1, "it is no file")
        if workspace is not None and path.resolve().is_relative_to(workspace.resolve()):
            raise _Broken(1, "it lies in the workspace, where the agent could write it, so it was not run")
        if path.stat().st_mode & stat.S_IWOTH:
            raise _Broken(1, "everybody on this machine can write it, so it was not run: chmod o-w")
        return importlib.util.decode_source(path.read_bytes())
    except (OSError, RuntimeError) as error:
        raise _Broken(1, f"it cannot be read ({getattr(error, 'strerror', error)})") from error
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise _Broken(1, f"it is no text: {error}") from error


def _line(error: BaseException, path: Path) -> int:
    """Where in the file it came from."""
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == str(path)]
    return lines[-1] if lines else 1


def _hook(path: Path, registration: Registration, threads: HookThreads) -> Hook:
    name = f"{path.name}:{getattr(registration.function, '__name__', registration.event)}"
    called: dict[str, Any] = {registration.event: threads.wrap(registration.function)}
    return Hook(name, tools=registration.tools, **called)


def _denying(problem: HookFileProblem, text: str) -> Hook:
    """Stands for every hook that the text names; one that names none may be anything, so it counts as one for calls."""
    denied = Deny(str(problem))
    named = set(_NAMED.findall(text)) or {"before_tool"}

    async def deny_call(call: ToolCall) -> Deny:
        return denied

    async def deny_update(call: ToolCall, piece: str) -> Deny:
        return denied

    async def deny_prompt(prompt: Prompt) -> Deny:
        return denied

    async def deny_compaction(compaction: Compaction) -> Deny:
        return denied

    return Hook(
        problem.file.name,
        before_tool=deny_call if "before_tool" in named else None,
        before_update=deny_update if "before_update" in named else None,
        prompt_submit=deny_prompt if "prompt_submit" in named else None,
        compaction=deny_compaction if "compaction" in named else None,
    )
