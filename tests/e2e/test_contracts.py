"""Checks of the whole product, one for each capability, through the real command."""

import json
import re
import time
from pathlib import Path

import pytest

from tests.e2e.product import Product, Turn, bash, calls, of, read, results, running, say, text_of
from tests.e2e.screens import ask, open_screen
from tests.e2e.test_screen_tour import EFFECTS, answer
from tests.fakes import put

THREE = calls(read("a.txt"), read("b.txt"), read("c.txt"))


def executed(product: Product) -> list[bool]:
    """Of each result in the order of the calls."""
    log = product.log()
    order = [event["call_id"] for event in of(log, "tool.call")]
    found = {result["call_id"]: result["executed"] for result in results(log)}
    return [found[call_id] for call_id in order]


@pytest.mark.docker
def test_f3_a_failing_command_is_an_executed_error_with_both_streams_and_its_exit_code(
    product: Product,
) -> None:
    model = product.script(calls(bash("echo out; echo err >&2; exit 3")), say("ok"))
    done = product.run_in_container(model, "--yes", "--output", "jsonl")
    [result] = results(done.events)
    assert (done.code, result["is_error"], result["executed"], result["error"]["kind"]) == (
        0,
        True,
        True,
        "failed",
    )
    assert all(word in text_of(result) for word in ("out", "err", "3"))
    assert result["sandbox"] == "docker"


def test_f4_bad_arguments_are_results_the_model_can_repair_its_call_from(product: Product) -> None:
    model = product.script(
        calls(("write", '{"content":1')), calls(("write", {"content": "x"})), say("ok")
    )
    before = sorted(product.workspace.iterdir())
    done = product.run(model, "--yes", "--output", "jsonl")
    assert done.code == 0
    assert [result["error"]["kind"] for result in results(done.events)] == [
        "invalid_args",
        "invalid_args",
    ]
    assert "Missing required argument 'path' for tool 'write'" in text_of(results(done.events)[1])
    assert sorted(product.workspace.iterdir()) == before


def test_f4_a_turn_that_was_cut_off_executes_none_of_its_calls(product: Product) -> None:
    cut = calls(("write", {"path": "x", "content": "y"}), ("write", '{"path": "z", "con')) | {
        "stop": "length"
    }
    done = product.run(product.script(cut, say("ok")), "--yes", "--output", "jsonl")
    assert executed(product) == [False] * len(results(done.events))
    assert not (product.workspace / "x").exists()


@pytest.mark.docker
def test_f5_after_kill_9_in_a_batch_in_the_container_the_session_is_sound_and_resumes(
    product: Product,
) -> None:
    alone = bash("touch began; sleep 30.25")
    model = product.script(calls(read("a.txt"), alone, read("b.txt")), say("never"))
    process = product.start("run", "go", "--model", model, "--yes")
    product.wait_for(lambda log: any(event["name"] == "bash" for event in of(log, "tool.started")))
    process.kill()
    process.wait()
    assert product.call("sessions", "check", "--last").code == 0
    resumed = product.run_in_container(
        product.script(say("Going on.")), "--resume", product.sessions[0].name
    )
    assert (resumed.code, resumed.out) == (0, "Going on.\n")
    texts = [text_of(result) for result in results(product.log())]
    assert "this is a.txt" in texts[0] and texts[2] == "cancelled: session ended"
    assert product.call("sessions", "check", "--last").code == 0


def test_f8_two_edits_of_one_file_in_one_turn_are_both_applied(product: Product) -> None:
    edits = calls(
        ("edit", {"path": "a.txt", "old_string": "this", "new_string": "that"}),
        ("edit", {"path": "a.txt", "old_string": "second", "new_string": "2nd"}),
    )
    done = product.run(product.script(calls(read("a.txt")), edits, say("ok")), "--yes")
    assert done.code == 0
    assert (product.workspace / "a.txt").read_text() == "that is a.txt\n2nd line\n"


def test_f8_a_batch_of_none_is_a_configuration_error(product: Product) -> None:
    done = product.run("demo", "--strategy", "batched:0")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("sequential", [True, False, False]),
        ("batched:2", [True, True, False]),
        ("parallel", [True, True, True]),
    ],
)
def test_f9_an_interrupt_skips_what_lies_behind_the_next_boundary(
    product: Product, strategy: str, expected: list[bool]
) -> None:
    model = product.script(THREE, say("Stopped.", expect="stop$"))
    done = product.run(model, "--strategy", strategy, "--inject", "interrupt@tool:1=stop")
    assert (done.code, done.out) == (0, "Stopped.\n")
    assert executed(product) == expected
    skipped = [result for result in results(product.log()) if not result["executed"]]
    assert all(
        result["error"]["kind"] == "skipped" and "stop" in text_of(result) for result in skipped
    )


