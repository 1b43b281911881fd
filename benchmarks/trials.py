"""Commands that are tried out: what a view of the workspace costs beside the session's container,
what it costs over many files, and how fast its changes land."""

import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from benchmarks.measure import Figure, ms, workspace
from codeagent.app.runtime import open_session
from codeagent.changes.layer_landing import plan
from codeagent.config.checking import checked
from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.settings import Settings
from codeagent.core.acts import Answer
from codeagent.core.approval_events import ApprovalRequested, EffectsFound
from codeagent.core.events import KnownEvent, ToolResultAdded, ToolStarted
from codeagent.core.policy import Decision
from codeagent.core.sandbox import Command
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.spec import SandboxSpec
from tests.layers import Layered

TIMES = 20
PAUSE = 1.0
"""Seconds before each command, in which the next container is made; a model takes longer."""
FEW, MANY = 100, 80_000
LANDED = 5_000
LANDINGS = 7
Work = Callable[[], Awaitable[float | object]]
"""Returns the seconds it took, if it knows them better than who waits for it."""


def figures() -> Iterator[Figure]:
    yield _load()
    with workspace() as root, tempfile.TemporaryDirectory() as state:
        yield from asyncio.run(_true(root, Path(state)))
    with tempfile.TemporaryDirectory(prefix="codeagent-bench-") as folder:
        yield asyncio.run(_over_many(Path(folder)))
    for what in ("new, in new folders", "new, in old folders", "replaced"):
        yield _landing(what)
    yield _load()


def _load() -> Figure:
    return Figure("load of the machine", f"{os.getloadavg()[0]:.1f}", "-", None, "-")


async def _true(root: Path, state: Path) -> list[Figure]:
    sandbox = DockerSandbox(SandboxSpec(root, state, session="bench", home=Path.home()))
    try:
        await sandbox.start(lambda _: None)
        await sandbox.prepare_trials()
        assert not sandbox.untried, sandbox.untried
        command = Command("true", "bench")
        session = _docker("ps", "-q", "--no-trunc", "--filter", "label=codeagent.session=bench")
        mine = next(each for each in session.split() if not _shares_network(each))
        image = _docker("inspect", "-f", "{{.Image}}", mine)
        alone = ["--network", "none", "-v", "/usr:/usr:ro", "--entrypoint", "/usr/bin/true"]

        async def view() -> None:
            trial = await sandbox.try_out(command, _drop)
            assert await trial.effects() == ()
            await trial.close()

        took = await _alternately(
            {
                "session": lambda: sandbox.run(command, _drop),
                "view": view,
                "exec": _program("docker", "exec", mine, "true"),
                "unprepared": view,
                "run": _program("docker", "run", "--rm", *alone, image),
            },
            {"unprepared": lambda: sandbox._views().close()},
        )
    finally:
        await sandbox.close()
    session_too = f"session {ms(took['session'])}"
    rows = (("prepared", "view", "exec", "<= 1.5"), ("not prepared", "unprepared", "run", "<= 1"))
    return [
        Figure(
            f"bash true in a view, {name}, less the session's",
            ms(more := took[ours] - took["session"]),
            f"docker {floor} true {ms(took[floor])}; whole {ms(took[ours])}, {session_too}",
            more / took[floor],
            target,
        )
        for name, ours, floor, target in rows
    ]


