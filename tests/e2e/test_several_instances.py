"""Several codeagents in one folder lose no edit of each other, and a session has one
of them at a time."""

from collections import Counter

import pytest

from tests.e2e.product import Product, bash, calls, of, results, say
from tests.effort import part, up_to

TARGET = "shared.txt"


def editing(product: Product, who: int, edits: int) -> str:
    """A model that adds a line of its own so often, each time after it has read the file."""
    return product.script(
        *(
            calls(
                (
                    "read",
                    {"path": TARGET, "limit": 1500 + number},
                ),  # the same call again and again ends a run
                (
                    "edit",
                    {
                        "path": TARGET,
                        "old_string": "the end",
                        "new_string": f"line {who}.{number}\nthe end",
                    },
                ),
            )
            for number in range(edits)
        ),
        say("done"),
    )


@pytest.mark.soak(tried=1)
@pytest.mark.parametrize("instances", part([2, 8], 1))
def test_no_edit_that_was_acknowledged_is_lost(product: Product, instances: int) -> None:
    """An edit of a file that another instance has changed since is refused, and says so."""
    (product.workspace / TARGET).write_text("the end\n")
    each = up_to(16, 500) // instances
    models = [editing(product, who, each) for who in range(instances)]
    arguments = (
        "--mode",
        "accept-edits",
        "--sandbox",
        "off",
        "--strategy",
        "sequential",
        "--max-turns",
        "1000",
    )
    processes = [product.start("run", "go", "--model", model, *arguments) for model in models]
    outputs = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0] * instances, outputs
    acknowledged = Counter[str]()
    shared = 0
    for folder in product.sessions:
        log = product.log(folder)
        shared += any(event.get("code") == "workspace.shared" for event in of(log, "notice"))
        edits = [result for result in results(log) if result["name"] == "edit"]
        assert len(edits) == each
        kept = [number for number, result in enumerate(edits) if result["error"] is None]
        refused = [result["error"]["message"] for result in edits if result["error"] is not None]
        assert all("changed" in message for message in refused), refused
        who = next(event["model"] for event in log if event["type"] == "run.started")
        acknowledged.update(f"line {models.index(who)}.{number}" for number in kept)
    *lines, last = (product.workspace / TARGET).read_text().splitlines()
    assert last == "the end" and Counter(lines) == acknowledged
    assert len(acknowledged) > each // 4
    assert shared, "at least the last to start was told of the others"


def test_of_several_that_resume_a_session_at_once_each_is_let_in_or_told_who_has_it(
    product: Product,
) -> None:
    product.run(product.script(say("begun")))
    (session,) = product.sessions
    model = product.script(calls(bash("sleep 0.2")), say("continued"))
    arguments = ("--model", model, "--resume", session.name, "--sandbox", "off", "--yes")
    processes = [product.start("run", f"prompt {number}", *arguments) for number in range(4)]
    outputs = [process.communicate(timeout=60) for process in processes]
    let_in = [number for number, process in enumerate(processes) if process.returncode == 0]
    assert let_in
    pids = {process.pid for process in processes}
    for number, (_, err) in enumerate(outputs):
        if number not in let_in:
            assert processes[number].returncode == 1
            assert any(
                f"in use by process {pid}" in err for pid in pids - {processes[number].pid}
            ), err
    log = product.log(session)
    assert len(of(log, "run.finished")) == 1 + len(let_in)
    assert [event["seq"] for event in log] == sorted({event["seq"] for event in log})
    assert product.call("sessions", "check", "--last").code == 0
