"""Reads that begin while their answer is still coming, through the real command line."""

import pytest

from tests.e2e.product import Event, Product, calls, say
from tests.fakes import put


def asked(events: list[Event]) -> list[Event]:
    """Return the events from the first call to the message that holds it."""
    first = next(at for at, event in enumerate(events) if event["type"] == "tool.call")
    last = next(at for at, event in enumerate(events) if event["type"] == "message.added" and at > first)
    return events[first:last]


@pytest.mark.parametrize("config", ["", "early_reads = false\n"])
def test_reads_begin_before_their_answer_is_complete_unless_the_settings_say_otherwise(
    product: Product, config: str
) -> None:
    put(product.home, "config/codeagent/config.toml", config)
    put(product.workspace, "a.txt", "one\n")
    looks = ("read", {"path": "a.txt"}), ("search", {"pattern": "one"})
    slow = calls(*looks, ("write", {"path": "b.txt", "content": "one\n"}), ("list", {})) | {"delay_ms": 30}
    done = product.run(product.script(slow, say("done", expect="(?s)1\tone.*a.txt.*b.txt")), "--mode", "accept-edits")
    assert (done.code, done.out) == (0, "done\n")
    begun = [event["name"] for event in asked(product.log()) if event["type"] == "tool.started"]
    assert begun == ([] if config else ["read", "search"])
