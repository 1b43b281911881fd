"""Every program on the host has its row: no module starts one otherwise, and what a row says
holds."""

import ast
import asyncio
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.core import host_programs, watchdog
from codeagent.core.host_programs import (
    COMMAND,
    EDITOR,
    SEARCH,
    SERVER,
    HostProgram,
    finish_program,
    minimal,
    open_program,
    run_program,
    start_program,
)
from tests.fakes import put
from tests.table import for_each

PACKAGE = Path(host_programs.__file__).parents[1]
HOST_PROGRAMS = {
    name: row for name, row in vars(host_programs).items() if isinstance(row, HostProgram)
}
MODULES = {
    "SEARCH": {"tools.ripgrep"},
    "GIT_STATUS": {"workspace.git_status"},
    "GIT_CHECKPOINTS": {"workspace.snapshots.store", "workspace.snapshots.coverage"},
    "GIT_COMMIT": {"workspace.git"},
    "COMMIT_HOOKS": {"workspace.commits"},
    "SERVER": {"sandbox.programs"},
    "HOOK": {"agent.hooks.command"},
    "STATUS_LINE": {"tui.parts.own_status"},
    "COMMAND": {"sandbox.host"},
    "CLIPBOARD": {"extensions.attachments.pasting"},
    "EDITOR": {"tui.parts.external_editor"},
    "EDITOR_WINDOW": {"tui.parts.external_editor"},
    "BROWSER": {"extensions.mcp.browser"},
    "NOTIFIER": {"extensions.notify.command"},
    "CREDENTIALS": {"sandbox.credentials"},
    "PAGE_CONVERTER": {"extensions.web.markdown"},
    "IMAGE_BUILD": {"sandbox.image"},
    "GITHUB": {"extensions.review.pull_request"},
    "NEW_REPOSITORY": {"commands.demo"},
    "VERSION": {"commands.doctor"},
    "WATCHDOG_PROCESS": set(),  # the watchdog itself is below this module
    "THAWING": {"sandbox.thaw"},
    "ID_MAPPING": {"sandbox.work_user"},
}
"""The modules that start the program of each row."""
OURS = frozenset(
    {
        "start_program",
        "open_program",
        "run_program",
        "finish_program",
        "marked_environment",
        "set_limits",
        "new_mark",
    }
)
STARTS = {
    "subprocess": {
        "Popen",
        "run",
        "call",
        "check_call",
        "check_output",
        "getoutput",
        "getstatusoutput",
    },
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
    "os": {
        "system",
        "popen",
        "fork",
        "forkpty",
        "posix_spawn",
        "posix_spawnp",
        "startfile",
        "execl",
        "execle",
        "execlp",
        "execlpe",
        "execv",
        "execve",
        "execvp",
        "execvpe",
        "spawnl",
        "spawnle",
        "spawnlp",
        "spawnlpe",
        "spawnv",
        "spawnve",
        "spawnvp",
        "spawnvpe",
    },
    "pty": {"fork", "spawn"},
    "loop": {"subprocess_exec", "subprocess_shell"},
}
NEVER_IMPORTED = frozenset(
    {"webbrowser", "multiprocessing", "pexpect", "sh", "plumbum", "commands"}
)
STARTERS = frozenset(
    {"core.host_programs", "core.watchdog", "extensions.board.holder", "sandbox.id_mapping"}
)
"""The only modules that start a process themselves; the last two fork to own a terminal and a
namespace, the first of them to outlive the terminal that it was started on, too."""
LIBRARIES = {"git": "workspace.git", "docker": "sandbox.engine", "keyring": "config.keys"}
"""Libraries that may start programs: each has one importer (import-linter checks it), and what it
starts a row."""


