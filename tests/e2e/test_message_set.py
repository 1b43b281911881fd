"""Messages between the agents of one conversation, through the product."""

from tests.e2e.product import Product, bash, calls, of, results, say
from tests.e2e.test_agents_run import agent, child_log, describe
from tests.fakes import put

_CONFIG = "config/codeagent/config.toml"


def test_two_children_that_run_side_by_side_write_to_each_other_over_a_queue(product: Product) -> None:
    put(product.home, _CONFIG, '[toolsets]\nuse = ["messages", "agents"]\n')
    wait = "touch {0}; until [ -e {1} ]; do sleep 0.01; done"
    sender = product.script(
        calls(bash(wait.format("asked", "ready"))),
        calls(("send_message", {"to": "work", "body": "hello"})),
        calls(bash("touch sent")),
        say("sent it"),
    )
    watcher = product.script(
        calls(("watch_channel", {"channel": "work"})),
        calls(bash(wait.format("ready", "sent"))),
        say("got it", expect="(message m1 from the agent sender.1 to work:\n> hello\n)"),
    )
    describe(product, "sender", sender, "parallel: true")
    describe(product, "watcher", watcher, "parallel: true")
    model = product.script(calls(agent("sender"), agent("watcher")), say("both done"))
    done = product.run(model, "--yes", "--output", "jsonl")
    assert done.code == 0, done.err
    own = [result["content"][0]["text"] for result in results(done.events) if result["agent"] == "main"]
    assert sorted(own) == ["got it", "sent it"]
    notices = [event for event in of(child_log(product, 2), "notice") if event["code"] == "message.received"]
    assert [(event["agent"], event["data"]["sender"]) for event in notices] == [("watcher.2", "sender.1")]


def test_a_conversation_by_itself_has_nobody_to_write_to(product: Product) -> None:
    put(product.home, _CONFIG, '[toolsets]\nuse = ["messages"]\n')
    model = product.script(calls(("channel_list", {}), ("send_message", {"to": "boss", "body": "hi"})), say("so"))
    listed, sent = results(product.run(model, "--output", "jsonl").events)
    assert "main: agent (you)" in listed["content"][0]["text"]
    assert sent["error"]["kind"] == "not_found"
    assert of(product.log(), "run.finished")[0]["reason"] == "done"
