"""`codeagent stats --by` and `--days`: tokens and money over days."""

import argparse
import sys
import time
from dataclasses import asdict
from shutil import get_terminal_size
from typing import Any

from codeagent.commands.arguments import count, open_store, print_json
from codeagent.commands.sessions import chosen_here
from codeagent.console.colour import for_eyes
from codeagent.console.table import Column, print_table
from codeagent.core.sanitize import visible
from codeagent.extensions.usage.requests import spent
from codeagent.extensions.usage.totals import WAYS, Total, Totals, since_days, totals

_BAR = 20
_NAME = 10
"""Cells of a name for which a table needs room; a day has as many."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--by", choices=WAYS, help="tokens and money of all sessions by day, model or repository"
    )
    parser.add_argument(
        "--days", metavar="N", type=count, help="only the last N days; without --by, by day"
    )


def main(args: argparse.Namespace, app: object) -> int | None:
    """Print the totals; None if none of these options was given. Raises SessionNotFound."""
    if args.by is None and args.days is None:
        return None
    store = open_store()
    ids = chosen_here(store, args, several=args.id is None and not args.last)
    since = 0.0 if args.days is None else since_days(args.days, time.time())
    found = totals(spent(store, ids, since), args.by or "day")
    if args.json:
        groups = [{"name": name, **_plain(total)} for name, total in found.groups.items()]
        print_json(
            {"by": found.by, "days": args.days, "groups": groups, "total": _plain(found.whole)}
        )
    else:
        _print(found)
    return 0


def _plain(total: Total) -> dict[str, Any]:
    return {**asdict(total), "cost_usd": total.nanodollars / 10**9}


def _print(found: Totals) -> None:
    """Print a table on a terminal that has room for the figures, else plain lines."""
    shown = (*found.groups.items(), ("total", found.whole))
    heads = (found.by, "cost", "tokens in", "tokens out", "requests")
    rows = [
        (name, each.cost, f"{each.input_tokens:,}", f"{each.output_tokens:,}", f"{each.requests:,}")
        for name, each in shown
    ]
    names, *widths = (max(map(len, column)) for column in zip(heads, *rows, strict=True))
    room = get_terminal_size().columns - sum(width + 2 for width in widths)
    bars = [*map(found.share, found.groups.values()), 0.0]
    if for_eyes(sys.stdout) and room >= _NAME:
        longest = min(_BAR, room - names - 2)
        drawn = ("█" * round(longest * bar) for bar in bars)
        columns = (
            Column(found.by.upper(), "cyan", cut=True),
            *(Column(head.upper(), right=True) for head in heads[1:]),
            Column(),
        )
        print_table(columns, [(*row, bar) for row, bar in zip(rows, drawn, strict=True)], ())
        return
    widest = max(len(visible(row[0])) for row in (heads, *rows))
    for row, bar in zip((heads, *rows), (0.0, *bars), strict=True):
        line = "{}  {:>11}  {:>12}  {:>11}  {:>8}".format(f"{visible(row[0]):<{widest}}", *row[1:])
        print(f"{line}  {'█' * round(_BAR * bar)}".rstrip())
