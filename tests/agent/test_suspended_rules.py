"""Rules that answers made are suspended for calls to others, once the model has read what those
wrote."""

from collections.abc import Callable
from pathlib import Path

import pytest

from codeagent.agent.agent import Agent
from codeagent.agent.parts import Host
from codeagent.config.local_environment import LocalEnvironment
from codeagent.core.acts import Answer
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.events import KnownEvent, ToolResultAdded
from codeagent.core.messages import text_of
from codeagent.core.model import ProviderUse
from codeagent.core.notices import TextRead
from codeagent.core.policy import ApprovalKey, Decision, Policy, Rule
from codeagent.extensions.mcp.host import ServerHost
from codeagent.extensions.mcp.servers import McpServers
from codeagent.session.fold import fold
from tests.agent.doubles import Asking, Turn, do, of, scene
from tests.extensions.agents.family import ask, family

SAVED, SESSION, OWN = (
    Rule.parse("asking(ok*)", "auto", origin) for origin in ("saved", "session", "user")
)


@pytest.fixture(autouse=True)
def asks_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool `asking` is answered by the server that its `key` names."""
    monkeypatch.setattr(
        Asking,
        "approval_key",
        lambda self, args: ApprovalKey("text", (args.what,), server=args.key),
    )


def call(server: str, what: str = "ok") -> Turn:
    return Turn("", (do(what, "asking", server),))


def answering(agent: Agent, *answers: Decision) -> Callable[[KnownEvent], None]:
    left = list(answers)

    def answer(event: KnownEvent) -> None:
        if isinstance(event, ApprovalRequested) and left:
            agent.do(Answer(event.approval_id, left.pop(0)))

    return answer


def reasons(events: list[KnownEvent]) -> list[str]:
    return [event.reason for event in of(events, ApprovalRequested)]


@pytest.mark.parametrize("rule", [SAVED, SESSION])
async def test_a_rule_is_suspended_after_an_answer_of_each_new_server_until_the_user_makes_it_again(
    rule: Rule,
) -> None:
    servers = ("a.example", "a.example", "a.example", "b.example", "a.example")
    turns = [call(server, f"ok {at}") for at, server in enumerate(servers)]
    again = Decision("rule", rule="asking(ok*)", keep=rule.origin == "saved")
    s = scene(*turns, Turn("done"), policy=Policy(rules=(rule,)), attended=True)
    events = await s.run(on_event=answering(s.agent, again))
    assert reasons(events) == [
        f"asking(ok*) is suspended: the model has since read text from {server}, which may be behind this call"
        for server in ("a.example", "b.example")
    ]
    assert [event.place for event in of(events, TextRead)] == ["a.example", "b.example"]
    assert [event.error for event in of(events, ToolResultAdded)] == [None] * 5
    assert s.agent.rules == (rule,)


async def test_a_rule_of_the_configuration_and_calls_that_nobody_else_answers_are_as_before() -> (
    None
):
    local = Rule.parse("asking(local)", "auto", "saved")
    s = scene(
        call("a.example"),
        call("a.example"),
        call("", "local"),
        Turn("done"),
        policy=Policy(rules=(OWN, local)),
    )
    assert reasons(await s.run()) == []


async def test_calls_of_one_answer_do_not_suspend_each_other() -> None:
    both = Turn("", (do("ok", "asking", "a.example"), do("ok2", "asking", "b.example")))
    s = scene(both, Turn("done"), policy=Policy(rules=(SAVED,)), strategy="sequential")
    assert reasons(await s.run()) == []


async def test_an_error_that_a_server_answers_with_is_text_of_it_too() -> None:
    failing = Rule.parse("asking(fail)", "auto", "saved")
    s = scene(
        call("a.example", "fail"),
        call("a.example"),
        Turn("done"),
        policy=Policy(rules=(SAVED, failing)),
    )
    assert "read text from a.example" in reasons(await s.run())[0]


async def test_an_exact_call_that_was_allowed_for_the_session_is_asked_about_again() -> None:
    between = Turn("", (do("ok"),))
    s = scene(
        call("a.example"),
        call("a.example"),
        between,
        call("a.example"),
        Turn("done"),
        attended=True,
    )
    events = await s.run(on_event=answering(s.agent, Decision("session"), Decision("session")))
    assert len(reasons(events)) == 2


async def test_what_a_child_read_suspends_the_rules_of_its_parent() -> None:
    f = family(
        Turn("", (ask(),)),
        call("b.example"),
        Turn("done"),
        policy=Policy(rules=(SAVED,)),
        attended=True,
        helper=[call("a.example"), Turn("read it")],
    )
    assert "read text from a.example" in reasons(await f.run())[0]
    assert [event.agent for event in of(f.parent.journal.events, TextRead)] == ["main", "main"]


@pytest.mark.parametrize("answer", [Decision("rule", rule="asking(ok*)"), Decision("session")])
async def test_an_answer_is_not_for_what_another_agent_read_while_the_card_was_shown(
    answer: Decision,
) -> None:
    s = scene(
        call("a.example"),
        call("a.example"),
        Turn("done"),
        attended=True,
        policy=Policy(heard=("a.example",)),
    )
    reply = answering(s.agent, answer)

    def read_and_answer(event: KnownEvent) -> None:
        if isinstance(event, ApprovalRequested):
            permissions = s.agent._context.permissions
            permissions.hear("b.example")
            permissions.begin_request()
        reply(event)

    assert len(reasons(await s.run(on_event=read_and_answer))) == 2


async def test_a_resumed_session_still_knows_what_the_model_has_read() -> None:
    s = scene(call("a.example"), Turn("done"), policy=Policy(rules=(SAVED,)))
    await s.run()
    assert fold(s.journal.events).hosts.heard == ("a.example",)


async def test_the_reason_names_a_few_of_many_servers() -> None:
    servers = [f"{at}.example" for at in range(5)]
    policy = Policy(rules=(SAVED,), heard=tuple(servers))
    s = scene(call("x"), Turn("done"), policy=policy)
    assert "from 0.example, 1.example, 2.example and 2 more, which" in reasons(await s.run())[0]


async def test_a_call_that_nobody_can_be_asked_about_is_denied_with_the_reason() -> None:
    s = scene(call("x"), Turn("done"), policy=Policy(rules=(SAVED,), heard=("a.example",)))
    events = await s.run(on_event=answering(s.agent, Decision("deny")))
    assert "the user said no" in text_of(of(events, ToolResultAdded)[0].content)


@pytest.mark.parametrize(("tool", "asked"), [("web_search", 1), ("code_execution", 0)])
async def test_a_search_that_the_provider_made_suspends_them_for_the_calls_of_the_same_answer(
    tool: str, asked: int
) -> None:
    turn = Turn("", (do("ok", "asking", "a.example"),), uses=(ProviderUse(tool=tool),))
    s = scene(turn, Turn("done"), policy=Policy(rules=(SAVED,)), attended=True)
    events = await s.run()
    assert [event.place for event in of(events, TextRead)] == ["the provider's search"] * asked + [
        "a.example"
    ]
    suspended = (
        "asking(ok*) is suspended: the model has since read text from the provider's search, "
        "which may be behind"
    )
    assert reasons(events) == [f"{suspended} this call"] * asked


class Connected(McpServers):
    """Servers that tell which conversation they belong to."""

    def connect(self, host: Host) -> None:
        super().connect(host)
        self.permissions = host.shared.permissions


async def test_what_a_prompt_takes_from_a_server_is_text_of_it(tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    local = LocalEnvironment(work, tmp_path / "state", {})
    servers = Connected(local, ServerHost(work, {}, tmp_path / "pins"))
    scene(policy=Policy(rules=(SAVED,)), parts=(servers,))
    servers.hear("git")
    servers.permissions.begin_request()
    assert servers.permissions.policy.heard == ("git",)
