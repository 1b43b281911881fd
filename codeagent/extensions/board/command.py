"""`codeagent sessions board`: what every session is doing, live on a terminal, a table in a pipe."""

import argparse
import os
import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from codeagent.commands.arguments import (
    add_cwd,
    add_flag,
    open_store,
    print_json,
    say,
    settings_of,
    workspace_of,
)
from codeagent.config.local_environment import folders_of
from codeagent.core.sanitize import on_one_line
from codeagent.extensions.board.attaching import attach, held_session
from codeagent.extensions.board.sessions import SIGNS, SessionBoard

if TYPE_CHECKING:
    from codeagent.commands.ports import App


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_flag(parser, "--json", "as one JSON list")
    add_flag(parser, "--here", "only the sessions of this folder and its worktrees")
    add_cwd(parser)


def main(args: argparse.Namespace, app: "App") -> int:
    workspace = workspace_of(args.cwd)
    store = open_store()
    board = SessionBoard(store)
    folders = folders_of(workspace) if args.here else ()
    if args.json:
        print_json([asdict(row) for row in board.rows(folders)])
        return 0
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return _table(board, folders)
    from codeagent.extensions.board.page import show_board  # Textual, only for a terminal

    theme = settings_of(argparse.Namespace(), workspace).theme
    code, session_id = show_board(partial(board.rows, folders), board.stop, theme)
    if not session_id:
        return code
    if (held := held_session(store, session_id)) is not None:
        attach(held)
        return 0
    store.check_free(session_id)
    words = ["-P", "-m", "codeagent", "--resume", session_id]
    return os.execv(sys.executable, [sys.executable, *words])


def _table(board: SessionBoard, folders: tuple[str, ...]) -> int:
    rows = board.rows(folders)
    if not rows:
        say("no sessions yet; codeagent run PROMPT starts one")
        return 0
    print(f"{'STATE':<17}  {'AGE':>3}  {'COST':>8}  {'SESSION':<24}  {'TITLE':<40}  FOLDER")
    for row in rows:
        state = f"{SIGNS[row.state]} {row.state}"
        title = row.title if len(row.title) <= 40 else f"{row.title[:39]}…"
        cost = f"${row.cost_usd:.4f}"
        line = f"{state:<17}  {row.age:>3}  {cost:>8}  {row.id}  {title:<40}  {on_one_line(row.folder)}"
        print(line.rstrip())
    return 0
