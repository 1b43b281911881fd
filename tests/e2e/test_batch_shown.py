"""What a batch shows a user: the live table, the lines in a pipe, the plan, the comparison and the
demo."""

import json
import re
import sys
from pathlib import Path

from tests.e2e.product import bash, calls, say
from tests.e2e.test_batch import SLOW, Batch, batch
from tests.pty_screen import PtyScreen

__all__ = ["batch"]


def on_terminal(batch: Batch, *words: str) -> PtyScreen:
    root = str(Path(__file__).parents[2])
    return PtyScreen(
        [sys.executable, "-m", "codeagent", *words],
        env=batch.product.environment | {"PYTHONPATH": root},
        cwd=batch.product.workspace,
        size=(80, 24),
    )


def test_a_terminal_shows_the_running_tasks_and_another_can_watch_them(batch: Batch) -> None:
    batch.write(batch.task(0, *SLOW, name="[/a] slow :x: one"))
    with on_terminal(batch, *batch.words, "--sandbox", "off") as screen:
        screen.wait_for("1 running in")
        with on_terminal(batch, "batch", "watch", str(batch.results)) as watching:
            watching.wait_for("turn 1")
            batch.go()
            assert "[/a] slow :x: one" in watching.text()
            watching.wait_for("no batch is running there")
            assert "done        [/a] slow :x: one" in watching.text()
            assert "\\x1b" not in watching.text()
            assert watching.exit_code() == 0
        assert screen.exit_code() == 0
        assert "\\x1b" not in screen.text()
        assert "running in" not in screen.text()


def test_a_pipe_gets_a_line_for_each_task_that_ends(batch: Batch) -> None:
    batch.write(batch.task(0, name="first"), batch.task(1, name="second", check="false"))
    lines = sorted(batch.run().out.splitlines())
    assert [line.split()[:2] for line in lines] == [["done", "first"], ["failed", "second"]]
    assert lines[1].endswith(": the check ended with exit code 1")
    assert "failed: the check ended" in (batch.results / "summary.md").read_text()


def test_the_results_of_a_folder_of_tasks_are_next_to_it(batch: Batch) -> None:
    batch.write(batch.task(0))
    (folder := batch.product.home / "many").mkdir()
    (batch.product.home / "tasks.jsonl").rename(folder / "a.jsonl")
    words = (sys.executable, "-m", "codeagent", "batch", "run", ".", "--sandbox", "off")
    environment = batch.product.environment | {"PYTHONPATH": str(Path(__file__).parents[2])}
    given = [f"{name}={value}" for name, value in environment.items()]
    assert batch.product.call_in(folder, "env", *given, *words).code == 0
    assert (batch.product.home / "many-results/index.html").exists()


def test_the_summary_is_about_all_tasks_whichever_were_chosen(batch: Batch) -> None:
    batch.write(batch.task(0, name="first"), batch.task(1, name="second"))
    for name in ("second", "first"):
        assert batch.run("--only", name).code == 0
    summary = (batch.results / "summary.md").read_text()
    assert "# 2 of 2 tasks passed" in summary
    assert summary.index("[first]") < summary.index("[second]")


def test_a_folder_without_results_is_an_error(batch: Batch) -> None:
    nowhere = str(batch.product.home / "one")
    for words in (
        ("watch",),
        ("compare", nowhere),
        ("export",),
        ("plan", batch.words[2], "--like"),
    ):
        batch.write(batch.task(0))
        done = batch.product.call("batch", *words, nowhere)
        assert (done.code, "does not contain the results of a batch" in done.err) == (2, True)


def test_a_wrong_setting_is_reported_before_anything_is_run(batch: Batch) -> None:
    batch.write(batch.task(0, settings={"sandbx": {}}))
    assert "tasks.jsonl:1: sandbx: no such setting; did you mean sandbox?" in batch.run().err
    batch.write(batch.task(0))
    assert "not a rule: 'bash('" in batch.run("--allow", "bash(").err
    assert not batch.results.exists()


