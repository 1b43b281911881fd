"""`codeagent completion`: prints the code with which a shell completes commands, options and
values."""

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from codeagent.commands.arguments import open_store, settings_of
from codeagent.config.extensions import all_extensions
from codeagent.config.local_environment import LocalEnvironment, config_dir
from codeagent.core.sanitize import visible

if TYPE_CHECKING:
    from codeagent.commands.ports import App

SHELLS = ("bash", "zsh", "fish")
_PROGRAM = "codeagent"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")


def main(args: argparse.Namespace, app: "App") -> int:
    from argcomplete.shell_integration import shellcode  # only for completion, as below

    print(shellcode([_PROGRAM], shell=args.shell))
    return 0


def complete(
    build: Callable[[str], argparse.ArgumentParser], names: Mapping[str, str], app: "App"
) -> None:
    """Answer the shell, which asks through argcomplete's variables, and end the process.

    `names` maps each command to what it does; `build` makes the parser of a command, or the
    screen's for an empty name.
    """
    from argcomplete.finders import CompletionFinder

    line = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
    words = line.split()
    name = next((each for each in words[1:2] if each in names), "")
    if name == line.rpartition(" ")[2]:
        name = ""  # it is still being typed
    if name:
        os.environ["_ARGCOMPLETE"] = "2"  # the command is the program whose arguments follow
    parser = build(name)
    parser.set_defaults(app=app, names=names)
    CompletionFinder(validator=_fits)(parser, always_complete_options=False)


def _fits(completion: str, prefix: str) -> bool:
    """Whether a value continues what was typed, and can be printed without acting on a terminal."""
    plain = visible(completion) == completion and "\n" not in completion
    return plain and completion.startswith(prefix)


def commands(args: argparse.Namespace, app: "App") -> Mapping[str, str]:
    """Return the commands."""
    names: Mapping[str, str] = args.names
    return names


def sessions(args: argparse.Namespace, app: "App") -> dict[str, str]:
    """Return the sessions of this folder, the latest first."""
    store, here = open_store(), str(_workspace(args))
    found = [each for each in store.summaries() if store.is_of(each.id, here)]
    return {each.id: each.name for each in found}


def models(args: argparse.Namespace, app: "App") -> dict[str, str]:
    """Return the model that is set and those worth offering, without asking any server."""
    from codeagent.llm.providers import OFFERED

    own = settings_of(argparse.Namespace(), _workspace(args)).model
    return ({own: "set"} if own else {}) | dict.fromkeys(OFFERED, "hosted") | {"demo": "scripted"}


def tools(args: argparse.Namespace, app: "App") -> dict[str, str]:
    """Return the tools of a conversation here."""
    catalog = app.describe_tools(LocalEnvironment.of_user(_workspace(args)))
    return {each.name: each.description for each in catalog.definitions()}


def recipes(args: argparse.Namespace, app: "App") -> dict[str, str]:
    """Return the recipes of a conversation here."""
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
