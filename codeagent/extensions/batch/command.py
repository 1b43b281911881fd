"""`codeagent batch`: runs tasks over many repositories, and shows and compares their results."""

import argparse
import asyncio
import json
import os
import random
import shlex
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.changes.diff import count as counted
from codeagent.commands.actions import actions_in
from codeagent.commands.arguments import add_flag, add_list, add_sandbox, amount, count, say
from codeagent.config.local_environment import state_dir
from codeagent.core.errors import ConfigError
from codeagent.core.sanitize import one_line
from codeagent.extensions.batch.comparison import compared
from codeagent.extensions.batch.estimate import estimated
from codeagent.extensions.batch.importers import KINDS, imported, predictions
from codeagent.extensions.batch.pacing import Limiter
from codeagent.extensions.batch.perform import BatchContext, needs_engine
from codeagent.extensions.batch.pool import BatchLimits, Pool, slots_of_machine
from codeagent.extensions.batch.processes import Worker
from codeagent.extensions.batch.progress import BatchProgress
from codeagent.extensions.batch.remote import RemoteResults
from codeagent.extensions.batch.report import write_reports
from codeagent.extensions.batch.results import RECORDS, Results, TaskRecord
from codeagent.extensions.batch.tasks import BatchTask, check_settings, read_tasks
from codeagent.extensions.batch.views import BatchView
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.engine_socket import engine_socket

if TYPE_CHECKING:
    from codeagent.commands.ports import App

_WHERE = "a results folder, or an address such as s3://BUCKET/NAME"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = actions_in(parser)
    running = actions.add_parser("run", help="run the tasks that have no result yet")
    planning = actions.add_parser(
        "plan", help="list the tasks that run would start, and estimate their cost"
    )
    for each in (running, planning):
        _add_choice(each)
        each.add_argument("--model", metavar="NAME", help="the model of tasks that name none")
    planning.add_argument(
        "--like",
        metavar="RESULTS",
        type=_results,
        help="estimate the cost from what the tasks of these results used",
    )
    running.add_argument(
        "--slots", metavar="N", type=count, help="at most N tasks at the same time"
    )
    add_list(running, "--allow", "RULE", "for all tasks: never ask about these calls")
    add_list(running, "--deny", "RULE", "for all tasks: deny these calls")
    running.add_argument("--budget", metavar="USD", type=amount, help="for all tasks together")
    running.add_argument(
        "--task-budget", metavar="USD", type=amount, help="the budget of each task that has none"
    )
    watching = actions.add_parser("watch", help="follow a batch that runs in another terminal")
    watching.add_argument("results", metavar="RESULTS", type=_results, help=_WHERE)
    running.add_argument("--ray", metavar="ADDRESS", help="run on this Ray cluster, such as auto")
    running.add_argument(
        "--secrets", metavar="FILE", type=Path, help="a file with keys on each node of the cluster"
    )
    add_sandbox(running, "off runs the commands of all tasks on this machine (default: docker)")
    applying = actions.add_parser("apply", help="open the patches in the hunk review")
    applying.add_argument("results", metavar="RESULTS", type=_results, help=_WHERE)
    add_list(
        applying, "--only", "TEXT", "those of these tasks, even if they did not pass; repeatable"
    )
    add_sandbox(applying, "off runs the commands of that screen on this machine (default: docker)")
    comparing = actions.add_parser("compare", help="compare the results of two batches")
    add_flag(comparing, "--all", "list every task, with its turns, time and cost")
    for name in ("one", "other"):
        comparing.add_argument(name, metavar="RESULTS", type=_results, help=_WHERE)
    trying = actions.add_parser("demo", help="run five tasks over two throwaway repositories")
    add_sandbox(trying, "off runs the commands of the tasks on this machine (default: docker)")
    _add_import(actions.add_parser("import", help="make tasks from SWE-bench, Exercism or recipes"))
    exporting = actions.add_parser("export", help="write predictions for SWE-bench's evaluation")
    exporting.add_argument("results", metavar="RESULTS", type=_results, help=_WHERE)
    actions.add_parser("work")


def _add_import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", metavar="KIND", choices=KINDS, help=", ".join(KINDS))
    parser.add_argument("source", metavar="SOURCE", type=Path, help="a file or a folder")
    add_list(parser, "--repository", "PATH", "see docs/how-to/evaluate.md; repeatable")
    parser.add_argument("--check", metavar="COMMAND", default="", help="the check of each task")


