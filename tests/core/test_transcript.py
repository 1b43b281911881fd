"""What a provider would reject is found before it is sent."""

from codeagent.core.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
    transcript_problems,
)
from tests.table import for_each

USER = UserMessage.from_text("hi")


def asks(*ids: str) -> AssistantMessage:
    return AssistantMessage(calls=tuple(ToolCall(id=i, name="x") for i in ids))


def answers(call_id: str) -> ToolMessage:
    return ToolMessage(call_id=call_id, name="x", content=())


@for_each(
    "messages",
    [
        [],
        [USER],
        [USER, AssistantMessage(text="hello")],
        [USER, asks("a"), answers("a")],
        [USER, asks("a", "b"), answers("a"), answers("b"), AssistantMessage(text="x"), USER, USER],
    ],
)
def test_a_valid_transcript_has_no_problems(messages: list[Message]) -> None:
    assert transcript_problems(messages) == []


@for_each(
    ("messages", "problem"),
    [
        ([asks("a")], "begins with the user"),
        ([USER, asks("a")], "call a has no result"),
        ([USER, asks("a"), USER], "call a has no result before message 3"),
        ([USER, answers("a")], "which no open call has"),
        ([USER, asks("a"), answers("a"), answers("a")], "which no open call has"),
        ([USER, asks("a", "b"), answers("b"), answers("a")], "wrong order"),
        ([USER, asks("a", "a"), answers("a"), answers("a")], "one call id twice"),
        ([USER, asks("a"), answers("a"), asks("a"), answers("a")], "again"),
        ([USER, AssistantMessage()], "is empty"),
    ],
)
def test_what_is_wrong_is_named(messages: list[Message], problem: str) -> None:
    assert any(problem in text for text in transcript_problems(messages))
