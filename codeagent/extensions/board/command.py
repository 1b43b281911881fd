"""`codeagent sessions board`: what every session is doing, live on a terminal, a table elsewhere."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
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
from codeagent.commands.chat import open_screen
from codeagent.config.local_environment import folders_of
from codeagent.console.table import Column, print_table
from codeagent.core.sanitize import on_one_line, one_line
from codeagent.extensions.board.attaching import attach, connected, held_session
from codeagent.extensions.board.sessions import SIGNS, BoardRow, SessionBoard
from codeagent.tui.terminal import usable

if TYPE_CHECKING:
    from codeagent.commands.ports import App

_COLUMNS = (
    Column(),
    Column("STATE"),
    Column("AGE", "dim"),
    Column("COST", right=True),
    Column("SESSION", "cyan"),
    Column("TITLE", cut=True),
    Column("FOLDER", cut=True),
)


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
    if usable(sys.stdin, sys.stdout, os.environ) is not None:
        return _table(board.rows(folders), f" of {workspace}" if args.here else " yet")
    from codeagent.extensions.board.page import show_board  # Textual, only for a terminal

    theme = settings_of(argparse.Namespace(), workspace).theme
    code, session_id = show_board(partial(board.rows, folders), board.stop, theme)
    if not session_id:
        return code
    if (held := held_session(store, session_id)) is not None:
        attach(connected(held))
        return 0
    return open_screen(workspace, app, resume=session_id)


def _table(rows: Sequence[BoardRow], which: str) -> int:
    if not rows:
        say(f"no session{which}", "to start one: codeagent, or codeagent run PROMPT")
        return 0
    cells = (
        (SIGNS[row.state], row.state, row.age, _cost(row), row.id, row.title, row.folder)
        for row in rows
    )
    print_table(_COLUMNS, cells, _plain(rows))
    return 0


def _plain(rows: Sequence[BoardRow]) -> Iterator[str]:
    yield f"{'STATE':<17}  {'AGE':>3}  {'COST':>8}  {'SESSION':<24}  {'TITLE':<40}  FOLDER"
    for row in rows:
        state, title = f"{SIGNS[row.state]} {row.state}", one_line(row.title, 40)
        line = f"{state:<17}  {row.age:>3}  {_cost(row):>8}  {row.id}  {title:<40}  {on_one_line(row.folder)}"
        yield line.rstrip()


def _cost(row: BoardRow) -> str:
    return f"${row.cost_usd:.4f}"
