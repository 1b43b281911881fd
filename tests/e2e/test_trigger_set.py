"""Triggers through the product: asked about, logged, and waited for by a run only if it is told
to."""

import asyncio
import time

import pytest

from codeagent.extensions.triggers.triggers import Clock
from tests.e2e.product import Product, bash, calls, of, results, say
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
        in product.run(
            product.script(calls(TIMER), say("set"), say("looked")), "--yes", "--wait-for-triggers"
        ).err
    )
    notes = [
        event["message"]
        for event in of(done.events, "message.added")
        if event["message"].get("source") == "note"
    ]
    assert notes[0]["content"][0]["text"].startswith(
        "(trigger-1 fired, 1 of 1, the last time:\n> timer once.\n"
    )


def test_a_trigger_of_an_earlier_run_is_still_set_in_the_next_one(product: Product) -> None:
    offered(product)
    timer = ("add_timer", {"prompt": "look at the build", "seconds": 3000})
    product.run(product.script(calls(timer), say("set")), "--yes")
    model = product.script(
        calls(("trigger_list", {})), calls(("trigger_stop", {"id": "trigger-1"})), say("done")
    )
    again = product.run(model, "--continue", "--output", "jsonl")
    listed, stopped = results(again.events)
    assert "trigger-1, timer once, fired 0 of 1, next at" in listed["content"][0]["text"]
    assert stopped["error"] is None
    assert [event["by"] for event in of(again.events, "trigger.stopped")] == ["agent"]


class _QuickClock(Clock):
    """Goes a thousand times as fast, in the second run, too."""

    _begun = time.time()

    def now(self) -> float:
        return self._begun + (time.time() - self._begun) * 1000

    def steady(self) -> float:
        return self.now()

    async def wait(self, seconds: float, event: asyncio.Event) -> None:
        await super().wait(seconds / 1000, event)


def test_a_timer_fires_twice_survives_a_restart_once_and_never_fires_inside_a_turn(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codeagent.extensions.triggers.triggers.Clock", _QuickClock)
    offered(product)
    timer = (
        "add_timer",
        {"prompt": "look at the build", "seconds": 20, "repeat": True, "max_count": 2},
    )
    busy = bash("sleep 0.1")  # longer than the timer takes twice
    wait = ("--yes", "--wait-for-triggers", "--output", "jsonl")
    first = product.run(
        product.script(calls(timer), calls(busy), say("set"), say("x")), *wait, "--max-turns", "3"
    )
    assert (
        first.code,
        [event["trigger"]["fired"] for event in of(first.events, "trigger.fired")],
    ) == (3, [1])
    looked = say("looked", expect="look at the build")
    again = product.run(product.script(calls(busy), say("so"), looked), *wait, "--continue")
    assert again.code == 0, again.err
    assert [event["trigger"]["fired"] for event in of(again.events, "trigger.fired")] == [2]
    log = product.log()
    notes = [
        event["message"]
        for event in of(log, "message.added")
        if event["message"].get("source") == "note"
    ]
    assert [note["content"][0]["text"].partition(":")[0] for note in notes] == [
        "(trigger-1 fired, 1 of 2",
        "(trigger-1 fired, 2 of 2, the last time",
    ]
    inside = False
    for event in log:
        inside = event["type"] == "turn.started" or (inside and event["type"] != "turn.finished")
        assert not (inside and event["type"] == "trigger.fired")