def test_a_plan_estimates_the_cost_from_what_similar_tasks_used(batch: Batch) -> None:
    batch.write(batch.task(0))
    plan = ("batch", "plan", batch.words[2], "--results", str(batch.product.home / "new"))
    assert "is unknown until a task has ended" in batch.product.call(*plan).out
    batch.run()
    like = (*plan, "--like", str(batch.results))
    batch.write({"repository": str(batch.product.home / "one"), "prompt": "task 0"})
    told = batch.product.call(*like, "--model", "anthropic/claude-sonnet-4-5").out
    assert re.search(r"about \$0\.0[1-9]", told)
    told = batch.product.call(*like, "--model", "somebody/unheard-of").out
    assert "the model has no known price" in told


def test_two_batches_are_compared_task_by_task(batch: Batch) -> None:
    batch.write(batch.task(0, name="same"), batch.task(1, name="other", check="false"))
    batch.run()
    first = batch.results.rename(batch.product.home / "first")
    batch.write(batch.task(0, name="same"), batch.task(1, calls(bash("true")), say("done")))
    batch.run()
    compare = ("batch", "compare", str(first), str(batch.results))
    assert "1 of 1 passed" in batch.product.call(*compare).out
    assert batch.product.call(*compare).out.count("and not counted: 1 task\n") == 2
    [line] = [
        each for each in batch.product.call(*compare, "--all").out.splitlines() if "same" in each
    ]
    assert line.count("2 turns") == 2


def test_the_demo_ends_with_a_page_that_leads_to_each_patch(batch: Batch) -> None:
    done = batch.product.call_apart("batch", "demo", "--sandbox", "off")
    assert done.code == 0, done.err
    assert "3 of 5 passed" in done.err
    assert "this rule would have allowed it: write(VERSION)" in done.out
    [page] = [Path(line) for line in done.err.splitlines() if line.endswith("index.html")]
    [data] = re.findall(r"^const {rows, total} = (.*);$", page.read_text(), re.MULTILINE)
    rows = json.loads(data)["rows"]
    states = {row["title"]: row["state"] for row in rows}
    assert sorted(states.values()) == ["denied", "failed", "passed", "passed", "passed"]
    for row in rows:
        assert (page.parent / row["key"] / "session.html").exists()
        assert (page.parent / row["key"] / "diff.html").exists()
    [diff] = page.parent.glob("fix-shorten-*/diff.html")
    assert "+    return text if len(text)" in diff.read_text()


def test_the_commands_of_the_page_show_and_replay_the_session_of_a_task(batch: Batch) -> None:
    batch.write(batch.task(0, say("It is done."), name="one"))
    assert batch.run().code == 0
    (batch.product.workspace / "tasks-results").symlink_to(batch.results)
    [record] = batch.records
    page = Path(__file__).parents[2] / "docs/how-to/batch.md"
    [block] = re.findall(r"```sh\n(mkdir -p replays.*?)```", page.read_text(), re.DOTALL)
    program = f"PYTHONPATH={page.parents[2]} {sys.executable} -m codeagent"
    lines = block.replace("codeagent s", f"{program} s").replace("codeagent r", f"{program} r")
    make, show, replay, draw = lines.replace("ID", record["session"]).splitlines()
    who = batch.product.workspace
    assert batch.product.call_in(who, "bash", "-c", make).code == 0
    assert "It is done." in batch.product.call_in(who, "bash", "-c", show).out
    drawn = batch.product.call_in(who, "bash", "-c", draw)
    assert drawn.code == 0, drawn.err
    assert "done" in (who / f"{record['session']}.svg").read_text()
    command = ["bash", "-c", f"exec env {replay}"]
    with PtyScreen(command, env=batch.product.environment, cwd=who, size=(80, 24)) as screen:
        screen.wait_for("It is done.")
