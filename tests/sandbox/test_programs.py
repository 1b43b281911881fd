"""Programs that are talked to while they run, in a container of their own or on this machine."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from codeagent.core.errors import SandboxLost, SandboxUnavailable
from codeagent.core.sandbox import Command, RunningProgram, StartProgram, StdioProgram
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.egress.internet import Internet
from codeagent.sandbox.programs import MachinePrograms
from tests.fakes import put
from tests.sandbox.egress.proxying import Names, Origin, listening
from tests.sandboxes import Ran, make_repository, opened, run

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory.mktemp("programs") / "project")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(project: Path) -> AsyncIterator[DockerSandbox]:
    async with opened(project, project.parent / "state") as sandbox:
        yield sandbox


@pytest.fixture(params=[pytest.param("container", marks=pytest.mark.docker), "machine"])
def start(request: pytest.FixtureRequest, project: Path) -> StartProgram:
    if request.param == "machine":
        own = project.parent / "own"
        return MachinePrograms(project, {**os.environ, "HIDDEN_FROM_IT": "x"}, own).start
    return request.getfixturevalue("sandbox").start_program


def bash(script: str, **fields: object) -> StdioProgram:
    return StdioProgram(("bash", "-c", script), **fields)  # type: ignore[arg-type]  # by name


async def said(program: RunningProgram) -> dict[str, bytes]:
    """All it writes until it has ended."""
    out = {"stdout": b"", "stderr": b""}
    async with asyncio.timeout(60):
        async for name, piece in program.output():
            out[name] += piece
    return out


async def test_a_program_answers_on_both_streams_until_it_ends(start: StartProgram) -> None:
    program = await start(bash('read -r a; read -r b; echo "$b $a"; echo heard >&2; exit 7'))
    await program.send(b"one\ntwo\n")
    assert await said(program) == {"stdout": b"two one\n", "stderr": b"heard\n"}
    assert await program.close() == 7


async def test_it_gets_its_variables_its_folder_and_none_of_ours(
    start: StartProgram, project: Path
) -> None:
    (project / "inner").mkdir(exist_ok=True)
    script = 'echo "$GIVEN,${HIDDEN_FROM_IT-}"; basename "$PWD"'
    program = await start(bash(script, variables={"GIVEN": "a b"}, directory="inner"))
    assert (await said(program))["stdout"] == b"a b,\ninner\n"
    await program.close()


async def test_without_a_folder_it_starts_in_an_empty_one_of_its_own_outside_the_workspace(
    start: StartProgram, project: Path
) -> None:
    program = await start(
        bash('ls -A | wc -l; stat -c %a .; cd ..; ls -A | grep -c hello.py; echo "$PYTHONSAFEPATH"')
    )
    assert (await said(program))["stdout"].split() == [b"0", b"700", b"0", b"1"]
    await program.close()


async def test_in_a_folder_of_its_own_it_finds_no_program_or_module_of_the_workspace(
    start: StartProgram, project: Path
) -> None:
    put(project, "mcp_server_git.py", "print('of the workspace')")
    program = await start(StdioProgram(("python3", "-m", "mcp_server_git"), {"TOKEN": "hush"}))
    written = await said(program)
    assert written["stdout"] == b"" and b"No module named mcp_server_git" in written["stderr"]
    assert await program.close() == 1


async def test_a_variable_that_it_is_given_comes_before_ours(start: StartProgram) -> None:
    program = await start(bash('echo "[$PYTHONSAFEPATH]"', variables={"PYTHONSAFEPATH": ""}))
    assert (await said(program))["stdout"] == b"[]\n"
    await program.close()


async def test_what_is_left_in_a_folder_of_its_own_is_removed_with_it_and_what_a_killed_process_left_later(
    project: Path, tmp_path: Path
) -> None:
    programs, left = (
        MachinePrograms(project, dict(os.environ), tmp_path / "own"),
        tmp_path / "own/left",
    )
    put(left, "deep/file", "x")
    first, second = [
        await programs.start(bash("mkdir deep; touch deep/file; read -r line; pwd"))
        for _ in range(2)
    ]
    assert not left.exists() and len([*(tmp_path / "own").glob("*/")]) == 2
    await first.close()
    await second.send(b"\n")
    assert Path((await said(second))["stdout"].decode().strip()).parent == tmp_path / "own"
    await second.close()
    assert [*(tmp_path / "own").glob("*/")] == []


@pytest.mark.parametrize("where", ["state", "link/state"])
async def test_a_program_on_this_machine_is_not_started_if_its_own_folder_would_be_in_the_workspace(
    project: Path, tmp_path: Path, where: str
) -> None:
    link = tmp_path / "link"
    link.symlink_to(project)
    folders = project / where if where == "state" else tmp_path / where
    with pytest.raises(SandboxUnavailable, match="its own folder would be in the workspace"):
        await MachinePrograms(project, dict(os.environ), folders).start(bash("touch fired"))


async def test_a_program_on_this_machine_inherits_no_place_in_the_workspace(
    project: Path, tmp_path: Path
) -> None:
    (project / "bin").mkdir(exist_ok=True)
    (tmp_path / "link").symlink_to(project / "bin")
    names = (
        "HOME",
        "SHELL",
        "TMPDIR",
        "PYTHONPATH",
        "NODE_PATH",
        "NODE_OPTIONS",
        "GEM_HOME",
        "VIRTUAL_ENV",
        "ENV",
    )
    mine = dict.fromkeys(names, str(project)) | {
        "PATH": f"{project}/bin:.::{tmp_path}/link:bin:/usr/bin:/bin",
        "TZ": "UTC",
    }
    program = await MachinePrograms(project, mine, tmp_path / "own").start(StdioProgram(("env",)))
    given = dict(
        line.split("=", 1) for line in (await said(program))["stdout"].decode().splitlines()
    )
    assert (
        given.keys() == {"PATH", "TZ", "PYTHONSAFEPATH", "CODEAGENT_CALL"}
        and given["PATH"] == "/usr/bin:/bin"
    )
    await program.close()


async def test_a_relative_command_is_refused_on_this_machine(project: Path, tmp_path: Path) -> None:
    put(project, "run.sh", "#!/bin/sh\ntouch fired\n")
    (project / "run.sh").chmod(0o755)
    with pytest.raises(SandboxUnavailable, match=r"\./run\.sh is relative"):
        await MachinePrograms(project, dict(os.environ), tmp_path / "own").start(
            StdioProgram(("./run.sh",))
        )


@pytest.mark.docker
async def test_in_a_folder_of_its_own_an_environment_of_the_workspace_is_not_used(
    tmp_path: Path,
) -> None:
    root = make_repository(tmp_path / "p")
    put(root, ".venv/pyvenv.cfg", "home = /usr/bin\n")
    for name in ("python3", "mypy"):
        put(root, f".venv/bin/{name}", "#!/bin/sh\necho of the workspace\n")
        (root / f".venv/bin/{name}").chmod(0o755)
    script = (
        'python3 -c "print(1)"; mypy; echo "[$VIRTUAL_ENV]"; [[ $PATH == *"$ROOT"* ]] || echo clean'
    )
    async with opened(root, tmp_path / "s", environment=root / ".venv") as sandbox:
        there = await sandbox.start_program(
            bash(script, variables={"ROOT": str(root)}, directory="")
        )
        assert (await said(there))["stdout"].count(b"of the workspace") == 2
        apart = await sandbox.start_program(bash(script, variables={"ROOT": str(root)}))
        assert (await said(apart))["stdout"] == b"1\n[]\nclean\n"


async def test_closing_ends_what_does_not_want_to_end(start: StartProgram) -> None:
    program = await start(
        bash("trap '' TERM HUP; setsid sleep 600 & echo ready; while :; do sleep 600; done")
    )
    async for _, piece in program.output():
        assert piece == b"ready\n"
        break
    async with asyncio.timeout(60):
        await asyncio.gather(program.close(), program.close())
    with pytest.raises(SandboxLost):
        for _ in range(100):
            await program.send(b"x" * 65536)


async def test_a_missing_program_is_named(start: StartProgram) -> None:
    try:
        program = await start(StdioProgram(("no-such-program", "--stdio")))
    except SandboxUnavailable as error:
        assert "no-such-program" in str(error)
        return
    assert b"no-such-program" in (await said(program))["stderr"]
    assert await program.close() == 127


@pytest.mark.docker
async def test_a_programs_container_has_no_network_is_frozen_and_ends_with_it(
    sandbox: DockerSandbox, project: Path
) -> None:
    writer = "date > beat; ls /sys/class/net; while :; do date +%N > beat; done"
    program = await sandbox.start_program(bash(writer, directory="", writes=True))
    async for _, piece in program.output():
        assert piece.split() == [b"lo"]
        break
    async with sandbox.frozen():
        before = (project / "beat").stat().st_mtime_ns
        assert {(project / "beat").stat().st_mtime_ns for _ in range(10_000)} == {before}
    assert (await run(sandbox, "pgrep -f 'be[a]t' | wc -l")).stdout == b"0\n"
    await program.close()
    assert sandbox._programs.containers == ()


@pytest.mark.docker
async def test_only_a_program_that_may_write_writes_in_the_workspace_and_counts_as_something_that_could(
    sandbox: DockerSandbox, project: Path
) -> None:
    script = "exec 2> /dev/null; echo x > new.txt; mkdir sub; echo y > /tmp/a && echo z > ~/b && echo home; read -r _"
    reader = await sandbox.start_program(bash(script, directory=""))
    assert await anext(reader.output()) == ("stdout", b"home\n")
    assert not (project / "new.txt").exists() and not (project / "sub").exists()
    assert not reader.writes and not (await sandbox.sweep()).alive
    writer = await sandbox.start_program(bash(script, directory="", writes=True))
    assert await anext(writer.output()) == ("stdout", b"home\n")
    assert (project / "new.txt").read_text() == "x\n" and (project / "sub").is_dir()
    assert writer.writes and (await sandbox.sweep()).alive
    await writer.close()
    assert not (await sandbox.sweep()).alive
    await reader.close()


@pytest.mark.docker
async def test_what_a_program_plants_before_another_container_is_made_is_not_taken_for_the_users(
    tmp_path: Path,
) -> None:
    (tmp_path / "p").mkdir()
    async with opened(tmp_path / "p", tmp_path / "s") as sandbox:
        script = "read -r _; mkdir .git; echo done; read -r _"
        program = await sandbox.start_program(bash(script, directory="", writes=True))
        output = program.output()
        await program.send(b"now\n")
        assert await anext(output) == ("stdout", b"done\n")
        await sandbox.run(Command("true", "call", read_only=True), Ran())
        [notice] = (await sandbox.sweep()).notices
        assert "a command created .git" in notice and not (tmp_path / "p/.git").exists()
        await program.close()


@pytest.mark.docker
async def test_a_program_that_sleeps_leaves_the_moment_as_it_was(sandbox: DockerSandbox) -> None:
    program = await sandbox.start_program(
        bash("while read -r line; do echo $line; done", writes=True)
    )
    output = program.output()
    await program.send(b"one\n")
    assert await anext(output) == ("stdout", b"one\n")
    asleep = await sandbox.sweep()
    while (again := await sandbox.sweep()) != asleep:
        asleep = again
    assert asleep.alive
    await program.send(b"two\n")
    assert await anext(output) == ("stdout", b"two\n")
    assert (await sandbox.sweep()).moment not in (asleep.moment, None)
    await program.close()


@pytest.mark.docker
async def test_every_container_is_closed_even_if_a_program_does_not_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(make_repository(tmp_path / "p"), tmp_path / "s") as sandbox:
        programs = [await sandbox.start_program(bash("read -r line")) for _ in range(2)]
        await run(sandbox, "true")
        places = (*sandbox._programs.containers, sandbox._default)

        async def broken() -> None:
            raise OSError("the stream is gone")

        monkeypatch.setattr(programs[0], "_drop", broken)
        with pytest.raises(OSError, match="the stream is gone"):
            await sandbox.close()
        assert [place._container for place in places] == [None] * 3
        assert len(places) == 3 and all(place._stale is None for place in places)


@pytest.mark.docker
async def test_a_program_is_outdated_once_something_to_protect_appears(
    sandbox: DockerSandbox, project: Path
) -> None:
    program = await sandbox.start_program(bash("read -r line"))
    assert await program.outdated() == ""
    (project / ".codeagent").mkdir()
    assert await program.outdated() == ".codeagent changed outside the sandbox"
    await program.close()


@pytest.mark.docker
async def test_a_program_reaches_its_hosts_and_nothing_else(tmp_path: Path) -> None:
    internet = Internet(resolve=Names(), allowed=lambda _: True)
    fetch = "import sys, urllib.request as u; [print(u.urlopen(url.strip()).status, flush=True) for url in sys.stdin]"
    async with (
        opened(make_repository(tmp_path / "p"), tmp_path / "s", internet) as sandbox,
        listening(Origin()) as at,
    ):
        python = StdioProgram(("python3", "-c", fetch), hosts=(f"origin.example:{at.port}",))
        program = await sandbox.start_program(python)
        await program.send(f"http://origin.example:{at.port}/\n".encode())
        output = program.output()
        assert await anext(output) == ("stdout", b"200\n")
        await program.send(f"http://other.example:{at.port}/\n".encode())
        assert b"403" in b"".join([piece async for _, piece in output])
        assert await program.close() == 1
        assert at.connections == 1


async def test_a_relative_command_is_one_of_the_folder_that_was_chosen(
    project: Path, tmp_path: Path
) -> None:
    for folder, text in ((tmp_path / "chosen", "chosen"), (project, "workspace")):
        put(folder, "run.sh", f"#!/bin/sh\necho {text}\n")
        (folder / "run.sh").chmod(0o755)
    programs = MachinePrograms(project, dict(os.environ), tmp_path / "own")
    program = await programs.start(StdioProgram(("./run.sh",), directory=str(tmp_path / "chosen")))
    assert (await said(program))["stdout"] == b"chosen\n"
    await program.close()
