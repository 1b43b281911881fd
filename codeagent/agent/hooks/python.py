"""The user's hook files: the decorator `@hook("before_tool")`, loading the files, and running them
off the event loop.

A file that cannot be loaded denies everything it might have judged.
"""

import asyncio
import contextvars
import importlib.util
import inspect
import re
import stat
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeVar, get_args, overload

from codeagent.agent.hooks.hook import (
    Deny,
    Hook,
    HookSession,
    PlannedCompaction,
    SubmittedPrompt,
    TextAnswer,
    ToolAnswer,
    UpdateAnswer,
)
from codeagent.core.dataclass import dataclass
from codeagent.core.events import RunFinished
from codeagent.core.messages import ToolCall
from codeagent.core.policy import HookEvent, ToolHookEvent
from codeagent.core.sanitize import one_line
from codeagent.core.tool import ToolResult

_BeforeTool = TypeVar("_BeforeTool", bound=Callable[[ToolCall], ToolAnswer | Awaitable[ToolAnswer]])
_AfterTool = TypeVar("_AfterTool", bound=Callable[[ToolCall, ToolResult], Awaitable[None] | None])
_BeforeUpdate = TypeVar(
    "_BeforeUpdate", bound=Callable[[ToolCall, str], UpdateAnswer | Awaitable[UpdateAnswer]]
)
_AfterUpdate = TypeVar("_AfterUpdate", bound=Callable[[ToolCall, str], Awaitable[None] | None])
_OnPrompt = TypeVar(
    "_OnPrompt", bound=Callable[[SubmittedPrompt], TextAnswer | Awaitable[TextAnswer]]
)
_OnCompaction = TypeVar(
    "_OnCompaction", bound=Callable[[PlannedCompaction], TextAnswer | Awaitable[TextAnswer]]
)
_OnRun = TypeVar("_OnRun", bound=Callable[[RunFinished], Awaitable[None] | None])
_OnSession = TypeVar("_OnSession", bound=Callable[[HookSession], Awaitable[None] | None])
_PARAMETERS: dict[HookEvent, tuple[str, ...]] = {
    "before_tool": ("call",),
    "after_tool": ("call", "result"),
    "before_update": ("call", "text"),
    "after_update": ("call", "text"),
    "prompt_submit": ("prompt",),
    "compaction": ("planned",),
    "run_finished": ("finished",),
    "session_start": ("session",),
    "session_end": ("session",),
}
_EVENT_NAME = re.compile(rf"\b({'|'.join(_PARAMETERS)})\b")
_LONGEST = 300


class Registration(NamedTuple):
    """One use of the decorator."""

    event: HookEvent
    function: Callable[..., Any]
    tools: str


_collecting: ContextVar[list[Registration] | None] = ContextVar("collecting", default=None)
"""Collects what the file that is being loaded registers."""


@overload
def hook(
    event: Literal["before_tool"], *, tools: str = "*"
) -> Callable[[_BeforeTool], _BeforeTool]: ...
@overload
def hook(
    event: Literal["after_tool"], *, tools: str = "*"
) -> Callable[[_AfterTool], _AfterTool]: ...
@overload
def hook(
    event: Literal["before_update"], *, tools: str = "*"
) -> Callable[[_BeforeUpdate], _BeforeUpdate]: ...
@overload
def hook(
    event: Literal["after_update"], *, tools: str = "*"
) -> Callable[[_AfterUpdate], _AfterUpdate]: ...
@overload
def hook(event: Literal["prompt_submit"]) -> Callable[[_OnPrompt], _OnPrompt]: ...
@overload
def hook(event: Literal["compaction"]) -> Callable[[_OnCompaction], _OnCompaction]: ...
@overload
def hook(event: Literal["run_finished"]) -> Callable[[_OnRun], _OnRun]: ...
@overload
def hook(event: Literal["session_start", "session_end"]) -> Callable[[_OnSession], _OnSession]: ...
def hook(event: Any, *, tools: str = "*") -> Callable[[Any], Any]:
    """Have the decorated function called at this event of every session; it is returned unchanged.

    A plain function runs in a thread, an async one in an event loop of its own. `tools` is a
    pattern with `*`, `?` and `[…]` over the names of the tools whose calls it is for. Only takes
    effect in a file of the user's own hook folder, while it is loaded. Raises TypeError.
    """
    if callable(event):
        raise TypeError('name the event that the hook is for: @hook("before_tool")')
    if event not in _PARAMETERS:
        raise TypeError(f"{event!r} is not an event for hooks; they are {', '.join(_PARAMETERS)}")
    if not isinstance(tools, str) or not tools:
        raise TypeError('tools is a pattern over the names of tools, such as tools="bash*"')
    if tools != "*" and event not in get_args(ToolHookEvent):
        raise TypeError(f"tools cannot be given for {event}, which is not about a call")

    def register(function: Any) -> Any:
        _check_parameters(event, function)
        if (found := _collecting.get()) is not None:
            found.append(Registration(event, function, tools))
        return function

    return register


def _check_parameters(event: HookEvent, function: Any) -> None:
    parameters = _PARAMETERS[event]
    name = getattr(function, "__name__", repr(function))
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{name} is a generator; a hook answers with return")
    try:
        inspect.signature(function).bind(*parameters)
    except TypeError as error:
        raise TypeError(
            f"{name} is called as {name}({', '.join(parameters)}) for {event}: {error}"
        ) from None


