"""Messages between the agents of one conversation, through the product."""

from tests.e2e.product import Product, calls, of, results, say
from tests.e2e.test_agents_run import agent, describe
from tests.fakes import put

_CONFIG = "config/codeagent/config.toml"


def test_a_child_writes_to_the_agent_that_started_it(product: Product) -> None:
    put(product.home, _CONFIG, '[toolsets]\nuse = ["messages", "agents"]\n')
    describe(
        product,
        "sender",
        product.script(calls(("send_message", {"to": "main", "body": "hello"})), say("sent it")),
    )
    note = "(message m1 from the agent sender.1 to main:\n> hello\n)"
    done = product.run(
        product.script(calls(agent("sender")), say("so", expect=note)), "--output", "jsonl"
    )
    assert done.code == 0, done.err
    [told] = [event for event in of(done.events, "notice") if event["code"] == "message.received"]
    assert (told["agent"], told["data"]["sender"]) == ("main", "sender.1")


def test_a_conversation_by_itself_has_nobody_to_write_to(product: Product) -> None:
    put(product.home, _CONFIG, '[toolsets]\nuse = ["messages"]\n')
    model = product.script(
        calls(("channel_list", {}), ("send_message", {"to": "boss", "body": "hi"})), say("so")
    )
    listed, sent = results(product.run(model, "--output", "jsonl").events)
    assert "main: agent (you)" in listed["content"][0]["text"]
    assert sent["error"]["kind"] == "not_found"
    assert of(product.log(), "run.finished")[0]["reason"] == "done"


SEND = '''
from codeagent import ToolContext, register_tool


@register_tool(approval="auto", effect="nothing")
def tell(to: str, ctx: ToolContext) -> str:
    """Tells an agent.

    Args:
        to: Which.
    """
    return ctx.channels.send(to, f"from {ctx.agent}").id
'''


def test_a_plain_function_sends_as_the_agent_that_calls_it(product: Product) -> None:
    put(product.home, _CONFIG, '[toolsets]\nuse = ["messages", "agents"]\n')
    put(product.home, "config/codeagent/tools/tell.py", SEND)
    describe(product, "sender", product.script(calls(("tell", {"to": "main"})), say("told")))
    note = "(message m1 from the agent sender.1 to main:\n> from sender.1\n)"
    done = product.run(
        product.script(calls(agent("sender")), say("so", expect=note)), "--output", "jsonl"
    )
    assert done.code == 0, done.err


def test_a_channel_that_was_added_is_there_after_a_resume(product: Product) -> None:
    put(product.home, _CONFIG, '[toolsets]\nuse = ["messages"]\n')
    product.run(
        product.script(calls(("create_channel", {"name": "review", "kind": "queue"})), say("ok"))
    )
    model = product.script(calls(("channel_list", {})), say("ok"))
    done = product.run(model, "--continue", "--output", "jsonl")
    assert "review: queue, watched by nobody" in results(done.events)[-1]["content"][0]["text"]