def starts(tree: ast.AST) -> Iterator[str]:
    """What in a module starts a process, in whatever spelling."""
    types = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Subscript)
    }  # as in Popen[bytes]
    names = {name for those in STARTS.values() for name in those} - {"run", "call", "fork", "spawn"}
    for node in ast.walk(tree):
        match node:
            case _ if id(node) in types:
                continue
            case ast.Attribute(value=ast.Name(id=module), attr=name) if name in STARTS.get(
                module, ()
            ):
                if not (module == "asyncio" and name == "run"):
                    yield f"{module}.{name}"
            case ast.Attribute(attr=name) if name in names and name not in ("system", "popen"):
                yield name
            case ast.ImportFrom(module=module, names=those) if module in STARTS:
                yield from (
                    f"{module}.{each.name}" for each in those if each.name in STARTS[module]
                )
            case ast.Name(id="ProcessPoolExecutor") | ast.Attribute(attr="ProcessPoolExecutor"):
                yield "ProcessPoolExecutor"
            case ast.Import(names=those):
                yield from (
                    each.name for each in those if each.name.partition(".")[0] in NEVER_IMPORTED
                )
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in NEVER_IMPORTED:
                yield module


def modules() -> dict[str, str]:
    files = sorted(PACKAGE.rglob("*.py"))
    return {
        ".".join(file.relative_to(PACKAGE).with_suffix("").parts): file.read_text()
        for file in files
    }


def starts_in(text: str) -> list[str]:
    """What in a module starts a process. To parse those that name nothing of the kind would take
    seconds."""
    words = {*NEVER_IMPORTED, "ProcessPoolExecutor", "subprocess", "asyncio", "pty"}
    words |= {name for module in ("asyncio", "os", "loop") for name in STARTS[module]}
    named = re.search(rf"\b(?:{'|'.join(words)})\b", text)
    return [] if named is None else [*starts(ast.parse(text))]


def test_no_module_starts_a_process_but_through_a_row() -> None:
    found = {name: starts_in(text) for name, text in modules().items() if name not in STARTERS}
    assert {name: each for name, each in found.items() if each} == {}


@for_each(
    "code",
    [
        "import subprocess\nsubprocess.run(['x'])",
        "from subprocess import Popen",
        "import asyncio\nasyncio.create_subprocess_exec('x')",
        "import os\nos.execv('x', [])",
        "import os\nos.system('x')",
        "import webbrowser",
        "from multiprocessing import Process",
        "loop.subprocess_exec(x)",
        "import pty\npty.fork()",
        "import os\nstart = os.posix_spawn",
    ],
)
def test_the_search_for_starts_finds_each_spelling(code: str) -> None:
    assert starts_in(code)


def test_each_row_is_used_by_its_modules_and_by_no_other() -> None:
    used: dict[str, set[str]] = {name: set() for name in HOST_PROGRAMS}
    for module, text in modules().items():
        if module == "core.host_programs" or "host_programs" not in text:
            continue
        loaded = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        for name in loaded & used.keys():
            used[name].add(module)
    assert used == MODULES


def limits_of(pid: int) -> tuple[int, int]:
    return tuple(
        resource.prlimit(pid, kind)[1] for kind in (resource.RLIMIT_DATA, resource.RLIMIT_CORE)
    )  # type: ignore[return-value]  # two of them


@for_each("row", HOST_PROGRAMS.values())
def test_a_program_has_the_limits_of_its_row_and_no_core_dump(row: HostProgram) -> None:
    before = limits_of(os.getpid())
    with open_program(row, ["/bin/sleep", "600"], folder="/", environment={}) as process:
        try:
            assert limits_of(process.pid) == (before if row.memory is None else (row.memory, 0))
        finally:
            process.kill()


