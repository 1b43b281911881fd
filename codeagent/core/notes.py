"""Notes that tell the model what happened around it: the user's commands, jobs that ended, restored files.

Each note is a pure function of logged events, so that a log tells which notes were delivered.
"""

from codeagent.core.events import CheckpointRestored, JobFinished, ToolResultAdded
from codeagent.core.messages import UserMessage, text_of
from codeagent.core.notices import MessageReceived, PinsChanged
from codeagent.core.sanitize import one_line, visible
from codeagent.core.triggers import TriggerFired

SHELL = "shell"
"""The name of the user's own commands in tool events; no tool may have it, and no call of the model starts under it."""
JOB_WAIT = "job_wait"
JOB_STOP = "job_stop"
ENDED = "job_ended"
"""A key in the details of these two tools' results: the id of the job whose end the result reports."""
_MOST_FILES = 20
_LONGEST_PATH = 500


def shell_note(result: ToolResultAdded) -> UserMessage | None:
    """Return the message for a shared command; None for one that is not shared, and for every other result."""
    if result.name != SHELL or result.details.get("shared") is not True:
        return None
    code = result.details.get("exit_code")
    ending = "was stopped before it ended" if code is None else f"ended with exit code {code}"
    text = f"(The user ran a command in the sandbox: {result.details.get('command')}\nIt {ending}. Its output:)\n"
    return UserMessage.from_text(text + text_of(result.content), source="note")


def job_note(finished: JobFinished) -> UserMessage:
    """Return the message that reports the end of a job."""
    return UserMessage.from_text(f"({job_end(finished)})", source="note")


def job_end(finished: JobFinished) -> str:
    """Report which job ended and how, with the end of its output."""
    lines = [f"{finished.job_id}, {finished.name} {finished.title}".strip() + f": {finished.status}"]
    if finished.summary:
        lines[0] += f", {finished.summary}"
    if finished.tail:
        lines.append("The end of its output:" if finished.handle else "Its output:")
    return "\n".join([*lines, *job_answer(finished)])


def job_answer(finished: JobFinished) -> list[str]:
    """Return the end of what it returned or printed, and where the rest is."""
    lines = [finished.tail] if finished.tail else []
    if finished.handle is not None:
        lines.append(f'[output_read(id="{finished.handle}") shows all {finished.lines} lines]')
    return lines


def trigger_note(fired: TriggerFired) -> UserMessage:
    """Return the message that reports that a trigger fired."""
    trigger = fired.trigger
    last = "" if not trigger.over else ", the last time"
    what = f" ({fired.what})" if fired.what else ""
    head = f"({trigger.id} fired, {trigger.fired} of {trigger.at_most}{last}: {trigger.kind} {trigger.when}{what}."
    return UserMessage.from_text(f"{head} You asked to be told then:\n{trigger.prompt})", source="note")


def message_note(received: MessageReceived) -> UserMessage:
    """Return the message that quotes what another agent wrote, so that no line of it looks like a note itself."""
    answers = f", in answer to {received.reply_to}" if received.reply_to else ""
    head = f"(message {received.message_id} from the agent {received.sender} to {received.to}{answers}:"
    quoted = "\n".join(f"> {line}" for line in visible(received.body).split("\n"))
    return UserMessage.from_text(f"{head}\n{quoted}\n)", source="note")


def pin_note(changed: PinsChanged) -> UserMessage | None:
    """Return the message about a line that the user pinned; None if one was removed."""
    if not changed.added:
        return None
    return UserMessage.from_text(f"(The user pinned this, so keep to it: {changed.added})", source="note")


def told_by(result: ToolResultAdded) -> str | None:
    """Return the job whose end this result reported to the model; None for every other result."""
    if result.name not in (JOB_WAIT, JOB_STOP) or result.is_error:
        return None
    ended = result.details.get(ENDED)
    return ended if isinstance(ended, str) else None


def restored_note(event: CheckpointRestored) -> UserMessage | None:
    """Return the message for files that were restored; None if none was, or if the conversation went back as well."""
    if not event.files or event.conversation:
        return None
    did = "brought back what had been taken back" if event.kind == "redo" else "took back changes"
    shown = "\n".join(f"- {one_line(path, _LONGEST_PATH)}" for path in event.files[:_MOST_FILES])
    more = f"\n- and {len(event.files) - _MOST_FILES} more" if len(event.files) > _MOST_FILES else ""
    return UserMessage.from_text(
        f"(The user {did}. These files are no longer as you left them; read them again before you change them:\n"
        f"{shown}{more})",
        source="note",
    )
