"""Checks whether a stored session is sound, and closes what a process that was killed left open."""

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from codeagent.core.approval_events import ApprovalRequested, ApprovalResolved
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.events import (
    AsideAnswered,
    JobFinished,
    JobStarted,
    KnownEvent,
    MessageAdded,
    RunFinished,
    RunStarted,
    ToolCallAdded,
    ToolFinished,
    ToolResultAdded,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    UnknownEvent,
)
from codeagent.core.json_types import MAIN, JsonValue
from codeagent.core.messages import (
    AssistantMessage,
    ErrorInfo,
    TextPart,
    ToolCall,
    Usage,
    UserMessage,
    transcript_problems,
)
from codeagent.core.notes import SHELL
from codeagent.core.notices import SummaryWritten
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import visible
from codeagent.disk.opens import may_exist, open_appended
from codeagent.session.fold import History, fold, job_outputs, open_jobs, own_events
from codeagent.session.log import SessionLog
from codeagent.session.recording import Recording
from codeagent.session.transcript import ENDED, ENDED_MIDWAY, AnyEvent

DAMAGED = "events.damaged"
"""The file beside the log that keeps what was cut off it."""
_OfCall = ToolCallAdded | ToolStarted | ToolFinished | ToolResultAdded
_SHOWN = 3
"""Problems of a damaged log that are listed when it is opened."""
_LOST = "the process that ran it is gone; how it ended is unknown"


@dataclass(frozen=True)
class CheckReport:
    problems: tuple[str, ...]
    """What is wrong; empty for a sound session."""
    repairs: tuple[str, ...]
    """What a killed process left open, which resuming the session closes."""


def check_recording(recording: Recording, history: History | None = None) -> CheckReport:
    """Report what is wrong with a recording; `history` is the fold of its events, if it was made
    already."""
    problems = list(recording.problems)
    repairs = []
    if recording.torn:
        repairs.append(f"{len(recording.tail)} bytes of an unfinished record at the end")
    own = own_events(recording.events)
    commands = {event.call_id for event in _commands(own)}
    of_user, of_agent = _split(own, commands)
    problems += _repeated(of_user)
    unanswered = sorted(
        {event.call_id for event in _unfinished(of_user)}
        | (commands - _calls(of_user, ToolResultAdded))
    )
    repairs += [f"the command {call_id} did not end" for call_id in unanswered]
    problems += _job_problems(own)
    repairs += [f"the job {job.job_id} did not end" for job in open_jobs(own)]
    for run, last in _runs(of_agent):
        open_calls = _unanswered(run)
        unfinished = [event.call_id for event in _unfinished(run)]
        lines = [f"call {call_id} has no result" for call_id in open_calls]
        lines += [f"call {call_id} started and did not finish" for call_id in unfinished]
        if last and not any(isinstance(event, RunFinished) for event in run):
            repairs += lines
            repairs += ["the last run has no end"] if isinstance(run[0], RunStarted) else []
        else:
            problems += lines
        problems += _repeated(run)
    history = history or fold(recording.events)
    problems += history.dropped
    problems += transcript_problems(history.messages)
    repairs += [f"queued text {queued.id} was not delivered" for queued in history.undelivered]
    return CheckReport(tuple(problems), tuple(repairs))


def _split(events: Sequence[AnyEvent], commands: set[str]) -> tuple[list[AnyEvent], list[AnyEvent]]:
    """Tell the events of the user's own shell commands, which may outlast a run, from all other
    events."""
    own = [event for event in events if getattr(event, "call_id", None) in commands]
    return own, [event for event in events if getattr(event, "call_id", None) not in commands]


def _runs(events: Sequence[AnyEvent]) -> list[tuple[Sequence[AnyEvent], bool]]:
    """Cut the events at every `run.started`; each part comes with whether it is the last."""
    starts = [at for at, event in enumerate(events) if isinstance(event, RunStarted)] or [0]
    ends = [*starts[1:], len(events)]
    runs = [events[start:end] for start, end in zip(starts, ends, strict=True) if end > start]
    return [(run, run is runs[-1]) for run in runs]


def _unanswered(run: Sequence[AnyEvent]) -> list[str]:
    answered = _calls(run, ToolResultAdded)
    asked = [event.call_id for event in run if isinstance(event, ToolCallAdded)]
    return [call_id for call_id in dict.fromkeys(asked) if call_id not in answered]


def _calls(events: Sequence[AnyEvent], kind: type[_OfCall]) -> set[str]:
    """Return the ids of the calls that have such an event."""
    return {event.call_id for event in events if isinstance(event, kind)}


