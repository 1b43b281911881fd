"""`codeagent config`: the settings in force, where they are written, and the allowed keys."""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from codeagent.commands.actions import actions_in
from codeagent.commands.arguments import add_cwd, add_flag, print_json, settings_of, workspace_of
from codeagent.config.checking import as_given
from codeagent.config.extensions import all_extensions
from codeagent.config.local_environment import PROJECT_FILE, config_dir, state_dir, user_config_file
from codeagent.config.settings import FileSettings, Settings
from codeagent.console.table import Column, print_facts, print_table
from codeagent.core.extension import resolved
from codeagent.core.sanitize import visible_json

_COLUMNS = (Column("SETTING", "cyan"), Column("VALUE"), Column("FROM"))
_LABEL = 10
"""The width of a label, in what programs read."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = actions_in(parser)
    showing = actions.add_parser(
        "show", help="the settings in force here and the origin of each; JSON in a pipe"
    )
    add_flag(showing, "--json", "as one JSON object, on a terminal too")
    paths = actions.add_parser(
        "path", help="your configuration file; --all: every file and folder codeagent uses"
    )
    add_flag(paths, "--all", "include the files and folders next to it")
    add_flag(paths, "--json", "with --all: as one JSON object")
    add_cwd(showing, paths)
    actions.add_parser("schema", help="the JSON Schema of a configuration file")


def main(args: argparse.Namespace, app: object) -> int:
    """Run the command. Raises ConfigError if a file cannot be read or is not valid."""
    match args.action:
        case "show":
            settings = _whole(settings_of(argparse.Namespace(), workspace_of(args.cwd)))
            given = as_given(settings)
            plain = visible_json(json.dumps(given, indent=2, ensure_ascii=False))
            if args.json:
                print(plain)
            else:
                rows = [
                    (name, value, settings.origins.get(name, "default"))
                    for name, value in _flat(given)
                ]
                print_table(_COLUMNS, rows, [plain])
        case "path" if args.all:
            paths = [(name, str(path)) for name, path in _paths(workspace_of(args.cwd))]
            if args.json:
                print_json(dict(paths))
            else:
                print_facts(paths, _LABEL)
        case "path":
            print(user_config_file())
        case _:
            print(json.dumps(_schema(), indent=2))
    return 0


def _flat(given: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Yield each setting by its whole name, and its value as JSON."""
    for name, value in given.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", json.dumps(value, ensure_ascii=False)


def _whole(settings: Settings) -> Settings:
    """Return the settings with the defaults of the extensions' sections that were not given."""
    sections = all_extensions().without(settings.extensions.off).sections
    given = {name: settings.section(name, resolved(kind)) for name, kind in sections.items()}
    return replace(settings, sections=given)


def _schema() -> dict[str, Any]:
    """Return the JSON Schema of a file, with the sections of all extensions."""
    from pydantic import TypeAdapter  # the other actions do without

    whole = TypeAdapter(FileSettings).json_schema()
    for name, kind in all_extensions().sections.items():
        schema = TypeAdapter(resolved(kind)).json_schema()
        whole["$defs"] |= schema.pop("$defs", {})
        whole["properties"][name] = schema
    return whole


def _paths(workspace: Path) -> tuple[tuple[str, Path], ...]:
    return (
        ("yours", user_config_file()),
        ("project", workspace / PROJECT_FILE),
        ("keys", config_dir() / "keys.yaml"),
        *(
            (label, config_dir() / name)
            for extension in all_extensions().on
            for name, label in extension.in_folders.own.items()
            if label
        ),
        ("themes", config_dir() / "themes"),
        ("rules", config_dir() / "rules.jsonl"),
        ("state", state_dir()),
    )