def _add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "tasks",
        metavar="TASKS",
        type=Path,
        help="a .jsonl or .yaml file, or a folder of such files",
    )
    parser.add_argument(
        "--results", metavar="RESULTS", type=_results, help=f"{_WHERE} (default: TASKS-results)"
    )
    parser.add_argument(
        "--retry",
        action="append",
        default=[],
        choices=("failed", "denied", "all"),
        help="also run the tasks that ended like this again; repeatable",
    )
    parser.add_argument("--limit", metavar="N", type=count, help="run at most N tasks")
    parser.add_argument("--shuffle", metavar="SEED", type=int, help="run them in a random order")
    add_list(parser, "--only", "TEXT", "only tasks whose name, key or repository contains TEXT")


def main(args: argparse.Namespace, app: "App") -> int | Coroutine[Any, Any, int]:
    """Run the command, and return its exit code. Raises ConfigError."""
    match args.action:
        case "work":
            from codeagent.extensions.batch.worker import work

            app.prepare()
            return work(args, app)
        case "demo":
            from codeagent.extensions.batch.demo import make_demo  # other actions do not need it

            words = ["run", str(make_demo())]
            words += ["--sandbox", args.sandbox] if args.sandbox else []
            add_arguments(parser := argparse.ArgumentParser())
            return _demo(parser.parse_args(words))
        case "watch":
            return _watch(_existing(args.results))
        case "apply":
            # The other actions do not show a screen.
            from codeagent.extensions.batch.applying import open_patches

            results = _existing(args.results)
            wanted = [
                record
                for record in results.records.values()
                if (_is_named(args.only, record) if args.only else record.passed)
            ]
            results.fetch(record.key for record in wanted)
            return open_patches(results, wanted, args.sandbox, app)
        case "compare":
            one, other = _existing(args.one), _existing(args.other)
            return _print(compared(one, other, every=args.all))
        case "import":
            return _print(imported(args.kind, args.source, args.repository, args.check))
        case "export":
            results = _existing(args.results)
            results.fetch(results.records)
            return _print(predictions(results))
    tasks, results = read_tasks(args.tasks), _results_of(args)
    if args.action == "plan":
        return _plan(_chosen(tasks, args), results.read(), args)
    return _run(tasks, results, args)


def _results(where: str) -> Results:
    return RemoteResults(where) if "://" in where else Results(Path(where))


def _results_of(args: argparse.Namespace) -> Results:
    tasks = args.tasks if args.tasks.suffix else args.tasks.resolve()  # such as `.`
    found: Results | None = args.results
    return found or Results(tasks.with_name(f"{tasks.stem}-results"))


def _existing(results: Results) -> Results:
    """Read the results of a batch. Raises ConfigError if there are none."""
    if not results.read().records and not (results.path / RECORDS).exists():
        raise ConfigError(f"{results.where} does not contain the results of a batch")
    return results


async def _demo(args: argparse.Namespace) -> int:
    """Run the demo; return 0 if three tasks passed, one failed and one was denied, as they should."""
    await _run(read_tasks(args.tasks), results := _results_of(args), args)
    ended = Counter(record.state for record in results.records.values())
    return int(ended != {"passed": 3, "failed": 1, "denied": 1})


def _print(lines: Iterable[str | dict[str, Any]]) -> int:
    for line in lines:
        print(line if isinstance(line, str) else json.dumps(line, ensure_ascii=False))
    return 0


def _chosen(tasks: Sequence[BatchTask], args: argparse.Namespace) -> list[BatchTask]:
    chosen = [task for task in tasks if not args.only or _is_named(args.only, task)]
    if not chosen:
        raise ConfigError("--only matches no task; nothing was run")
    if args.shuffle is not None:
        random.Random(args.shuffle).shuffle(chosen)
    return chosen


def _is_named(parts: Sequence[str], task: BatchTask | TaskRecord) -> bool:
    return any(part in f"{task.title} {task.key} {task.repository}" for part in parts)


def _plan(tasks: Sequence[BatchTask], results: Results, args: argparse.Namespace) -> int:
    missing = results.missing(tasks, args.retry)[: args.limit]
    for task in missing:
        print(f"{task.key:<30} {task.title:<60} {one_line(task.address, 500)}")
    print(f"{len(missing)} of {len(tasks)} tasks would run")
    if missing:
        like = results if args.like is None else _existing(args.like)
        print(estimated(missing, list(like.records.values()), args.model))
    return 0