class HookThreads:
    """A thread for each call of a plain function, and one thread with an event loop for all async
    ones.

    So a hook can neither block nor end the program's own event loop. All are daemon threads: a hook
    that hangs does not keep the program from exiting.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        """Wrap the function so that any event loop can await it; even an exit in it is raised as an
        Exception."""
        if inspect.iscoroutinefunction(function):

            async def in_loop(*arguments: object) -> Any:
                future = asyncio.run_coroutine_threadsafe(
                    _contained(function(*arguments)), self._running()
                )
                return await asyncio.wrap_future(future)

            return in_loop

        async def in_thread(*arguments: object) -> Any:
            return await _in_thread(lambda: function(*arguments))

        return in_thread

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._loop.run_forever, name="async hooks", daemon=True
                ).start()
            return self._loop


async def _contained(work: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(f"it raised {type(error).__name__}") from error


async def _in_thread(work: Callable[[], Any]) -> Any:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: Exception | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def target() -> None:
        result, failure = None, None
        try:
            result = context.run(work)
        except Exception as error:
            failure = error
        except BaseException as error:
            failure = RuntimeError(f"it raised {type(error).__name__}")
        try:
            loop.call_soon_threadsafe(settle, result, failure)
        except RuntimeError:
            pass  # the program's loop is closed: nobody is waiting for it now

    threading.Thread(target=target, name="hook", daemon=True).start()
    return await future


@dataclass(frozen=True)
class HookFileProblem:
    """Why a file was not loaded; nothing in it is called."""

    file: Path
    line: int
    what: str
    """A phrase."""

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line}: {self.what}; everything this hook file might have judged is denied until you "
            "fix or remove it and start again"
        )


class _Broken(Exception):
    """The file cannot be loaded; the message is a phrase."""

    def __init__(self, line: int, what: str, text: str = "") -> None:
        super().__init__(what)
        self.line = line
        self.text = text
        """The text of the file; empty if it could not be read."""


def load_python_hooks(
    folder: Path, workspace: Path | None = None
) -> tuple[tuple[Hook, ...], tuple[HookFileProblem, ...]]:
    """Load the hooks of `folder/*.py`, sorted by file name and then in file order, and return the
    problems, too.

    Runs the files, so it takes as long as they do. The folder is the user's own; a file that lies
    in the workspace, where the agent could write it, is not run. Names that begin with `_` or a dot
    are skipped. A hook that denies takes the place of a broken file. Raises nothing.
    """
    threads = HookThreads()
    hooks: list[Hook] = []
    problems: list[HookFileProblem] = []
    try:
        files = sorted(
            path for path in folder.iterdir() if path.suffix == ".py" and path.name[0] not in "._"
        )
    except FileNotFoundError:
        return (), ()
    except OSError as error:
        problem = HookFileProblem(folder, 1, f"the folder cannot be read ({error.strerror})")
        return (_denying_hook(problem, ""),), (problem,)
    for path in files:
        try:
            registered = _load(path, workspace)
        except _Broken as broken:
            problem = HookFileProblem(path, broken.line, one_line(str(broken), _LONGEST))
            problems.append(problem)
            hooks.append(_denying_hook(problem, broken.text))
        else:
            hooks += [_hook(path, registration, threads) for registration in registered]
    return tuple(hooks), tuple(problems)


def _load(path: Path, workspace: Path | None) -> Sequence[Registration]:
    """Run the file and return what it registered. Raises _Broken."""
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
    registered: list[Registration] = []
    before = _collecting.set(registered)
    try:
        exec(code, module.__dict__)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        del sys.modules[module.__name__]
        what = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise _Broken(_line(error, path), what, text) from error
    finally:
        _collecting.reset(before)
    if not registered:
        raise _Broken(1, "it registers no hook: decorate a function with @hook(…)", text)
    return registered


def _read(path: Path, workspace: Path | None) -> str:
    """Return the text of the file. Raises _Broken, also if somebody else could have written it."""
    try:
        if not path.is_file():
            raise _Broken(1, "it is not a file")
        if workspace is not None and path.resolve().is_relative_to(workspace.resolve()):
            raise _Broken(
                1, "it lies in the workspace, where the agent could write it, so it was not run"
            )
        if path.stat().st_mode & stat.S_IWOTH:
            raise _Broken(1, "everybody on this machine can write it, so it was not run: chmod o-w")
        return importlib.util.decode_source(path.read_bytes())
    except (OSError, RuntimeError) as error:
        raise _Broken(1, f"it cannot be read ({getattr(error, 'strerror', error)})") from error
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise _Broken(1, f"it is not text: {error}") from error


def _line(error: BaseException, path: Path) -> int:
    """Return the last line of the file in the error's traceback."""
    lines = [
        line
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == str(path)
    ]
    return lines[-1] if lines else 1


def _hook(path: Path, registration: Registration, threads: HookThreads) -> Hook:
    name = f"{path.name}:{getattr(registration.function, '__name__', registration.event)}"
    called: dict[str, Any] = {registration.event: threads.wrap(registration.function)}
    return Hook(name, tools=registration.tools, **called)


def _denying_hook(problem: HookFileProblem, text: str) -> Hook:
    """Make a hook that denies at every event the text names; if it names none, every call."""
    named = set(_EVENT_NAME.findall(text)) or {"before_tool"}

    async def deny(*subjects: object) -> Deny:
        return Deny(str(problem))

    judged = {"before_tool", "before_update", "prompt_submit", "compaction"}
    judging: dict[str, Any] = dict.fromkeys(named & judged, deny)
    return Hook(problem.file.name, **judging)
