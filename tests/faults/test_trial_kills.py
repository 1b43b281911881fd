"""Whenever a run is killed while a command is tried out and its effects are taken, the workspace is
as before or as after once the next session has begun, and nothing is left."""

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from codeagent.core.messages import transcript_problems
from codeagent.core.sandbox import CHECK
from codeagent.sandbox.engine import Engine, reap
from codeagent.sandbox.engine_socket import engine_socket
from codeagent.session.fold import fold
from codeagent.session.recording import read_recording
from codeagent.session.store import LOG
from tests.e2e.product import Done, Product, bash, calls, of, say
from tests.e2e.screens import ask, open_screen
from tests.effort import FACTOR, chance, up_to
from tests.faults.injected import ACKNOWLEDGED
from tests.sandbox.test_trials import tree

pytestmark = pytest.mark.docker
GROUPS = 4
COMMANDS = (
    "for i in $(seq 40); do echo new > f$i; done; rm f4?; mkdir -p d/e; cp f? d/e; mv f50 g; "
    "chmod 600 f51; ln -s f1 link; rm -rf gone; echo file > gone",
    "echo more >> f1; rm -rf d link; mkdir link; echo in > link/in; touch -d @7 f52; rm g",
)
Tree = dict[str, tuple[object, ...]]


def make(folder: Path) -> Product:
    folder.mkdir()
    product = Product(folder / "work", folder / "home")
    (product.workspace / "gone/deep").mkdir(parents=True)
    product.home.mkdir()
    for number in range(1, 60):
        (product.workspace / f"f{number}").write_text("old\n" * number)
    (product.workspace / "gone/deep/file").write_text("old")
    return product


def command(product: Product) -> list[str]:
    model = product.script(*(calls(bash(each)) for each in COMMANDS), say("done"))
    return ["run", "go", "--model", model, "--allow", "effects(**)", "--output", "jsonl"]


def states(folder: Path) -> list[Tree]:
    """What the workspace is before the first command, and after each."""
    product = make(folder)
    found = [tree(product.workspace)]
    for each in COMMANDS:
        subprocess.run(["bash", "-c", each], cwd=product.workspace, check=True)
        found.append(tree(product.workspace))
    return found


def killed(product: Product, seconds: float, *, landing: bool) -> Done:
    """A run that is killed after so many seconds; `landing`: since an effect was being taken."""
    process = product.start(*command(product))
    layers = product.home / "state/codeagent/sandbox/layers"
    while landing and process.poll() is None and not any(layers.glob("*/landing.json")):
        time.sleep(0.0005)
    time.sleep(seconds)
    process.kill()
    out, err = process.communicate(60)
    return Done(process.returncode, out, err)


def what_broke(product: Product, done: Done, wanted: list[Tree]) -> Iterator[str]:
    """What was lost, half done or left behind once the session was resumed."""
    begun = [folder for folder in product.sessions if (folder / LOG).exists()]
    model, more = product.script(say("resumed")), ["--resume", begun[-1].name] if begun else []
    resumed = product.call_apart("run", "more", "--model", model, *more)
    if resumed.code or resumed.out != "resumed\n":
        yield f"it cannot be resumed: {resumed.err[-300:]}"
    # A file of the sandbox's own test is removed when a sandbox starts.
    ours = (".git", CHECK)
    now = {
        path: each for path, each in tree(product.workspace).items() if not path.startswith(ours)
    }
    if now not in wanted:
        paths = sorted({*now} | {path for each in wanted for path in each})
        sides = {path: [each.get(path) for each in (now, *wanted)] for path in paths}
        yield f"the workspace is between: { {path: sides[path] for path in paths} }"
        return
    told = [json.loads(line) for line in done.out.split("\n")[:-1]]
    answered = sum(event["type"] == "tool.result" for event in told)
    if wanted.index(now) < answered:
        yield f"{answered} commands were answered, and {wanted.index(now)} are there"
    events = [each for folder in begun for each in read_recording(folder / LOG).events]
    answers = {event["seq"] for event in told if event["type"] in ACKNOWLEDGED}
    if lost := answers - {event.seq for event in events}:
        yield f"these events were told and are lost: {lost}"
    for problem in transcript_problems(fold(tuple(events)).messages):
        yield str(problem)
    if left := [*(product.home / "state/codeagent/sandbox/layers").glob("*")]:
        yield f"layers are left: {left}"


def left_in_engine(product: Product) -> list[object]:
    """The containers and volumes of our labels in this workspace, and what is mounted of its
    layers."""
    label = f"codeagent.workspace={product.workspace}"
    wanted = {"filters": json.dumps({"label": [label]})}
    with closing(Engine(engine_socket(None))) as engine:
        reap(engine)
        volumes = engine.call("GET", "/volumes", wanted)["Volumes"] or []
        found = [*engine.containers(label), *volumes]
    mounts = Path("/proc/mounts").read_text().splitlines()
    return [*found, *(line for line in mounts if str(product.home) in line)]


@pytest.mark.soak(row="kills of trials")
@pytest.mark.parametrize("group", range(GROUPS if FACTOR else 1))
def test_a_run_that_is_killed_while_effects_are_taken_leaves_all_or_nothing(
    tmp_path: Path, group: int, tried: Callable[[int], None]
) -> None:
    dice, broken, kills = chance(f"trial kills {group}"), {}, 0
    wanted, span = states(tmp_path / "wanted"), 3.0
    folders = (tmp_path / str(number) for number in count())
    while kills < up_to(2, 200) // (GROUPS if FACTOR else 1):
        product = make(folder := next(folders))
        landing = bool(kills % 2)
        seconds = dice.uniform(0, 0.1 if landing else span)
        done = killed(product, seconds, landing=landing)
        kills += done.code == -9
        span *= 1 if landing else 1.05 if done.code == -9 else 0.8
        if found := [*what_broke(product, done, wanted)]:
            broken[f"{kills} {landing} {seconds:.3f}"] = found
        deadline = time.monotonic() + 20
        while (left := left_in_engine(product)) and time.monotonic() < deadline:
            time.sleep(0.1)  # the engine is removing it
        if left:
            broken[f"{kills} left"] = [str(each) for each in left]
        shutil.rmtree(folder, ignore_errors=True)
    tried(kills)
    assert broken == {}


@pytest.mark.soak(row="kills of trials")
def test_a_screen_that_is_killed_while_effects_are_taken_leaves_all_or_nothing(
    tmp_path: Path, tried: Callable[[int], None]
) -> None:
    dice, broken, number = chance("trial kills of the screen"), {}, up_to(0, 40)
    wanted = states(tmp_path / "wanted")
    for turn in range(number):
        product = make(folder := tmp_path / str(turn))
        layers = product.home / "state/codeagent/sandbox/layers"
        model = product.script(*(calls(bash(each)) for each in COMMANDS), say("done"))
        with open_screen(product, "--model", model, sandbox="docker", size=(120, 60)) as screen:
            ask(screen)
            product.wait_for(lambda log: any(of(log, "approval.requested")))
            while not any(layers.glob("*/landing.json")) and not of(product.log(), "run.finished"):
                screen.send("\x1by")
                time.sleep(0.005)
            time.sleep(dice.uniform(0, 0.1))
            screen.signal(signal.SIGKILL)
            screen.exit_code()
        if found := [*what_broke(product, Done(-9, "", ""), wanted)]:
            broken[turn] = found
        shutil.rmtree(folder, ignore_errors=True)
    tried(number)
    assert broken == {}