def test_a_child_that_began_before_the_limits_gets_them_too() -> None:
    """The event loop may take a while between the start and the limits."""
    script = "sleep 600 & (sleep 600 & wait) & wait"
    with subprocess.Popen(["/bin/bash", "-c", script], start_new_session=True) as process:
        try:
            while len(children := host_programs._children(process.pid)) < 2:
                time.sleep(0.01)
            host_programs.set_limits(SERVER, process.pid)
            assert {limits_of(pid) for pid in (process.pid, *children)} == {(SERVER.memory, 0)}
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@for_each("language", ["python3", "perl", "node"])
def test_memory_beyond_the_limit_is_refused_and_less_is_not(language: str) -> None:
    if (program := shutil.which(language)) is None:
        pytest.skip(f"there is no {language}")
    code = {
        "python3": ("-c", "import sys; x = bytearray(int(sys.argv[1])); print(len(x))"),
        "perl": ("-e", "$x = 'x' x $ARGV[0]; print length $x"),
        "node": ("-e", "const x = Buffer.alloc(+process.argv[1], 1); console.log(x.length)"),
    }[language]
    row = COMMAND
    for size in (1 << 20, 3 << 30):
        limited = HostProgram(**{**vars(row), "memory": 2 << 30})
        # A program that is quicker than whoever limits it would not be limited: it waits until it
        # is.
        waits = 'until [[ $(ulimit -d) != unlimited ]]; do :; done; exec "$@"'
        words = ["/bin/bash", "-c", waits, "bash", program, *code, str(size)]
        done = run_program(limited, words, folder="/", environment=minimal(os.environ), seconds=60)
        assert (done.returncode == 0) == (size < 2 << 30), done.stderr[-500:]


@for_each(
    "words",
    [("node", "--version"), ("npx", "--version"), ("java", "-version"), ("git", "--version")],
)
def test_a_runtime_that_reserves_address_space_starts_under_the_limit_of_a_server(
    words: tuple[str, ...],
) -> None:
    if (program := shutil.which(words[0])) is None:
        return
    done = run_program(
        SERVER, [program, *words[1:]], folder="/", environment=minimal(os.environ), seconds=60
    )
    assert done.returncode == 0, done.stderr[-500:]


