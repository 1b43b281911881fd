"""What `codeagent sessions show` prints: a conversation, its calls, or its decisions."""

import json
import sys
import time
from collections.abc import Iterator, Sequence

from codeagent.changes.diff import count
from codeagent.console.colour import for_eyes, has_colours, paint, print_line, write_styled
from codeagent.core.approval_events import ApprovalResolved, EffectsFound
from codeagent.core.audit import CallRecord, LedgerRow, decided_by
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
from codeagent.core.messages import AssistantMessage, UserMessage, text_of
from codeagent.core.redact import Redactor
from codeagent.core.sanitize import on_one_line, one_line, visible, visible_json
from codeagent.session.store import SessionStore
from codeagent.session.story import answers_first, speaker

_INDENT = " " * 4
_LONGEST = 400
"""Characters shown of arguments; a command is shown in full."""


def show(store: SessionStore, session_id: str, *, as_json: bool) -> int:
    recording = store.read(session_id)
    redactor = Redactor({})
    if as_json:
        for event in recording.events:
            print(visible_json(event_json(event, redactor)))
        return 0
    for event in answers_first(recording.events):
        line = _line(event)
        if not line:
            continue
        match event:
            case MessageAdded() if for_eyes(sys.stdout):
                _print_message(event, line)
            case _:
                print_line(line, sys.stdout)
    return 0


def _print_message(event: MessageAdded, line: str) -> None:
    """Print a conversation on a terminal: answers as Markdown, everything else under its
    speaker."""
    from codeagent.console.markdown import print_markdown  # with rich

    who, mark, said = line.partition("> ")
    print()
    if isinstance(event.message, AssistantMessage):
        print_markdown(event.message.text)
        print()
    else:
        speaker = paint(f"{who}{mark}", "bold") if has_colours(sys.stdout) else f"{who}{mark}"
        write_styled(sys.stdout, f"{speaker}{visible(said)}\n")


def call_line(row: CallRecord) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row.at))
    facts = [
        f"by {row.approval}" + (f" {on_one_line(row.rule)}" if row.rule else "")
        if row.approval
        else "",
        row.sandbox or "",
        f"exit {row.exit}" if row.exit is not None else "",
        row.error or ("done" if row.answered else "no result"),
        "" if row.executed else "not run",
        f"job {on_one_line(row.job)}" if row.job else "",
        f"changed {one_line(', '.join(map(str, row.changes)), 200)}" if row.changes else "",
        f"{row.duration_ms} ms",
    ]
    how = ", ".join(fact for fact in facts if fact)
    return f"{when}  {on_one_line(row.id)}  {on_one_line(row.tool)}  {how}\n    {one_line(row.arguments, 200)}"


def _line(event: KnownEvent | UnknownEvent) -> str:
    match event:
        case RunStarted():
            return f"── run · {on_one_line(event.model)} · {on_one_line(event.workspace)} · {event.mode}"
        case MessageAdded(message=UserMessage() as message):
            return _spoken(speaker(event, message), text_of(message.content))
        case MessageAdded(message=AssistantMessage(text=text)) if text:
            return _spoken("agent", text)
        case ApprovalResolved(source="user") if event.reason:
            return f"  {event.answer}> {one_line(event.reason, 400)}"
        case EffectsFound():
            return f"  ± {one_line(event.told(), 400)}"
        case ToolStarted():
            return f"  ● {one_line(event.name, 64)} {one_line(event.target, 100)}"
        case ToolResultAdded():
            how = "✓" if event.error is None else f"✗ {event.error.kind}:"
            return f"  {how} {one_line(event.name, 64)} {one_line(text_of(event.content), 100)}"
        case RunFinished():
            return (
                f"── {event.reason} · {count(event.turns, 'turn')} · {count(event.calls, 'call')}"
            )
        case _:
            return ""


def _spoken(speaker: str, text: str) -> str:
    """Return a message behind its speaker; all lines but the first are indented."""
    return "\n    ".join(f"{speaker}> {visible(text)}".split("\n"))


def approval_lines(rows: Sequence[LedgerRow]) -> Iterator[str]:
    """Yield a heading and, for each decision, a line with its facts and below it what was
    decided."""
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
    """Return a command in full, but cut arguments that contain a file's text."""
    try:
        if len(what) <= _LONGEST or not isinstance(json.loads(what), dict):
            return what
    except (ValueError, RecursionError):
        return what
    return f"{what[:_LONGEST]}… ({len(what):,} characters; --json shows all of them)"
