"""Through the real command line: what a run may use up, and what its log says about
every call."""

import json
import os
import re
import time

import pytest

from tests.e2e.product import Product, bash, calls, of, read, results, say
from tests.effort import part

HARD = "canary\"pass\\word/ünd 'more'"
"""A secret that JSON, JSON within JSON and a shell each write in another way."""


@pytest.fixture
def busy(product: Product) -> str:
    """A model that goes on and on."""
    return product.script(
        *[calls(bash(f"sleep 0.2; echo {number}")) for number in range(50)], say("done")
    )


@pytest.mark.parametrize(
    ("flags", "limit"),
    [(("--max-seconds", "0.9"), "max_seconds"), (("--max-tokens", "40"), "max_tokens")],
)
def test_f32_a_limit_ends_the_run_with_exit_3_and_every_call_answered(
    product: Product, busy: str, flags: tuple[str, ...], limit: str
) -> None:
    done = product.run(busy, "--yes", "--output", "jsonl", *flags)
    assert done.code == 3
    assert [event["limit"] for event in of(done.events, "limit.reached")] == [limit]
    assert of(done.events, "run.finished")[0]["reason"] == "limit"
    asked = {event["call_id"] for event in of(done.events, "tool.call")}
    assert {event["call_id"] for event in results(done.events)} == asked
    assert product.call("sessions", "check").code == 0


def test_f32_time_that_is_up_stops_a_command_with_all_it_started(product: Product) -> None:
    mark = f"sleep 8{os.getpid()}"
    started = time.monotonic()
    done = product.run(
        product.script(calls(bash(f"{mark} & {mark}")), say("ok")), "--yes", "--max-seconds", "1"
    )
    assert (done.code, time.monotonic() - started < 60) == (3, True)
    (result,) = results(product.log())
    assert (result["error"]["kind"], result["executed"]) == ("cancelled", True)
    assert "the limit max_seconds = 1 is reached" in result["error"]["message"]
    model = product.script(say("and on"))
    assert product.run(model, "--resume", product.sessions[0].name).code == 0


def test_f32_calls_wait_for_each_other_where_only_one_may_run(product: Product) -> None:
    model = product.script(calls(*(read(name) for name in ("a.txt", "b.txt", "c.txt"))), say("ok"))
    done = product.run(model, "--max-concurrency", "1", "--output", "jsonl")
    kinds = [
        event["type"] for event in done.events if event["type"] in ("tool.started", "tool.finished")
    ]
    assert (done.code, kinds) == (0, ["tool.started", "tool.finished"] * 3)


def test_f32_limits_may_stand_in_the_users_file_and_a_project_lowers_them(
    product: Product, busy: str
) -> None:
    config = product.home / "config/codeagent/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[limits]\nmax_tokens = 1000000\nmax_seconds = 600\nmax_concurrency = 2\n")
    (product.workspace / ".codeagent").mkdir()
    (product.workspace / ".codeagent/config.toml").write_text("[limits]\nmax_tokens = 40\n")
    done = product.run(busy, "--yes", "--output", "jsonl")
    assert (done.code, of(done.events, "limit.reached")[0]["limit"]) == (3, "max_tokens")


@pytest.mark.parametrize("flag", ["--max-tokens", "--max-seconds", "--max-concurrency"])
@pytest.mark.parametrize("value", ["0", "-1", "many"])
def test_f32_a_limit_of_nothing_is_a_usage_error(product: Product, flag: str, value: str) -> None:
    assert product.run(product.script(say("x")), flag, value).code == 2