async def test_a_program_gets_the_environment_that_is_given_and_a_mark() -> None:
    environment = {"A": "1", watchdog.MARK: "of somebody else"}
    process = await start_program(
        SERVER,
        ["/usr/bin/env"],
        folder="/",
        environment=environment,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    got = dict(line.split("=", 1) for line in out.decode().splitlines())
    assert got.keys() == {"A", watchdog.MARK} and got[watchdog.MARK] != "of somebody else"


async def test_a_program_that_is_not_there_raises_as_the_library_does(tmp_path: Path) -> None:
    for program in ("/nowhere/it", str(put(tmp_path, "not-executable", "x"))):
        with pytest.raises(OSError, match=r"No such file|Permission denied"):
            await start_program(SERVER, [program], folder="/", environment={})
        with pytest.raises(OSError, match=r"No such file|Permission denied"):
            open_program(SERVER, [program], folder="/", environment={})


def test_a_program_that_takes_too_long_is_killed_with_its_session(tmp_path: Path) -> None:
    words = ["/bin/bash", "-c", f"sleep 600 & echo $! > {tmp_path}/pid; sleep 600"]
    with pytest.raises(subprocess.TimeoutExpired):
        run_program(COMMAND, words, folder="/", environment={}, seconds=1, start_new_session=True)
    assert has_ended(tmp_path / "pid")


async def test_what_a_program_that_has_ended_left_in_its_session_is_killed_with_the_wait(
    tmp_path: Path,
) -> None:
    words = ["/bin/bash", "-c", f"sleep 600 & echo $! > {tmp_path}/pid; setsid sleep 600 & exit"]
    with pytest.raises(TimeoutError):
        await finish_program(COMMAND, words, folder="/", environment=dict(os.environ), seconds=1)
    assert has_ended(tmp_path / "pid")


def has_ended(pid: Path) -> bool:
    """Wait until the process with the pid in the file has ended; False if it does not."""
    status = Path("/proc", pid.read_text().strip(), "stat")
    until = time.monotonic() + 20
    while status.exists() and status.read_text().rpartition(") ")[2][0] != "Z":
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def test_the_watchdog_is_started_again_after_it_was_killed_and_knows_what_is_left() -> None:
    dog = watchdog.Watchdog()
    mark = dog.mark()
    dog.leave(mark)
    first = dog._process
    assert first is not None and first.stdin is not None
    first.kill()
    first.wait()
    environment = {watchdog.MARK: mark}
    with subprocess.Popen(["/bin/sleep", "600"], env=environment) as left:
        environment = {watchdog.MARK: dog.mark()}
        second = dog._process
        assert second is not None and second.stdin is not None and second.pid != first.pid
        with subprocess.Popen(["/bin/sleep", "600"], env=environment) as ours:
            second.stdin.close()
            assert ours.wait(20) == -signal.SIGTERM
        second.wait(20)
        assert left.poll() is None
        left.kill()


def test_a_program_that_ignores_term_is_killed_two_seconds_later() -> None:
    dog = watchdog.Watchdog()
    script = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    environment = {watchdog.MARK: dog.mark()}
    with subprocess.Popen(
        ["/bin/bash", "-c", script], env=environment, stdout=subprocess.PIPE
    ) as stubborn:
        assert stubborn.stdout is not None and stubborn.stdout.readline() == b"ready\n"
        assert dog._process is not None and dog._process.stdin is not None
        dog._process.stdin.close()
        assert stubborn.wait(20) == -signal.SIGKILL
        dog._process.wait(20)


def test_an_editor_gets_the_hang_up_of_its_terminal_and_may_save() -> None:
    dog = watchdog.Watchdog()
    script = "trap 'echo saved; exit 3' HUP; echo ready; while :; do sleep 0.1; done"
    environment = {watchdog.MARK: dog.mark(hangs_up=EDITOR.ends == "hung up")}
    with subprocess.Popen(
        ["/bin/bash", "-c", script], env=environment, stdout=subprocess.PIPE
    ) as editor:
        assert editor.stdout is not None and editor.stdout.readline() == b"ready\n"
        assert dog._process is not None and dog._process.stdin is not None
        dog._process.stdin.close()
        assert (editor.stdout.read(), editor.wait(20)) == (b"saved\n", 3)
        dog._process.wait(20)


def test_the_watchdogs_command_line_does_not_name_the_package() -> None:
    dog = watchdog.Watchdog()
    dog.mark()
    assert dog._process is not None and dog._process.stdin is not None
    command = Path("/proc", str(dog._process.pid), "cmdline").read_bytes()
    assert b"codeagent" not in command.replace(os.fsencode(sys._base_executable), b"")  # type: ignore[attr-defined]  # undocumented
    dog._process.stdin.close()
    dog._process.wait(20)


def test_nothing_of_another_program_is_ended() -> None:
    """The positive control is above: what has the mark is."""
    dogs = [watchdog.Watchdog() for _ in range(2)]
    environment = {watchdog.MARK: dogs[0].mark()}
    dogs[1].mark()
    with subprocess.Popen(["/bin/sleep", "600"], env=environment) as other:
        assert dogs[1]._process is not None and dogs[1]._process.stdin is not None
        dogs[1]._process.stdin.close()
        dogs[1]._process.wait(20)
        assert other.poll() is None
        assert dogs[0]._process is not None and dogs[0]._process.stdin is not None
        dogs[0]._process.stdin.close()
        assert other.wait(20) == -signal.SIGTERM


def test_without_a_list_of_processes_and_without_prlimit_programs_still_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on macOS."""
    monkeypatch.setattr(host_programs, "WATCHDOG", watchdog.Watchdog())
    monkeypatch.setattr(watchdog.Path, "exists", lambda path: False)
    monkeypatch.delattr(resource, "prlimit")
    done = run_program(SEARCH, ["/bin/echo", "it"], folder="/", environment={}, seconds=60)
    assert done.stdout == b"it\n"
    assert host_programs.WATCHDOG._process is None


def test_the_page_about_host_programs_has_words_in_every_column_of_every_row() -> None:
    page = (PACKAGE.parent / "docs/explanation/host-programs.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| **")]
    assert [name for name, *_ in rows] == [f"**{row.name}**" for row in HOST_PROGRAMS.values()]
    assert all(len(cells) == 7 and all(map(str.strip, cells)) for cells in rows)
    assert "(explanation/host-programs.md)" in (PACKAGE.parent / "docs/README.md").read_text()
