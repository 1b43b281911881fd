"""Another model takes over from one that cannot be had, once and for good."""

import pytest

from codeagent.core.errors import ModelError, ModelErrorKind
from codeagent.core.messages import AssistantMessage, Message, Thinking, ToolCall, UserMessage
from codeagent.core.model import FellBack, TextDelta
from codeagent.llm.fallback import FallbackModel
from codeagent.llm.wire import may_think, thinking_arguments
from tests.llm.asking import ask, result
from tests.llm.test_retry import Playing, answer


def failure(kind: ModelErrorKind) -> ModelError:
    return ModelError("it failed", kind=kind)


async def test_the_second_answers_from_then_on() -> None:
    first, second = Playing([TextDelta("half"), failure("overloaded")]), Playing([answer("a")], [answer("b")])

    async def open_second() -> Playing:
        return second

    model = FallbackModel(first, open_second)
    assert (await ask(model)).events == [TextDelta("half"), FellBack("it failed", "played"), answer("a")]
    assert (await ask(model)).events == [answer("b")]
    assert first.closed
    await model.close()
    assert second.closed


@pytest.mark.parametrize("kind", ["bad_request", "context_window"])
async def test_a_request_that_is_wrong_for_any_model_is_not_passed_on(kind: ModelErrorKind) -> None:
    async def never() -> Playing:
        raise AssertionError

    with pytest.raises(ModelError, match="it failed"):
        await ask(FallbackModel(Playing([failure(kind)]), never))


async def test_where_the_second_fails_its_own_error_is_told() -> None:
    async def open_second() -> Playing:
        return Playing([ModelError("this one, too", kind="overloaded")])

    with pytest.raises(ModelError, match="this one, too"):
        await ask(FallbackModel(Playing([failure("auth")]), open_second))


CALL = ToolCall(id="call_1", name="read", arguments="{}")


@pytest.mark.parametrize(
    ("thinking", "thinks"),
    [((), False), ((Thinking(text="unsigned"),), False), ((Thinking(text="hm", signature="sig"),), True)],
)
def test_thinking_is_not_asked_for_in_the_middle_of_a_turn_that_began_without(
    thinking: tuple[Thinking, ...], thinks: bool
) -> None:
    """Anthropic refuses such a request; a fallback model, or another level, would run into it."""
    asked: list[Message] = [UserMessage.from_text("hi")]
    asked += [AssistantMessage(calls=(CALL,), thinking=thinking), result(CALL, "x")]
    assert may_think(asked) is thinks
    assert may_think([*asked, AssistantMessage(text="done"), UserMessage.from_text("more")])


@pytest.mark.parametrize(("tokens", "limit"), [(500, 64_000), (30_000, 64_000), (90_000, 32_000), (5000, 4000)])
def test_the_limit_of_an_answer_is_above_its_budget_of_thought(tokens: int, limit: int) -> None:
    facts = {"supports_reasoning": True, "max_output_tokens": limit}
    sent = thinking_arguments(tokens, "anthropic", 8192, facts)
    assert 1024 <= sent["thinking"]["budget_tokens"] < sent["max_tokens"] <= limit


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        ({}, "none"),
        ({"supports_reasoning": True, "supports_none_reasoning_effort": True}, "none"),
        ({"supports_reasoning": True, "supports_minimal_reasoning_effort": True}, "minimal"),
        ({"supports_reasoning": True}, "low"),
        ({"max_input_tokens": 1}, None),
    ],
)
def test_off_is_the_least_that_a_model_of_openais_format_knows(facts: dict[str, object], word: str | None) -> None:
    assert thinking_arguments("off", "openai", 8192, facts).get("reasoning_effort") == word
