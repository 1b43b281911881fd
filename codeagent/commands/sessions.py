"""`codeagent sessions`: lists, shows and checks stored sessions, and prints what was decided in them."""

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from codeagent.commands.arguments import open_store, print_json
from codeagent.core.approval_events import ApprovalResolved
from codeagent.core.audit import CallRecord, LedgerRow, audit, decided_by, decisions
from codeagent.core.event_json import event_json
from codeagent.core.events import (
    KnownEvent,
    MessageAdded,
    RunFinished,
    RunStarted,
    ToolResultAdded,
    ToolStarted,
    UnknownEvent,
)
from codeagent.core.messages import text_of
from codeagent.core.redact import Redactor
from codeagent.core.sanitize import one_line, visible, visible_json
from codeagent.session.repair import check_recording
from codeagent.session.store import SessionStore

_INDENT = " " * 4
_LONGEST = 400
"""Characters of arguments that are shown; a command is shown in full."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="every session, latest first")
    listing.add_argument("--json", action="store_true", help="as one JSON list")
    showing = actions.add_parser("show", help="what was said and done")
    add_session_argument(showing)
    showing.add_argument("--json", action="store_true", help="the events, decisions or calls, one per line")
    what = showing.add_mutually_exclusive_group()
    what.add_argument(
        "--approvals", action="store_true", help="who allowed or denied what, by which rule, and what exactly"
    )
    what.add_argument(
        "--calls", action="store_true", help="every call: who allowed it, where it ran, its exit code and duration"
    )
    checking = actions.add_parser("check", help="verify a session log: records, order, one result per call")
    add_session_argument(checking)


def add_session_argument(parser: argparse.ArgumentParser, **others: str) -> None:
    """Add the ways to name a session; `others` are flags to use instead, each with its help."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("id", metavar="ID", nargs="?", help="the session; the beginning of its ID is enough")
    which.add_argument("--last", action="store_true", help="the most recent session (default)")
    for name, about in others.items():
        which.add_argument(f"--{name}", action="store_true", help=about)


def main(args: argparse.Namespace) -> int:
    store = open_store()
    match args.action:
        case "list":
            return _list(store, as_json=args.json)
        case "show" if args.approvals:
            answers = decisions(store.read(chosen(store, args)).events)
            return _print_rows(answers, approval_lines(answers), as_json=args.json)
        case "show" if args.calls:
            calls = audit(store.read(chosen(store, args)).events)
            return _print_rows(calls, map(_call_line, calls), as_json=args.json)
        case "show":
            return _show(store, chosen(store, args), as_json=args.json)
        case _:
            return _check(store, chosen(store, args))


def chosen(store: SessionStore, args: argparse.Namespace) -> str:
    """Return the id of the session the arguments name. Raises SessionNotFound."""
    return store.find(args.id) if args.id is not None else store.last()


def _list(store: SessionStore, *, as_json: bool) -> int:
    summaries = store.summaries()
    if as_json:
        print_json([vars(summary) for summary in summaries])
        return 0
    for summary in summaries:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(summary.modified))
        state = "  in use" if summary.in_use else ""
        print(f"{summary.id}  {when}  {one_line(summary.prompt, 60)}  {visible(summary.workspace)}{state}")
    return 0


def _show(store: SessionStore, session_id: str, *, as_json: bool) -> int:
    recording = store.read(session_id)
    redactor = Redactor({})
    for event in recording.events:
        if as_json:
            print(visible_json(event_json(event, redactor)))
        elif line := _line(event):
            print(line)
    return 0


def _print_rows(rows: Iterable[LedgerRow | CallRecord], lines: Iterable[str], *, as_json: bool) -> int:
    """Print the lines, or each row as JSON."""
    for line in (visible_json(json.dumps(asdict(row))) for row in rows) if as_json else lines:
        print(line)
    return 0


def _call_line(row: CallRecord) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row.at))
    facts = [
        f"by {row.approval}" + (f" {visible(row.rule)}" if row.rule else "") if row.approval else "",
        row.sandbox or "",
        f"exit {row.exit}" if row.exit is not None else "",
        row.error or ("done" if row.answered else "no result"),
        "" if row.executed else "not run",
        f"job {visible(row.job)}" if row.job else "",
        f"{row.duration_ms} ms",
    ]
    how = ", ".join(fact for fact in facts if fact)
    return f"{when}  {visible(row.id)}  {visible(row.tool)}  {how}\n    {one_line(row.arguments, 200)}"


def _line(event: KnownEvent | UnknownEvent) -> str:
    match event:
        case RunStarted():
            return f"── run · {visible(event.model)} · {visible(event.workspace)} · {event.mode}"
        case MessageAdded(message=message) if message.role == "user":
            return f"{message.source}> {visible(text_of(message.content))}"
        case MessageAdded(message=message) if message.role == "assistant" and message.text:
            return visible(message.text)
        case ApprovalResolved(source="user") if event.reason:
            return f"  {event.answer}> {visible(event.reason)}"
        case ToolStarted():
            return f"  ● {event.name} {one_line(event.target, 100)}"
        case ToolResultAdded():
            how = "✓" if event.error is None else f"✗ {event.error.kind}:"
            return f"  {how} {event.name} {one_line(text_of(event.content), 100)}"
        case RunFinished():
            return f"── {event.reason} · {event.turns} turns · {event.calls} calls"
        case _:
            return ""


def _check(store: SessionStore, session_id: str) -> int:
    recording = store.read(session_id)
    report = check_recording(recording)
    for problem in report.problems:
        print(f"problem: {visible(problem)}")
    for repair in report.repairs:
        print(f"repaired on resume: {visible(repair)}")
    verdict = "sound" if not report.problems else f"{len(report.problems)} problems"
    print(f"{session_id}: {len(recording.events)} events, {verdict}")
    return 1 if report.problems else 0


def approval_lines(rows: Sequence[LedgerRow]) -> Iterator[str]:
    """Yield a heading and, for each decision, a line with its facts and below it what was decided."""
    if not rows:
        yield "no decisions: no call was allowed or denied"
        return
    tools = max(len("tool"), *(len(visible(row.tool)) for row in rows))
    who = max(len("who"), *(len(decided_by(row)) for row in rows))
    yield f"{'when':<19}  {'outcome':<9}  {'who':<{who}}  {'tool':<{tools}}  rule".rstrip()
    for row in rows:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row.at))
        facts = f"{when}  {row.outcome:<9}  {decided_by(row):<{who}}  {visible(row.tool):<{tools}}"
        yield f"{facts}  {visible(row.rule)}".rstrip()
        for line in visible(_whole(row.what)).split("\n"):
            yield f"{_INDENT}{line}".rstrip()
        if row.reason:
            yield f"{_INDENT}– {' '.join(visible(row.reason).split())}"


def _whole(what: str) -> str:
    """Return a command in full; arguments that contain a file's text are cut."""
    try:
        if len(what) <= _LONGEST or not isinstance(json.loads(what), dict):
            return what
    except (ValueError, RecursionError):
        return what
    return f"{what[:_LONGEST]}… ({len(what):,} characters; --json shows all of them)"
