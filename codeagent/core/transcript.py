"""The transcript invariant (FEATURES F5): every call has exactly one result, in its place."""

from collections.abc import Sequence

from codeagent.core.messages import AssistantMessage, Message, ToolMessage


def transcript_problems(messages: Sequence[Message]) -> list[str]:
    """What a provider would reject, one sentence each; empty where the transcript is valid.

    Used by the scripted model, by resume and by `codeagent sessions check`.
    """
    problems: list[str] = []
    if messages and messages[0].role != "user":
        problems.append(f"message 1 is from the {messages[0].role}; a transcript begins with the user")
    open_calls: list[str] = []
    seen: set[str] = set()
    for number, message in enumerate(messages, start=1):
        if isinstance(message, ToolMessage):
            problems += _result_problems(number, message, open_calls)
            continue
        problems += [f"call {call_id} has no result before message {number}" for call_id in open_calls]
        open_calls = []
        if isinstance(message, AssistantMessage):
            problems += _assistant_problems(number, message, seen)
            open_calls = [call.id for call in message.calls]
            seen.update(open_calls)
    return problems + [f"call {call_id} has no result" for call_id in open_calls]


def _result_problems(number: int, message: ToolMessage, open_calls: list[str]) -> list[str]:
    """Closes the call the result belongs to: `open_calls` loses it."""
    if message.call_id not in open_calls:
        return [f"message {number} is a result for {message.call_id}, which no open call has"]
    expected = open_calls[0]
    open_calls.remove(message.call_id)
    if message.call_id != expected:
        return [f"message {number} answers {message.call_id} before {expected}: wrong order"]
    return []


def _assistant_problems(number: int, message: AssistantMessage, seen: set[str]) -> list[str]:
    problems = []
    if not (message.text or message.calls or message.thinking):
        problems.append(f"message {number} from the assistant is empty")
    ids = [call.id for call in message.calls]
    problems += [f"message {number} uses the call id {call_id} again" for call_id in ids if call_id in seen]
    if len(set(ids)) != len(ids):
        problems.append(f"message {number} uses one call id twice")
    return problems
