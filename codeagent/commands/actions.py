"""The actions of a command, such as `codeagent tools list`: its own, and those that extensions
add."""

import argparse
from collections.abc import Callable, Collection, Coroutine, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from codeagent.commands.arguments import refuse_if_off
from codeagent.config.extensions import actions_of
from codeagent.core.dataclass import dataclass
from codeagent.core.extension import Subcommand

if TYPE_CHECKING:
    from codeagent.commands.ports import App


@dataclass(frozen=True)
class OwnAction:
    """An action that the command has whatever extensions there are."""

    about: str
    """What it does, in the help of the command."""
    add_arguments: Callable[[argparse.ArgumentParser], None]


Actions: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def actions_in(parser: argparse.ArgumentParser) -> Actions:
    """Return what the actions of a command are added to; one must be given."""
    return parser.add_subparsers(dest="action", metavar="ACTION", required=True)


def add_added(actions: Actions, added: Subcommand) -> None:
    """Add an action of an extension."""
    import_module(added.module).add_arguments(actions.add_parser(added.name, help=added.about))


def add_actions(
    parser: argparse.ArgumentParser, command: str, own: Mapping[str, OwnAction]
) -> None:
    """Add the actions of a command, each of an extension behind the one that it follows."""
    actions = actions_in(parser)
    added = {action.name: action for _, action in actions_of(command, own)}
    names = list(own)
    for action in added.values():
        at = names.index(action.after) + 1 if action.after in names else len(names)
        names.insert(at, action.name)
    for name in names:
        if name in own:
            own[name].add_arguments(actions.add_parser(name, help=own[name].about))
        else:
            add_added(actions, added[name])


def run_added(
    args: argparse.Namespace, app: "App", command: str, own: Collection[str]
) -> int | Coroutine[Any, Any, int]:
    """Run the action of an extension. Raises ConfigError if that is switched off."""
    extension, action = next(
        each for each in actions_of(command, own) if each[1].name == args.action
    )
    refuse_if_off(extension.name, action.words)
    code: int | Coroutine[Any, Any, int] = import_module(action.module).main(args, app)
    return code
