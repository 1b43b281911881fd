"""Runs one function of a tool file inside the sandbox.

It is sent there as text and never imported here: it uses only the standard library of Python 3.8,
and `_package` makes the `codeagent` that the function sees.
"""

import base64
import collections.abc
import dataclasses
import datetime
import decimal
import enum
import inspect
import json
import os
import pathlib
import sys
import traceback
import types
import typing
import uuid
from typing import Any

_TEXTUAL = (pathlib.Path, uuid.UUID, decimal.Decimal)
_TIMES = (datetime.datetime, datetime.date, datetime.time)
_ERRORS = {
    "ToolError": "failed",
    "Failed": "failed",
    "NotFound": "not_found",
    "InvalidArgs": "invalid_args",
    "Denied": "denied",
}


def answer_to(job: Any) -> Any:
    """Return the outcome of the call as JSON values; `job` holds source, shown, tool and
    arguments."""
    package = _package()
    sys.modules["codeagent"] = package
    module = types.ModuleType("tool_file")
    sys.modules["tool_file"] = module
    try:
        code = compile(base64.b64decode(job["source"]), job["shown"], "exec", dont_inherit=True)
        exec(code, module.__dict__)
        function = package.registered[job["tool"]]
        positional = [value for _, value in _passed(function, job["arguments"], True)]
        value = function(*positional, **dict(_passed(function, job["arguments"], False)))
        if inspect.isawaitable(value):
            import asyncio  # a third of the start-up time, and not needed for a plain function

            value = asyncio.run(_awaited(value))
        return _told(value, package)
    except package.ToolError as error:
        return {"kind": error.kind, "text": str(error)}
    except BaseException as error:
        lines = [
            at
            for frame, at in traceback.walk_tb(error.__traceback__)
            if frame.f_code.co_filename == job["shown"]
        ]
        return {
            "raised": type(error).__name__,
            "text": str(error),
            "line": lines[-1] if lines else None,
        }


async def _awaited(value: Any) -> Any:
    return await value


def _package() -> Any:
    package: Any = types.ModuleType("codeagent")
    package.registered = {}

    def register_tool(function: Any = None, **said: Any) -> Any:
        def mark(target: Any) -> Any:
            package.registered[said.get("name") or target.__name__] = target
            return target

        return mark if function is None else mark(function)

    class ToolResult:
        def __init__(self, text: Any, details: Any) -> None:
            self.text = text
            self.details = details

        @classmethod
        def from_text(cls, text: Any, details: Any = None) -> Any:
            return cls(text, details or {})

    package.register_tool = register_tool
    package.ToolResult = ToolResult
    package.ToolContext = type("ToolContext", (), {})
    for name, kind in _ERRORS.items():
        above = getattr(package, "ToolError", Exception)
        setattr(package, name, type(name, (above,), {"kind": kind}))
    return package


def _passed(function: Any, arguments: Any, positional: Any) -> Any:
    try:
        hints = typing.get_type_hints(function)
    except Exception:
        hints = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if (parameter.kind is parameter.POSITIONAL_ONLY) is not positional:
            continue
        if name in arguments:
            yield name, _typed(hints.get(name), arguments[name])
        elif positional and parameter.default is not parameter.empty:
            yield name, parameter.default


def _typed(hint: Any, value: Any) -> Any:
    """Convert a value to the declared type if that is cheap; else leave it as plain JSON."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is not None:
        return _collected(origin, inner, value)
    if not isinstance(hint, type) or value is None:
        return value
    if issubclass(hint, enum.Enum):
        return hint(value)
    if hint in _TIMES:
        return hint.fromisoformat(value.replace("Z", "+00:00"))
    if issubclass(hint, _TEXTUAL):
        return hint(value)
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        hints = typing.get_type_hints(hint)
        return hint(**{key: _typed(hints.get(key), item) for key, item in value.items()})
    if hint in (tuple, set, frozenset):
        return hint(value)
    return float(value) if hint is float else value


def _collected(origin: Any, inner: Any, value: Any) -> Any:
    options = [option for option in inner if option is not type(None)]
    if origin is typing.Union or origin is getattr(types, "UnionType", None):
        return _typed(options[0], value) if len(options) == 1 and value is not None else value
    if isinstance(value, dict) and origin in (dict, collections.abc.Mapping):
        return {key: _typed(inner[1], item) for key, item in value.items()}
    if not isinstance(value, list) or not inner:
        return value
    if origin is tuple and inner[-1] is not Ellipsis:
        return tuple(_typed(part, item) for part, item in zip(inner, value))  # noqa: B905  # `strict` came with Python 3.10; the length was checked before
    items = [_typed(inner[0], item) for item in value]
    return origin(items) if origin in (tuple, set, frozenset) else items


def _told(value: Any, package: Any) -> Any:
    if isinstance(value, package.ToolResult):
        return {"result": value.text, "details": value.details}
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": len(value)}
    return {"value": value}


def _plain(value: Any) -> Any:
    """Return plain data for a value that `json` cannot write."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return list(value)
    if isinstance(value, _TIMES):
        return value.isoformat()
    if isinstance(value, _TEXTUAL):
        return str(value)
    raise TypeError(type(value).__name__)


def main(job: Any) -> None:
    """Print the answer as one line after `job["marker"]`, to what standard output was at the
    start."""
    channel = os.fdopen(os.dup(1), "wb")
    answer = answer_to(job)
    try:
        text = json.dumps(answer, default=_plain)
    except Exception as error:
        text = json.dumps({"unshown": type(answer.get("value")).__name__, "text": str(error)})
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    channel.write(job["marker"].encode() + text.encode() + b"\n")
    channel.flush()
