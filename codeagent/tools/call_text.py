"""A call as a person would write it in Python."""

from typing import Any

_LONGEST_LINE = 100


def one_line(arguments: dict[str, Any]) -> str:
    """`path='a.txt', limit=5`; whole, whatever its length."""
    return ", ".join(f"{key}={value!r}" for key, value in arguments.items())


def as_call(name: str, arguments: dict[str, Any]) -> str:
    """`name(path='a.txt')`; what is long, or has lines of its own, is spread over lines. Every character is there."""
    short = f"{name}({one_line(arguments)})"
    if len(short) <= _LONGEST_LINE and not any(_has_lines(value) for value in arguments.values()):
        return short
    lines = [f"    {key}={_spread(value)}," for key, value in arguments.items()]
    return "\n".join([f"{name}(", *lines, ")"])


def _has_lines(value: object) -> bool:
    return isinstance(value, str) and "\n" in value.rstrip("\n")


def _spread(value: object) -> str:
    if not (isinstance(value, str) and _has_lines(value)):
        return repr(value)
    pieces = "".join(f"\n        {line!r}" for line in value.splitlines(keepends=True))
    return f"({pieces}\n    )"
