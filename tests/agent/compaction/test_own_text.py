"""The user's own text as files: whatever the conversation is, it stays valid, shorter, and nothing
of it is lost."""

from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.agent.compaction.own_text import as_files
from codeagent.agent.compaction.plan import length_of
from codeagent.core.compaction import compacted, is_kept
from codeagent.core.messages import (
    AssistantMessage,
    Message,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    text_of,
    transcript_problems,
)
from codeagent.core.model import ModelRequest
from tests.effort import times


def turn(number: int, results: int, length: int) -> list[Message]:
    ids = [f"call_{number}_{place}" for place in range(results)]
    answer = AssistantMessage(
        text="ok", calls=tuple(ToolCall(id=one, name="read", arguments="{}") for one in ids)
    )
    content = (TextPart(text="r" * length),)
    return [answer, *(ToolMessage(call_id=one, name="read", content=content) for one in ids)]


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    messages: list[Message] = [UserMessage.from_text("the first")]
    for number in range(draw(st.integers(1, 12))):
        match draw(st.sampled_from(["user", "user", "note", "turn"])):
            case "turn":
                messages += turn(number, draw(st.integers(0, 2)), draw(st.sampled_from([10, 900])))
            case source:
                text = f"{source} {number} {'w' * draw(st.sampled_from([5, 700, 1_900, 5_000]))}"
                messages.append(
                    UserMessage.from_text(text, "note" if source == "note" else "prompt")
                )
    return messages


@given(conversations(), st.integers(100, 20_000))
@settings(max_examples=times(60), deadline=None)
def test_what_becomes_of_any_conversation(messages: list[Message], room: int) -> None:
    files: list[str] = []

    def save(text: str) -> str:
        files.append(text)
        return f"out_{len(files)}"

    after = messages
    while (
        event := as_files(ModelRequest("", tuple(after), ()), "overflow", room, save)
    ) is not None:
        shorter = compacted(after, event)
        assert length_of(shorter) < length_of(after) and transcript_problems(shorter) == []
        after = shorter
    kept = [message for message in after if isinstance(message, UserMessage)]
    there = "\n".join([*files, *(text_of(message.content) for message in kept)])
    assert all(
        text_of(message.content) in there
        for message in messages
        if isinstance(message, UserMessage)
    )
    assert all(
        message in after
        for message in messages
        if isinstance(message, UserMessage) and not is_kept(message)
    )
    newest = next(message for message in reversed(messages) if is_kept(message))
    assert newest in after or length_of([newest]) > 2_000
    notes = sum(not is_kept(message) for message in kept)
    older = [message for message in after if is_kept(message)][:-1]
    assert length_of(after) <= room or length_of(older) <= 600 * (1 + notes)