def _commands(events: Sequence[AnyEvent]) -> list[ToolStarted]:
    """Return the starts of the user's own shell commands."""
    return [event for event in events if isinstance(event, ToolStarted) and event.name == SHELL]


def _unfinished(run: Sequence[AnyEvent]) -> list[ToolStarted]:
    finished = _calls(run, ToolFinished)
    return [
        event for event in run if isinstance(event, ToolStarted) and event.call_id not in finished
    ]


def _repeated(run: Sequence[AnyEvent]) -> list[str]:
    problems = []
    for kind, word in (
        (ToolResultAdded, "results"),
        (ToolStarted, "starts"),
        (ToolFinished, "ends"),
    ):
        counts = Counter(event.call_id for event in run if isinstance(event, kind))
        problems += [
            f"call {call_id} has {count} {word}" for call_id, count in counts.items() if count > 1
        ]
    unstarted = _calls(run, ToolFinished) - _calls(run, ToolStarted)
    return problems + [
        f"call {call_id} finished and never started" for call_id in sorted(unstarted)
    ]


def _job_problems(events: Sequence[AnyEvent]) -> list[str]:
    started = Counter(event.job_id for event in events if isinstance(event, JobStarted))
    ended = Counter(event.job_id for event in events if isinstance(event, JobFinished))
    problems = [
        f"job {job_id} ended and never started" for job_id in sorted(ended.keys() - started.keys())
    ]
    for counts, word in ((started, "starts"), (ended, "ends")):
        problems += [
            f"job {job_id} has {count} {word}" for job_id, count in counts.items() if count > 1
        ]
    return problems


def closing_events(
    events: Sequence[AnyEvent],
    session: str,
    first_seq: int,
    now: float,
    history: History | None = None,
) -> tuple[KnownEvent, ...]:
    """Make the events that answer every approval, give every call its one result, and end every job
    and the run.

    Text that had left its queue becomes the message it was about to be; what is still queued stays
    queued. Empty for a session that ended properly. Approvals are closed as cancelled: no consent
    outlives its run. `history` is the fold of the events, if there already is one.
    """
    own = own_events(events)
    history = history or fold(own)
    closing: list[KnownEvent] = [
        ApprovalResolved(
            approval_id=approval.approval_id,
            call_id=approval.call_id,
            answer="cancelled",
            source="auto",
            reason="the session ended",
        )
        for approval in _open_approvals(own)
    ]
    closing += [
        ToolFinished(call_id=tool.call_id, name=tool.name, is_error=True, duration_ms=0)
        for tool in _unfinished(own)
    ]
    closing += [_no_result(each.call, each.said) for each in history.open_calls]
    begun = _calls(own, ToolStarted)
    answered = _calls(own, ToolResultAdded)
    closing += [
        _no_result(call, ENDED_MIDWAY if call.id in begun else ENDED)
        for call in _discarded(own, {each.call.id for each in history.open_calls})
    ]
    closing += [
        _no_result(ToolCall(id=command.call_id, name=SHELL), ENDED_MIDWAY, dict(command.arguments))
        for command in _commands(own)
        if command.call_id not in answered
    ]
    closing += [_lost(job, own, now) for job in open_jobs(own)]
    closing += [
        MessageAdded(message=UserMessage.from_text(queued.text, queued.kind))
        for queued in history.undelivered
        if queued.taken_out
    ]
    closing += _end_of_run(own)
    agent = own[0].agent if own else MAIN
    return tuple(
        replace(event, seq=seq, ts=now, session=session, agent=agent)
        for seq, event in enumerate(closing, first_seq)
    )


def _open_approvals(events: Sequence[AnyEvent]) -> list[ApprovalRequested]:
    answered = {event.approval_id for event in events if isinstance(event, ApprovalResolved)}
    asked = [event for event in events if isinstance(event, ApprovalRequested)]
    return [event for event in asked if event.approval_id not in answered]


def _discarded(events: Sequence[AnyEvent], open_ids: set[str]) -> list[ToolCall]:
    """Find the calls that were announced in an answer that was never completed."""
    answered = _calls(events, ToolResultAdded) | open_ids
    announced = {event.call_id: event for event in events if isinstance(event, ToolCallAdded)}
    return [
        ToolCall(id=event.call_id, name=event.name, arguments=event.arguments)
        for event in announced.values()
        if event.call_id not in answered
    ]


