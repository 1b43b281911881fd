"""A command's requests to hosts: decided by the network level, by rules, and by the user while a
connection waits."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codeagent.agent.approvals import UserQuestions
from codeagent.agent.permissions import Permissions
from codeagent.agent.reach import ServerReach
from codeagent.core.acts import Answer, SetNetwork
from codeagent.core.approval_events import ApprovalRequested, ApprovalResolved, HostDecided
from codeagent.core.audit import decided_by, decisions
from codeagent.core.display import TerminalBlock, TextBlock
from codeagent.core.errors import ConfigError
from codeagent.core.events import KnownEvent, ToolResultAdded
from codeagent.core.messages import text_of
from codeagent.core.notices import NetworkChanged
from codeagent.core.policy import Decision, NetworkLevel, Policy, Rule
from codeagent.session.fold import fold
from tests.agent.doubles import Scene, Turn, do, of, scene
from tests.agent.reaching import Fetch, ProxiedSandbox, reaching_sandbox
from tests.extensions.agents.family import HELPER, ask, family
from tests.table import for_each


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show a card as soon as all that are ready have asked."""
    monkeypatch.setattr("codeagent.agent.reach._GATHER_SECONDS", 0.05)


def fetching(
    sandbox: ProxiedSandbox,
    *what: str,
    level: NetworkLevel = "ask",
    rules: str = "",
    hosts: str = "",
    **options: Any,
) -> Scene:
    """`rules`: `+network(x)` allows and `-network(x)` denies; `hosts`: the tool's own list."""
    parsed = tuple(
        Rule.parse(text[1:], "auto" if text[0] == "+" else "deny") for text in rules.split()
    )
    calls = tuple(do(text, "fetch") for text in what)
    policy = Policy(network=level, rules=(Rule("auto", "fetch", "network: *"), *parsed))
    turns = *(Turn("", (call,)) for call in calls), Turn("done")
    more = (Fetch(*hosts.split()),)
    return scene(*turns, policy=policy, sandbox=sandbox, attended=True, more=more, **options)


def answering(s: Scene, *decisions_: Decision) -> Callable[[KnownEvent], None]:
    """Answer the cards with these, one after the other."""
    left = list(decisions_)

    def answer(event: KnownEvent) -> None:
        if isinstance(event, ApprovalRequested):
            s.agent.do(Answer(event.approval_id, left.pop(0)))

    return answer


def results(events: list[KnownEvent]) -> list[str]:
    return [text_of(event.content) for event in of(events, ToolResultAdded)]


def cards(events: list[KnownEvent]) -> list[str]:
    return [event.target for event in of(events, ApprovalRequested)]


@for_each(
    ("level", "rules", "hosts", "reached", "result"),
    [
        ("open", "", "", 1, "1 request to pypi.org allowed"),
        (
            "open",
            "-network(pypi.org)",
            "",
            0,
            "pypi.org refused (denied by the rule network(pypi.org))",
        ),
        ("ask", "+network(pypi.org)", "", 1, "1 request to pypi.org allowed"),
        ("ask", "", "pypi.org", 1, "1 request to pypi.org allowed"),
        ("ask", "", "other.org", 0, "pypi.org refused (not among the hosts of this command)"),
        ("allow-list", "+network(pypi.org)", "", 1, "1 request to pypi.org allowed"),
        (
            "allow-list",
            "+network(xpypi.org)",
            "",
            0,
            "pypi.org refused (it is not on the allow-list)",
        ),
        ("allow-list", "", "pypi.org", 0, "pypi.org refused (it is not on the allow-list)"),
        ("allow-list", "", "", 0, "pypi.org refused (it is not on the allow-list)"),
    ],
)
async def test_level_and_rules_decide_and_every_decision_is_in_the_ledger(
    tmp_path: Path, level: NetworkLevel, rules: str, hosts: str, reached: int, result: str
) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = fetching(sandbox, "pypi.org", level=level, rules=rules, hosts=hosts)
        events = await s.run()
        assert sandbox.origin.connections == reached
        assert result in results(events)[0]
        assert cards(events) == []
        (row,) = [row for row in decisions(events) if row.tool == "network"]
        assert (row.target, row.outcome) == ("pypi.org", "allowed" if reached else "denied")
        assert row.call_id == of(events, ToolResultAdded)[0].call_id


async def test_at_none_no_command_that_asks_for_the_network_runs(tmp_path: Path) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        events = await fetching(sandbox, "pypi.org", level="none", rules="+network(pypi.org)").run()
        assert results(events) == ["the network is off; only the user can turn it on"]


