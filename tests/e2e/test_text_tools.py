"""A model that only speaks text fixes a bug through the real command line, as one with native calls
does."""

import json

import pytest

from codeagent.core.messages import ToolCall
from codeagent.extensions.text_calls.formats import HERMES, JSON, TextProtocol
from tests.e2e.product import (
    Done,
    Event,
    Product,
    Turn,
    bash,
    calls,
    of,
    read,
    results,
    say,
    text_of,
)

EDIT = ("edit", {"path": "sums.py", "old_string": "a - b", "new_string": "a + b"})
CHECK = 'python3 -B -c "import sums; assert sums.add(2, 3) == 5; print(40 + 2)"'
STEPS = (
    calls(bash(CHECK), text="I look what fails."),
    calls(read("sums.py"), read("nope.py"), text="Two files."),
    calls(EDIT),
    calls(bash(CHECK)),
    say("It is fixed.", expect="42"),
)
SETTINGS = """
[[text_tools.models]]
model = "script:*"
protocol = "hermes"
"""


@pytest.fixture
def bug(product: Product) -> Product:
    (product.workspace / "sums.py").write_text("def add(a, b):\n    return a - b\n")
    return product


def settle(product: Product) -> None:
    """The user's settings from here on."""
    folder = product.home / "config" / "codeagent"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(SETTINGS)


def as_text(turn: Turn, protocol: TextProtocol) -> Turn:
    made = [
        ToolCall(id="-", name=name, arguments=json.dumps(arguments))
        for name, arguments in turn.get("calls", ())
    ]
    blocks = [protocol.render_call(call) for call in made]
    kept = {key: value for key, value in turn.items() if key != "calls"}
    return {**kept, "text": "\n".join([turn["text"], *blocks] if turn["text"] else blocks)}


def outline(events: list[Event]) -> list[tuple[str, object]]:
    """What happened, without ids, times and pieces, and without checkpoints, which come when they
    are done."""
    return [
        (event["type"], event.get("name") or event.get("decision") or event.get("reason"))
        for event in events
        if event["type"]
        not in ("text.delta", "tool.updated", "tool.progress", "checkpoint.created")
    ]


def fixed(product: Product, *turns: Turn) -> Done:
    done = product.run(product.script(*turns), "--yes", "--output", "jsonl")
    assert (done.code, done.err.count("Traceback")) == (0, 0), done.out[-1500:]
    assert (product.workspace / "sums.py").read_text() == "def add(a, b):\n    return a + b\n"
    return done


def test_the_events_of_a_model_that_speaks_hermes_are_those_of_native_calls(bug: Product) -> None:
    native = fixed(bug, *STEPS)
    (bug.workspace / "sums.py").write_text("def add(a, b):\n    return a - b\n")
    settle(bug)
    text = fixed(bug, *(as_text(turn, HERMES) for turn in STEPS))
    assert [result["name"] for result in results(text.events)] == [
        "bash",
        "read",
        "read",
        "edit",
        "bash",
    ]
    assert [result["error"] is not None for result in results(text.events)] == [
        True,
        False,
        True,
        False,
        False,
    ]
    assert "tool_call" not in "".join(delta["text"] for delta in of(text.events, "text.delta"))
    assert outline(text.events) == outline(native.events)
    assert [text_of(one).split("\n")[0] for one in results(text.events)] == [
        text_of(one).split("\n")[0] for one in results(native.events)
    ]


def test_a_refusal_of_native_tools_is_said_and_the_run_goes_on_as_text(bug: Product) -> None:
    refused = {"error": {"status": 400, "message": "gemma does not support tools"}}
    done = fixed(bug, refused, *(as_text(turn, JSON) for turn in STEPS))
    [notice] = [event for event in of(done.events, "notice") if event["code"] == "model.retry"]
    assert (
        "gemma does not support tools; tools are written as text from here on (json)"
        in notice["text"]
    )
    assert len(results(done.events)) == 5


def test_a_block_that_is_cut_off_never_runs_and_the_model_repairs_it(bug: Product) -> None:
    settle(bug)
    whole = as_text(calls(EDIT), HERMES)
    cut = {"text": whole["text"].removesuffix("\n</tool_call>")}
    seen = as_text(calls(read("sums.py")), HERMES)
    done = fixed(bug, seen, cut, {**whole, "expect": "never closed"}, say("Done."))
    _, first, second = results(done.events)
    assert first["error"]["kind"] == "invalid_args" and not first["executed"]
    assert second["error"] is None
