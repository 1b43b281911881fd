"""What the model is told when the person went back to earlier files."""

from codeagent.core.events import CheckpointRestored
from codeagent.core.messages import UserMessage

_MOST_FILES = 20


def restored_note(event: CheckpointRestored) -> UserMessage | None:
    """The message it becomes; None where no file changed, or what the model said of them is gone as well.

    A pure function of what is logged, so that a log tells which notes were delivered.
    """
    if not event.files or event.conversation:
        return None
    did = "brought back what had been taken back" if event.kind == "redo" else "took back changes"
    shown = "\n".join(f"- {path}" for path in event.files[:_MOST_FILES])
    more = f"\n- and {len(event.files) - _MOST_FILES} more" if len(event.files) > _MOST_FILES else ""
    return UserMessage.from_text(
        f"(The user {did}. These files are no longer as you left them; read them again before you change them:\n"
        f"{shown}{more})",
        source="note",
    )
