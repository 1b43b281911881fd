"""`codeagent sessions`: lists, shows, checks, exports, copies, renames and removes stored
sessions."""

import argparse
import json
import os
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.changes.diff import count
from codeagent.commands.actions import Actions, actions_in, add_added, run_added
from codeagent.commands.arguments import (
    add_cwd,
    add_flag,
    completed_by,
    open_store,
    print_json,
    say,
    workspace_of,
)
from codeagent.commands.session_show import approval_lines, call_line, show
from codeagent.config.extensions import actions_of
from codeagent.console.table import Column, print_table
from codeagent.core.audit import CallRecord, LedgerRow, audit, decisions
from codeagent.core.errors import ConfigError, SessionError
from codeagent.core.pulse import ago
from codeagent.core.redact import Redactor
from codeagent.core.runtime import SessionSummary
from codeagent.core.sanitize import on_one_line, one_line, visible, visible_json
from codeagent.session.export import FORMATS, write_down, written_down
from codeagent.session.memory import SessionMemory
from codeagent.session.repair import check_recording
from codeagent.session.store import SessionStore
from codeagent.session.upkeep import PruneRule, clear_leftovers, fork, prunable, remove

if TYPE_CHECKING:
    from codeagent.commands.ports import App

_SESSION = Column("SESSION", "cyan")
_WHEN = Column("LAST WRITTEN", "dim")
_FOLDER = Column("FOLDER", cut=True)
_PROMPT = Column("TITLE OR PROMPT", cut=True)
_ACTIONS = ("list", "show", "check", "export", "search", "rename", "fork", "prune")
"""The kernel's actions; extensions add others."""
_PATIENCE = 20.0
"""Seconds after which a search ends."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = actions_in(parser)
    _add_own(actions)
    for _, action in actions_of("sessions", _ACTIONS):
        add_added(actions, action)


def _add_own(actions: Actions) -> None:
    listing = actions.add_parser("list", help="the sessions of this folder, latest first")
    add_flag(listing, "--json", "as one JSON list")
    add_flag(listing, "--all", "the sessions of every folder")
    add_cwd(listing)
    showing = actions.add_parser("show", help="what was said and done")
    add_session_argument(showing)
    add_flag(showing, "--json", "the events, decisions or calls, one per line")
    what = showing.add_mutually_exclusive_group()
    add_flag(what, "--approvals", "who allowed or denied what, by which rule, and what exactly")
    add_flag(
        what, "--calls", "every call: who allowed it, where it ran, its exit code and duration"
    )
    checking = actions.add_parser(
        "check", help="verify a session log: records, order, one result per call"
    )
    add_session_argument(checking)
    exporting = actions.add_parser(
        "export", help="save a session as Markdown, HTML or events; secrets are masked"
    )
    _add_form(exporting)
    searching = actions.add_parser(
        "search", help="find prompts, answers and commands that contain all the words"
    )
    searching.add_argument("words", metavar="WORD", nargs="+")
    add_flag(searching, "--json", "as one JSON list")
    add_cwd(searching)
    searching.add_argument(
        "--limit", metavar="N", type=_count, default=20, help="the most hits (default: 20)"
    )
    renaming = actions.add_parser(
        "rename", help="give a session a title; without one, take it away"
    )
    session = renaming.add_argument(
        "id", metavar="ID", help="the session; the beginning of its ID is enough"
    )
    completed_by(session, "sessions")
    renaming.add_argument("title", metavar="TITLE", nargs="?", default="")
    forking = actions.add_parser(
        "fork", help="copy a session into a new one, to continue it in another way"
    )
    add_session_argument(forking)
    forking.add_argument(
        "--before",
        metavar="N",
        type=int,
        help="leave out the Nth prompt (from 1) and what followed it",
    )
    pruning = actions.add_parser(
        "prune", help="remove sessions by age, number or size; never one in use"
    )
    _add_rule(pruning)


def _add_form(exporting: argparse.ArgumentParser) -> None:
    add_session_argument(exporting)
    exporting.add_argument(
        "--format",
        choices=FORMATS,
        help="Markdown, one HTML page, or events (default: by --output's ending, else md)",
    )
    exporting.add_argument(
        "--output", metavar="FILE", type=Path, help="a new file (default: standard output)"
    )


def _add_rule(pruning: argparse.ArgumentParser) -> None:
    pruning.add_argument(
        "--older-than", metavar="AGE", type=_age, help="last written so long ago: 90d, 12h, 6w"
    )
    pruning.add_argument("--keep", metavar="N", type=int, help="all but the N written to last")
    pruning.add_argument(
        "--max-size", metavar="SIZE", type=_size, help="the oldest, until the others fit: 500M, 2G"
    )
    add_flag(pruning, "--dry-run", "only list what would be removed")


def add_session_argument(
    parser: argparse.ArgumentParser,
    *,
    last: str = "the most recent session (default)",
    **others: str,
) -> None:
    """Add the ways to name a session; `others` are alternative flags, each with its help."""
    which = parser.add_mutually_exclusive_group()
    session = which.add_argument(
        "id", metavar="ID", nargs="?", help="the session; the beginning of its ID is enough"
    )
    completed_by(session, "sessions")
    add_flag(which, "--last", last)
    for name, about in others.items():
        add_flag(which, f"--{name}", about)


def main(args: argparse.Namespace, app: "App") -> int | Coroutine[Any, Any, int]:
    if args.action not in _ACTIONS:
        return run_added(args, app, "sessions", _ACTIONS)
    store = open_store()
    match args.action:
        case "list":
            return _list(
                store, None if args.all else workspace_of(args.cwd).resolve(), as_json=args.json
            )
        case "show" if args.approvals:
            answers = decisions(store.read(chosen(store, args)).events)
            return _print_rows(answers, approval_lines(answers), as_json=args.json)
        case "show" if args.calls:
            calls = audit(store.read(chosen(store, args)).events)
            return _print_rows(calls, map(call_line, calls), as_json=args.json)
        case "show":
            return show(store, chosen(store, args), as_json=args.json)
        case "export":
            return _export(store, chosen(store, args), args.format, args.output)
        case "search":
            return _search(
                store,
                workspace_of(args.cwd).resolve(),
                tuple(args.words),
                args.limit,
                as_json=args.json,
            )
        case "rename":
            session_id = store.find(args.id)
            store.titles.give(session_id, " ".join(args.title.split()))
            print(f"{session_id}: {visible(args.title) or 'no title'}")
            return 0
        case "fork":
            return _fork(store, chosen(store, args), args.before)
        case "prune":
            return _prune(
                store, PruneRule(args.older_than, args.keep, args.max_size), dry_run=args.dry_run
            )
        case _:
            return _check(store, chosen(store, args))


def chosen(store: SessionStore, args: argparse.Namespace) -> str:
    """Return the id of the session that the arguments name. Raises SessionNotFound."""
    return store.find(args.id) if args.id is not None else store.last()


def chosen_here(store: SessionStore, args: argparse.Namespace, *, several: bool) -> list[str]:
    """Return the ids of the session that the arguments name, or else the last one of this folder;
    if `several`, of all sessions, or with `--here` of those of this folder. Raises
    SessionNotFound."""
    here = str(Path.cwd().resolve())
    if several:
        return [one for one in store.ids() if not args.here or store.is_of(one, here)]
    return [store.last(here) if args.id is None else store.find(args.id)]


def _list(store: SessionStore, workspace: Path | None, *, as_json: bool) -> int:
    """List the sessions of a workspace, or all, with a heading on a line of its own."""
    summaries = store.summaries()
    listed = [
        summary
        for summary in summaries
        if workspace is None or store.is_of(summary.id, str(workspace))
    ]
    if as_json:
        print_json([vars(summary) for summary in listed])
        return 0
    if listed:
        folder = () if workspace else (_FOLDER,)
        rows = [
            (
                summary.id,
                ago(summary.modified, time.time()),
                *((summary.workspace,) if folder else ()),
                "in use" if summary.in_use else "",
                summary.name,
            )
            for summary in listed
        ]
        columns = (_SESSION, _WHEN, *folder, Column(style="yellow"), _PROMPT)
        print_table(columns, rows, _plain_list(listed, folders=workspace is None))
    if not listed and workspace:
        hint = "to start one: codeagent, or codeagent run PROMPT"
        say(f"no session of {visible(str(workspace))}", hint)
    if others := len(summaries) - len(listed):
        say(f"{_sessions(others)} of other folders: codeagent sessions list --all")
    return 0


def _plain_list(listed: Sequence[SessionSummary], *, folders: bool) -> Iterator[str]:
    width = max(len(summary.id) for summary in listed)
    yield f"{'SESSION':<{width}}  {'LAST WRITTEN':<16}  {'TITLE OR PROMPT':<60}{'  FOLDER' if folders else ''}"
    for summary in listed:
        state = "  in use" if summary.in_use else ""
        name = one_line(summary.name, 60)
        folder = f"  {on_one_line(summary.workspace)}" if folders else ""
        yield f"{summary.id}  {_moment(summary.modified)}  {name:<60}{folder}{state}".rstrip()


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def _export(store: SessionStore, session_id: str, form: str | None, output: Path | None) -> int:
    """Print the document, or write it to a new file. Raises ConfigError if the file exists,
    SessionError."""
    redactor = Redactor(os.environ)
    if output is not None:
        write_down(store, session_id, output, form, redactor)
        print(output)
        return 0
    for piece in written_down(store, session_id, form or FORMATS[0], redactor):
        print(piece, end="")
    return 0


def _search(
    store: SessionStore, workspace: Path, words: tuple[str, ...], limit: int, *, as_json: bool
) -> int:
    found = SessionMemory(store, workspace, Redactor(os.environ), seconds=_PATIENCE).search(
        words, limit
    )
    if as_json:
        print_json([asdict(hit) for hit in found.hits])
    elif found.hits:
        now = time.time()
        rows = [(hit.session, ago(hit.at, now), f"{hit.what}: {hit.snippet}") for hit in found.hits]
        plain = (
            f"{hit.session}  {_moment(hit.at)}  {hit.what:<7}  {hit.snippet}" for hit in found.hits
        )
        print_table((_SESSION, Column("WHEN", "dim"), Column("FOUND")), rows, plain)
    if found.hits and not found.complete:
        cut = (
            "--limit N for more"
            if len(found.hits) == limit
            else "it took too long; add a word to narrow it"
        )
        say(f"there may be more: these are the newest {len(found.hits)}; {cut}")
    if not found.hits:
        say(
            f"nothing found in {_sessions(found.sessions)} of {visible(str(workspace))}",
            "try fewer words: a match contains all of them",
        )
    return 0 if found.hits else 1


def _count(text: str) -> int:
    """Read a number of at least one. Raises ArgumentTypeError."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number from 1")
    return int(text)


