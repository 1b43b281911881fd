"""`codeagent extensions`: the extensions, which of them are on, and what each brings."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from codeagent.config.extensions import Extensions
from codeagent.config.layers import extensions_of
from codeagent.config.local_environment import user_config_file
from codeagent.core.errors import ConfigError
from codeagent.core.extension import Extension
from codeagent.core.sanitize import one_line, visible

if TYPE_CHECKING:
    from codeagent.commands.ports import App


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("list", help="every extension, and whether it is on")
    showing = actions.add_parser("show", help="what one brings")
    showing.add_argument("name", metavar="NAME")


def main(args: argparse.Namespace, app: "App") -> int:
    """Run the command. Raises ConfigError for an unknown name, or a file that is not valid."""
    extensions = extensions_of(user_config_file())
    lines = _listed(extensions) if args.action == "list" else _shown(extensions, args.name)
    print("\n".join(lines))
    return 0


def _listed(extensions: Extensions) -> Iterator[str]:
    every = sorted((*extensions.on, *extensions.off), key=lambda extension: extension.name)
    names = [*(extension.name for extension in every), *extensions.broken]
    widest = max(map(len, names), default=0) + 2
    for extension in every:
        yield f"{extension.name:<{widest}}{_state(extensions, extension):<5}{one_line(extension.about, 90)}"
    for name, why in extensions.broken.items():
        yield f"{one_line(name, 60):<{widest}}fail {visible(why)}"


def _shown(extensions: Extensions, name: str) -> Iterator[str]:
    every = {extension.name: extension for extension in (*extensions.on, *extensions.off)}
    if name in extensions.broken:
        raise ConfigError(
            f"the extension {name} cannot be used: {visible(extensions.broken[name])}"
        )
    if name not in every:
        raise ConfigError(
            f"there is no extension {one_line(name, 60)!r}; codeagent extensions list lists them"
        )
    extension = every[name]
    yield f"{extension.name}: {extension.about}"
    state = _state(extensions, extension)
    yield f"  state     {state}" + (
        f", by extensions.off in {user_config_file()}" * (state == "off")
    )
    if state == "off" and extension.when_off:
        yield f"  {'':<10}{extension.when_off}"
    for label, parts in (
        ("settings", [f"[{section}]" for section in extension.settings]),
        ("toolsets", [f"{one.name}: {', '.join(one.tools)}" for one in extension.sets]),
        ("commands", list(_commands(extension))),
        ("loads", [f"*{suffix}" for one in extension.in_folders.kinds for suffix in one.suffixes]),
        ("models", _of_models(extension)),
        ("files", [*extension.in_folders.own, *extension.in_folders.project]),
    ):
        for number, part in enumerate(parts):
            yield f"  {label if number == 0 else '':<10}{part}"


def _commands(extension: Extension) -> Iterator[str]:
    for subcommand in extension.subcommands:
        yield f"codeagent {subcommand.words}"
    for option in extension.run_options:
        yield f"codeagent run --{option.name} {option.metavar}"
    for command in extension.screen.commands:
        yield f"/{command.name} {command.arguments}".rstrip()


def _of_models(extension: Extension) -> list[str]:
    wraps = ["changes how models are asked"] if extension.models else []
    return wraps + (["tools that a model's provider runs"] if extension.at_provider else [])


def _state(extensions: Extensions, extension: Extension) -> str:
    return "on" if extension in extensions.on else "off"