@pytest.mark.parametrize("strategy", ["sequential", "batched:2", "parallel"])
def test_f9_steering_skips_nothing_and_still_arrives(product: Product, strategy: str) -> None:
    model = product.script(THREE, say("Read.", expect="look here$"))
    done = product.run(model, "--strategy", strategy, "--inject", "steer@tool:1=look here")
    assert (done.code, done.out) == (0, "Read.\n")
    assert executed(product) == [True, True, True]


def test_f9_a_follow_up_waits_until_the_agent_would_stop(product: Product) -> None:
    model = product.script(THREE, say("One."), say("Two.", expect="^and then$"))
    done = product.run(model, "--inject", "follow-up@turn:1=and then")
    assert (done.code, done.out) == (0, "One.\n\nTwo.\n")


@pytest.mark.parametrize(("where", "ran"), [("batch:1", 0), ("tool:1", 1), ("turn:2", 3)])
def test_f9_an_abort_stops_now_and_answers_every_call(
    product: Product, where: str, ran: int
) -> None:
    model = product.script(THREE, say("never"))
    done = product.run(
        model, "--strategy", "sequential", "--inject", f"abort@{where}", "--output", "jsonl"
    )
    assert done.code == 130
    assert len(of(done.events, "tool.started")) == ran
    assert len(results(done.events)) == 3
    assert done.events[-1]["reason"] == "interrupted"
    assert product.call("sessions", "check").code == 0


@pytest.mark.docker
def test_f10_a_call_over_its_time_is_stopped_with_all_it_started(product: Product) -> None:
    mark = f"300.{int(time.time())}"
    command = f"(trap '' TERM; sleep {mark}) & echo a; sleep {mark}"
    look = "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 300[.]' ; echo looked"
    model = product.script(calls(bash(command)), calls(bash(look)), say("ok"))
    done = product.run_in_container(model, "--yes", "--timeout-per-call", "1", "--output", "jsonl")
    first, second = results(done.events)
    assert (first["error"]["kind"], first["executed"]) == ("timeout", True)
    assert first["duration_ms"] < 5000
    assert re.search(r"^a$", text_of(first), re.MULTILINE)
    assert not any(
        mark.encode() in command and command.startswith(b"sleep") for command in running()
    )
    assert text_of(second).split()[:2] == ["0", "looked"], text_of(second)


@pytest.mark.docker
def test_f10_an_abort_in_mid_command_leaves_nothing_running(product: Product) -> None:
    mark = f"600.{int(time.time())}"
    model = product.script(
        calls(bash(f"sleep {mark} & setsid sleep {mark} & echo on; sleep {mark}")), say("never")
    )
    process = product.start("run", "go", "--model", model, "--yes")
    product.wait_for(lambda _: sum(line == f"sleep\0{mark}\0".encode() for line in running()) == 3)
    process.terminate()
    assert process.wait(20) == 143
    assert not any(mark.encode() in command and b"sleep" in command for command in running())
    assert results(product.log())[0]["error"]["kind"] == "cancelled"


@pytest.mark.docker
def test_f13_a_compound_command_runs_only_where_every_part_is_allowed(product: Product) -> None:
    put(product.home, "config/codeagent/config.toml", '[sandbox]\napproval = "text"\n')
    model = product.script(calls(bash("git status; touch PWNED")), say("No."))
    done = product.run_in_container(model, "--allow", "bash(git status*)", "--output", "jsonl")
    [result] = results(done.events)
    assert done.code == 4
    assert (result["error"]["kind"], result["executed"]) == ("denied", False)
    assert of(done.events, "approval.resolved")[0]["answer"] == "deny"
    assert not (product.workspace / "PWNED").exists()


def test_f29_a_long_result_is_cut_and_the_rest_is_one_call_away(product: Product) -> None:
    line = "x" * 60
    model = product.script(
        calls(bash(f"for i in $(seq 1 3000); do echo $i {line}; done")), say("ok")
    )
    product.run(model, "--yes")
    cut = text_of(results(product.log())[0])
    handle = re.search(r'output_read\(id="([^"]+)"', cut)
    assert handle is not None and len(cut) < 60_000
    more = calls(("output_read", {"id": handle[1], "offset": 1500, "lines": 2}))
    product.run(product.script(more, say("ok")), "--resume", product.sessions[0].name)
    assert f"1500 {line}\n1501 {line}" in text_of(results(product.log())[-1])