async def _alternately(
    works: Mapping[str, Work], first: Mapping[str, Work] | None = None
) -> dict[str, float]:
    """The median seconds of each; every round measures all of them, so that what else the machine
    does falls on all. `first` is done before one of them and not counted."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(TIMES + 1):
        for name, work in works.items():
            await asyncio.sleep(PAUSE)
            if first is not None and name in first:
                await first[name]()
            started = time.monotonic()
            itself = await work()
            whole = time.monotonic() - started
            times[name].append(itself if isinstance(itself, float) else whole)
    return {name: statistics.median(found[1:]) for name, found in times.items()}


async def _drop(stream: str, data: bytes) -> None:
    return None


def _docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _shares_network(container: str) -> bool:
    return _docker("inspect", "-f", "{{.HostConfig.NetworkMode}}", container)[:9] == "container"


def _program(*command: str) -> Work:
    async def run() -> None:
        process = await asyncio.create_subprocess_exec(*command)
        assert await process.wait() == 0

    return run


async def _over_many(folder: Path) -> Figure:
    """The same command over few and over many files, through a session, without the flush of what
    is taken."""
    async with AsyncExitStack() as stack:
        works = {
            str(count): await stack.enter_async_context(_session(folder / str(count), count))
            for count in (FEW, MANY)
        }
        took = await _alternately(works)
    few, many = took[str(FEW)], took[str(MANY)]
    beside = f"over {FEW:,} files {ms(few)}"
    return Figure(f"a trial over {MANY:,} files", ms(many), beside, many / few, "<= 1")


@asynccontextmanager
async def _session(folder: Path, count: int) -> AsyncIterator[Work]:
    """Yield what runs a command of one session over so many files, and throws away what it
    changes."""
    root = folder / "workspace"
    await asyncio.to_thread(_make_files, root, count)
    script = folder / "script.json"
    calls = [["bash", {"command": f"echo {number} >> d0/f0"}] for number in range(TIMES + 1)]
    script.write_text(
        json.dumps([turn for call in calls for turn in ({"calls": [call]}, {"text": "done"})])
    )
    session = await open_session(
        checked(Settings, {"model": f"script:{script}", "mode": "ask"}),
        LocalEnvironment(root, folder / "state", os.environ),
        attended=True,
        needs_sandbox=True,
    )
    times: dict[str, float] = {}

    def observe(event: KnownEvent) -> None:
        if isinstance(event, ApprovalRequested):
            session.agent.do(Answer(event.approval_id, Decision("deny")))
        elif isinstance(event, ToolStarted | EffectsFound | ToolResultAdded):
            times[event.type] = time.monotonic()

    async def work() -> float:
        times.clear()
        async for _ in session.agent.run("append"):
            pass
        assert "effects.found" in times, "it was not tried out"
        return times["tool.result"] - times["tool.started"]

    session.agent.observe(observe)
    try:
        yield work
    finally:
        await session.close()


def _make_files(root: Path, count: int) -> None:
    for number in range(count):
        place = root / f"d{number // 100}"
        if number % 100 == 0:
            place.mkdir(parents=True)
        (place / f"f{number % 100}").write_bytes(b"line\n")
    subprocess.run(["git", "init", "-q", root], check=True)


def _landing(what: str) -> Figure:
    """What a layer holds lands, and beside it the same files are copied and flushed, in turn."""
    landed: list[tuple[float, float]] = []
    copied: list[float] = []
    for number in range(LANDINGS + 1):
        with tempfile.TemporaryDirectory(prefix="codeagent-bench-") as folder:
            if number % 2:
                copied.append(_copy(Path(folder)))
            landed.append(_land(_layered(Path(folder, "view"), what)))
            if not number % 2:
                copied.append(_copy(Path(folder)))
    read, ours = (statistics.median(times) for times in zip(*landed[1:], strict=True))
    floor = statistics.median(copied[1:])
    return Figure(
        f"{LANDED:,} files of a command landed: {what}",
        ms(ours),
        f"cp -a, sync -f {ms(floor)}; read before {ms(read)}",
        ours / floor,
        "<= 1.3",
    )


def _layered(folder: Path, what: str) -> Layered:
    """A workspace, and a layer that was just written and is not flushed."""
    view = Layered.make(folder, {})
    if what == "replaced":
        _write(view.root, b"old line\n")
    elif what == "new, in old folders":
        for name in _folders():
            (view.root / name).mkdir()
    subprocess.run(["sync", "-f", folder], check=True)
    _write(view.upper, b"new line\n")
    return view


def _folders() -> list[str]:
    return [f"d{number}" for number in range(50)]


def _write(top: Path, line: bytes) -> None:
    for name in _folders():
        (top / name).mkdir(parents=True, exist_ok=True)
        for number in range(LANDED // len(_folders())):
            (top / name / f"f{number}.py").write_bytes(line * 200)


def _land(view: Layered) -> tuple[float, float]:
    """The seconds of reading what there is to land, and of landing it."""
    started = time.monotonic()
    effects = view.effects()
    read = time.monotonic()
    with view.landing() as landing:
        landing.land(plan(effects))
    return read - started, time.monotonic() - read


def _copy(folder: Path) -> float:
    """The seconds of a copy that is flushed, of files that are in memory."""
    source, copy = folder / "source", folder / "copy"
    _write(source, b"new line\n")
    subprocess.run(["sync", "-f", source], check=True)
    started = time.monotonic()
    subprocess.run(["cp", "-a", "-T", source, copy], check=True)
    subprocess.run(["sync", "-f", copy], check=True)
    return time.monotonic() - started