def _fork(store: SessionStore, session_id: str, before: int | None) -> int:
    new = fork(store, session_id, before)
    print(f"{new}\ncontinue it: codeagent --resume {new}")
    return 0


def _prune(store: SessionStore, rule: PruneRule, *, dry_run: bool) -> int:
    if rule == PruneRule():
        raise ConfigError(
            "say which to remove: --older-than AGE, --keep N or --max-size SIZE; nothing was removed"
        )
    if not dry_run:
        clear_leftovers(store)
    removed, total = set[str](), 0
    for found in prunable(store, rule, time.time()):
        try:
            if dry_run:
                store.check_free(found.summary.id)
            else:
                remove(store, found.summary.id)
        except SessionError as error:
            say(f"kept: {error}")
            continue
        removed.add(found.summary.id)
        total += found.size
        print(f"{found.summary.id}  {one_line(found.summary.name, 60)}")
    if not dry_run:
        store.titles.forget(removed)
    would = "would be removed" if dry_run else "removed"
    print(f"{_sessions(len(removed))} {would}, {total / 1e6:,.1f} MB")
    return 0


def _sessions(number: int) -> str:
    return count(number, "session")


def _age(text: str) -> float:
    return _measured(text, {"h": 3600, "d": 86_400, "w": 604_800}, "an age: 12h, 90d or 6w")


def _size(text: str) -> int:
    return int(_measured(text, {"K": 1e3, "M": 1e6, "G": 1e9}, "a size: 500M or 2G"))


def _measured(text: str, units: Mapping[str, float], what: str) -> float:
    """Return a number with a unit as a plain number. Raises ArgumentTypeError."""
    number = text[:-1]
    if text[-1:] not in units or not number.isdecimal() or len(number) > 9:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not {what}")
    return int(number) * units[text[-1]]


def _print_rows(
    rows: Iterable[LedgerRow | CallRecord], lines: Iterable[str], *, as_json: bool
) -> int:
    """Print the lines, or each row as JSON."""
    for line in (visible_json(json.dumps(asdict(row))) for row in rows) if as_json else lines:
        print(line)
    return 0


def _check(store: SessionStore, session_id: str) -> int:
    recording = store.read(session_id)
    report = check_recording(recording)
    for problem in report.problems:
        print(f"problem: {visible(problem)}")
    for repair in report.repairs:
        print(f"repaired on resume: {visible(repair)}")
    verdict = count(len(report.problems), "problem") if report.problems else "sound"
    print(f"{session_id}: {len(recording.events)} events, {verdict}")
    return 1 if report.problems else 0
