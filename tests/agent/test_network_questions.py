"""A command with network access is one question: with the hosts that it is known to need, or once
it connects."""

from pathlib import Path

import pytest

from codeagent.core.acts import SetNetwork
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.audit import decided_by, decisions
from codeagent.core.display import TerminalBlock, TextBlock
from codeagent.core.events import KnownEvent, ToolResultAdded
from codeagent.core.policy import Decision, Mode, NetworkLevel, Policy, Rule
from tests.agent.doubles import Scene, Turn, do, of, scene
from tests.agent.reaching import REASON, Network, ProxiedSandbox, reaching_sandbox
from tests.agent.test_reach import answering, cards, results
from tests.table import for_each

PYPI = "pypi.org files.pythonhosted.org"
EACH = (
    "While it runs, this question shows each host that no rule decides, and waits for your answer."
)
AGAIN = ("a.org", "a.org", "", "a.org")
"""The second is asked about since the model has read from the network; one between keeps it from
being a repetition."""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show a card as soon as all that are ready have asked."""
    monkeypatch.setattr("codeagent.agent.reach._GATHER_SECONDS", 0.05)


def networking(
    sandbox: ProxiedSandbox,
    *what: str,
    needs: str = "",
    mode: Mode = "ask",
    level: NetworkLevel = "ask",
    rules: str = "",
    attended: bool = True,
) -> Scene:
    """`rules`, one per line: `+network(x)` allows, `?network(x)` asks and `-network(x)` denies."""
    kinds = {"+": "auto", "?": "prompt", "-": "deny"}
    parsed = tuple(Rule.parse(text[1:], kinds[text[0]]) for text in rules.splitlines())  # type: ignore[arg-type]  # above
    turns = *(Turn("", (do(text, "fetch", needs),)) for text in what), Turn("done")
    policy = Policy(mode=mode, network=level, rules=parsed)
    return scene(*turns, policy=policy, sandbox=sandbox, attended=attended, more=(Network(),))


def asked(events: list[KnownEvent]) -> list[ApprovalRequested]:
    return of(events, ApprovalRequested)


def named(card: ApprovalRequested) -> str:
    return "\n".join(block.text for block in card.blocks if isinstance(block, TextBlock))


@for_each("mode", ["ask", "auto"])
async def test_the_question_about_a_command_names_the_hosts_it_needs_and_a_yes_allows_them(
    tmp_path: Path, mode: Mode
) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = networking(sandbox, "pypi.org;files.pythonhosted.org", needs=PYPI, mode=mode)
        events = await s.run(on_event=answering(s, Decision("once")))
        (card,) = asked(events)
        assert (card.name, card.reason) == ("fetch", REASON)
        others = "You are asked about every other host that no rule decides."
        assert named(card) == f"It may reach pypi.org, files.pythonhosted.org. {others}"
        assert sandbox.origin.connections == 2
        reached = [row for row in decisions(events) if row.tool == "network"]
        assert [(row.target, decided_by(row)) for row in reached] == [
            ("pypi.org", "you"),
            ("files.pythonhosted.org", "you"),
        ]


async def test_a_host_that_the_question_did_not_name_is_asked_about(tmp_path: Path) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = networking(sandbox, "a.org;b.org;x.a.org", needs="a.org")
        events = await s.run(
            on_event=answering(s, Decision("once"), Decision("deny"), Decision("deny"))
        )
        assert cards(events) == ["a.org;b.org;x.a.org", "b.org", "x.a.org"]
        assert sandbox.origin.connections == 1


async def test_a_no_to_the_command_reaches_nothing(tmp_path: Path) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = networking(sandbox, "a.org", needs="a.org")
        events = await s.run(on_event=answering(s, Decision("deny")))
        assert (len(asked(events)), sandbox.ran) == (1, [])


@for_each(
    ("rules", "level", "said"),
    [
        (
            "-network(a.org)",
            "ask",
            "It may reach b.org. You are asked about every other host that no rule decides.",
        ),
        ("-network(a.org)\n-network(b.org)", "ask", EACH),
        ("+network(a.org)\n+network(b.org)", "ask", EACH),
        ("", "open", ""),
        ("", "allow-list", ""),
    ],
)
async def test_the_question_names_no_host_that_is_decided_without_it(
    tmp_path: Path, rules: str, level: NetworkLevel, said: str
) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = networking(sandbox, "a.org;b.org", needs="a.org b.org", rules=rules, level=level)
        events = await s.run(on_event=answering(s, Decision("once")))
        (card,) = asked(events)
        assert named(card) == said
        allowed = 2 * (level == "open" or "+" in rules) or said.startswith("It may")
        assert sandbox.origin.connections == allowed


async def test_a_rule_that_denies_a_named_host_holds_for_one_of_its_ports(tmp_path: Path) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = networking(sandbox, "a.org", needs="a.org", rules="-network(a.org:80)")
        await s.run(on_event=answering(s, Decision("once")))
        assert sandbox.origin.connections == 0


async def test_an_answer_for_the_session_allows_the_same_call_with_the_same_hosts_again(
    tmp_path: Path,
) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = networking(sandbox, *AGAIN, needs="a.org")
        events = await s.run(
            on_event=answering(s, Decision("session"), Decision("session"), Decision("deny"))
        )
        assert cards(events) == ["a.org", "a.org", ""]
        assert sandbox.origin.connections == 3


async def test_an_answer_for_the_session_allows_no_host_that_its_question_did_not_name(
    tmp_path: Path,
) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = networking(sandbox, *AGAIN, needs="a.org", level="open")
        answer = answering(
            s, Decision("session"), Decision("session"), Decision("deny"), Decision("deny")
        )

        def turn(event: KnownEvent) -> None:
            if sandbox.origin.connections == 2 and isinstance(event, ToolResultAdded):
                s.act(SetNetwork("ask"))
            answer(event)

        events = await s.run(on_event=turn)
        assert [card.name for card in asked(events)] == ["fetch", "fetch", "fetch", "network"]
        assert sandbox.origin.connections == 2


async def test_a_command_whose_hosts_are_unknown_runs_in_mode_auto_and_its_first_hosts_are_the_question(
    tmp_path: Path,
) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = networking(sandbox, "a.org b.org;c.org", mode="auto")
        events = await s.run(on_event=answering(s, Decision("once"), Decision("deny")))
        first, second = asked(events)
        assert (first.name, first.target) == ("network", "a.org, b.org")
        assert first.reason == f"{REASON}; it waits for your answer"
        assert first.blocks == (
            TerminalBlock(command="a.org b.org;c.org"),
            TextBlock(text="wants to reach\n\n  a.org\n  b.org"),
        )
        assert second.target == "c.org"
        assert sandbox.origin.connections == 2
        assert sandbox.ran[0].alone


async def test_until_a_yes_such_a_command_reaches_no_host_that_a_rule_allows_either(
    tmp_path: Path,
) -> None:
    rules = "+network(a.org, b.org)"
    async with reaching_sandbox(tmp_path) as sandbox:
        s = networking(sandbox, "a.org;b.org", mode="auto", rules=rules)
        events = await s.run(on_event=answering(s, Decision("deny", "not now"), Decision("deny")))
        assert (cards(events), sandbox.origin.connections) == (["a.org", "b.org"], 0)
        assert "a.org refused (not now)" in results(events)[0]
    async with reaching_sandbox(tmp_path / "again") as sandbox:
        s = networking(sandbox, "a.org;b.org;c.org", mode="auto", rules=rules)
        events = await s.run(on_event=answering(s, Decision("once"), Decision("deny")))
        assert (cards(events), sandbox.origin.connections) == (["a.org", "c.org"], 2)


async def test_a_rule_that_denies_a_host_is_no_question_in_such_a_command(tmp_path: Path) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = networking(sandbox, "a.org", mode="auto", rules="-network(a.org)")
        events = await s.run()
        assert (cards(events), sandbox.origin.connections) == ([], 0)


async def test_a_long_command_is_whole_on_the_card_that_is_the_only_question_about_it(
    tmp_path: Path,
) -> None:
    command = " ".join(["a.org"] * 60)
    async with reaching_sandbox(tmp_path) as sandbox:
        s = networking(sandbox, command, mode="auto")
        (card,) = asked(await s.run(on_event=answering(s, Decision("deny"))))
        assert card.blocks[0] == TerminalBlock(command=command)


@for_each(
    ("mode", "level", "rules", "attended"),
    [
        ("ask", "ask", "", True),
        ("auto", "open", "", True),
        ("auto", "allow-list", "", True),
        ("auto", "ask", "?fetch(network: *)", True),
        ("auto", "ask", "?fetch(*)", True),
        ("auto", "ask", "", False),
    ],
)
async def test_the_command_is_asked_about_before_it_runs_if_something_else_asks_too_or_no_host_would(
    tmp_path: Path, mode: Mode, level: NetworkLevel, rules: str, attended: bool
) -> None:
    async with reaching_sandbox(tmp_path) as sandbox:
        s = networking(sandbox, "a.org", mode=mode, level=level, rules=rules, attended=attended)
        events = await s.run(on_event=answering(s, Decision("deny")))
        assert [card.name for card in asked(events)] == ["fetch"]
        assert sandbox.ran == []


async def test_a_suspended_rule_says_so_on_the_card_of_the_connection() -> None:
    rule = Rule("auto", "fetch", "network: *", "session")
    policy = Policy(mode="auto", rules=(rule,), heard=("evil.org",))
    key = Network().approval_key(Network.Args(what="a.org"))
    verdict = policy.asking_later("fetch", key, "prompt", "anything")
    assert verdict.permission == "auto"
    assert "suspended: the model has since read text from evil.org" in verdict.later
