"""What tests share: how much they try, what they need of the machine, and workspaces to run
commands in."""

import gc
import importlib
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import is_hypothesis_test, settings

from codeagent.sandbox.docker_sandbox import DockerSandbox
from tests import rows, warm
from tests.effort import ENDS, FACTOR, SEED, times
from tests.needs import check_needs
from tests.sandboxes import make_repository, make_submodule, make_worktree, opened, sandbox_spec

_LAST_LINE = pytest.StashKey[str]()
MakeSandbox = Callable[..., Awaitable[DockerSandbox]]

os.environ.setdefault(warm.RUN, str(os.getpid()))
# Where the environment forbids byte code, every test process would rewrite every test module again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# `python3` is the interpreter of the tests: the shim of a version manager takes a tenth of a second
# at each start.
os.environ["PATH"] = f"{sys.base_prefix}/bin:{os.environ['PATH']}"
sys.dont_write_bytecode = False
# Pictures are in true colour; a test of another depth asks for it.
os.environ["COLORTERM"] = "truecolor"
# Under nohup SIGHUP arrives ignored and would be handed on to every process the tests start.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
# `make test` tries the same examples every time; new ones are found by `make soak`, with the seed
# it prints.
settings.register_profile(
    "codeagent", max_examples=times(25), deadline=None, derandomize=not FACTOR
)
settings.load_profile("codeagent")


def pytest_collection(session: pytest.Session) -> None:
    """Share the compiling of a fresh checkout: each worker begins elsewhere, and finds compiled
    what others began with.

    What cannot be imported is reported when it is collected.
    """
    config = session.config
    worker = getattr(config, "workerinput", None)
    if worker is None or config.args != config.getini("testpaths"):
        return
    modules = sorted(
        path.relative_to(config.rootpath) for path in config.rootpath.glob("tests/**/test_*.py")
    )
    first = int(worker["workerid"].removeprefix("gw")) * len(modules) // worker["workercount"]
    for module in modules[first:] + modules[:first]:
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(module.with_suffix("").parts))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    from tests.portions import PortionScheduling  # only where there are workers

    return PortionScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    _mark_properties(items)
    _keep_together(items)


def _mark_properties(items: list[pytest.Item]) -> None:
    """Every property is part of the soak; a row that is none is an error."""
    for item in items:
        for mark in item.iter_markers("soak"):
            if mark.kwargs.get("row", "egress") not in rows.AIMS:
                raise pytest.UsageError(
                    f"{item.nodeid}: there is no row {mark.kwargs['row']!r} in tests/rows.py"
                )
        test = getattr(item, "obj", None)
        if is_hypothesis_test(test):
            used: settings = (
                test._hypothesis_internal_use_settings
            )  # hypothesis says it nowhere else
            item.add_marker(pytest.mark.soak(tried=used.max_examples))


def _keep_together(items: list[pytest.Item]) -> None:
    """Tests that share what their module makes once, such as a container, run in one worker: it is
    made once.

    Those that build images do, too: each removes what was built meanwhile.
    """
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        if item.get_closest_marker("docker") and hasattr(item.module, "small_image"):
            item.add_marker(pytest.mark.xdist_group("images"))
        else:
            used = (
                item._fixtureinfo.name2fixturedefs.values()
            )  # what a test uses is said nowhere else
            if any(found[-1].scope == "module" and found[-1].baseid for found in used):
                item.add_marker(pytest.mark.xdist_group(item.path.name))


def pytest_collection_finish() -> None:
    """What was imported and collected lives as long as the run: to look through it again and again
    is for nothing."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


def pytest_runtest_setup(item: pytest.Item) -> None:
    check_needs(item)
    if not FACTOR:
        return
    if time.monotonic() > ENDS:
        pytest.skip(rows.OUT_OF_TIME)
    for mark in item.iter_markers("soak"):
        item.user_properties += mark.kwargs.items()


@pytest.fixture
def tried(request: pytest.FixtureRequest) -> Callable[[int], None]:
    """Says how many cases were tried, where a test knows it only at its end."""
    return lambda number: request.node.user_properties.append(("tried", number))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: "pytest.CallInfo[None]") -> None:
    if FACTOR and call.excinfo is not None:
        item.user_properties.append(("breaches", rows.breaches(call.excinfo.value)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What a soak tried, and how often: by test, and by row."""
    if not FACTOR:
        return
    passed = terminalreporter.getreports("passed")
    tried: Counter[str] = Counter()
    for report in passed:
        tried[report.nodeid.partition("[")[0]] += sum(
            value for name, value in report.user_properties if name == "tried"
        )
    terminalreporter.section(f"{len(tried)} tests tried {tried.total():,} cases")
    for name, number in sorted(tried.items()):
        terminalreporter.write_line(f"{number:>9,}  {name}")
    terminalreporter.section("what must hold")
    for line in rows.table(_tried(terminalreporter), SEED, rows.aims(FACTOR, rows.ONLY)):
        terminalreporter.write_line(line)


def _tried(reporter: pytest.TerminalReporter) -> list[pytest.TestReport]:
    return [
        report
        for outcome in ("passed", "failed", "error")
        for report in reporter.getreports(outcome)
    ]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a soak that tried too little of a row, unless its time was up."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not FACTOR or hasattr(session.config, "workerinput") or reporter is None:
        return
    if not (short := rows.shortfall(_tried(reporter), rows.aims(FACTOR, rows.ONLY))):
        return
    cut = any(rows.OUT_OF_TIME in str(report.longrepr) for report in reporter.getreports("skipped"))
    session.config.stash[_LAST_LINE] = f"{short}; {rows.OUT_OF_TIME}" if cut else short
    if not cut and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    if line := config.stash.get(_LAST_LINE, ""):
        sys.stdout.write(f"{line}\n")


@pytest.fixture
def workspace_dir(tmp_path: Path) -> Path:
    """A small git repository with one commit, below a directory of its own."""
    return make_repository(tmp_path / "project")


@pytest.fixture
def worktree(workspace_dir: Path) -> Path:
    """A linked worktree of `workspace_dir`."""
    return make_worktree(workspace_dir)


@pytest.fixture
def submodule(workspace_dir: Path) -> Path:
    """A submodule of `workspace_dir`."""
    return make_submodule(workspace_dir)


@pytest_asyncio.fixture
async def make_sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[MakeSandbox]:
    """`await make_sandbox(root, **fields of SandboxSpec)`: started, and closed after the test."""
    made: list[DockerSandbox] = []
    state_dir = tmp_path_factory.mktemp("state")

    async def make(root: Path, **fields: object) -> DockerSandbox:
        sandbox = DockerSandbox(sandbox_spec(root, state_dir, **fields))
        made.append(sandbox)
        await sandbox.start(lambda _: None)
        return sandbox

    yield make
    for sandbox in made:
        await sandbox.close()


@pytest_asyncio.fixture
async def sandbox(make_sandbox: MakeSandbox, workspace_dir: Path) -> DockerSandbox:
    """A started sandbox over `workspace_dir`."""
    return await make_sandbox(workspace_dir)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DockerSandbox]:
    """A started sandbox that the tests of a module share."""
    base = tmp_path_factory.mktemp("shared")
    async with opened(make_repository(base / "project"), base / "state") as sandbox:
        yield sandbox
