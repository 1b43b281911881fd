"""`@hook("before_tool")`: how a function in a hook file says what it is for (FEATURES F11)."""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args, overload

from codeagent.agent.hook_subjects import Compaction, Prompt, SessionFacts
from codeagent.agent.hooks import TextAnswer, ToolAnswer, UpdateAnswer
from codeagent.core.events import RunFinished
from codeagent.core.hook_events import HookEvent, ToolHookEvent
from codeagent.core.messages import ToolCall
from codeagent.core.tool import ToolResult

_BeforeTool = TypeVar("_BeforeTool", bound=Callable[[ToolCall], ToolAnswer | Awaitable[ToolAnswer]])
_AfterTool = TypeVar("_AfterTool", bound=Callable[[ToolCall, ToolResult], Awaitable[None] | None])
_BeforeUpdate = TypeVar("_BeforeUpdate", bound=Callable[[ToolCall, str], UpdateAnswer | Awaitable[UpdateAnswer]])
_AfterUpdate = TypeVar("_AfterUpdate", bound=Callable[[ToolCall, str], Awaitable[None] | None])
_OnPrompt = TypeVar("_OnPrompt", bound=Callable[[Prompt], TextAnswer | Awaitable[TextAnswer]])
_OnRun = TypeVar("_OnRun", bound=Callable[[RunFinished], Awaitable[None] | None])
_OnSession = TypeVar("_OnSession", bound=Callable[[SessionFacts], Awaitable[None] | None])
_OnCompaction = TypeVar("_OnCompaction", bound=Callable[[Compaction], TextAnswer | Awaitable[TextAnswer]])
_TAKES: dict[HookEvent, tuple[str, ...]] = {
    "before_tool": ("call",),
    "after_tool": ("call", "result"),
    "before_update": ("call", "text"),
    "after_update": ("call", "text"),
    "prompt_submit": ("prompt",),
    "run_finished": ("finished",),
    "session_start": ("session",),
    "session_end": ("session",),
    "compaction": ("compaction",),
}


@dataclass(frozen=True)
class Registration:
    """One use of the decorator."""

    event: HookEvent
    function: Callable[..., Any]
    tools: str


_collecting: ContextVar[list[Registration] | None] = ContextVar("collecting", default=None)


@contextmanager
def collected() -> Iterator[list[Registration]]:
    """What the code below registers, in order."""
    found: list[Registration] = []
    before = _collecting.set(found)
    try:
        yield found
    finally:
        _collecting.reset(before)


@overload
def hook(event: Literal["before_tool"], *, tools: str = "*") -> Callable[[_BeforeTool], _BeforeTool]: ...
@overload
def hook(event: Literal["after_tool"], *, tools: str = "*") -> Callable[[_AfterTool], _AfterTool]: ...
@overload
def hook(event: Literal["before_update"], *, tools: str = "*") -> Callable[[_BeforeUpdate], _BeforeUpdate]: ...
@overload
def hook(event: Literal["after_update"], *, tools: str = "*") -> Callable[[_AfterUpdate], _AfterUpdate]: ...
@overload
def hook(event: Literal["prompt_submit"]) -> Callable[[_OnPrompt], _OnPrompt]: ...
@overload
def hook(event: Literal["run_finished"]) -> Callable[[_OnRun], _OnRun]: ...
@overload
def hook(event: Literal["session_start", "session_end"]) -> Callable[[_OnSession], _OnSession]: ...
@overload
def hook(event: Literal["compaction"]) -> Callable[[_OnCompaction], _OnCompaction]: ...
def hook(event: Any, *, tools: str = "*") -> Callable[[Any], Any]:
    """Call the function at that point of every session.

    A plain function runs in a thread, an async one in a loop beside the program's. `tools`: only for tools of such
    names, a pattern with `*`, `?` and `[…]`; for the events of calls. Counts in a file of the person's own hook folder
    while it is loaded, and returns the function as it is. Raises TypeError.
    """
    if callable(event):
        raise TypeError('say what the hook is for: @hook("before_tool")')
    if event not in _TAKES:
        raise TypeError(f"there is no event {event!r} for hooks; there are {', '.join(_TAKES)}")
    if not isinstance(tools, str) or not tools:
        raise TypeError('tools is a pattern over names of tools, as in tools="bash*"')
    if tools != "*" and event not in get_args(ToolHookEvent):
        raise TypeError(f"tools cannot be given for {event}, which is not about a call")

    def register(function: Any) -> Any:
        _require_fit(event, function)
        if (found := _collecting.get()) is not None:
            found.append(Registration(event, function, tools))
        return function

    return register


def _require_fit(event: HookEvent, function: Any) -> None:
    takes = _TAKES[event]
    name = getattr(function, "__name__", repr(function))
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{name} is a generator; a hook answers with return")
    try:
        inspect.signature(function).bind(*takes)
    except TypeError as error:
        raise TypeError(f"{name} is called as {name}({', '.join(takes)}) for {event}: {error}") from None
