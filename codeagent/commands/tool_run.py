"""`codeagent tools run NAME k=v…`: one call, made by a script in a model's place, so it goes the way of every call."""

import argparse
import asyncio
import difflib
import json
import sys
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from codeagent.bootstrap import Place, describe_tools, open_runtime
from codeagent.commands.arguments import say, settings_of
from codeagent.core.acts import Answer
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.display import DiffBlock, MarkdownBlock, TerminalBlock, TextBlock
from codeagent.core.errors import ConfigError
from codeagent.core.events import Notice, ToolProgress, ToolResultAdded, ToolUpdated
from codeagent.core.messages import text_of
from codeagent.core.notices import TypedNotice
from codeagent.core.policy import Decision
from codeagent.core.redact import Redactor
from codeagent.core.runtime import Runtime
from codeagent.core.sanitize import one_line
from codeagent.core.tool import NotFound
from codeagent.tools.schema import tool_schema

_DENIED = 4
_NOT_CALLED = frozenset({"invalid_args", "not_found"})


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "given", metavar="ARG=VALUE", nargs="*", help="an argument; VALUE is JSON unless the tool takes text"
    )
    parser.add_argument("--json", metavar="OBJECT", help="all arguments as one JSON object")
    parser.add_argument("--yes", action="store_true", help="do not ask; what is denied stays denied")
    parser.add_argument("--sandbox", choices=("docker", "off"), help="off runs commands on this machine")


def run_tool(args: argparse.Namespace, place: Place) -> Coroutine[Any, Any, int]:
    """Exit code: 0 where it did it, 1 where it failed, 2 where the call was wrong, 4 where it was not allowed.

    Raises ConfigError.
    """
    tools = describe_tools(place)
    try:
        tool = tools.get(args.name)
    except NotFound as error:
        waiting = ", ".join(tools.now.untrusted)
        hint = f"; nobody trusts {waiting} as it is now: read it, then codeagent tools trust" if waiting else ""
        raise ConfigError(f"{error}{hint}") from None
    arguments = args.json if args.json is not None else _arguments(args.given, tool_schema(tool))
    if args.json is not None and args.given:
        raise ConfigError("give --json or ARG=VALUE, not both; nothing was run")
    return _call(args, place, arguments)


async def _call(args: argparse.Namespace, place: Place, arguments: str) -> int:
    with tempfile.TemporaryDirectory(prefix="codeagent-") as folder:
        script = Path(folder) / "call.json"
        script.write_text(json.dumps([{"calls": [[args.name, arguments]]}, {"text": "Done."}]), encoding="utf-8")
        args.model, args.mode = f"script:{script}", "ask"
        settings = settings_of(args, place.workspace)
        front = _Front(place.redactor, approve=args.yes)
        runtime = await open_runtime(
            settings, place, resume=None, tell=say, observer=lambda event: None, attended=False
        )
        try:
            return await front.run(runtime)
        finally:
            await runtime.close()


class _Front:
    """Shows one call as it happens, and asks the user."""

    def __init__(self, redactor: Redactor, *, approve: bool) -> None:
        self._redactor = redactor
        self._approve = approve
        self._streamed = ""

    async def run(self, runtime: Runtime) -> int:
        code = 1
        async for event in runtime.agent.run("Call the tool."):
            match event:
                case ToolUpdated():
                    self._streamed += event.text
                    target = sys.stderr if event.stream == "stderr" else sys.stdout
                    print(self._redactor.clean(event.text), end="", file=target, flush=True)
                case ToolProgress():
                    say(event.text)
                case ApprovalRequested():
                    runtime.agent.do(Answer(event.approval_id, await self._answer(event)))
                case ToolResultAdded():
                    code = self._show(event)
                case Notice() | TypedNotice() if event.level != "info":
                    say(f"{event.level}: {one_line(event.text, 400)}")
                case _:
                    pass
        return code

    async def _answer(self, event: ApprovalRequested) -> Decision:
        for line in _shown(event):
            say(self._redactor.clean(line))
        if self._approve:
            return Decision("once", source="flag")
        if sys.stdin is None or not sys.stdin.isatty():
            return Decision("deny", "nobody is there to ask; allow it with --yes", source="auto")
        question = f"{one_line(event.name, 64)} ({one_line(event.reason, 200)}): run it? [y/N] "
        print(question, end="", file=sys.stderr, flush=True)
        answer = await asyncio.to_thread(sys.stdin.readline)
        return Decision("once") if answer.strip().lower() in ("y", "yes") else Decision("deny", "the user said no")

    def _show(self, event: ToolResultAdded) -> int:
        text = text_of(event.content)
        if event.error is None and (unseen := self._unseen(event, text)):
            print(self._redactor.clean(unseen))
        if event.error is None:
            return 0
        said = text if event.error.kind in _NOT_CALLED else f"{event.error.kind}: {event.error.message}"
        say(self._redactor.clean(said))
        if event.error.kind in _NOT_CALLED:
            return 2
        return _DENIED if event.error.kind == "denied" else 1

    def _unseen(self, event: ToolResultAdded, text: str) -> str:
        """What of the result has not come out while it was made; a command's output has, whatever the model gets."""
        if not self._streamed:
            return text
        if any(block.type == "terminal" for block in event.blocks):
            return ""
        return text.removeprefix(self._streamed.rstrip("\n")).lstrip("\n")


def _shown(event: ApprovalRequested) -> list[str]:
    """What is asked about, whole."""
    lines: list[str] = []
    for block in event.blocks:
        match block:
            case TerminalBlock():
                lines += [f"$ {line}" if not at else f"  {line}" for at, line in enumerate(block.command.split("\n"))]
            case TextBlock() | MarkdownBlock():
                lines += block.text.split("\n")
            case DiffBlock():
                before, after = block.before.splitlines(), block.after.splitlines()
                lines += difflib.unified_diff(before, after, block.path, block.path, lineterm="")
            case _:
                lines.append(event.target)
    return lines or [event.target]


def _arguments(given: list[str], schema: dict[str, Any]) -> str:
    """The call's arguments as JSON. Raises ConfigError for what is not ARG=VALUE, or JSON where that is wanted."""
    out: dict[str, Any] = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise ConfigError(f"{word!r} is not ARG=VALUE; nothing was run")
        if name in out:
            raise ConfigError(f"the argument {name} is given twice; nothing was run")
        kind = schema.get("properties", {}).get(name, {}).get("type", "string")
        out[name] = value if kind == "string" else _parsed(name, value)
    return json.dumps(out)


def _parsed(name: str, value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ConfigError(f"{name}={value[:80]} is not JSON, which this argument must be; nothing was run") from None