def test_f33_stats_add_up_what_the_log_holds(product: Product) -> None:
    product.run(
        product.script(calls(read("a.txt"), read("no.txt"), bash("true")), say("ok")), "--yes"
    )
    stats = json.loads(product.call("stats", "--json").out)
    log = product.log()
    assert (stats["total_calls"], stats["successful"], stats["failed"]) == (3, 2, 1)
    assert stats["total_duration_ms"] == sum(result["duration_ms"] for result in results(log))
    assert stats["tools"]["read"]["calls"] == 2
    assert stats["usage"]["input_tokens"] == log[-1]["usage"]["input_tokens"]


def test_f33_every_call_is_in_the_log_with_who_allowed_it_and_where_it_ran(
    product: Product,
) -> None:
    product.run(product.script(calls(read("a.txt"), bash("exit 3")), say("ok")), "--yes")
    by_name = {result["name"]: result for result in results(product.log())}
    assert (by_name["read"]["approval"], by_name["read"]["sandbox"]) == ("auto", None)
    assert (by_name["bash"]["approval"], by_name["bash"]["sandbox"]) == ("flag", "host")
    assert [started["arguments"] for started in of(product.log(), "tool.started")] == [
        {"path": "a.txt"},
        {"command": "exit 3"},
    ]


def test_f36_sessions_are_listed_shown_and_checked(product: Product) -> None:
    product.run(product.script(calls(read("a.txt")), say("Fine.")), prompt="look at a")
    session = product.sessions[0].name
    [summary] = json.loads(product.call("sessions", "list", "--json").out)
    assert (summary["id"], summary["prompt"], summary["workspace"]) == (
        session,
        "look at a",
        str(product.workspace),
    )
    assert session in product.call("sessions", "list").out
    shown = product.call("sessions", "show", session).out
    assert all(text in shown for text in ("prompt> look at a", "● read a.txt", "Fine.", "done"))
    assert [
        json.loads(line) for line in product.call("sessions", "show", "--json").out.splitlines()
    ] == product.log()
    assert product.call("sessions", "check", session[:-2]).code == 0


def test_f36_a_damaged_session_is_reported_line_by_line_and_the_rest_still_resumes(
    product: Product,
) -> None:
    product.run(product.script(calls(read("a.txt")), say("Fine.")))
    path = product.sessions[0] / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:-1], b"\0" * 100 + b"\n", lines[-1]]))
    checked = product.call("sessions", "check")
    assert checked.code == 1
    assert f"problem: line {len(lines)}: a run of NUL bytes, left out\n" in checked.out
    resumed = product.run(product.script(say("Still here.")), "--resume", product.sessions[0].name)
    assert (resumed.code, resumed.out) == (0, "Still here.\n")


def test_without_an_engine_bash_is_absent_and_the_other_tools_work(product: Product) -> None:
    model = product.script(calls(read("a.txt"), bash("true")), say("ok"))
    env = product.environment | {"DOCKER_HOST": f"unix://{product.home}/no.sock"}
    done = product.call("run", "go", "--model", model, "--yes", "--output", "jsonl", env=env)
    by_name = {result["name"]: result for result in results(done.events)}
    assert by_name["read"]["error"] is None
    assert by_name["bash"]["error"] == {
        "kind": "unavailable",
        "message": "no sandbox is available, so bash is disabled; nothing was run",
    }
    [notice] = of(done.events, "notice")
    assert notice["code"] == "sandbox.unavailable" and "bash is disabled" in notice["text"]
    assert of(product.log(), "notice") == [notice]


@pytest.mark.parametrize(
    ("turns", "code"),
    [
        ([calls(bash("make test")), say("All tests pass.")], 4),
        ([calls(bash("make test")), calls(read("a.txt")), say("All tests pass.")], 4),
        ([calls(read("a.txt")), say("Read it.")], 0),
        (
            [
                calls(bash("touch b")),
                calls(("write", {"path": "b", "content": ""})),
                say("Made it otherwise."),
            ],
            0,
        ),
    ],
)
def test_a_run_whose_command_had_no_engine_ends_with_4_unless_the_model_did_it_another_way(
    product: Product, turns: list[Turn], code: int
) -> None:
    env = product.environment | {"DOCKER_HOST": f"unix://{product.home}/no.sock"}
    assert (
        product.call("run", "go", "--model", product.script(*turns), "--yes", env=env).code == code
    )


@pytest.mark.docker
def test_the_demo_reads_searches_fails_edits_and_passes_and_the_repository_is_fixed(
    product: Product,
) -> None:
    done = product.call_apart("demo", "--headless", "--output", "jsonl")
    assert done.code == 0, done.err
    ran = [
        (result["name"], result["error"] and result["error"]["kind"])
        for result in results(done.events)
    ]
    assert {("read", None), ("search", None), ("edit", None)} <= set(ran)
    commands = [result for result in results(done.events) if result["name"] == "bash"]
    assert [result["is_error"] for result in commands] == [True, False, False]
    assert all(result["sandbox"] == "docker" for result in commands)
    assert [event["name"] for event in of(done.events, "approval.requested")] == ["edit", "effects"]
    repository = Path(of(done.events, "run.started")[0]["workspace"])
    fixed = product.call_in(repository, "python3", "-m", "unittest")
    assert fixed.code == 0, fixed.err
    assert "def is_leap" in product.call_in(repository, "git", "diff").out


