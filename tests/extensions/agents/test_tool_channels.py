"""A tool sends to, and reads, the channels of the agent that calls it: as that agent, and within
its limits."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from codeagent.core.acts import Stop
from codeagent.core.channels import OwnChannels, Received, Sent
from codeagent.core.policy import Policy, Rule
from codeagent.core.tool import Denied, Failed, ToolContext, ToolError
from codeagent.extensions.agents.channels import MOST_PER_MINUTE, Hub
from tests.agent.doubles import USE, Turn, Using, scene
from tests.extensions.agents.test_channels import Member, closed
from tests.extensions.triggers.trigger_doubles import call
from tests.extensions.user_tools.python_tools import Author
from tests.table import for_each


def refused(act: Any, *arguments: str) -> ToolError:
    with pytest.raises(ToolError) as caught:
        act(*arguments)
    return caught.value


async def test_a_tool_asks_another_agent_and_waits_for_its_answer() -> None:
    async def ask(ctx: ToolContext) -> str:
        sent = ctx.channels.send("worker", "how many?")
        [answer] = await ctx.channels.wait(after=sent.id)
        return f"{answer.sender}: {answer.body}"

    hub, using = Hub(), Using(ask)
    asking = Member(hub, "asking", Turn("", (USE,)), Turn("done"), more=(using,))
    worker = Member(
        hub, "worker", Turn("", (call("send_message", to="asking", body="12", reply_to="m1"),))
    )
    await asking.run()
    assert using.found == ["worker: 12"]
    assert worker.got() == [("asking", "worker", "how many?", None)]
    assert asking.notes() == [
        "(message m2 from the agent worker to asking, in answer to m1:\n> 12\n)"
    ]
    await closed(asking, worker)


async def test_a_tool_reads_what_came_for_its_agent_and_its_channels_also_in_a_thread() -> None:
    async def look(ctx: ToolContext) -> tuple[Any, ...]:
        read = await asyncio.to_thread(ctx.channels.read)
        sent = await asyncio.to_thread(ctx.channels.send, "all", "hello")
        return (
            read,
            ctx.channels.read(after="m1"),
            sent,
            [one.name for one in ctx.channels.addressees()],
        )

    hub, using = Hub(), Using(look)
    member = Member(hub, "member", Turn("read"), Turn("", (USE,)), more=(using,), watched=("all",))
    other = Member(hub, "other", watched=("all",))
    first, second = (
        Received("m1", "x", "all", "one", None),
        Received("m2", "x", "member", "two", "m1"),
    )
    hub.send("x", "all", "one", None)
    hub.send("x", "member", "two", "m1")
    await member.until("run.finished")
    await member.run()
    assert using.found == [
        ((first, second), (second,), Sent("m3", ("other",)), ["member", "other", "all", "work"])
    ]
    await closed(member, other)


@for_each(
    ("rule", "permission", "why"),
    [
        (
            "send_message",
            "deny",
            "sending to worker is not allowed: denied by the rule send_message; nothing was sent",
        ),
        ("send_message(work*)", "deny", "denied by the rule send_message\\(work\\*\\)"),
        ("send_message(worker)", "prompt", "the rule send_message\\(worker\\) asks"),
    ],
)
async def test_rules_about_sending_hold_for_tools(rule: str, permission: Any, why: str) -> None:
    hub = Hub()
    using = Using(lambda ctx: refused(ctx.channels.send, "worker", "x"))
    policy = Policy(rules=(Rule.parse(rule, permission),))
    member, worker = (
        Member(hub, "member", Turn("", (USE,)), more=(using,), policy=policy),
        Member(hub, "worker"),
    )
    await member.run()
    [error] = using.found
    with pytest.raises(Denied, match=why):
        raise error
    assert worker.got() == []
    await closed(member, worker)


async def test_limits_of_messages_hold_for_tools() -> None:
    def flood(ctx: ToolContext) -> list[str]:
        wrong = [
            (" ", "x"),
            ("worker", ""),
            ("worker", "x" * 8001),
            ("worker", "x\0"),
            ("wroker", "x"),
            ("member", "x"),
        ]
        said = [str(refused(ctx.channels.send, *arguments)) for arguments in wrong]
        for _ in range(MOST_PER_MINUTE):
            ctx.channels.send("worker", "x")
        return [
            *said,
            str(refused(ctx.channels.send, "worker", "x")),
            str(refused(ctx.channels.read, "latest")),
        ]

    hub, using = Hub(clock=lambda: 0.0), Using(flood)
    member, worker = Member(hub, "member", Turn("", (USE,)), more=(using,)), Member(hub, "worker")
    await member.run()
    [said] = using.found
    expected = [
        "the name is empty",
        "the message is empty",
        "at most 8000 characters",
        "NUL",
        "unknown agent or channel",
        "to yourself",
        "20 messages were sent within a minute",
        "'latest' is not the id of a message",
    ]
    assert [wanted in text for wanted, text in zip(expected, said, strict=True)] == [True] * 8, said
    assert len(worker.got()) == MOST_PER_MINUTE
    await closed(member, worker)


async def test_a_call_that_was_stopped_sends_nothing_more() -> None:
    held: list[OwnChannels] = []
    begun = asyncio.Event()

    async def hold(ctx: ToolContext) -> None:
        held.append(ctx.channels)
        begun.set()
        await ctx.channels.wait()

    hub = Hub()
    member, worker = (
        Member(hub, "member", Turn("", (USE,)), more=(Using(hold),)),
        Member(hub, "worker"),
    )
    run = asyncio.create_task(member.run())
    await begun.wait()
    member.agent.do(Stop())
    await run
    assert "the call was stopped; nothing was sent" in str(refused(held[0].send, "worker", "x"))
    await closed(member, worker)


def acts(channels: OwnChannels) -> list[tuple[Any, ...]]:
    return [(channels.send, "a", "b"), (channels.read,), (channels.wait,), (channels.addressees,)]


async def test_without_channels_a_tool_is_told_so() -> None:
    using = Using(
        lambda ctx: [
            refused(ctx.channels.send, "a", "b"),
            refused(ctx.channels.read),
            refused(ctx.channels.wait),
        ]
    )
    await scene(Turn("", (USE,)), Turn("done"), more=(using,)).run()
    assert {str(error) for error in using.found[0]} == {
        "this agent has no channels; the user can turn on the toolset messages, which adds them"
    }
    assert all(isinstance(error, Failed) for error in using.found[0])


async def test_the_example_of_the_how_to_asks_an_agent_and_returns_its_answer(
    tmp_path: Path,
) -> None:
    page = (Path(__file__).parents[3] / "docs/how-to/messages.md").read_text()
    [source] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    loaded = Author(tmp_path).load(source, place="user")
    assert loaded.problems == ()
    hub, asks = Hub(), Turn("", (call("ask_agent", agent="worker", question="how many?"),))
    asking = Member(hub, "asking", asks, Turn("done"), more=loaded.tools, policy=Policy("auto"))
    other = call("send_message", to="asking", body="wait")
    answer = call("send_message", to="asking", body="12", reply_to="m1")
    worker = Member(hub, "worker", Turn("", (other,)), Turn("", (answer,)))
    await asking.run()
    assert asking.results() == ["12"]
    await closed(asking, worker)