def test_f33_each_call_is_one_row_with_all_that_is_asked_about_it(product: Product) -> None:
    model = product.script(calls(read("a.txt"), bash("exit 3"), read("nope.txt")), say("ok"))
    product.run(model, "--allow", "bash(exit 3)")
    rows = [
        json.loads(line)
        for line in product.call("sessions", "show", "--calls", "--json").out.splitlines()
    ]
    facts = [
        (row["tool"], row["approval"], row["sandbox"], row["exit"], row["error"], row["executed"])
        for row in rows
    ]
    assert facts == [
        ("read", "auto", None, None, None, True),
        ("bash", "rule", "host", 3, "failed", True),
        ("read", "auto", None, None, "not_found", True),
    ]
    assert [json.loads(row["arguments"]) for row in rows][1] == {"command": "exit 3"}
    assert rows[1]["rule"] == "bash(exit 3)" and all(row["id"] and row["answered"] for row in rows)
    shown = product.call("sessions", "show", "--calls").out
    assert (
        "by rule bash(exit 3), host, exit 3, failed" in shown and '{"command": "exit 3"}' in shown
    )


def test_the_stats_of_a_tool_that_was_called_once_say_call(product: Product) -> None:
    product.run(product.script(calls(read("a.txt")), say("ok")))
    assert re.search(r"^  read +1 call  +\d failed", product.call("stats").out, re.M)


def test_f33_stats_of_one_folder_and_of_all_sessions_are_sums(product: Product) -> None:
    other = Product(product.workspace / "sub", product.home)
    other.workspace.mkdir()
    for place in (product, product, other):
        place.run(place.script(calls(read("a.txt"), read("none.txt")), say("ok")))
    one = json.loads(product.call("stats", "--json").out)
    here = json.loads(product.call("stats", "--here", "--json").out)
    everything = json.loads(product.call("stats", "--all", "--json").out)
    assert [stats["total_calls"] for stats in (one, here, everything)] == [2, 4, 6]
    assert (here["tools"]["read"]["calls"], here["approvals"], here["turns"]) == (4, {"auto": 4}, 4)
    results_of_all = [
        json.loads(line)
        for folder in product.sessions
        for line in (folder / "events.jsonl").read_text().splitlines()
        if '"tool.result"' in line
    ]
    assert everything["total_duration_ms"] == sum(
        result["duration_ms"] for result in results_of_all
    )
    assert product.call("stats", "--all").out.startswith("session   3 sessions\ncalls     6 (")
    assert product.call("stats", "--all", "--here").code == 2


@pytest.mark.soak(tried=20)
def test_t34_a_secret_is_in_no_file_and_no_output_however_it_was_spelled(product: Product) -> None:
    """In arguments as JSON and as broken JSON, in output, in an error, in a file name and in what
    the model says."""
    quoted = "'" + HARD.replace("'", "'\\''") + "'"
    spelled = (
        bash(f"echo {quoted}; echo {quoted} >&2; exit 3"),
        bash('printf %s "$MY_TOKEN"'),
        (
            "write",
            {"path": "x.txt", "content": "".join(f"{number} {HARD}\n" for number in range(2000))},
        ),
        ("bash", json.dumps({"command": 7, "why": HARD})),
        ("bash", '{"command": ' + json.dumps(HARD)),
        bash("cat <<'E'\n" + json.dumps({"password": HARD}) + "\nE"),
        *(bash(f"true {'-' * number} {quoted}") for number in part(range(20, 160, 7), 6)),
        ("scratchpad", {"action": "set", "key": "k", "value": HARD}),
        ("ask_user", {"question": HARD}),
        bash('for i in $(seq 1 4000); do echo "$i $MY_TOKEN"; done'),
    )
    model = product.script(calls(*spelled), {"text": HARD, "reasoning": HARD})
    environment = product.environment | {"MY_TOKEN": HARD}
    arguments = ("run", f"use {HARD}", "--model", model, "--sandbox", "off", "--yes")
    done = [
        product.call(*arguments, "--output", output, env=environment)
        for output in ("text", "json", "jsonl")
    ]
    assert len(results(product.log())) == len(spelled)
    printed = [one.out + one.err for one in done]
    printed += [
        product.call(*again, env=environment).out
        for again in (("stats",), ("sessions", "show", "--calls"))
    ]
    files = [path for path in (product.home / "state").rglob("*") if path.is_file()]
    assert files and "scratchpad.json" in {path.name for path in files}
    assert not [path for path in files if b"canary" in path.read_bytes()]
    assert not [text for text in printed if "canary" in text]
