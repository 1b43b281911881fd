"""Notes that tell the model what happened around it: the user's commands, jobs that ended, restored
files.

Each note is a pure function of logged events, so that a log tells which notes were delivered. A
note begins with `(` and codeagent's own words; every line of text from elsewhere is quoted (`> `),
so that none can be taken for a note, or for what the user said.
"""

from codeagent.core.compaction import pinned
from codeagent.core.events import CheckpointRestored, JobFinished, ToolResultAdded
from codeagent.core.jobs import TriggerFired
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.messages import UserMessage, text_of
from codeagent.core.notices import MessageReceived, PinsChanged
from codeagent.core.sanitize import first_lines, on_one_line, quoted, visible

SHELL = "shell"
"""The name of the user's own commands in tool events; no tool may have it, and no call of the model
starts under it."""
JOB_WAIT = "job_wait"
JOB_STOP = "job_stop"
ENDED = "job_ended"
"""A key in the details of these two tools' results: the id of the job whose end the result
reports."""
ADDED = "A hook or a server adds this to what the user typed; the user did not write it:"
LEFT = "What commands left in the workspace, as codeagent found it:"
_MOST_FILES = 20
_FRAMING = lazy_regex(r"\\x0[9a]|[\s>-]+")


def framed(head: str, text: str) -> UserMessage:
    """Return a note that quotes text from elsewhere below its heading; `head` is codeagent's own
    words."""
    return UserMessage.from_text(f"({head}\n{quoted(text)}\n)", source="note")


def words_of(note: UserMessage) -> str:
    """Return a note without its framing: earlier versions logged the same words, and did not quote
    them."""
    return _FRAMING.sub("", visible(text_of(note.content)).removesuffix(")"))


def shell_note(result: ToolResultAdded) -> UserMessage | None:
    """Return the message for a shared command; None for one that is not shared, and for every other
    result."""
    if result.name != SHELL or result.details.get("shared") is not True:
        return None
    code = result.details.get("exit_code")
    ending = "was stopped before it ended" if code is None else f"ended with exit code {code}"
    head = f"(The user ran a command in the sandbox: {result.details.get('command')}\nIt {ending}. Its output:)"
    return UserMessage.from_text(f"{head}\n{quoted(text_of(result.content))}", source="note")


def job_note(finished: JobFinished) -> UserMessage:
    """Return the message that reports the end of a job."""
    summary = f", {finished.summary}" if finished.summary else ""
    lines = [
        f"({finished.job_id},",
        quoted(
            on_one_line(
                f"{finished.name} {finished.title}".strip() + f": {finished.status}{summary}"
            )
        ),
    ]
    if finished.tail:
        lines += [
            "The end of its output:" if finished.handle else "Its output:",
            quoted(finished.tail),
        ]
    return UserMessage.from_text("\n".join([*lines, *_rest_of(finished), ")"]), source="note")


def job_answer(finished: JobFinished) -> str:
    """Return the end of what it returned or printed, as it is, and where the rest is: for a
    result."""
    return "\n".join([*filter(None, [finished.tail]), *_rest_of(finished)])


def _rest_of(finished: JobFinished) -> list[str]:
    if finished.handle is None:
        return []
    return [f'[output_read(id="{finished.handle}") shows all {finished.lines} lines]']


def trigger_note(fired: TriggerFired) -> UserMessage:
    """Return the message that reports that a trigger fired."""
    trigger = fired.trigger
    last = "" if not trigger.over else ", the last time"
    what = f" ({fired.what})" if fired.what else ""
    lines = (
        f"({trigger.id} fired, {trigger.fired} of {trigger.at_most}{last}:",
        quoted(on_one_line(f"{trigger.kind} {trigger.when}{what}.")),
        f"You asked to be told then:\n{quoted(trigger.prompt)}\n)",
    )
    return UserMessage.from_text("\n".join(lines), source="note")


def message_note(received: MessageReceived) -> UserMessage:
    """Return the message that quotes what another agent wrote, so that no line of it looks like a
    note itself."""
    answers = f", in answer to {received.reply_to}" if received.reply_to else ""
    head = (
        f"message {received.message_id} from the agent {received.sender} to {received.to}{answers}:"
    )
    return framed(head, received.body)


def pin_note(changed: PinsChanged) -> UserMessage | None:
    """Return the message about a line that the user pinned; None if one was removed."""
    if not changed.added:
        return None
    return pinned(changed.added)


def told_by(result: ToolResultAdded) -> str | None:
    """Return the job whose end this result reported to the model; None for every other result."""
    if result.name not in (JOB_WAIT, JOB_STOP) or result.is_error:
        return None
    ended = result.details.get(ENDED)
    return ended if isinstance(ended, str) else None


def restored_note(event: CheckpointRestored) -> UserMessage | None:
    """Return the message for files that were restored; None if none was, or if the conversation
    went back as well."""
    if not event.files or event.conversation:
        return None
    did = "brought back what had been taken back" if event.kind == "redo" else "took back changes"
    return framed(
        f"The user {did}. These files are no longer as you left them; read them again before you change them:",
        "\n".join(first_lines([*map(on_one_line, event.files)], _MOST_FILES)),
    )