def _no_result(
    call: ToolCall, text: str, details: dict[str, JsonValue] | None = None
) -> ToolResultAdded:
    skipped = text not in (ENDED, ENDED_MIDWAY)
    return ToolResultAdded(
        call_id=call.id,
        name=call.name,
        content=(TextPart(text=text),),
        is_error=True,
        executed=text == ENDED_MIDWAY,
        error=ErrorInfo(
            kind="skipped" if skipped else "cancelled", message=text.removeprefix("cancelled: ")
        ),
        details=details or {},
        approval="user" if skipped else None,
    )


def _lost(job: JobStarted, events: Sequence[AnyEvent], now: float) -> JobFinished:
    """Make the end of a job whose process is gone."""
    return JobFinished(
        job_id=job.job_id,
        call_id=job.call_id,
        name=job.name,
        title=job.title,
        status="lost",
        summary=_LOST,
        tail="",
        handle=job_outputs(events).get(job.job_id),
        duration_ms=max(0, int((min(now, events[-1].ts) - job.ts) * 1000)),
    )


def _end_of_run(events: Sequence[AnyEvent]) -> list[KnownEvent]:
    """Make the end of the last run; empty if it has ended, or nothing ran."""
    edges = [at for at, event in enumerate(events) if isinstance(event, RunStarted | RunFinished)]
    if not edges or isinstance(events[edges[-1]], RunFinished):
        return []
    run = events[edges[-1] :]
    said = [
        event.message.text
        for event in run
        if isinstance(event, MessageAdded)
        and isinstance(event.message, AssistantMessage)
        and event.message.text
    ]
    return [
        RunFinished(
            reason="interrupted",
            text=said[-1] if said else "",
            usage=sum(
                (
                    event.usage
                    for event in run
                    if isinstance(event, TurnFinished | SummaryWritten | AsideAnswered)
                ),
                Usage(),
            ),
            turns=sum(isinstance(event, TurnStarted) for event in run),
            calls=sum(isinstance(event, ToolStarted) and event.name != SHELL for event in run),
            error="the process ended before the run did",
            duration_ms=max(0, int((run[-1].ts - run[0].ts) * 1000)),
        )
    ]


def cut_torn_tail(path: Path, recording: Recording) -> None:
    """Move a torn tail to `events.damaged`, or give a complete last record its line break.

    Safe to repeat after a crash at any point: the copy is on disk before the log is cut. Raises
    OSError.
    """
    if not recording.tail:
        return
    if recording.tail_is_record:
        _append(path, b"\n")
        return
    damaged = path.with_name(DAMAGED)
    if not (damaged.exists() and damaged.read_bytes().endswith(recording.tail)):
        _append(damaged, recording.tail)
    os.truncate(path, recording.end)


def _append(path: Path, data: bytes) -> None:
    with os.fdopen(open_appended(path), "ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def resumed(
    log: SessionLog,
    recording: Recording,
    workspace: Workspace,
    close_children: Callable[[str, float], None],
) -> tuple[History, tuple[tuple[str, str], ...]]:
    """Close what the log and those of children leave open, and fold it.

    Also returns code and text of what the user should know about the log. Raises ConfigError if the
    session belongs to another workspace.
    """
    _refuse_other_workspace(recording.events, workspace, log.session_id)
    history = fold(recording.events)
    now = round(time.time(), 3)
    if closing := closing_events(recording.events, log.session_id, log.next_seq, now, history):
        for event in closing:
            log.append(event)
        close_children(log.session_id, now)
        history = fold((*recording.events, *closing))
    return history, _damage(check_recording(recording, history).problems, log.session_id)


def _damage(problems: tuple[str, ...], session_id: str) -> tuple[tuple[str, str], ...]:
    if not problems:
        return ()
    more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    text = (
        f"the log of this session is damaged: {'; '.join(problems[:_SHOWN])}{more}. What can be read of it is used; "
        f"codeagent sessions check {session_id} lists every problem"
    )
    return (("session.damaged", visible(text)),)


def _refuse_other_workspace(
    events: tuple[KnownEvent | UnknownEvent, ...], workspace: Workspace, session_id: str
) -> None:
    there = next(
        (event.workspace for event in reversed(events) if isinstance(event, RunStarted)), None
    )
    if there is not None and there != str(workspace.root) and may_exist(Path(there)):
        raise ConfigError(
            f"session {session_id} belongs to another folder; nothing was run: "
            f"codeagent {there} --resume {session_id}, or codeagent run with --cwd {there}"
        )
