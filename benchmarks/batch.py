"""Batches: what a task costs through one, how far the machine is used, what the process that hands
the tasks out needs, and how soon the results of very many are read."""

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.measure import CODEAGENT, Figure, Finished, run
from codeagent.core.messages import Usage
from codeagent.extensions.batch.report import write_reports
from codeagent.extensions.batch.results import RECORDS, Results, TaskRecord
from codeagent.extensions.batch.tasks import BatchTask, read_tasks

REPOSITORIES = 20
TASKS = 96
ROUNDS = 3
LINES = 100_000
SLOTS = (2, 8)
"""Of two Ray nodes together: one for each of two processors, and the default of a batch there."""
TURNS = [
    {"text": "", "calls": [["read", {"path": "a.txt"}]]},
    {"text": "", "calls": [["bash", {"command": "echo more >> a.txt"}]]},
    {"text": "", "calls": [["bash", {"command": "cat a.txt"}]]},
    {"text": "done"},
]


class Batches:
    """Repositories, tasks over them, and a folder for each batch."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.count = count
        (folder / "script.json").write_text(json.dumps(TURNS))
        self.model = f"script:{folder / 'script.json'}"
        for number in range(REPOSITORIES):
            (repository := folder / f"repository-{number}").mkdir()
            (repository / "a.txt").write_text(f"{number}\n" * 100)
            who = ("-c", "user.name=b", "-c", "user.email=b@b")
            for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "first")):
                subprocess.run(["git", *words], cwd=repository, check=True)
        self._write(count)
        self._number = 0

    def _write(self, count: int) -> None:
        tasks = (
            {
                "repository": f"repository-{number % REPOSITORIES}",
                "prompt": f"task {number}",
                "rules": {"allow": ["bash"]},
                "model": self.model,
            }
            for number in range(count)
        )
        text = "".join(f"{json.dumps(task)}\n" for task in tasks)
        (self.folder / "tasks.jsonl").write_text(text)

    @property
    def env(self) -> dict[str, str]:
        return {f"XDG_{name}_HOME": str(self.folder / name) for name in ("STATE", "CONFIG")}

    def one(self) -> Finished:
        """The same task, alone."""
        words = ("run", "task", "--model", self.model, "--allow", "bash", "--sandbox", "off")
        done = run([*CODEAGENT, *words], self.folder / "repository-0", self.env)
        assert done.code == 0, done.stdout
        return done

    def command(self, *words: str) -> list[str]:
        self._number += 1
        where = ("tasks.jsonl", "--results", f"results-{self._number}")
        return [*CODEAGENT, "batch", "run", *where, "--sandbox", "off", *words]

    def prepare(self) -> None:
        """Have a copy of each repository before anything is measured: a batch makes each once."""
        run(self.command("--limit", str(REPOSITORIES)), self.folder, self.env)

    def all(self, *words: str) -> Finished:
        done = run(self.command(*words), self.folder, self.env)
        assert done.code == 0, done.stdout
        return done

    def memory(self, *words: str) -> list[float]:
        """The resident memory of the process that hands out the tasks, in MB, from a tenth of them
        to the end."""
        process = subprocess.Popen(
            command := self.command(*words),
            cwd=self.folder,
            env=os.environ | self.env,
            stderr=subprocess.DEVNULL,
        )
        records = self.folder / command[command.index("--results") + 1] / RECORDS
        found = []
        while process.poll() is None:
            time.sleep(0.1)
            if records.exists() and records.read_bytes().count(b"\n") * 10 >= self.count:
                found.append(_resident_mb(process.pid))
        return [each for each in found if each]


def _busy_seconds() -> float:
    """For how long the processors of this machine have worked since its start."""
    user, nice, system, _, _, *interrupts = Path("/proc/stat").read_text().split(maxsplit=9)[1:8]
    ticks = sum(map(int, (user, nice, system, *interrupts)))
    return ticks / os.sysconf("SC_CLK_TCK")


def _resident_mb(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20
    except (OSError, IndexError):
        return 0.0


@contextmanager
def _batches(count: int) -> Iterator[Batches]:
    with tempfile.TemporaryDirectory(prefix="codeagent-bench-") as folder:
        yield Batches(Path(folder), count)


def figures() -> Iterator[Figure]:
    yield _load()
    yield from _many_lines()
    with _batches(TASKS) as batches:
        yield from _tasks(batches, ROUNDS)
        for slots in SLOTS:
            yield from _on_ray(batches, ROUNDS, slots)
    yield _load()


def thousand() -> Iterator[Figure]:
    with _batches(1000) as batches:
        yield from _tasks(batches, 1)
        for slots in SLOTS:
            yield from _on_ray(batches, 1, slots)


def _load() -> Figure:
    return Figure("load of the machine", f"{os.getloadavg()[0]:.1f}", "-", None, "-")


def _tasks(batches: Batches, rounds: int) -> Iterator[Figure]:
    """Everything in turn, so that what else the machine does falls on all; a rate is that of the
    batch only if others kept no processor busy."""
    count = batches.count
    batches.one()
    batches.prepare()
    alone: list[float] = []
    ours: dict[int, list[Finished]] = {8: [], 16: []}
    others: list[float] = []
    for _ in range(rounds):
        alone += [batches.one().cpu for _ in range(3)]
        for slots, found in ours.items():
            busy = _busy_seconds()
            found.append(done := batches.all("--slots", str(slots)))
            others.append((_busy_seconds() - busy - done.cpu) / done.wall)
    one = statistics.median(alone)
    each = statistics.median(done.cpu for done in ours[8]) / count
    yield Figure(
        f"CPU of a task through a batch of {count}",
        f"{each:.3f} s",
        f"codeagent run {one:.3f} s",
        each / one,
        "<= 1.10",
    )
    walls = {slots: min(done.wall for done in found) for slots, found in ours.items()}
    best = (os.cpu_count() or 1) / one
    rate = count / walls[8]
    yield Figure(
        f"{count} tasks over {REPOSITORIES} repositories",
        f"{rate:.2f} /s",
        f"processors / CPU of one {best:.2f} /s; others kept {max(others):.1f} processors busy",
        rate / best,
        ">= 0.9",
    )
    yield Figure(
        "16 slots",
        f"{walls[16]:.1f} s",
        f"8 slots {walls[8]:.1f} s",
        walls[16] / walls[8],
        "<= 1.0",
    )
    memory = batches.memory("--slots", "8")
    spread = max(memory) - min(memory)
    yield Figure(
        "memory of the process that hands them out",
        f"+{spread:.1f} MB",
        f"{memory[0]:.0f} MB after a tenth",
        None,
        "<= 20 MB",
    )


def _on_ray(batches: Batches, rounds: int, slots: int) -> Iterator[Figure]:
    """What Ray takes to start its processes is in it, and weighs little among a thousand tasks."""
    try:
        from ray.cluster_utils import Cluster
    except ImportError:
        return
    node = {"include_dashboard": False, "object_store_memory": 80 << 20}
    each = slots // 2
    cluster = Cluster(initialize_head=True, head_node_args=node | {"num_cpus": 0})
    try:
        for number in range(2):
            own = {**batches.env, "XDG_STATE_HOME": str(batches.folder / f"node-{number}")}
            cluster.add_node(**node, num_cpus=each, resources={"engine": each}, env_vars=own)
        words = ("--ray", str(cluster.address))
        batches.all(*words)
        walls: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(rounds):
            for there, found in walls.items():
                found.append(batches.all(*(words if there else ("--slots", str(slots)))).wall)
    finally:
        cluster.shutdown()
    there, here = min(walls[True]), min(walls[False])
    yield Figure(
        f"{batches.count} tasks in {slots} slots on two Ray nodes here",
        f"{there:.1f} s",
        f"local {here:.1f} s",
        there / here,
        "<= 1.10",
    )


def _many_lines() -> Iterator[Figure]:
    """Results of very many tasks, all done, are read, compared with the tasks and summed up."""
    with tempfile.TemporaryDirectory(prefix="codeagent-bench-") as name:
        folder = Path(name)
        tasks_file = folder / "tasks.jsonl"
        tasks_file.write_text(
            "".join(
                f'{{"repository": "/r/{number % 20}", "prompt": "task {number}"}}\n'
                for number in range(LINES)
            )
        )
        began = time.process_time()
        tasks = read_tasks(tasks_file)
        reading = time.process_time() - began
        (folder / "results").mkdir()
        first = TaskRecord(
            "",
            "",
            "",
            "/r/1",
            "a" * 40,
            "openai/gpt-5",
            "passed",
            "",
            (),
            (1, 2, 3),
            Usage(input_tokens=1000, output_tokens=100, cost_usd=0.01),
            5,
            12.5,
            1,
            "s",
        )
        with (folder / "results" / RECORDS).open("wb") as file:
            for task in tasks:
                one = replace(first, key=task.key, subject=task.subject, title=task.title)
                file.write(one.line())
        took = [_resumed(folder / "results", tasks) for _ in range(3)]
    yield Figure(
        f"CPU to read and sum up {LINES:,} results",
        f"{min(took):.2f} s",
        f"to read the tasks {reading:.2f} s",
        min(took) / 2,
        "<= 2 s",
    )


def _resumed(path: Path, tasks: Sequence[BatchTask]) -> float:
    began = time.process_time()
    results = Results(path).hold()
    try:
        results.collect()
        assert not results.missing(tasks)
        write_reports(results, tasks)
    finally:
        results.close()
    return time.process_time() - began