@for_each(
    ("decision", "reached", "later", "row"),
    [
        (Decision("once"), [1, 2], ["one.org", "one.org"], "allowed"),
        (Decision("session"), [1, 2], ["one.org"], "allowed"),
        (Decision("rule", rule="network(*.one.org, one.org)"), [1, 2], ["one.org"], "allowed"),
        (Decision("deny"), [0, 0], ["one.org", "one.org"], "denied"),
        (Decision("deny", rule="network(one.org)"), [0, 0], ["one.org"], "denied"),
    ],
)
async def test_the_answer_to_a_card_holds_for_the_waiting_connection_and_as_long_as_it_says(
    tmp_path: Path, decision: Decision, reached: list[int], later: list[str], row: str
) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = fetching(sandbox, "one.org", "one.org")
        counts: list[int] = []

        def count(event: KnownEvent) -> None:
            if isinstance(event, ToolResultAdded):
                counts.append(sandbox.origin.connections)
            answer(event)

        answer = answering(s, decision, decision)
        events = await s.run(on_event=count)
        assert (counts, cards(events)) == (reached, later)
        assert [found.outcome for found in decisions(events) if found.tool == "network"] == [
            row,
            row,
        ]


async def test_never_is_refused_with_these_words_and_is_a_rule_that_can_be_revoked(
    tmp_path: Path,
) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = fetching(sandbox, "one.org")
        events = await s.run(on_event=answering(s, Decision("deny", rule="network(one.org)")))
        assert "one.org refused (the user said no, never)" in results(events)[0]
        assert Rule("deny", "network", "one.org", "session") in s.agent.rules
        assert [decided_by(row) for row in decisions(events) if row.tool == "network"] == [
            "you, never"
        ]


async def test_hosts_that_are_asked_for_together_make_one_card_and_once_allows_all_of_them(
    tmp_path: Path,
) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = fetching(sandbox, "a.org b.org c.org a.org;b.org")
        events = await s.run(on_event=answering(s, Decision("once")))
        assert cards(events) == ["a.org, b.org, c.org"]
        assert sandbox.origin.connections == 5
        (asked,) = of(events, ApprovalRequested)
        assert (asked.name, asked.proposal) == ("network", "network(a.org, b.org, c.org)")
        assert asked.blocks == (
            TerminalBlock(command="a.org b.org c.org a.org;b.org"),
            TextBlock(text="wants to reach\n\n  a.org\n  b.org\n  c.org"),
        )


@for_each(
    ("asked", "rules", "card", "reached"),
    [
        ("pypi.org;files.pythonhosted.org", "", "pypi.org, files.pythonhosted.org", 2),
        ("pypi.org;files.pythonhosted.org", "-network(*.pythonhosted.org)", "pypi.org", 1),
        (
            "crates.io;index.crates.io;static.crates.io",
            "",
            "crates.io, index.crates.io, static.crates.io",
            3,
        ),
        ("sum.golang.org;proxy.golang.org", "", "sum.golang.org, proxy.golang.org", 2),
        ("deb.debian.org;security.debian.org", "", "deb.debian.org, security.debian.org", 2),
        (
            "archive.ubuntu.com;security.ubuntu.com",
            "",
            "archive.ubuntu.com, security.ubuntu.com",
            2,
        ),
        ("registry.npmjs.org;registry.npmjs.org", "", "registry.npmjs.org", 2),
    ],
)
async def test_the_hosts_of_one_package_registry_are_one_question_but_for_those_that_a_rule_denies(
    tmp_path: Path, asked: str, rules: str, card: str, reached: int
) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = fetching(sandbox, asked, rules=rules)
        events = await s.run(on_event=answering(s, Decision("once")))
        assert (cards(events), sandbox.origin.connections) == ([card], reached)


async def test_a_flood_of_hosts_makes_one_bounded_card_and_the_rest_is_refused(
    tmp_path: Path,
) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = fetching(sandbox, " ".join(f"h{number}.org" for number in range(40)))
        events = await s.run(on_event=answering(s, Decision("once")))
        (card,) = cards(events)
        assert len(card.split(", ")) == sandbox.origin.connections == 16
        assert "(16 other hosts wait for the user's answer)" in results(events)[0]


async def test_what_is_asked_for_while_a_card_waits_comes_on_the_next_one(tmp_path: Path) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = fetching(sandbox, "a.org;b.org")
        events = await s.run(on_event=answering(s, Decision("once"), Decision("deny", "not there")))
        assert cards(events) == ["a.org", "b.org"]
        assert "b.org refused (not there)" in results(events)[0]


async def test_a_rule_that_does_not_allow_all_that_is_asked_is_asked_about_again(
    tmp_path: Path,
) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = fetching(sandbox, "a.org b.org")
        wrong = Decision("rule", rule="network(a.org)")
        events = await s.run(
            on_event=answering(s, wrong, Decision("rule", rule="bash(x)"), Decision("deny"))
        )
        assert [event.reason for event in of(events, ApprovalRequested)][1:] == [
            "network(a.org) does not allow b.org; answer it once, or write another rule",
            "bash(x) does not allow a.org, b.org; answer it once, or write another rule",
        ]
        assert sandbox.origin.connections == 0
        assert s.agent.rules == (Rule("auto", "fetch", "network: *"),)


