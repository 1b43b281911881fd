"""No program of the repository stands in for one of the machine, however it is
named.

Every test has both: in the repository a program that leaves a trace, and outside it the real one,
which must answer.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker.credentials import errors

from codeagent.agent.hooks.command import CommandHook
from codeagent.commands.demo import commit_all
from codeagent.core.errors import CodeagentError, SandboxUnavailable
from codeagent.core.programs import find_program
from codeagent.core.sandbox import Command, StdioProgram
from codeagent.extensions.mcp.browser import open_in_browser
from codeagent.sandbox.credentials import CredentialHelpers
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.host import HostSandbox
from codeagent.sandbox.programs import MachinePrograms
from codeagent.tools.ripgrep import find_ripgrep
from codeagent.tui.parts.external_editor import EditorFailed, editor_command
from codeagent.workspace.git_status import git_status
from tests.e2e.product import Product, bash, calls, say
from tests.fakes import put
from tests.sandboxes import make_repository
from tests.table import for_each

NAMES = (
    "git",
    "rg",
    "bash",
    "sh",
    "python3",
    "node",
    "npx",
    "docker-credential-store",
    "xdg-open",
    "open",
    "ssh",
    "less",
    "nano",
    "vi",
    "wl-copy",
    "xclip",
    "notify-send",
    "env",
    "setpriv",
    "prlimit",
    "uname",
    "debootstrap",
    "tar",
)
ENTRIES = (
    "{repo}",
    "{repo}/bin",
    ".",
    "",
    "bin",
    "./bin",
    "{link}",
    "{repo}/../repo/bin",
    "../repo/bin",
)


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository full of programs, in which we are, and which comes first in PATH in every
    spelling."""
    repo = make_repository(tmp_path / "repo")
    for name in NAMES:
        for folder in ("", "bin/"):
            put(repo, f"{folder}{name}", f"#!/bin/sh\n: > {tmp_path}/FIRED-{name}\n").chmod(0o755)
    (tmp_path / "link").symlink_to(repo / "bin")
    entries = [each.format(repo=repo, link=tmp_path / "link") for each in ENTRIES]
    monkeypatch.setenv("PATH", os.pathsep.join([*entries, os.environ["PATH"]]))
    monkeypatch.chdir(repo)
    yield repo
    assert [path.name for path in tmp_path.glob("FIRED-*")] == []


def test_the_trap_fires_where_a_program_is_looked_up_carelessly(repo: Path, tmp_path: Path) -> None:
    subprocess.run(["git", "status"], check=True)
    assert (tmp_path / "FIRED-git").exists()
    (tmp_path / "FIRED-git").unlink()


@for_each("name", NAMES)
def test_no_name_is_found_in_the_repository(repo: Path, name: str) -> None:
    found = find_program(name, repo)
    assert found is None or not Path(found).resolve().is_relative_to(repo)


def test_git_shows_the_status_and_makes_a_repository(repo: Path, tmp_path: Path) -> None:
    assert git_status(repo).changes > 0
    put(tmp_path, "new/file", "x")
    environment = dict(os.environ)
    assert (commit_all(tmp_path / "new", "first", environment) / ".git/HEAD").exists()


def test_ripgrep_is_not_the_repositorys(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _: "/nowhere")
    found = find_ripgrep(repo)
    assert found is None or not Path(found).is_relative_to(repo)


def test_a_run_with_a_checkpoint_a_search_and_a_command_starts_none_of_them(
    repo: Path, tmp_path: Path
) -> None:
    product = Product(repo, tmp_path / "home")
    product.home.mkdir()
    turns = [
        calls(
            ("write", {"path": "new.txt", "content": "x\n"}),
            ("search", {"pattern": "x"}),
            bash("true"),
        ),
        say("done"),
    ]
    done = product.run(product.script(*turns), "--yes")
    assert done.code == 0, done.err
    assert (repo / "new.txt").exists()


async def test_a_command_without_a_sandbox_runs_the_machines_bash(
    repo: Path, tmp_path: Path
) -> None:
    sandbox = HostSandbox(repo, os.environ, tmp_path / "state")
    said = bytearray()

    async def keep(_: str, piece: bytes) -> None:
        said.extend(piece)

    done = await sandbox.run(Command("echo $BASH", "call"), keep)
    assert (done.exit_code, Path(said.decode().strip()).is_relative_to(repo)) == (0, False)


def leads_into(folder: str, repo: Path) -> bool:
    """Whether an entry of PATH is, or may be, in the repository."""
    return not folder or Path(folder).resolve().is_relative_to(repo)


