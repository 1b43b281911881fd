"""What the end of a run says besides its reason: what a stop did and how to undo it, what helps after a failure."""

from codeagent.core.notices import RunStopped

_MOST_FILES = 5
_UNDO = "/undo takes the last batch back"
_REFUSED = "key refused by"
"""What a provider's refusal of a key says (`llm.errors`)."""


def stopped_lines(stopped: RunStopped) -> tuple[str, ...]:
    """What did not happen is not said."""
    killed, not_run, left, files = stopped.killed, stopped.not_run, stopped.left_running, stopped.edits_kept
    lines = [
        "the model's answer was closed" if stopped.stream_closed else "",
        f"{_count(killed, 'process', 'processes')} killed" if killed else "",
        f"{_count(left, 'process', 'processes')} left running" if left else "",
        _kept(files) if files else "no file was changed",
        f"{_count(not_run, 'call', 'calls')} not run" if not_run else "",
        _UNDO if files else "",
    ]
    return tuple(line for line in lines if line)


def failed_lines(error: str) -> tuple[str, ...]:
    """The next steps after a run that failed."""
    back = "Up brings your prompt back"
    return (f"/model to change it · {back}" if _REFUSED in error else back,)


def _kept(files: tuple[str, ...]) -> str:
    names = ", ".join(files[:_MOST_FILES])
    more = f" and {len(files) - _MOST_FILES} more" if len(files) > _MOST_FILES else ""
    return f"{_count(len(files), 'changed file', 'changed files')} kept: {names}{more}"


def _count(number: int, one: str, many: str) -> str:
    return f"1 {one}" if number == 1 else f"{number} {many}"
