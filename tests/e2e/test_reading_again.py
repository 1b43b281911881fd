"""A file that is read again comes as unchanged only while this agent's own context holds the
earlier read."""

from tests.e2e.product import Event, Product, calls, read, results, say, text_of
from tests.e2e.test_agents_run import agent, describe

FULL = "1\tthis is a.txt\n2\tsecond line"
AGAIN = calls(read("a.txt"))


def shown(events: list[Event]) -> list[bool]:
    """Whether each read shows the file; otherwise it says that it is unchanged."""
    texts = [text_of(result) for result in results(events) if result["name"] == "read"]
    assert all(
        text == FULL or "unchanged since line 1 of your last read" in text for text in texts
    ), texts
    return [text == FULL for text in texts]


def test_a_resumed_or_forked_session_still_holds_what_it_read(product: Product) -> None:
    model = product.script(AGAIN, AGAIN, say("ok"))
    assert shown(product.run(model, "--output", "jsonl").events) == [True, False]
    session = product.sessions[0].name
    assert shown(
        product.run(
            product.script(AGAIN, say("ok")), "--resume", session, "--output", "jsonl"
        ).events
    ) == [False]
    forked = product.call("sessions", "fork", session).out.split()[-1]
    assert shown(
        product.run(
            product.script(AGAIN, say("ok")), "--resume", forked, "--output", "jsonl"
        ).events
    ) == [False]


def test_a_page_whose_secrets_the_log_masks_is_shown_again_after_a_resume(product: Product) -> None:
    (product.workspace / "a.txt").write_text("this is a.txt\nsecond line\nhunter2hunter2\n")
    environment = product.environment | {"DATABASE_PASSWORD": "hunter2hunter2"}
    run = ("run", "go", "--sandbox", "off", "--output", "jsonl", "--model")
    product.call(*run, product.script(AGAIN, say("ok")), env=environment)
    again = product.call(
        *run, product.script(AGAIN, AGAIN, say("ok")), "--continue", env=environment
    )
    whole, told = (text_of(result) for result in results(again.events))
    assert whole.count("\n") == 2
    assert "unchanged since line 1" in told


def test_an_agent_holds_only_what_it_read_itself(product: Product) -> None:
    describe(product, "reader", product.script(AGAIN, AGAIN, say("read")), "tools: read")
    model = product.script(AGAIN, calls(agent("reader")), AGAIN, say("ok"))
    events = product.run(model, "--yes", "--output", "jsonl").events
    assert shown([event for event in events if event["agent"] == "reader.1"]) == [True, False]
    assert shown([event for event in events if event["agent"] == "main"]) == [True, False]