async def test_without_an_answer_the_connection_is_refused_with_a_text_that_says_so_and_the_card_ends_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codeagent.agent.reach.ANSWER_SECONDS", 0.1)
    async with reaching_sandbox(tmp_path) as sandbox:
        s = fetching(sandbox, "a.org")
        events = [event async for event in s.agent.run("go")]
        assert b"the user has not answered within" in sandbox.answers[0]
        assert "a.org refused (the user has not answered within" in results(events)[0]
        assert [event.answer for event in of(events, ApprovalResolved)] == ["cancelled"]
        assert [event.allowed for event in of(events, HostDecided)] == [False]


async def test_the_dial_turned_to_none_holds_at_once_and_no_answer_opens_it(tmp_path: Path) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = fetching(sandbox, "a.org;b.org")

        def answer(event: KnownEvent) -> None:
            if isinstance(event, ApprovalRequested):
                s.act(SetNetwork("none"))
                s.act(Answer(event.approval_id, Decision("once")))

        events = await s.run(on_event=answer)
        assert sandbox.origin.connections == 0
        assert (
            "1 request to a.org refused (the network is off), 1 request to b.org refused"
            in results(events)[0]
        )
        assert [event.network for event in of(events, NetworkChanged)] == ["none"]


async def test_a_turned_dial_is_an_event_and_opens_what_the_next_call_may_reach(
    tmp_path: Path,
) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = fetching(sandbox, "a.org", level="none")
        s.act(SetNetwork("open"))
        events = await s.run()
        assert (sandbox.origin.connections, cards(events)) == (1, [])
        (changed,) = of(s.journal.events, NetworkChanged)
        assert changed.text == "network open from now on: every public host"


async def test_a_private_address_is_refused_after_the_answer_too_and_the_ledger_has_both(
    tmp_path: Path,
) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = fetching(sandbox, "127.0.0.1 [::1]")
        events = await s.run()
        assert cards(events) == [], "an address is never asked about"
        assert {
            (row.target, row.outcome) for row in decisions(events) if row.tool == "network"
        } == {("127.0.0.1", "denied"), ("[::1]", "denied")}


def test_a_step_never_loosens_the_level() -> None:
    s = scene()
    permissions = Permissions(s.agent._environment, s.agent.emitter)
    permissions.set_network("none")
    permissions.begin_step("ask", "open")
    assert permissions.policy.network == "none"


async def test_a_childs_card_names_the_child_and_its_file_can_only_tighten(tmp_path: Path) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        for level, reached in ((None, 1), ("open", 2), ("allow-list", 2)):
            helper = replace(HELPER, network=level)
            fetches = (Turn("", (do("a.org", "fetch"),)), Turn("fetched"))
            policy = Policy(rules=(Rule("auto", "fetch", "network: *"),))
            f = family(
                Turn("", (ask("helper"),)),
                Turn("done"),
                agents=(helper,),
                policy=policy,
                helper=fetches,
            )
            f.nursery.sandbox, f.nursery.more = sandbox, (Fetch(),)
            events = await f.run()
            assert sandbox.origin.connections == reached, level
            asked = [
                event.agent for event in of(events, ApprovalRequested) if event.name == "network"
            ]
            assert asked == ([] if level == "allow-list" else ["helper.1"])


async def test_a_server_in_the_sandbox_reaches_what_its_configuration_names_and_the_level_lets_through() -> (
    None
):
    s = scene(policy=Policy(network="ask", rules=(Rule.parse("network(evil.org)", "deny"),)))
    questions = UserQuestions()
    reach = ServerReach(questions)
    assert (reach.is_off, await reach.admit("a.org", 443, named=True)) == (
        True,
        "the network is off",
    )
    questions.connect(s.agent._approvals)
    assert await reach.admit("a.org", 443, named=False) is None, (
        "its list is the user's own, even if it is any host"
    )
    assert await reach.admit("evil.org", 443, named=True) == "denied by the rule network(evil.org)"
    reach.note("a.org", None)
    reach.note("evil.org", "denied by the rule network(evil.org)")
    assert [(row.target, row.outcome, row.who) for row in decisions(s.journal.events)] == [
        ("a.org", "allowed", "auto"),
        ("evil.org", "denied", "rule"),
    ]
    s.act(SetNetwork("allow-list"))
    assert await reach.admit("a.org", 443, named=True) == "it is not on the allow-list"
    s.act(SetNetwork("none"))
    assert reach.is_off


async def test_the_level_at_the_end_is_in_the_log() -> None:
    s = scene()
    assert fold(s.journal.events).hosts.network is None
    for level in ("open", "none", "allow-list"):
        s.act(SetNetwork(level))
    assert fold(s.journal.events).hosts.network == "allow-list"


async def test_without_a_sandbox_the_dial_cannot_be_turned() -> None:
    s = scene()
    unconfined = Permissions(replace(s.agent._environment, sandbox_kind="host"), s.agent.emitter)
    with pytest.raises(
        ConfigError, match="without a sandbox every command has this machine's network"
    ):
        unconfined.set_network("none")
    assert unconfined.policy.network == "ask"
