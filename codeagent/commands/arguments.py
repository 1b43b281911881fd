"""Common parts of the commands: their arguments, the workspace and its settings from these, and
printing.

Imports nothing heavy, as the first frame of the screen needs it.
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.core.errors import CodeagentError, ConfigError
from codeagent.core.sanitize import one_line, visible_json

if TYPE_CHECKING:
    from codeagent.config.settings import Settings
    from codeagent.core.budget import Effort
    from codeagent.core.toolbox import ToolProblem
    from codeagent.session.store import SessionStore

MODES = ("ask", "accept-edits", "plan", "auto")
NETWORKS = ("none", "allow-list", "ask", "open")
_ABOUT = 60
"""The most characters that a shell shows beside a value."""
_PLAIN = (
    *("model", "api_base", "fallback_model", "thinking", "wire", "mode", "strategy", "theme"),
    "tools",
)


def add_flag(to: argparse._ActionsContainer, name: str, about: str) -> None:
    """Add a flag to a parser, or to a group of one."""
    to.add_argument(name, action="store_true", help=about)


def add_list(parser: argparse.ArgumentParser, name: str, metavar: str, about: str) -> None:
    """Add an argument that may be repeated."""
    parser.add_argument(name, metavar=metavar, action="append", default=[], help=about)


def completed_by(action: argparse.Action, values: str) -> None:
    """Let a shell complete an argument. `values` names a function of
    `codeagent.commands.completion`, or is a reference to another one; it takes the arguments and
    the App, and returns the values with a description of each."""
    reference = values if ":" in values else f"codeagent.commands.completion:{values}"

    def completer(parsed_args: argparse.Namespace, **_: object) -> dict[str, str]:
        from codeagent.core.extension import resolved  # only for a shell

        try:
            found = resolved(reference)(parsed_args, parsed_args.app)
        except (CodeagentError, OSError):
            return {}
        return {name: one_line(about, _ABOUT) for name, about in found.items()}

    vars(action)["completer"] = completer  # where argcomplete looks


def add_sandbox(parser: argparse._ActionsContainer, about: str) -> None:
    parser.add_argument("--sandbox", choices=("docker", "off"), help=about)


def add_model_arguments(parser: argparse.ArgumentParser) -> argparse._ActionsContainer:
    """Add the arguments that `codeagent run` takes as well; returns the group of those that limit
    what may be done."""
    add = parser.add_argument_group("model").add_argument
    model = add("--model", metavar="M", help="any litellm name, script:FILE.json or demo")
    add("--api-base", metavar="URL", help="address of the model's server")
    fallback = add(
        "--fallback-model",
        metavar="M",
        help="takes over once the model is overloaded or refused after its retries",
    )
    completed_by(model, "models")
    completed_by(fallback, "models")
    add(
        "--thinking",
        metavar="LEVEL",
        type=_effort,
        help="off, low, medium, high, or a budget in tokens",
    )
    add(
        "--wire",
        choices=("auto", "litellm"),
        help="litellm sends every request through litellm (default: auto)",
    )
    limits = parser.add_argument_group("what it may do")
    add = limits.add_argument
    add("--mode", choices=MODES, help="approval mode: ask (default), accept-edits, plan or auto")
    add(
        "--network",
        choices=NETWORKS,
        help="what commands with network access may reach: none, allow-list, ask (default) or open",
    )
    add_choice_of_tools(limits)
    return limits


def add_choice_of_tools(parser: argparse._ActionsContainer) -> None:
    """Add the arguments that choose a conversation's tools."""
    add = parser.add_argument
    tools = add(
        "--tools",
        metavar="NAMES",
        type=_tools,
        help="the only tools that may be used: read,bash,mcp__github__*",
    )
    toolset = add(
        "--toolset",
        metavar="NAME",
        action="append",
        help="turn a set of further tools on from the start; repeatable",
    )
    completed_by(tools, "tools")
    completed_by(toolset, "toolsets")
    add_safe(parser)


def add_safe(parser: argparse._ActionsContainer) -> None:
    """Add the flag that may also come in front of a command."""
    add_flag(
        parser,
        "--safe",
        "switch every extension off: six tools, no servers, no files of tools or recipes",
    )


