"""The request for a summary, what makes an answer unusable, and what is said if there is none."""

from importlib.resources import files

from codeagent.core.compaction import ContextCompacted
from codeagent.core.events import Notice
from codeagent.core.messages import AssistantMessage, UserMessage
from codeagent.core.sanitize import quoted


def wanted(hints: str, wrong: str) -> UserMessage:
    """Return the message that asks for the summary; `wrong` is why the last one could not be
    used."""
    text = files("codeagent.agent").joinpath("prompts/compact.md").read_text("utf-8").strip()
    if hints:
        text += f"\n\n(Most of all, the summary must cover this:\n{hints}\n)"
    if wrong:
        again = "Write only the summary, without calls, and much shorter than what it replaces."
        text += f"\n\n(You were asked before, and that answer could not be used:\n{quoted(wrong)}\n{again})"
    return UserMessage.from_text(text, source="note")


def unsummarized(why: str, event: ContextCompacted) -> Notice:
    """Return the notice that something was left out without a summary, and why there is none."""
    left_out = f"{event.replaced} older message{'s' * (event.replaced != 1)}"
    text = f"no summary: {why}; {left_out} left out without a summary; all of it stays in the log, see /rewind"
    return Notice(level="warning", code="compaction.unsummarized", text=text)


def wrong_with(message: AssistantMessage) -> str:
    """Say why this is not a summary, as a phrase; empty if it is one."""
    if message.calls:
        return "the model called a tool in place of a summary"
    if not message.text.strip():
        return "the model wrote no summary"
    return "" if message.stop == "end" else f"the summary was cut off ({message.stop})"
