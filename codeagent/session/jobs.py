"""The jobs of a session as its log tells of them."""

from collections import Counter
from collections.abc import Sequence

from codeagent.core.events import JobFinished, JobStarted, KnownEvent, ToolResultAdded, UnknownEvent
from codeagent.core.job import EndedJob, Job
from codeagent.core.notices import JobListens

AnyEvent = KnownEvent | UnknownEvent

LOST = "the process that ran it is gone; how it ended is unknown"


def ended_jobs(events: Sequence[AnyEvent]) -> tuple[EndedJob, ...]:
    """In the order they were started."""
    ends = {event.job_id: event for event in events if isinstance(event, JobFinished)}
    handles = _handles(events)
    started = {event.job_id: event for event in events if isinstance(event, JobStarted)}
    return tuple(
        EndedJob(_job(start, ends[job_id], events), ends[job_id].handle or handles.get(job_id), ends[job_id].tail)
        for job_id, start in started.items()
        if job_id in ends
    )


def open_jobs(events: Sequence[AnyEvent]) -> list[JobStarted]:
    """Those whose end is not in the log."""
    ended = {event.job_id for event in events if isinstance(event, JobFinished)}
    started = {event.job_id: event for event in events if isinstance(event, JobStarted)}
    return [event for job_id, event in started.items() if job_id not in ended]


def lost(job: JobStarted, events: Sequence[AnyEvent], now: float) -> JobFinished:
    """The end it is given in the log."""
    return JobFinished(
        job_id=job.job_id,
        call_id=job.call_id,
        name=job.name,
        title=job.title,
        status="lost",
        summary=LOST,
        tail="",
        handle=_handles(events).get(job.job_id),
        duration_ms=max(0, int((min(now, events[-1].ts) - job.ts) * 1000)),
    )


def job_problems(events: Sequence[AnyEvent]) -> list[str]:
    started = Counter(event.job_id for event in events if isinstance(event, JobStarted))
    ended = Counter(event.job_id for event in events if isinstance(event, JobFinished))
    problems = [f"job {job_id} ended and never started" for job_id in sorted(ended.keys() - started.keys())]
    for counts, word in ((started, "starts"), (ended, "ends")):
        problems += [f"job {job_id} has {count} {word}" for job_id, count in counts.items() if count > 1]
    return problems


def _handles(events: Sequence[AnyEvent]) -> dict[str, str]:
    """Where the output of each job is, as the result of its call says."""
    found: dict[str, str] = {}
    for event in events:
        match event:
            case ToolResultAdded(details={"job_id": str(job_id), "handle": str(handle)}):
                found[job_id] = handle
            case _:
                pass
    return found


def _job(start: JobStarted, end: JobFinished, events: Sequence[AnyEvent]) -> Job:
    return Job(
        id=start.job_id,
        call_id=start.call_id,
        tool=start.name,
        title=start.title,
        status=end.status,
        started=start.ts,
        ended=round(start.ts + end.duration_ms / 1000, 3),
        lines=end.lines,
        exit_code=end.exit_code,
        summary=end.summary,
        ports=_ports(start.job_id, events),
        takes_input=start.takes_input,
        promoted=start.promoted,
    )


def _ports(job_id: str, events: Sequence[AnyEvent]) -> tuple[int, ...]:
    found = []
    for event in events:
        match event:
            case JobListens(port=port) if event.job_id == job_id:
                found.append(port)
            case _:
                pass
    return tuple(found)
