"""The `@register_tool` decorator: marks a function as a tool and leaves it unchanged."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields
from typing import Any, Literal, TypeVar, get_args, overload

from codeagent.core.budget import as_seconds
from codeagent.core.dataclass import dataclass
from codeagent.core.policy import Effect
from codeagent.core.tool import ToolMode

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
ToolApproval = Literal["auto", "prompt", "deny", "effects"]
"""`effects`: what a call would change is asked about in place of the call."""
_MARK = "__codeagent_tool__"
_being_loaded: ContextVar[list[Callable[..., Any]] | None] = ContextVar(
    "_being_loaded", default=None
)
"""The functions marked while a file is executed, as the module loses those whose name is defined
again."""

_CHOICES = {
    "approval": get_args(ToolApproval),
    "effect": get_args(Effect),
    "mode": get_args(ToolMode),
}
_MAY_BE_NONE = frozenset(
    {"name", "label", "description", "timeout", "max_calls", "mode", "output_limit"}
)


@dataclass(frozen=True)
class ToolMark:
    """The arguments of the decorator; None means taken from the function, or the default of
    `Tool`."""

    name: str | None = None
    label: str | None = None
    description: str | None = None
    approval: ToolApproval = "prompt"
    effect: Effect = "anything"
    timeout: float | None = None
    max_calls: int | None = None
    mode: ToolMode | None = None
    hint: str = ""
    documentation: str = ""
    require_info: bool = False
    output_limit: int | None = 40_000
    sandbox: bool = False


@overload
def register_tool(function: FunctionT, /) -> FunctionT: ...
@overload
def register_tool(
    *,
    name: str | None = None,
    label: str | None = None,
    description: str | None = None,
    approval: ToolApproval = "prompt",
    effect: Effect = "anything",
    timeout: float | str | None = None,
    max_calls: int | None = None,
    mode: ToolMode | None = None,
    hint: str = "",
    documentation: str = "",
    require_info: bool = False,
    output_limit: int | None = 40_000,
    sandbox: bool = False,
) -> Callable[[FunctionT], FunctionT]: ...
def register_tool(function: Any = None, /, **said: Any) -> Any:
    """Make a tool of a typed function with a docstring: `@register_tool`, or
    `@register_tool(approval="auto")`.

    The function is returned unchanged. `name` and `description` replace those of the function;
    `label` is shown to the user. `approval` holds unless a rule says otherwise: auto, prompt or
    deny, or with sandbox=True effects: it is tried out, and what it would change is asked about.
    `effect` is what it may change: nothing, files or anything. `timeout` in seconds or as
    `30s` (default 120, none for a job), `max_calls` in one run, `output_limit` in characters.
    `mode`: direct, or background for a job; an async generator is stateful. `hint` is a sentence
    for the system prompt, `documentation` Markdown for `info`, which the model has to read before
    the first call if `require_info=True`. `sandbox=True` runs the function itself in the sandbox.
    Raises TypeError and ValueError for anything else, at the line of the decorator.
    """
    known = [about.name for about in fields(ToolMark)]
    if unknown := [name for name in said if name not in known]:
        raise TypeError(
            f"register_tool has no argument {unknown[0]!r}; it takes {', '.join(known)}"
        )
    if "timeout" in said:
        said["timeout"] = as_seconds(said["timeout"])
    for what, value in said.items():
        _check(what, value)
    marked = ToolMark(**said)

    def mark(target: FunctionT) -> FunctionT:
        if not inspect.isfunction(target):
            raise TypeError(f"register_tool marks functions; this is {target!r:.100}")
        setattr(target, _MARK, marked)
        if (found := _being_loaded.get()) is not None:
            found.append(target)
        return target

    return mark if function is None else mark(function)


def marked_as(function: object) -> ToolMark | None:
    """Return the mark that the decorator left on this function; None if it is not marked."""
    found = getattr(function, _MARK, None) if inspect.isfunction(function) else None
    return found if isinstance(found, ToolMark) else None


@contextmanager
def marks_collected() -> Iterator[list[Callable[..., Any]]]:
    """Collect every function that is marked in this context until the block ends, in order."""
    found: list[Callable[..., Any]] = []
    token = _being_loaded.set(found)
    try:
        yield found
    finally:
        _being_loaded.reset(token)


def _check(what: str, value: object) -> None:
    """Raises TypeError, ValueError."""
    if value is None and what in _MAY_BE_NONE:
        return
    match what:
        case "approval" | "effect" | "mode":
            if value not in _CHOICES[what]:
                raise ValueError(
                    f"{what} is one of {', '.join(_CHOICES[what])}, not {value!r:.100}"
                )
        case "timeout" | "max_calls" | "output_limit":
            kinds = (int, float) if what == "timeout" else (int,)
            if not isinstance(value, kinds) or isinstance(value, bool) or not value > 0:
                raise ValueError(f"{what} is a number above 0, not {value!r:.100}")
        case "sandbox" | "require_info" if not isinstance(value, bool):
            raise TypeError(f"{what} is True or False, not {value!r:.100}")
        case "name" | "label" | "description" | "hint" | "documentation" if not isinstance(
            value, str
        ):
            raise TypeError(f"{what} is a string, not {value!r:.100}")
