"""`codeagent extensions`: the extensions, which of them are on, and what each brings."""

import argparse
from collections.abc import Iterator

from codeagent.commands.actions import actions_in
from codeagent.commands.arguments import add_flag, completed_by, print_json
from codeagent.config.extensions import Extensions
from codeagent.config.layers import extensions_of
from codeagent.config.local_environment import user_config_file
from codeagent.console.table import LABEL, TEXT, Column, print_table
from codeagent.core.errors import ConfigError
from codeagent.core.extension import Extension
from codeagent.core.sanitize import one_line, visible


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = actions_in(parser)
    listing = actions.add_parser("list", help="every extension, and whether it is on")
    showing = actions.add_parser("show", help="what one brings")
    completed_by(showing.add_argument("name", metavar="NAME"), "extensions")
    add_flag(listing, "--json", "as one JSON list")
    add_flag(showing, "--json", "as one JSON object")


def main(args: argparse.Namespace, app: object) -> int:
    """Run the command. Raises ConfigError for an unknown name, or a file that is not valid."""
    extensions = extensions_of(user_config_file())
    if args.action == "list":
        return _list(extensions, as_json=args.json)
    return _show(extensions, args.name, as_json=args.json)


def _list(extensions: Extensions, *, as_json: bool) -> int:
    every = sorted((*extensions.on, *extensions.off), key=lambda extension: extension.name)
    rows = [(each.name, _state(extensions, each), each.about) for each in every]
    rows += [(name, "fail", why) for name, why in extensions.broken.items()]
    if as_json:
        print_json([{"name": name, "state": state, "about": about} for name, state, about in rows])
        return 0
    widest = max((len(name) for name, _, _ in rows), default=0) + 2
    plain = (
        f"{one_line(name, 60):<{widest}}{state:<5}"
        f"{visible(about) if state == 'fail' else one_line(about, 90)}"
        for name, state, about in rows
    )
    print_table(
        (Column("EXTENSION", "cyan"), Column("IS"), Column("ABOUT")), rows, ["\n".join(plain)]
    )
    return 0


def _show(extensions: Extensions, name: str, *, as_json: bool) -> int:
    every = {extension.name: extension for extension in (*extensions.on, *extensions.off)}
    if name in extensions.broken:
        raise ConfigError(
            f"the extension {name} cannot be used: {visible(extensions.broken[name])}"
        )
    if name not in every:
        raise ConfigError(
            f"unknown extension {one_line(name, 60)!r}; codeagent extensions list lists them"
        )
    extension = every[name]
    state, brings = _state(extensions, extension), _brings(extension)
    if as_json:
        print_json({"name": name, "state": state, "about": extension.about, **brings})
        return 0
    why = f", by extensions.off in {user_config_file()}" * (state == "off")
    without = [extension.when_off] if state == "off" and extension.when_off else []
    shown = {"state": [state + why, *without], **brings}
    facts = [
        (label if number == 0 else "", part)
        for label, parts in shown.items()
        for number, part in enumerate(parts)
    ]
    plain = (f"  {label:<10}{part}" for label, part in facts)
    print(f"{extension.name}: {extension.about}")
    print_table((LABEL, TEXT), facts, plain)
    return 0


def _brings(extension: Extension) -> dict[str, list[str]]:
    return {
        "settings": [f"[{section}]" for section in extension.settings],
        "toolsets": [f"{one.name}: {', '.join(one.tools)}" for one in extension.sets],
        "commands": list(_commands(extension)),
        "loads": [f"*{suffix}" for one in extension.in_folders.kinds for suffix in one.suffixes],
        "models": _of_models(extension),
        "files": [*extension.in_folders.own, *extension.in_folders.project],
    }


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