async def test_a_server_and_a_hook_named_like_one_run_the_machines(
    repo: Path, tmp_path: Path
) -> None:
    start = MachinePrograms(repo, os.environ, tmp_path / "servers").start
    server = await start(StdioProgram(("python3", "-c", "print('real')")))
    pieces = [piece async for _, piece in server.output()]
    await server.close()
    assert b"".join(pieces) == b"real\n"
    with pytest.raises(SandboxUnavailable, match="lies in the workspace"):
        await start(StdioProgram(("notify-send",)))
    hook = CommandHook("session_start", ("python3", "-c", "print('real')"), repo)
    assert (await hook._run_program(b"{}")).out == b"real\n"
    shell = CommandHook("session_start", ("bash", "-c", "echo $PATH"), repo)
    folders = (await shell._run_program(b"{}")).out.decode().strip().split(os.pathsep)
    assert [each for each in folders if leads_into(each, repo)] == []


@for_each("variable", ["VISUAL", "EDITOR"])
@for_each("value", ["nano", "./nano", "bin/nano", "nano -w", "../repo/bin/nano", "notify-send"])
def test_an_editor_is_not_taken_from_the_repository(repo: Path, variable: str, value: str) -> None:
    try:
        (program, *_) = editor_command({variable: value}, repo)
    except EditorFailed as failure:
        assert "Your text is unchanged." in str(failure)
        return
    assert not Path(program).resolve().is_relative_to(repo)


def test_an_editor_on_path_and_one_by_its_full_path_are_run(repo: Path, tmp_path: Path) -> None:
    own = put(tmp_path, "own/ed", "#!/bin/sh\n")
    own.chmod(0o755)
    assert editor_command({"EDITOR": f"{own} -x"}, repo) == [str(own), "-x"]
    assert editor_command({"EDITOR": "sed"}, repo)[0].endswith("/sed")


@pytest.mark.parametrize(("browser", "words"), [("{own}/browser --new %s &", "--new\n"), ("", "")])
def test_a_browser_is_not_taken_from_the_repository_but_from_the_machine(
    browser: str, words: str, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("browser", "xdg-open", "open"):
        own = put(
            tmp_path,
            f"own/{name}",
            f'#!/bin/sh\nprintf "%s\\n" "$PWD" "$BROWSER" "$@" > {tmp_path}/opened.part\n'
            f"mv {tmp_path}/opened.part {tmp_path}/opened\n",
        )
        own.chmod(0o755)
    monkeypatch.setenv("PATH", f"{own.parent}{os.pathsep}{os.environ['PATH']}")
    hostile = ["./xdg-open", "bin/xdg-open %s", "notify-send"]
    said = os.pathsep.join([*hostile, browser.format(own=own.parent)])
    assert open_in_browser("https://it/?a=1&b=$(id)", os.environ | {"BROWSER": said}, repo)
    while not (tmp_path / "opened").exists():
        pass
    opened = (tmp_path / "opened").read_text()
    assert opened == f"/\n\n{words}https://it/?a=1&b=$(id)\n"


def test_a_credential_helper_is_not_taken_from_the_repository_but_from_the_machine(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helpers = CredentialHelpers(repo, errors)
    with pytest.raises(
        errors.StoreError, match="docker-credential-store is not on PATH outside the workspace"
    ):
        helpers["store"].get("registry")
    with pytest.raises(errors.StoreError, match="is not on PATH"):
        helpers["../repo/bin/x"].get("registry")
    answer = '{"Username": "ada", "Secret": "s"}'
    own = put(tmp_path, "own/docker-credential-own", f"#!/bin/sh\nread name; echo '{answer}'\n")
    own.chmod(0o755)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{own.parent}")
    assert CredentialHelpers(repo, errors)["own"].get("registry") == {
        "Username": "ada",
        "Secret": "s",
    }


@pytest.mark.docker
def test_dockers_library_asks_our_helpers(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "docker/config.json", '{"credsStore": "store"}')
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    engine = Engine("/var/run/docker.sock", workspace=repo)
    try:
        problem = engine.pull("localhost:1/none@sha256:" + "0" * 64, lambda _: None)
    finally:
        engine.close()
    assert problem is not None and "is not on PATH outside the workspace" in problem


def test_nothing_is_found_where_only_the_repository_has_it(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join([str(repo / "bin"), "bin", "."]))
    assert git_status(repo).changes == 0
    with pytest.raises(CodeagentError, match="lies in the workspace"):
        commit_all(repo / "bin", "first", dict(os.environ))
    assert find_program("git", repo) is None
