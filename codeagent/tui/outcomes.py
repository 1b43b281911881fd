"""What the screen says of a tool's result in a few words, and what it shows of it."""

from codeagent.core.approval_events import ApprovalResolved
from codeagent.core.events import CheckpointRestored, JobFinished, ToolResultAdded
from codeagent.core.messages import text_of
from codeagent.tui.rendering.lines import cut_end, flat
from codeagent.tui.state import ASK_USER
from codeagent.tui.transcript.blocks import CallState
from codeagent.tui.transcript.spelling import duration

SHELL = "shell"
"""What calls are named that are commands of the user's own."""
_TOLD = {
    "(Plan mode:": "plan mode is on: nothing may be changed",
    "(Plan mode is over": "plan mode is over",
    "(The user took back": "which files you undid",
    "(The user brought back": "which files you restored",
    "(The user ran a command": "your command and its output",
    "(Your answer was": "",
}
"""How notes for the model begin (`agent.mode_notes`, `core.notes`, `agent.loop`), and in short."""
_STATES: dict[str, CallState] = {
    "denied": "denied",
    "skipped": "skipped",
    "cancelled": "cancelled",
    "timeout": "timeout",
}


def state_of(result: ToolResultAdded) -> CallState:
    if result.error is None:
        return "done"
    return _STATES.get(result.error.kind, "failed")


def note_of(result: ToolResultAdded) -> str:
    """The outcome in a few words; empty where the call's state says it all."""
    details = result.details
    exit_code = details.get("exit_code")
    if isinstance(exit_code, int) and (exit_code != 0 or not result.is_error):
        return f"exit {exit_code}"
    if result.is_error:
        return ""
    match result.name:
        case "read":
            return _lines_read(text_of(result.content))
        case "search" if isinstance(details.get("matches"), int):
            return (
                f"{_count(details['matches'], 'match', 'matches')} in {_count(details.get('files'), 'file', 'files')}"
            )
        case "list" if isinstance(details.get("files"), int):
            return _count(details["files"], "file", "files")
        case _:
            return ""


def error_of(result: ToolResultAdded) -> str:
    """What went wrong, where the note does not say it already."""
    if result.error is None or note_of(result).startswith("exit "):
        return ""
    return result.error.message


def said_of(answer: ApprovalResolved, tool: str) -> str:
    """What the user answered in words of their own; empty where there were none."""
    if answer.source != "user" or not answer.reason.strip():
        return ""
    if answer.answer == "deny":
        return f"you said no: {answer.reason}"
    return f"you answered: {answer.reason}" if tool == ASK_USER else ""


def told_of(note: str) -> str:
    """What a note for the model is about, in the user's words; empty where something else on the screen says it."""
    known = next((words for start, words in _TOLD.items() if note.startswith(start)), None)
    return cut_end(flat(note.removeprefix("(").removesuffix(")")), 60) if known is None else known


def job_line(ended: JobFinished) -> str:
    """One line: which job ended, and how."""
    after = f" after {duration(ended.duration_ms / 1000)}" if ended.duration_ms else ""
    said = f"{ended.job_id} {ended.status}{after}: {cut_end(flat(ended.title), 40)}"
    return f"{said} · {cut_end(flat(ended.summary), 60)}" if ended.summary else said


def _lines_read(text: str) -> str:
    numbered = sum(not line.startswith("[") for line in text.split("\n"))
    return _count(numbered, "line", "lines")


def _count(number: object, one: str, many: str) -> str:
    return f"1 {one}" if number == 1 else f"{number:,} {many}" if isinstance(number, int) else f"? {many}"


def restored_text(event: CheckpointRestored, moment: str) -> str:
    """One line: what going back did. `moment` is the prompt or batch it went back to."""
    count = len(event.files)
    files = event.files[0] if count == 1 else f"{count} files"
    did = {"undo": "undone", "redo": "restored", "rewind": "undone", "files": "restored"}[event.kind]
    parts = [f"{did}: {files}"] if count else []
    if event.kind == "redo":
        return "; ".join([*parts, "all is as it was before going back"])
    if event.conversation:
        parts.append(f"back to before “{moment}”: later messages are no longer sent to the model")
    return ("; ".join(parts) or "nothing had to be changed") + " (/redo to restore)"
