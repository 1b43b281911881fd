"""`codeagent extensions`: the rooms, which of them are on, and what each brings."""

import argparse
from collections.abc import Iterator

from codeagent.config.layers import rooms_of
from codeagent.config.paths import user_config_file
from codeagent.config.rooms import Rooms
from codeagent.core.errors import ConfigError
from codeagent.core.extension import Extension
from codeagent.core.sanitize import one_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("list", help="every extension, and whether it is on")
    showing = actions.add_parser("show", help="what one brings")
    showing.add_argument("name", metavar="NAME")


def main(args: argparse.Namespace) -> int:
    """Run the command. Raises ConfigError for an unknown name, or a file that is not valid."""
    rooms = rooms_of(user_config_file())
    lines = _listed(rooms) if args.action == "list" else _shown(rooms, args.name)
    print("\n".join(lines))
    return 0


def _listed(rooms: Rooms) -> Iterator[str]:
    every = sorted((*rooms.on, *rooms.off), key=lambda room: room.name)
    widest = max((len(room.name) for room in every), default=0) + 2
    for room in every:
        yield f"{room.name:<{widest}}{_state(rooms, room):<5}{one_line(room.about, 90)}"


def _shown(rooms: Rooms, name: str) -> Iterator[str]:
    every = {room.name: room for room in (*rooms.on, *rooms.off)}
    if name not in every:
        raise ConfigError(
            f"there is no extension {one_line(name, 60)!r}; codeagent extensions list lists them"
        )
    room = every[name]
    yield f"{room.name}: {room.about}"
    state = _state(rooms, room)
    yield f"  state     {state}" + (
        f", by extensions.off in {user_config_file()}" * (state == "off")
    )
    for label, parts in (
        ("settings", [f"[{section}]" for section in room.settings]),
        ("toolsets", [f"{one.name}: {', '.join(one.tools)}" for one in room.sets]),
        ("commands", [f"codeagent {one.name}" for one in room.subcommands]),
        ("files", [*room.own_files, *room.project_files]),
    ):
        for number, part in enumerate(parts):
            yield f"  {label if number == 0 else '':<10}{part}"


def _state(rooms: Rooms, room: Extension) -> str:
    return "on" if room in rooms.on else "off"
