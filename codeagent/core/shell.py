"""Commands the person runs themselves: how the log tells them apart, and what the model is told of them."""

from codeagent.core.events import ToolResultAdded
from codeagent.core.messages import UserMessage, text_of

SHELL = "shell"
"""Their name in tool events; no tool may have it, and no call of the model's starts under it."""


def shell_note(result: ToolResultAdded) -> UserMessage | None:
    """The message a shared command becomes; None for one that is not shared, and for every other result.

    A pure function of what is logged, so that a log tells which notes were delivered.
    """
    if result.name != SHELL or result.details.get("shared") is not True:
        return None
    code = result.details.get("exit_code")
    ending = "was stopped before it ended" if code is None else f"ended with exit code {code}"
    text = f"(The user ran a command in the sandbox: {result.details.get('command')}\nIt {ending}. Its output:)\n"
    return UserMessage.from_text(text + text_of(result.content), source="note")
