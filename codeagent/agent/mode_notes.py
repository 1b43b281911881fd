"""What the model is told about the mode, once for each change that matters to it."""

from collections.abc import Iterable

from codeagent.core.messages import Message, UserMessage, text_of
from codeagent.core.policy import Mode

PLAN = (
    "(Plan mode: look at whatever you need, but change nothing; the tools that change files refuse, and for commands "
    "the workspace is read-only. End with a plan in Markdown: what you would change, where, in which order, and how to "
    "tell that it works. The user starts it, or asks for another.)"
)
NO_PLAN = "(Plan mode is over: you may change files again.)"


def mode_note(messages: Iterable[Message], mode: Mode) -> UserMessage | None:
    """The note that is due; None where the model knows already. `messages` is what it was told so far."""
    planning = False
    for message in messages:
        if isinstance(message, UserMessage) and message.source == "note":
            text = text_of(message.content)
            planning = text == PLAN or (planning and text != NO_PLAN)
    if planning == (mode == "plan"):
        return None
    return UserMessage.from_text(NO_PLAN if planning else PLAN, source="note")
