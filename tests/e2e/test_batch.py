"""Batches through the real command line: what is done, what is done again, and what is left behind."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import Done, Event, Product, bash, calls, of, running, say

CHANGES = (calls(bash("echo more >> a.txt")), say("done"))


@pytest.fixture
def batch(product: Product) -> "Batch":
    return Batch(product)


class Batch:
    """Two repositories, tasks over them, and a results folder."""

    def __init__(self, product: Product) -> None:
        self.product = product
        for name in ("one", "two"):
            (folder := product.home / name).mkdir()
            (folder / "a.txt").write_text(f"{name}\n")
            who = ("-c", "user.name=t", "-c", "user.email=t@t")
            for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "first")):
                product.call_in(folder, "git", *words)
        self.results = product.home / "results"

    def task(self, number: int, *turns: Any, **more: Any) -> dict[str, Any]:
        model = self.product.script(*(turns or CHANGES))
        where = str(self.product.home / ("one", "two")[number % 2])
        own = {"prompt": f"task {number}", "model": model, "rules": {"allow": ["bash"]}}
        return {"repository": where, **own, **more}

    def write(self, *tasks: dict[str, Any]) -> None:
        text = "".join(f"{json.dumps(task)}\n" for task in tasks)
        (self.product.home / "tasks.jsonl").write_text(text)

    @property
    def words(self) -> tuple[str, ...]:
        tasks = str(self.product.home / "tasks.jsonl")
        return ("batch", "run", tasks, "--results", str(self.results))

    def run(self, *words: str, sandbox: str = "off") -> Done:
        """Run the batch to its end; each further slot would start a process."""
        own = ("--sandbox", sandbox, "--slots", "1")
        return self.product.call_apart(*self.words, *own, *words)

    @property
    def records(self) -> list[Event]:
        try:
            lines = (self.results / "results.jsonl").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines]

    def patch(self, record: Event) -> str:
        return (self.results / record["key"] / "patch.diff").read_text()

    def log(self, record: Event) -> list[Event]:
        log = self.results / "state/sessions" / record["session"] / "events.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()]

    def go(self) -> None:
        """Let the tasks end that have the turns SLOW."""
        (self.product.home / "go").touch()

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < deadline, "it never held"
            time.sleep(0.02)


def states(batch: Batch) -> dict[str, str]:
    return {each["title"]: each["state"] for each in batch.records}


def test_each_task_has_its_own_working_copy_container_and_verdict(batch: Batch) -> None:
    batch.write(
        batch.task(0, check="grep -q more a.txt"),
        batch.task(1, check="false"),
        batch.task(2, keep=["*.log"], check="echo kept > run.log"),
    )
    done = batch.run("--slots", "3", sandbox="docker")
    assert done.code == 1, done.err
    assert states(batch) == {"task 0": "passed", "task 1": "failed", "task 2": "passed"}
    assert all("+more" in batch.patch(record) for record in batch.records)
    [kept] = batch.results.glob("*/kept/run.log")
    assert kept.read_text() == "kept\n"
    for name in ("one", "two"):
        assert (batch.product.home / name / "a.txt").read_text() == f"{name}\n"
    assert not list(batch.results.glob("*/copy"))
    assert not list((batch.results / "state/checkpoints").iterdir()), "nothing can be undone"
    assert "2 of 3 passed" in done.err
    assert "# 2 of 3 tasks passed" in (batch.results / "summary.md").read_text()
    assert (batch.results / "index.html").exists()


def test_what_is_done_is_not_done_again_unless_you_ask_for_it(batch: Batch) -> None:
    batch.write(batch.task(0, check="true"), batch.task(1, check="false"))
    assert batch.run().code == 1
    assert batch.run().code == 1
    assert len(batch.records) == 2
    batch.run("--retry", "failed")
    assert [(each["title"], each["attempt"]) for each in batch.records][2:] == [("task 1", 2)]


def test_the_summary_names_the_rule_for_a_call_that_nobody_approved(batch: Batch) -> None:
    batch.write(batch.task(0, rules={}))
    batch.run()
    [record] = batch.records
    assert record["denied"]
    assert record["denied"][0] in (batch.results / "summary.md").read_text()


def test_a_repository_that_cannot_be_copied_is_reported_and_the_other_tasks_are_done(
    batch: Batch,
) -> None:
    batch.write(batch.task(0), {**batch.task(1), "repository": "/nowhere/at/all"})
    assert batch.run().code == 1
    assert states(batch) == {"task 0": "done", "task 1": "failed"}
    [failed] = [record for record in batch.records if record["state"] == "failed"]
    assert "/nowhere/at/all" in failed["error"]


def test_a_check_that_hangs_is_stopped(batch: Batch) -> None:
    hangs = f"sleep 611.{os.getpid()}"
    batch.write(batch.task(0, check=hangs, check_seconds=0.5))
    assert batch.run().code == 1
    assert states(batch) == {"task 0": "failed"}
    assert "the check took longer than" in batch.records[0]["error"]
    batch.until(lambda: not any(hangs.split()[1].encode() in line for line in running()))


SLOW = (
    calls(bash("echo again >> begun")),
    calls(bash("until [ -e ../../../go ]; do sleep 0.05; done")),
    say("done"),
)
"""Writes the file `begun` in its working copy, and ends only after `Batch.go`."""


def begun(batch: Batch) -> Callable[[], bool]:
    return lambda: any(batch.results.glob("*/copy/begun"))


def workers(batch: int) -> list[int]:
    children = Path(f"/proc/{batch}/task/{batch}/children").read_text().split()
    return [int(each) for each in children if b"work" in Path(f"/proc/{each}/cmdline").read_bytes()]


def test_an_interrupted_batch_ends_in_order_and_the_next_continues_it(batch: Batch) -> None:
    batch.write(batch.task(0, *SLOW))
    process = batch.product.start(*batch.words, "--sandbox", "off")
    batch.until(begun(batch))
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert batch.records == []
    batch.go()
    assert batch.run().code == 0
    [record] = batch.records
    assert batch.patch(record).count("+again") == 2, "it continues in the same working copy"
    assert len(of(batch.log(record), "run.started")) == 2


@pytest.mark.parametrize("whose", ["batch", "worker"])
def test_a_kill_loses_no_task_and_does_none_twice(whose: str, batch: Batch) -> None:
    batch.write(batch.task(0, *SLOW))
    process = batch.product.start(*batch.words, "--sandbox", "off")
    batch.until(begun(batch))
    if whose == "worker":
        [worker] = workers(process.pid)
        os.kill(worker, signal.SIGKILL)
        batch.go()
        process.communicate(timeout=60)
    else:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        batch.go()
        assert batch.run().code == 0
    [record] = batch.records
    assert (record["state"], batch.patch(record).count("+again")) == ("done", 2)
    assert not list(batch.results.glob("*/copy"))


def test_a_budget_for_all_tasks_needs_one_for_each(batch: Batch) -> None:
    for limits, words in (({}, ()), ({"budget": None}, ("--task-budget", "1"))):
        batch.write(batch.task(0, limits=limits))
        done = batch.run("--budget", "5", *words)
        assert done.code == 2
        assert "--task-budget" in done.err
    assert batch.records == []


def test_a_budget_counts_what_a_task_that_was_cut_off_may_have_spent(batch: Batch) -> None:
    batch.write(batch.task(0, say("done"), name="first"), batch.task(1, say("done")))
    [first, _] = batch.product.call("batch", "plan", *batch.words[2:]).out.splitlines()[:2]
    (batch.results / "begun").mkdir(parents=True)
    (batch.results / "begun" / first.split()[0]).touch()
    budgets = ("--budget", "1.5", "--task-budget", "1")
    assert (
        "1 task did not begin, as the cost might exceed --budget"
        in batch.run(*budgets, "--only", "task 1").out
    )
    assert batch.run(*budgets).code == 0


def test_an_engine_that_no_task_needs_may_be_elsewhere(batch: Batch) -> None:
    batch.write(batch.task(0))
    elsewhere = batch.product.environment | {"DOCKER_HOST": "tcp://192.0.2.1:2375"}
    for sandbox, code in (("docker", 1), ("off", 0)):
        done = batch.product.call_apart(*batch.words, "--sandbox", sandbox, env=elsewhere)
        assert (done.code, "DOCKER_HOST" in done.err) == (code, bool(code))


def test_a_plan_shows_what_would_run(batch: Batch) -> None:
    batch.write(batch.task(0), batch.task(1), batch.task(2))
    done = batch.product.call("batch", "plan", *batch.words[2:], "--limit", "2")
    assert "2 of 3 tasks would run" in done.out
    assert batch.records == []


def test_a_budget_for_each_task_does_not_change_which_task_it_is(batch: Batch) -> None:
    batch.write(batch.task(0), batch.task(1, limits={"budget": 0.2}))
    for _ in range(2):
        assert batch.run("--budget", "5", "--task-budget", "0.1").code == 0
    assert len(batch.records) == 2
    begun = of(batch.log(batch.records[0]), "run.started")
    assert len(begun) == 1
