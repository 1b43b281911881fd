"""`codeagent attach`: shows a detached session on this terminal."""

import argparse

from codeagent.commands.arguments import completed_by, open_store
from codeagent.commands.chat import require_terminal
from codeagent.core.errors import ConfigError
from codeagent.extensions.board.attaching import attach, connected, held_session, last_held


def add_arguments(parser: argparse.ArgumentParser) -> None:
    session = parser.add_argument(
        "id",
        metavar="ID",
        nargs="?",
        help="the session; the beginning of its ID is enough (default: the last one detached)",
    )
    completed_by(session, "sessions")


def main(args: argparse.Namespace, app: object) -> int:
    require_terminal("`codeagent sessions board` also works in a pipe")
    if args.id is None:
        attach(last_held())
        return 0
    store = open_store()
    session_id = store.find(args.id)
    if (held := held_session(store, session_id)) is None:
        raise ConfigError(f"it is not running: codeagent --resume {session_id} continues it")
    attach(connected(held))
    return 0
