"""`codeagent stats`: shows calls, durations, tokens and cost of one or more sessions."""

import argparse
from importlib import import_module
from typing import TYPE_CHECKING

from codeagent.commands.arguments import add_flag, open_store
from codeagent.commands.sessions import add_session_argument, chosen_here
from codeagent.config.extensions import actions_of
from codeagent.console.table import LABEL, TEXT, Column, print_facts, print_table
from codeagent.core.audit import COUNTED, SessionStats, gather_stats
from codeagent.core.event_json import to_json
from codeagent.core.messages import Usage
from codeagent.core.sanitize import visible, visible_json

if TYPE_CHECKING:
    from codeagent.commands.ports import App

_LABEL = 10
"""The width of a label, in what programs read."""
_TOOLS = (
    Column("TOOL", "cyan"),
    *(Column(heading, right=True) for heading in ("CALLS", "FAILED", "TIME")),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_session_argument(
        parser,
        last="the most recent session of this folder (default)",
        here="all sessions of this folder",
        all="all sessions",
    )
    add_flag(parser, "--json", "as one JSON object")
    for _, option in actions_of("stats", ()):
        import_module(option.module).add_arguments(parser)


def main(args: argparse.Namespace, app: "App") -> int:
    for _, option in actions_of("stats", ()):
        if (code := import_module(option.module).main(args, app)) is not None:
            return int(code)
    store = open_store()
    several = args.here or args.all
    ids = chosen_here(store, args, several=several)
    title = f"{len(ids)} session{'s' * (len(ids) != 1)}" if several else ids[0]
    with_children = [one for session_id in ids for one in (session_id, *store.children(session_id))]
    stats = gather_stats(
        event for session_id in with_children for event in store.read_only(session_id, COUNTED)
    )
    if args.json:
        print(visible_json(to_json(stats, indent=2)))
    else:
        _print(title, stats)
    return 0


def _print(title: str, stats: SessionStats) -> None:
    seconds = f"{stats.total_duration_ms / 1000:.1f} s in all"
    calls = f"{stats.total_calls} ({stats.successful} successful, {stats.failed} failed), {seconds}"
    print_facts([("session", title), ("calls", calls)], _LABEL)
    if stats.tools:
        rows = [
            (name, str(tool.calls), str(tool.failed), f"{tool.duration_ms / 1000:.1f} s")
            for name, tool in stats.tools.items()
        ]
        width = max([12, *(len(visible(name)) + 1 for name in stats.tools)])
        plain = (
            f"  {visible(name):<{width}}{calls:>5} {'call ' if calls == '1' else 'calls'}"
            f" {failed:>4} failed {took:>10}"
            for name, calls, failed, took in rows
        )
        print_table(_TOOLS, rows, plain)
    if stats.errors:
        errors = ", ".join(f"{kind} {count}" for kind, count in stats.errors.items())
        plain = (f"  {kind}: {count}" for kind, count in stats.errors.items())
        print_table((LABEL, TEXT), [("errors".ljust(_LABEL - 2), errors)], plain)
    counted = {"approval": stats.approvals, "jobs": stats.jobs, "limits": stats.limits}
    facts = [
        (label, ", ".join(f"{name} {count}" for name, count in counts.items()))
        for label, counts in counted.items()
        if counts
    ]
    tokens = ("tokens", _tokens(stats.usage))
    print_facts([*facts, tokens, ("turns", str(stats.turns))], _LABEL)


def _tokens(usage: Usage) -> str:
    cost = f", ${usage.cost_usd:.4f}" if usage.cost_usd else ""
    cached = f" ({usage.cache_read_tokens:,} from the cache)" if usage.cache_read_tokens else ""
    estimated = ", estimated" if usage.estimated else ""
    searches = f", {usage.searches} searches by the provider" if usage.searches else ""
    return (
        f"{usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out{searches}{cost}{estimated}"
    )
