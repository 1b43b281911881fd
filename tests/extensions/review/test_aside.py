"""A side question: answered from the conversation, counted, and in nothing that the model sees
afterwards."""

from contextlib import aclosing

import pytest

from codeagent.agent.hooks.hook import Deny, Hook, Hooks, SubmittedPrompt
from codeagent.core.acts import SetBudget
from codeagent.core.audit import gather_stats
from codeagent.core.budget import Budget
from codeagent.core.errors import CodeagentError
from codeagent.core.events import AsideAnswered, MessageAdded, ToolStarted, TurnFinished
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
from codeagent.extensions.review.aside import SideQuestions, closed
from tests.agent.doubles import Scene, Turn, do, of, scene
from tests.table import for_each

QUESTION = "what did I ask for?"


async def ask(s: Scene, question: str = QUESTION) -> str:
    aside = s.agent.part(SideQuestions)
    assert aside is not None and aside is s.agent.part(SideQuestions)
    async with aclosing(aside.ask(question)) as answer:
        return [text async for text in answer][-1]


async def test_it_is_answered_from_the_conversation_and_leaves_nothing_in_it_but_the_cost() -> None:
    s = scene(Turn("one"), Turn("you said go"), Turn("two"), attended=True)
    await s.run("go")
    before = s.agent.history
    assert await ask(s) == "you said go"
    assert s.agent.history == before
    asked = s.model.requests[1]
    assert asked.messages[:2] == s.model.requests[0].messages + before[1:]
    assert text_of(asked.messages[-1].content).endswith(QUESTION)  # type: ignore[union-attr]  # the user's
    assert (asked.system, asked.tools) == (s.model.requests[0].system, s.model.requests[0].tools)
    await s.run("again")
    assert QUESTION not in repr(s.model.requests[2])
    (counted,) = of(s.journal.events, AsideAnswered)
    assert counted.usage.cost_usd == 0.01
    turns = sum(event.usage.cost_usd or 0 for event in of(s.journal.events, TurnFinished))
    assert gather_stats(s.journal.events).usage.cost_usd == pytest.approx(turns + 0.01)
    assert QUESTION not in repr(of(s.journal.events, MessageAdded))


async def test_it_can_be_asked_while_a_call_runs_and_no_call_of_its_answer_does() -> None:
    s = scene(
        Turn("", calls=(do("c1"),)), Turn("", calls=(do("never"),)), Turn("done"), attended=True
    )
    answers: list[str] = []
    events = s.agent.run("go")
    async for event in events:
        if isinstance(event, ToolStarted) and not answers:
            answers.append(await ask(s))
    assert answers == [
        "The model gave no answer: it tried to use a tool, which a side question does not allow."
    ]
    assert text_of(s.model.requests[1].messages[-2].content) == "(still running)"  # type: ignore[union-attr]  # a result
    assert len(of(s.journal.events, ToolStarted)) == 1
    assert transcript_problems(s.agent.history) == []


async def test_a_hook_or_a_budget_that_is_used_up_keeps_it_from_being_sent() -> None:
    async def deny(prompt: SubmittedPrompt) -> Deny:
        return Deny("secret")

    s = scene(hooks=Hooks((Hook("guard", prompt_submit=deny),)), attended=True)
    with pytest.raises(CodeagentError, match="a hook denied it: secret"):
        await ask(s)
    s = scene(Turn("one"), attended=True)
    s.act(SetBudget(Budget("tokens", 1.0)))
    await s.run("go")
    with pytest.raises(CodeagentError, match="budget"):
        await ask(s)
    assert len(s.model.requests) <= 1


def user(text: str) -> Message:
    return UserMessage.from_text(text)


def result(call_id: str, text: str = "ok") -> Message:
    return ToolMessage(call_id=call_id, name="x", content=(TextPart(text=text),))


CALLS = AssistantMessage(
    calls=tuple(ToolCall(id=name, name="x", arguments="{}") for name in ("a", "b"))
)
PAUSED = AssistantMessage(stop="paused", text="…")
BROKEN: list[tuple[list[Message], list[Message]]] = [
    ([], []),
    ([user("go")], [user("go")]),
    ([user("go"), AssistantMessage(text="hi")], [user("go"), AssistantMessage(text="hi")]),
    (
        [user("go"), CALLS],
        [user("go"), CALLS, result("a", "(still running)"), result("b", "(still running)")],
    ),
    (
        [user("go"), CALLS, result("b")],
        [user("go"), CALLS, result("a", "(still running)"), result("b")],
    ),
    (
        [user("go"), CALLS, result("a"), result("b"), user("steer")],
        [user("go"), CALLS, result("a"), result("b"), user("steer")],
    ),
    ([user("go"), PAUSED], [user("go")]),
]


@for_each(("messages", "expected"), BROKEN)
def test_every_call_has_a_result_in_front_of_the_question(
    messages: list[Message], expected: list[Message]
) -> None:
    assert list(closed(messages)) == expected
    assert transcript_problems([*closed(messages), user("?")]) == []
