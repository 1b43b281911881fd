"""Triggers through the product: asked about, logged, and waited for by a run only if it is told to."""

from tests.e2e.product import Product, calls, of, results, say
from tests.fakes import put

TIMER = ("add_timer", {"prompt": "look at the build", "seconds": 0.01})


def offered(product: Product) -> None:
    put(product.home, "config/codeagent/config.toml", '[toolsets]\nuse = ["triggers"]\n')


def test_a_trigger_is_asked_about_and_a_run_does_not_wait_for_one(product: Product) -> None:
    offered(product)
    late = ("add_timer", {"prompt": "p", "seconds": 3000})
    model = product.script(calls(TIMER), calls(late), say("done"))
    done = product.run(model, "--output", "jsonl", "--allow", "add_timer(in 3000 s)")
    refused, allowed = results(done.events)
    assert (refused["error"]["kind"], allowed["error"]) == ("denied", None)
    assert [event["trigger"]["when"] for event in of(done.events, "trigger.added")] == ["once"]
    assert of(done.events, "trigger.fired") == []


def test_a_run_waits_for_triggers_if_it_is_told_to(product: Product) -> None:
    offered(product)
    model = product.script(calls(TIMER), say("set"), say("looked", expect="look at the build"))
    done = product.run(model, "--yes", "--wait-for-triggers", "--output", "jsonl")
    assert [event["trigger"]["fired"] for event in of(done.events, "trigger.fired")] == [1]
    assert of(done.events, "run.finished")[0]["text"] == "looked"
    assert (
        "trigger-1 fired: timer once: look at the build"
        in product.run(product.script(calls(TIMER), say("set"), say("looked")), "--yes", "--wait-for-triggers").err
    )
    notes = [event["message"] for event in of(done.events, "message.added") if event["message"].get("source") == "note"]
    assert notes[0]["content"][0]["text"].startswith("(trigger-1 fired, 1 of 1, the last time: timer once.")


def test_a_trigger_of_an_earlier_run_is_still_set_in_the_next_one(product: Product) -> None:
    offered(product)
    timer = ("add_timer", {"prompt": "look at the build", "seconds": 3000})
    product.run(product.script(calls(timer), say("set")), "--yes")
    model = product.script(calls(("trigger_list", {})), calls(("trigger_stop", {"id": "trigger-1"})), say("done"))
    again = product.run(model, "--continue", "--output", "jsonl")
    listed, stopped = results(again.events)
    assert "trigger-1, timer once, fired 0 of 1, next at" in listed["content"][0]["text"]
    assert stopped["error"] is None
    assert [event["by"] for event in of(again.events, "trigger.stopped")] == ["agent"]
