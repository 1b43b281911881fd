"""`codeagent stats`: shows calls, durations, tokens and cost of one or more sessions."""

import argparse
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from codeagent.commands.arguments import add_flag, open_store
from codeagent.commands.sessions import add_session_argument
from codeagent.config.extensions import actions_of
from codeagent.core.audit import COUNTED, SessionStats, gather_stats
from codeagent.core.event_json import to_json
from codeagent.core.sanitize import visible, visible_json

if TYPE_CHECKING:
    from codeagent.commands.ports import App


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
    if args.here or args.all:
        ids = [
            one for one in store.ids() if args.all or store.is_of(one, str(Path.cwd().resolve()))
        ]
        title = f"{len(ids)} session{'s' * (len(ids) != 1)}"
    else:
        title = (
            store.find(args.id) if args.id is not None else store.last(str(Path.cwd().resolve()))
        )
        ids = [title]
    with_children = [one for session_id in ids for one in (session_id, *store.children(session_id))]
    stats = gather_stats(
        event for session_id in with_children for event in store.read_only(session_id, COUNTED)
    )
    if args.json:
        print(visible_json(to_json(stats, indent=2)))
    else:
        print("\n".join(_lines(title, stats)))
    return 0


def _lines(title: str, stats: SessionStats) -> list[str]:
    lines = [
        f"session   {title}",
        f"calls     {stats.total_calls} ({stats.successful} successful, {stats.failed} failed), "
        f"{stats.total_duration_ms / 1000:.1f} s in all",
    ]
    width = max([12, *(len(visible(name)) + 1 for name in stats.tools)])
    lines += [
        f"  {visible(name):<{width}}{tool.calls:>5} {'call ' if tool.calls == 1 else 'calls'} {tool.failed:>4} failed "
        f"{tool.duration_ms / 1000:>8.1f} s"
        for name, tool in stats.tools.items()
    ]
    lines += [f"  {kind}: {count}" for kind, count in stats.errors.items()]
    counted = {"approval": stats.approvals, "jobs": stats.jobs, "limits": stats.limits}
    lines += [
        f"{label:<10}{', '.join(f'{name} {count}' for name, count in counts.items())}"
        for label, counts in counted.items()
        if counts
    ]
    usage = stats.usage
    cost = f", ${usage.cost_usd:.4f}" if usage.cost_usd else ""
    cached = f" ({usage.cache_read_tokens:,} from the cache)" if usage.cache_read_tokens else ""
    estimated = ", estimated" if usage.estimated else ""
    searches = f", {usage.searches} searches by the provider" if usage.searches else ""
    tokens = (
        f"{usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out{searches}{cost}{estimated}"
    )
    return [*lines, f"tokens    {tokens}", f"turns     {stats.turns}"]
