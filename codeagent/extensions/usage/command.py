"""`codeagent stats --by` and `--days`: tokens and money over days."""

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from codeagent.commands.arguments import count, open_store, print_json
from codeagent.commands.sessions import chosen_here
from codeagent.core.sanitize import visible
from codeagent.extensions.usage.requests import spent
from codeagent.extensions.usage.totals import WAYS, Total, Totals, since_days, totals

_BAR = 20


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
        print("\n".join(_lines(found)))
    return 0


def _plain(total: Total) -> dict[str, Any]:
    return {**asdict(total), "cost_usd": total.nanodollars / 10**9}


def _lines(found: Totals) -> Iterator[str]:
    names = [visible(name) for name in found.groups]
    widest = max(map(len, [*names, found.by, "total"]))
    head = (f"{found.by:<{widest}}", "cost", "tokens in", "tokens out", "requests")
    yield "{}  {:>11}  {:>12}  {:>11}  {:>8}".format(*head)
    for name, total in (*zip(names, found.groups.values(), strict=True), ("total", found.whole)):
        bar = "" if total is found.whole else f"  {'█' * round(_BAR * found.share(total))}"
        yield (
            f"{name:<{widest}}  {total.cost:>11}  {total.input_tokens:>12,}  "
            f"{total.output_tokens:>11,}  {total.requests:>8,}{bar}".rstrip()
        )