async def _run(tasks: Sequence[BatchTask], results: Results, args: argparse.Namespace) -> int:
    check_settings(json.dumps(common := _settings(args)))
    chosen = _chosen(tasks, args)
    if "://" in results.where:
        if not args.ray:
            raise ConfigError("results at an address need --ray; nothing was run")
        say(f"this machine's copy of the results: {results.path}")
    try:
        results.hold()
        results.collect()
        missing = results.missing(chosen, args.retry)[: args.limit]
        cut_off = [task for task in tasks if task.key in results.unfinished and task not in missing]
        budget = _budget(args.budget, missing, cut_off, common)
        context = BatchContext(results.state_dir, state_dir() / "mirrors", common)
        cluster = None
        if args.ray:
            _check_passwords(missing)
            from codeagent.extensions.batch.ray_workers import Cluster  # needs codeagent[ray]

            given = (args.ray, context, args.secrets, args.slots, results.where)
            cluster = await asyncio.to_thread(Cluster, *given)
        slots = args.slots or (slots_of_machine() if cluster is None else cluster.slots)
        at_once = len(os.sched_getaffinity(0)) if cluster is None else slots
        limits = BatchLimits(slots, at_once, budget)
        progress = BatchProgress(len(missing), slots)
        view = BatchView(progress)
        limiter = Limiter()
        log = results.path / "workers.log"
        new = (lambda: Worker(context, log, limiter)) if cluster is None else cluster.worker
        pool = Pool(results, context, limits, new_worker=new, progress=progress, view=view)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, pool.stop)
        progress.write(results.path)
        with view:
            if cluster is None:  # a node of a cluster makes the mirrors that it needs
                await pool.prepare(missing)
            here = cluster is None and any(needs_engine(task, context) for task in missing)
            await pool.run(missing, _engine_answers(here=here))
        write_reports(results, tasks)
        results.publish()
        return _told(chosen, results)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise ConfigError(
            f"{results.path} cannot be written ({error.strerror}); what was done is kept, and the "
            "same command continues the batch"
        ) from error
    finally:
        results.close()


def _budget(
    whole: float | None,
    tasks: Sequence[BatchTask],
    cut_off: Sequence[BatchTask],
    common: Mapping[str, Any],
) -> float | None:
    """Return what the budget of a batch leaves for `tasks`, if those that were cut off spend all
    that they may. Raises ConfigError if nothing limits the cost of one of the tasks."""
    if whole is None:
        return None
    if not all(task.budget(common) for task in tasks):
        raise ConfigError(
            "--budget needs --task-budget, what each task may cost at most; nothing was run"
        )
    return whole - sum(task.budget(common) for task in cut_off)


def _check_passwords(tasks: Sequence[BatchTask]) -> None:
    """Raise ConfigError if a repository's address has a password: it would be sent to the cluster."""
    if own := next((task for task in tasks if task.address != task.repository), None):
        raise ConfigError(
            f"the password for {own.address} is not sent to a cluster: leave it out of the task, and "
            "set up git's credential helper on the nodes; nothing was run"
        )


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    rules = {"allow": args.allow, "deny": args.deny}
    given: dict[str, Any] = {"rules": {name: list(each) for name, each in rules.items() if each}}
    given |= {"model": args.model} if args.model else {}
    given |= {"limits": {"budget": args.task_budget}} if args.task_budget is not None else {}
    return given | ({"sandbox": {"kind": args.sandbox}} if args.sandbox else {})


def _engine_answers(*, here: bool) -> Callable[[], Awaitable[None]]:
    """Return a function that makes a small request to the engine of this machine, if tasks need it
    `here`, and else does nothing. Raises SandboxUnavailable."""
    engine = Engine(engine_socket(os.environ.get("DOCKER_HOST"))) if here else None

    async def answers() -> None:
        if engine is not None:
            await engine.ask("GET", "/containers/json", {"limit": 1})

    return answers


async def _watch(results: Results) -> int:
    """Show the running batch until it ends."""
    progress = BatchProgress.read(results.path)
    if progress is not None:
        with (results.path / RECORDS).open("rb") as records, BatchView(progress) as view:
            records.seek(0, os.SEEK_END)
            torn = b""
            while progress is not None:
                view.progress = progress
                await asyncio.sleep(0.5)
                progress = BatchProgress.read(results.path)
                *lines, torn = (torn + records.read()).split(b"\n")
                for line in lines:
                    view.ended(TaskRecord.of_line(line))
    say("no batch is running there")
    return 0


def _told(tasks: Sequence[BatchTask], results: Results) -> int:
    records = [results.records[task.key] for task in tasks if task.key in results.records]
    left = len(tasks) - len(records)
    passed = sum(record.passed for record in records)
    again = "; --retry failed runs the others again" * (passed < len(records))
    say(f"{passed} of {len(tasks)} passed{again}")
    if left:
        say(f"{counted(left, 'task')} left; start the batch again to run them")
    say(f"{results.where}/index.html")
    if any(record.passed and record.changed[0] for record in records):
        say(f"codeagent batch apply {shlex.quote(results.where)}")
    return 0 if passed == len(tasks) else 1
