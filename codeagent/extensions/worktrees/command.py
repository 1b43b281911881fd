"""`codeagent worktrees`: lists and removes the worktrees that sessions work in."""

import argparse
import asyncio
from pathlib import Path
from typing import Any

from codeagent.changes.diff import count
from codeagent.commands.actions import actions_in
from codeagent.commands.arguments import (
    add_cwd,
    add_flag,
    open_store,
    print_json,
    say,
    workspace_of,
)
from codeagent.config.local_environment import origin_of, worktree_name, worktrees_of
from codeagent.console.table import Column, print_table
from codeagent.core.errors import CheckpointError, ConfigError
from codeagent.core.sanitize import on_one_line, one_line
from codeagent.extensions.worktrees.merging import merge_of
from codeagent.workspace.worktrees import discard

_COLUMNS = (Column("WORKTREE", "cyan"), Column("NOT MERGED"), Column("OF", cut=True))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = actions_in(parser)
    listing = actions.add_parser("list", help="the worktrees of this folder")
    add_flag(listing, "--json", "as one JSON list")
    add_flag(listing, "--all", "the worktrees of every folder")
    removing = actions.add_parser("remove", help="remove worktrees of this folder")
    removing.add_argument("names", metavar="NAME", nargs="+")
    add_flag(removing, "--discard", "even if that loses changes that were not merged")
    add_cwd(listing, removing)


async def main(args: argparse.Namespace, app: object) -> int:
    here = workspace_of(args.cwd).resolve()
    origin = origin_of(here) or here
    if args.action == "list":
        return await _list(None if args.all else origin, as_json=args.json)
    known = {worktree_name(root.parent): root for root in worktrees_of(origin).values()}
    if unknown := [name for name in args.names if name not in known]:
        raise ConfigError(
            f"no worktree is called {one_line(unknown[0], 60)!r}: codeagent worktrees list names them; "
            "nothing was removed"
        )
    roots = [known[name] for name in args.names]
    return max([await _remove(root, discarding=args.discard) for root in roots])


async def _list(origin: Path | None, *, as_json: bool) -> int:
    rows = [await _facts(root) for root in worktrees_of(origin).values()]
    if as_json:
        print_json(rows)
        return 0
    if rows:
        cells = [(row["name"], _files(row["unmerged"]), row["origin"]) for row in rows]
        head = f"{'WORKTREE':<20}  {'NOT MERGED':<12}  OF"
        plain = (f"{name:<20}  {left:<12}  {on_one_line(of)}" for name, left, of in cells)
        print_table(_COLUMNS, cells, [head, *plain])
    else:
        which = f" of {origin}" if origin else ""
        say(f"no worktree{which}", "codeagent --worktree NAME makes one")
    if others := len(worktrees_of()) - len(rows):
        say(f"{count(others, 'worktree')} of other folders: codeagent worktrees list --all")
    return 0


async def _facts(root: Path) -> dict[str, Any]:
    return {
        "name": worktree_name(root.parent),
        "origin": str(origin_of(root)),
        "folder": str(root),
        "unmerged": await _unmerged(root),
    }


def _files(number: int | None) -> str:
    if number is None:
        return "unknown"
    return count(number, "file")


async def _unmerged(root: Path) -> int | None:
    """Count the files that could be merged; None if they cannot be compared."""
    try:
        async with merge_of(root) as merge:
            number = len(await merge.offers())
            return None if merge.left_out else number
    except CheckpointError:
        return None


async def _remove(root: Path, *, discarding: bool) -> int:
    name = worktree_name(root.parent)
    known = open_store().summaries()
    if any(each.in_use for each in known if Path(each.workspace).is_relative_to(root)):
        say(f"kept {name}: a session is working in it")
        return 1
    left = await _unmerged(root)
    if left != 0 and not discarding:
        what = "its changes cannot be compared" if left is None else f"not merged: {_files(left)}"
        say(f"kept {name}: {what}; --discard removes it with them")
        return 1
    await asyncio.to_thread(discard, root.parent)
    if await asyncio.to_thread(root.parent.exists):
        say(f"kept {name}: {root.parent} cannot be removed")
        return 1
    print(f"removed {name}")
    return 0
