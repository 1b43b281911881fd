"""Is a stored session sound: records, order, one result per call, a transcript every provider accepts."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from codeagent.core.events import (
    KnownEvent,
    RunFinished,
    RunStarted,
    ToolCallAdded,
    ToolFinished,
    ToolResultAdded,
    ToolStarted,
    UnknownEvent,
)
from codeagent.core.shell import SHELL
from codeagent.core.transcript import transcript_problems
from codeagent.session.history import MAIN, History, fold
from codeagent.session.jobs import job_problems, open_jobs
from codeagent.session.records import Recording

AnyEvent = KnownEvent | UnknownEvent


@dataclass(frozen=True)
class CheckReport:
    problems: tuple[str, ...]
    """What is wrong; empty for a sound session."""
    repairs: tuple[str, ...]
    """What a killed process left open, which resuming the session closes."""


def check_recording(recording: Recording, history: History | None = None) -> CheckReport:
    """`history` is what its events were folded into, where that is done already."""
    problems = list(recording.problems)
    repairs = []
    if recording.torn:
        repairs.append(f"{len(recording.tail)} bytes of an unfinished record at the end")
    own = [event for event in recording.events if event.agent == MAIN]
    commands = {event.call_id for event in own if isinstance(event, ToolStarted) and event.name == SHELL}
    of_person, of_agent = _split(own, commands)
    problems += _repeated(of_person)
    unanswered = sorted({*_unfinished(of_person), *(commands - _answered(of_person))})
    repairs += [f"the command {call_id} did not end" for call_id in unanswered]
    problems += job_problems(own)
    repairs += [f"the job {job.job_id} did not end" for job in open_jobs(own)]
    for run, last in _runs(of_agent):
        open_calls = _unanswered(run)
        unfinished = _unfinished(run)
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
    """The tool events of the person's own commands, which heed no run's edges, and all other events."""
    own = [event for event in events if getattr(event, "call_id", None) in commands]
    return own, [event for event in events if getattr(event, "call_id", None) not in commands]


def _runs(events: Sequence[AnyEvent]) -> list[tuple[Sequence[AnyEvent], bool]]:
    """The events cut at every `run.started`, each with whether it is the last run."""
    starts = [at for at, event in enumerate(events) if isinstance(event, RunStarted)] or [0]
    ends = [*starts[1:], len(events)]
    runs = [events[start:end] for start, end in zip(starts, ends, strict=True) if end > start]
    return [(run, run is runs[-1]) for run in runs]


def _unanswered(run: Sequence[AnyEvent]) -> list[str]:
    answered = _answered(run)
    asked = [event.call_id for event in run if isinstance(event, ToolCallAdded)]
    return [call_id for call_id in dict.fromkeys(asked) if call_id not in answered]


def _answered(run: Sequence[AnyEvent]) -> set[str]:
    return {event.call_id for event in run if isinstance(event, ToolResultAdded)}


def _unfinished(run: Sequence[AnyEvent]) -> list[str]:
    finished = {event.call_id for event in run if isinstance(event, ToolFinished)}
    started = [event.call_id for event in run if isinstance(event, ToolStarted)]
    return [call_id for call_id in started if call_id not in finished]


def _repeated(run: Sequence[AnyEvent]) -> list[str]:
    problems = []
    started = {event.call_id for event in run if isinstance(event, ToolStarted)}
    for kind, word in ((ToolResultAdded, "results"), (ToolStarted, "starts"), (ToolFinished, "ends")):
        counts = Counter(event.call_id for event in run if isinstance(event, kind))
        problems += [f"call {call_id} has {count} {word}" for call_id, count in counts.items() if count > 1]
    ended = {event.call_id for event in run if isinstance(event, ToolFinished)}
    return problems + [f"call {call_id} finished and never started" for call_id in sorted(ended - started)]