def test_the_demo_does_not_pretend_where_there_is_no_sandbox(product: Product) -> None:
    env = product.environment | {"DOCKER_HOST": f"unix://{product.home}/no.sock"}
    done = product.call_apart("demo", "--headless", env=env)
    assert (done.code, done.out) == (1, "")
    assert "no sandbox, so bash is disabled: " in done.err
    assert done.err.splitlines()[-1].startswith("codeagent: nothing was run: it needs a sandbox")


@pytest.mark.docker
def test_f40_what_a_command_did_is_denied_with_a_list_and_leaves_no_trace(product: Product) -> None:
    f = product.workspace / "f"
    f.write_text("a\n")
    before = _bytes_and_inode(f)
    with open_screen(
        product,
        "--model",
        product.script(calls(bash("sed -i s/a/b/ f; echo done; exit 3")), say("Not taken.")),
        sandbox="docker",
    ) as screen:
        ask(screen)
        answer(screen, "n", EFFECTS)
        screen.wait_for("Not taken.")
        screen.send("ctrl+d")
        assert screen.exit_code() == 0
    assert _bytes_and_inode(f) == before
    log = product.log()
    [result] = results(log)
    assert (result["error"]["kind"], result["executed"]) == ("denied", True)
    assert [part in text_of(result) for part in ("done", "exit code 3", "M f")] == [True] * 3
    [asked] = of(log, "approval.requested")
    [found] = of(log, "effects.found")
    assert asked["call_id"] == found["call_id"] == result["call_id"]


def _bytes_and_inode(path: Path) -> tuple[object, ...]:
    found = path.stat()
    return path.read_bytes(), found.st_mode, found.st_ino, found.st_mtime_ns, found.st_ctime_ns


@pytest.mark.docker
@pytest.mark.parametrize(
    ("arguments", "command", "code", "kind"),
    [
        ((), "git status; touch src/PWNED", 4, "denied"),
        (("--allow", "bash(git status*)"), "git status; touch src/PWNED", 4, "denied"),
        (("--allow", "effects(lib/**)"), "touch lib/x src/PWNED", 4, "denied"),
        (("--allow", "effects(src/**)"), "git status; touch src/x", 0, None),
        (("--yes",), "git status; touch src/x", 0, None),
        (("--mode", "plan"), "touch src/PWNED", 0, None),
        ((), "python3 -c 'print(1)' > /tmp/x; cat /tmp/x", 0, None),
    ],
)
def test_f40_without_a_user_effects_are_thrown_away_unless_a_rule_takes_them(
    product: Product, arguments: tuple[str, ...], command: str, code: int, kind: str | None
) -> None:
    for folder in ("src", "lib"):
        put(product.workspace, f"{folder}/kept", "")
    model = product.script(calls(bash(command)), say("Ready."))
    done = product.run_in_container(model, *arguments, "--output", "jsonl")
    [result] = results(done.events)
    assert (done.code, result["error"] and result["error"]["kind"]) == (code, kind), done.err
    assert result["executed"] is True
    there = {str(each.relative_to(product.workspace)) for each in product.workspace.glob("*/*")}
    assert there - {"src/kept", "lib/kept"} == ({"src/x"} if "src/x" in command else set())
    if "PWNED" in command:
        assert "A src/PWNED" in text_of(result)


@pytest.mark.docker
def test_f40_with_a_yes_to_everything_a_command_runs_where_its_changes_stay(
    product: Product,
) -> None:
    model = product.script(calls(bash("touch came; sleep 613")), say("Ready."))
    arguments = ("--yes", "--timeout-per-call", "1", "--output", "jsonl")
    done = product.run_in_container(model, *arguments)
    assert results(done.events)[0]["error"]["kind"] == "timeout"
    assert (product.workspace / "came").exists()


def test_f44_the_kernel_alone_plays_the_demo(product: Product) -> None:
    done = product.call("--safe", "demo", "--headless", "--sandbox", "off")
    assert done.code == 0, done.err
    assert "done" in done.err


def test_f34_without_a_user_a_question_is_denied_and_the_run_goes_on(product: Product) -> None:
    question = ("ask_user", {"question": "Which one?", "options": ["a", "b"]})
    done = product.run(product.script(calls(question), say("Then a.")), "--output", "jsonl")
    [result] = results(done.events)
    assert (done.code, result["error"]) == (0, {"kind": "denied", "message": "no user"})
