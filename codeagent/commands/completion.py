"""`codeagent completion`: what makes a shell complete commands, options and values."""

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.config.extensions import all_extensions
from codeagent.config.local_environment import config_dir
from codeagent.core.errors import CodeagentError
from codeagent.core.extension import Reference, resolved
from codeagent.core.sanitize import one_line, visible

if TYPE_CHECKING:
    from codeagent.commands.ports import App

SHELLS = ("bash", "zsh", "fish")
_PROGRAM = "codeagent"
_ABOUT = 60
"""Characters of what a shell shows beside a value."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")


def main(args: argparse.Namespace, app: "App") -> int:
    from argcomplete.shell_integration import shellcode  # only for completion, as below

    print(shellcode([_PROGRAM], shell=args.shell))
    return 0


def complete(
    build: Callable[[str], argparse.ArgumentParser], names: Mapping[str, str], app: "App"
) -> None:
    """Answer the shell, which asks by the variables of argcomplete, and end the process.

    `names`: the commands, with what each does; `build` makes the parser of one, and the screen's for
    an empty name.
    """
    from argcomplete.completers import FilesCompleter, SuppressCompleter
    from argcomplete.finders import CompletionFinder

    line = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
    words = line.split()
    within = len(words) > 2 or (len(words) == 2 and line[-1:].isspace())
    name = words[1] if within and words[1] in names else ""
    if name:
        os.environ["_ARGCOMPLETE"] = "2"  # the command is the program whose arguments follow
    parser = build(name)
    files = FilesCompleter()
    for action in _actions(parser):
        reference = getattr(action, "completes", "")
        if reference:
            _complete_by(action, _values(reference, app))
        elif action.dest == "path":
            _complete_by(action, lambda **_: dict(names))
        elif action.metavar in ("DIR", "FILE", "PATH"):
            _complete_by(action, files)
    finder = CompletionFinder(default_completer=SuppressCompleter(), validator=_fits)
    finder(parser, always_complete_options=False)  # only once a dash is typed


def _complete_by(action: argparse.Action, completer: Any) -> None:
    vars(action)["completer"] = completer


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    found = list(parser._actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [each for below in action.choices.values() for each in _actions(below)]
    return found


def _values(reference: Reference, app: "App") -> Callable[..., dict[str, str]]:
    """Return what argcomplete asks for the values of an argument, with a few words about each."""

    def values(parsed_args: argparse.Namespace, **_: object) -> dict[str, str]:
        try:
            found: Mapping[str, str] = resolved(reference)(parsed_args, app)
        except (CodeagentError, OSError):
            return {}
        return {name: one_line(about, _ABOUT) for name, about in found.items()}

    return values


def _fits(completion: str, prefix: str) -> bool:
    """Whether a value continues what was typed, and neither acts on a terminal nor is a command."""
    plain = visible(completion) == completion and "\n" not in completion
    return plain and completion.startswith(prefix)


def sessions(args: argparse.Namespace, app: "App") -> dict[str, str]:
    """Return the sessions of this folder, the latest first."""
    from codeagent.commands.arguments import open_store

    store, here = open_store(), str(_workspace(args))
    found = [each for each in store.summaries() if store.is_of(each.id, here)]
    return {each.id: each.title or each.prompt for each in found}


def models(args: argparse.Namespace, app: "App") -> dict[str, str]:
    """Return the model that is set, and those worth offering; nobody is asked for others."""
    from codeagent.commands.arguments import settings_of
    from codeagent.llm.providers import OFFERED

    own = settings_of(argparse.Namespace(), _workspace(args)).model
    return ({own: "set"} if own else {}) | dict.fromkeys(OFFERED, "hosted") | {"demo": "scripted"}


def tools(args: argparse.Namespace, app: "App") -> dict[str, str]:
    """Return the tools of a conversation here."""
    from codeagent.config.local_environment import LocalEnvironment

    catalog = app.describe_tools(LocalEnvironment.of_user(_workspace(args)))
    return {each.name: each.description for each in catalog.definitions()}


def recipes(args: argparse.Namespace, app: "App") -> dict[str, str]:
    """Return the recipes of a conversation here."""
    from codeagent.config.local_environment import LocalEnvironment

    found = app.read_recipes(LocalEnvironment.of_user(_workspace(args)))
    return {each.name: each.description for each in found.listed}


def extensions(args: argparse.Namespace, app: "App") -> dict[str, str]:
    """Return all extensions, on or off."""
    return {each.name: each.about for each in all_extensions().on}


def toolsets(args: argparse.Namespace, app: "App") -> dict[str, str]:
    """Return the sets of built-in tools."""
    return {name: each.about for name, each in all_extensions().sets.items()}


def themes(args: argparse.Namespace, app: "App") -> dict[str, str]:
    """Return the themes that ship, and the user's own."""
    from codeagent.tui.themes import bundled_folder  # with the screen

    folders = (bundled_folder(), config_dir() / "themes")
    return {file.stem: "" for folder in folders for file in sorted(folder.glob("*.yaml"))}


def _workspace(args: argparse.Namespace) -> Path:
    return Path(vars(args).get("cwd") or vars(args).get("path") or ".").resolve()
