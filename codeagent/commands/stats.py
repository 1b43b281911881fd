"""`codeagent stats`: calls, durations, tokens and cost of a session."""

import argparse

from codeagent.commands.sessions import add_session_argument, chosen, open_store
from codeagent.core.stats import SessionStats, gather_stats


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_session_argument(parser)
    parser.add_argument("--json", action="store_true", help="as one JSON object")


def main(args: argparse.Namespace) -> int:
    store = open_store()
    session_id = chosen(store, args)
    stats = gather_stats(store.read(session_id).events)
    if args.json:
        print(stats.model_dump_json(indent=2))
    else:
        print("\n".join(_lines(session_id, stats)))
    return 0


def _lines(session_id: str, stats: SessionStats) -> list[str]:
    lines = [
        f"session   {session_id}",
        f"calls     {stats.total_calls} ({stats.successful} successful, {stats.failed} failed), "
        f"{stats.total_duration_ms / 1000:.1f} s in all",
    ]
    lines += [
        f"  {name:<12}{tool.calls:>5} calls {tool.failed:>4} failed {tool.duration_ms / 1000:>8.1f} s"
        for name, tool in stats.tools.items()
    ]
    lines += [f"  {kind}: {count}" for kind, count in stats.errors.items()]
    usage = stats.usage
    cost = f", ${usage.cost_usd:.4f}" if usage.cost_usd else ""
    cached = f" ({usage.cache_read_tokens:,} from the cache)" if usage.cache_read_tokens else ""
    estimated = ", estimated" if usage.estimated else ""
    tokens = f"{usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out{cost}{estimated}"
    return [*lines, f"tokens    {tokens}", f"turns     {stats.turns}"]