def _effort(text: str) -> "Effort":
    from codeagent.core.budget import (
        parse_effort,
    )  # takes 7 ms, and --version and --help do not need it

    try:
        return parse_effort(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _tools(text: str) -> tuple[str, ...]:
    from codeagent.core.patterns import split_names  # as above

    try:
        return split_names(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def is_off(extension: str) -> bool:
    """Tell whether the user switched off an extension. Raises ConfigError."""
    from codeagent.config.layers import extensions_of
    from codeagent.config.local_environment import user_config_file

    return any(each.name == extension for each in extensions_of(user_config_file()).off)


def refuse_if_off(extension: str, what: str) -> None:
    """Raise ConfigError if the user switched off the extension that has this command, or reads
    this file."""
    from codeagent.config.local_environment import user_config_file

    if is_off(extension):
        raise ConfigError(
            f"{what}: the extension {extension} is switched off, by extensions.off in "
            f"{user_config_file()}"
        )


def settings_of(args: argparse.Namespace, workspace: Path) -> "Settings":
    """Load the settings; values that were not given come from the environment and the files. Raises
    ConfigError."""
    from codeagent.config.layers import load_settings
    from codeagent.config.local_environment import user_config_file
    from codeagent.config.settings import LIMITS
    from codeagent.tools.shell.rules import decides

    given = vars(args)
    flags: dict[str, Any] = {name: given[name] for name in _PLAIN if given.get(name) is not None}
    if limits := {name: given[name] for name in LIMITS if given.get(name) is not None}:
        flags["limits"] = limits
    if given.get("toolset"):
        flags["toolsets"] = {"use": tuple(given["toolset"])}
    if given.get("safe"):
        from codeagent.config.extensions import all_extensions

        flags["extensions"] = {"off": tuple(extension.name for extension in all_extensions().on)}
    flags["rules"] = {name: tuple(given.get(name, ())) for name in ("allow", "deny")}
    sandbox = {"kind": given.get("sandbox"), "network": given.get("network")}
    if held := {name: value for name, value in sandbox.items() if value is not None}:
        flags["sandbox"] = held
    return load_settings(
        flags,
        environment=os.environ,
        user_file=user_config_file(),
        workspace=workspace,
        decides=decides,
    )


def amount(text: str) -> float:
    """Return the number in an argument. Raises ArgumentTypeError unless it is above 0."""
    try:
        return _above_zero(float(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, not {one_line(text, 40)!r}") from None


def count(text: str) -> int:
    """Return the whole number in an argument. Raises ArgumentTypeError unless it is at least 1."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be a whole number, not {one_line(text, 40)!r}"
        ) from None
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def duration(text: str) -> float:
    """Return the seconds in an argument, a number or text such as `1h30m`. Raises
    ArgumentTypeError."""
    with suppress(ValueError):
        return _above_zero(float(text))
    from codeagent.core.budget import as_seconds  # most durations are given as numbers

    try:
        return _above_zero(as_seconds(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}, not {one_line(text, 40)!r}") from None


def _above_zero(value: float) -> float:
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError("must be more than 0")
    return value


def named_inputs(words: Sequence[str]) -> dict[str, str]:
    """Return the values of `--input NAME=VALUE` by name. Raises ConfigError."""
    given: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise ConfigError(f"--input {one_line(word, 60)!r} is not NAME=VALUE; nothing was run")
        if name in given:
            raise ConfigError(f"the input {one_line(name, 60)} is given twice; nothing was run")
        given[name] = value
    return given


def add_cwd(*parsers: argparse.ArgumentParser) -> None:
    for parser in parsers:
        parser.add_argument(
            "--cwd", metavar="DIR", type=Path, default=Path(), help="the workspace (default: here)"
        )


def workspace_of(folder: Path) -> Path:
    """Return the absolute path of the workspace. Raises ConfigError."""
    try:
        if folder.is_dir():
            return folder.absolute()
    except (OSError, ValueError):
        pass
    raise ConfigError(f"--cwd {str(folder)[:200]!r} is not an existing folder; nothing was run")


def read_named(path: Path, shown: str, largest: int) -> bytes:
    """Read a file of at most `largest` bytes that the user named. Raises ConfigError."""
    from codeagent.disk.opens import read_regular

    try:
        return read_regular(path, follow=True, largest=largest)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"{shown} cannot be read: {reason}; nothing was done") from None


def open_store() -> "SessionStore":
    from codeagent.config.local_environment import state_dir
    from codeagent.core.redact import Redactor
    from codeagent.session.store import SessionStore

    return SessionStore(state_dir(), Redactor(os.environ))


def say(text: str, hint: str = "") -> None:
    """Print a line on standard error, if there is one; the hint only if a user reads it."""
    if sys.stderr is not None:
        from codeagent.console.colour import for_eyes, print_line  # a plain run says nothing

        print_line(f"{text}; {hint}" if hint and for_eyes(sys.stderr) else text, sys.stderr)


def say_problems(problems: "Iterable[ToolProblem]") -> None:
    """Print each problem of a file of tools or recipes on standard error."""
    for problem in problems:
        say(f"{problem.level}: {problem}" if problem.level == "warning" else str(problem))


def print_json(value: object) -> None:
    print(visible_json(json.dumps(value, indent=2)))
