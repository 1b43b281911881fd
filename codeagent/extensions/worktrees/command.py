"""`codeagent worktrees`: lists and removes the worktrees that sessions work in."""

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.commands.arguments import (
    add_cwd,
    add_flag,
    open_store,
    print_json,
    say,
    workspace_of,
)
from codeagent.config.local_environment import origin_of, worktree_name, worktrees_of
from codeagent.core.errors import CheckpointError, ConfigError
from codeagent.core.sanitize import on_one_line, one_line
from codeagent.extensions.worktrees.merging import merge_of
from codeagent.workspace.worktrees import discard

if TYPE_CHECKING:
    from codeagent.commands.ports import App


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="the worktrees of this folder")
    add_flag(listing, "--json", "as one JSON list")
    add_flag(listing, "--all", "the worktrees of every folder")
    removing = actions.add_parser("remove", help="remove worktrees of this folder")
    removing.add_argument("names", metavar="NAME", nargs="+")
    add_flag(removing, "--discard", "even if that loses changes that were not merged")
    add_cwd(listing, removing)


async def main(args: argparse.Namespace, app: "App") -> int:
    here = workspace_of(args.cwd).resolve()
    origin = origin_of(here) or here
    if args.action == "list":
        found = worktrees_of(None if args.all else origin)
        return await _list(list(found.values()), as_json=args.json)
    known = {worktree_name(root.parent): root for root in worktrees_of(origin).values()}
    if unknown := [name for name in args.names if name not in known]:
        raise ConfigError(
            f"no worktree is called {one_line(unknown[0], 60)!r}: codeagent worktrees list names them; "
            "nothing was removed"
        )
    roots = [known[name] for name in args.names]
    return max([await _remove(root, discarding=args.discard) for root in roots])


async def _list(roots: list[Path], *, as_json: bool) -> int:
    rows: list[dict[str, Any]] = []
    for root in roots:
        left = await _unmerged(root)
        known = {"name": worktree_name(root.parent), "origin": str(origin_of(root))}
        rows.append({**known, "folder": str(root), "unmerged": left})
    if as_json:
        print_json(rows)
        return 0
    if not rows:
        say("no worktrees yet; codeagent --worktree NAME makes one")
        return 0
    print(f"{'WORKTREE':<20}  {'NOT MERGED':<12}  OF")
    for row in rows:
        print(
            f"{row['name']:<20}  {_files(row['unmerged']):<12}  {on_one_line(str(row['origin']))}"
        )
    return 0


def _files(number: int | None) -> str:
    if number is None:
        return "unknown"
    return "1 file" if number == 1 else f"{number} files"


async def _unmerged(root: Path) -> int | None:
    """Count the files that could be merged; None if they cannot be compared."""
    try:
        async with merge_of(root) as merge:
            return len(await merge.offers())
    except CheckpointError:
        return None


async def _remove(root: Path, *, discarding: bool) -> int:
    name = worktree_name(root.parent)
    folder = str(root)
    if any(each.in_use for each in open_store().summaries() if each.workspace == folder):
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
