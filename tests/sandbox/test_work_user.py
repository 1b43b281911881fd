"""As whom commands run in a workspace that belongs to root, and that what they make there is still
root's."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from codeagent.sandbox import work_user
from codeagent.sandbox.spec import Bind
from codeagent.sandbox.work_user import ORDINARY, WorkUser, WorkUserChoice
from tests.conftest import MakeSandbox
from tests.sandboxes import make_repository, run
from tests.table import for_each


def mounted() -> str:
    return Path("/proc/self/mountinfo").read_text()


@pytest.mark.root
@pytest.mark.docker
async def test_commands_in_a_workspace_of_roots_use_its_private_files_and_what_they_make_is_roots(
    make_sandbox: MakeSandbox, tmp_path: Path
) -> None:
    root = make_repository(tmp_path / "with\nline break")
    private = root / "private"
    private.write_text("old\n")
    private.chmod(0o600)
    (root / ".git" / "config").chmod(0o600)
    sandbox = await make_sandbox(root)
    ran = await run(
        sandbox,
        "id -u; id -g; git log --oneline | wc -l; cat private; echo new > private; mkdir -m 700 d",
    )
    assert ran.stdout.split() == [b"65532", b"65532", b"1", b"old"]
    assert (ran.result.exit_code, private.read_text()) == (0, "new\n")
    made = [
        (path.stat().st_uid, path.stat().st_gid, path.stat().st_mode & 0o777)
        for path in (private, root / "d")
    ]
    assert made == [(0, 0, 0o600), (0, 0, 0o700)]


@pytest.mark.root
@pytest.mark.docker
async def test_commands_do_not_own_what_belongs_to_root_in_the_container(
    make_sandbox: MakeSandbox, workspace_dir: Path
) -> None:
    sandbox = await make_sandbox(workspace_dir)
    own = "for each in / /etc /dev /proc/1 /proc/sys/kernel . hello.py ~; do test -O $each && echo $each; done; :"
    assert (await run(sandbox, own)).stdout == b".\nhello.py\n/home/agent\n"


@pytest.mark.root
@pytest.mark.docker
async def test_git_takes_no_file_for_changed_because_of_its_owner(
    make_sandbox: MakeSandbox, tmp_path: Path
) -> None:
    root = make_repository(tmp_path / "project")
    sandbox = await make_sandbox(root)
    seen = await run(sandbox, "git ls-files -m; git diff-files; git config safe.bareRepository")
    assert seen.stdout == b"explicit\n"
    (root / "hello.py").write_text("changed\n")
    assert (await run(sandbox, "git ls-files -m")).stdout == b"hello.py\n"


@pytest.mark.root
@pytest.mark.docker
async def test_no_mount_is_left_on_this_machine_once_a_container_has_started(
    make_sandbox: MakeSandbox, workspace_dir: Path
) -> None:
    await make_sandbox(workspace_dir)
    assert str(workspace_dir) not in mounted()


@pytest.mark.root
@pytest.mark.docker
async def test_commands_run_as_root_without_capabilities_where_the_engine_does_not_see_the_mounts(
    make_sandbox: MakeSandbox, workspace_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unseen(choice: WorkUserChoice, binds: tuple[Bind, ...]) -> tuple[Bind, ...]:
        """Give the engine what is below the mounts, as one with mounts of its own sees it."""
        if not choice.user.mapped:
            return binds
        folder = tmp_path / "unseen"
        folder.mkdir(exist_ok=True)
        return tuple(
            Bind(str(folder), bind.target, bind.read_only)
            if bind.source == str(workspace_dir)
            else bind
            for bind in binds
            if not bind.source.startswith(f"{workspace_dir}/")
        )

    monkeypatch.setattr(WorkUserChoice, "over", unseen)
    sandbox = await make_sandbox(workspace_dir)
    info = await sandbox.start(lambda _: None)
    assert info.user.startswith(
        "root, no capabilities (with mapped ids, the self-test failed: the workspace inside is"
    )
    assert (
        await run(sandbox, "id -u; cat hello.py > /dev/null; grep CapEff /proc/self/status")
    ).stdout.split() == [b"0", b"CapEff:", b"0" * 16]


@pytest.mark.root
@pytest.mark.docker
async def test_commands_run_as_root_without_capabilities_where_the_engine_refuses_the_mounts(
    make_sandbox: MakeSandbox, workspace_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def elsewhere(choice: WorkUserChoice, binds: tuple[Bind, ...]) -> tuple[Bind, ...]:
        gone = (Bind("/run/not-there", "/not-there"),) if choice.user.mapped else ()
        return binds + gone

    monkeypatch.setattr(WorkUserChoice, "over", elsewhere)
    info = await (await make_sandbox(workspace_dir)).start(lambda _: None)
    assert info.user.startswith(
        "root, no capabilities (the engine refuses mounts with mapped ids: "
    )


@pytest.mark.root
@pytest.mark.docker
async def test_commands_run_as_root_without_capabilities_where_ids_cannot_be_mapped(
    make_sandbox: MakeSandbox, workspace_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        work_user, "_asked", lambda mapping, words: "mount_setattr: Invalid argument"
    )
    info = await (await make_sandbox(workspace_dir)).start(lambda _: None)
    assert (
        info.user
        == "root, no capabilities (ids cannot be mapped here: mount_setattr: Invalid argument)"
    )


def mapping_program() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", str(work_user._PROGRAM)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)


def shown(program: subprocess.Popen[bytes], place: Path, folder: Path) -> None:
    """Let the program mount a folder at a place."""
    assert work_user._asked(program, [str(place), "65532", "65532", str(folder)]) == ""


@pytest.mark.root
def test_mounts_that_a_crash_left_end_with_the_next_start_and_those_in_use_stay(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "shown"
    folder.mkdir()
    (folder / "file").write_text("kept")
    with mapping_program() as killed, mapping_program() as used, mapping_program() as program:
        shown(killed, tmp_path / f"codeagent-{killed.pid}", folder)
        shown(used, tmp_path / f"codeagent-{used.pid}", folder)
        killed.kill()
        killed.wait()
        assert (tmp_path / f"codeagent-{killed.pid}" / "0" / "file").exists()
        (tmp_path / "codeagent-others").mkdir()
        shown(program, tmp_path / f"codeagent-{program.pid}", folder)
        program.communicate()
        assert (tmp_path / f"codeagent-{used.pid}" / "0" / "file").read_text() == "kept"
    assert {path.name for path in tmp_path.iterdir()} == {"shown", "codeagent-others"}
    assert (folder / "file").read_text() == "kept"


@pytest.mark.root
def test_a_start_does_not_wait_for_a_program_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = tmp_path / "hanging.py"
    hanging.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n")
    monkeypatch.setattr(work_user, "_PROGRAM", hanging)
    monkeypatch.setattr(work_user, "_SECONDS", 0.01)
    root = SimpleNamespace(uid=0, gid=0)
    with work_user.choose_user(root, "") as choice:  # type: ignore[arg-type]  # only its owner is read
        choice.show([str(tmp_path)])
        assert (
            choice.user.why_root == "ids cannot be mapped here: the program for it did not answer"
        )
        assert choice._mapping is not None
    os.kill(choice._mapping.pid, signal.SIGKILL)
    assert choice._mapping.wait() == -signal.SIGKILL


@pytest.mark.root
def test_the_mounts_end_if_codeagent_is_killed(tmp_path: Path) -> None:
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "file").write_text("kept")
    words = [str(tmp_path / "place"), "65532", "65532", str(tmp_path / "shown")]
    with mapping_program() as program:
        assert work_user._asked(program, words) == ""
        seen = (tmp_path / "place" / "0" / "file").stat()
        assert (seen.st_uid, seen.st_gid) == (ORDINARY, ORDINARY)
        assert program.stdin is not None
        program.stdin.close()  # as the kernel does for a process that is killed
    assert not (tmp_path / "place").exists()
    assert (tmp_path / "shown" / "file").read_text() == "kept"


@pytest.mark.root
@for_each(
    ("folders", "problem"),
    [
        (["/proc"], "mount_setattr: Invalid argument"),
        (["/etc", "/not-there"], "open_tree: No such file or directory"),
        (["/etc", "/not-there", "/usr", "/opt"], "open_tree: No such file or directory"),
    ],
)
def test_a_problem_is_said_and_nothing_is_left(
    tmp_path: Path, folders: list[str], problem: str
) -> None:
    with mapping_program() as program:
        assert work_user._asked(program, [str(tmp_path / "place"), "1", "1", *folders]) == problem
    assert not (tmp_path / "place").exists()


def test_only_what_is_in_a_shown_folder_is_mounted_from_there() -> None:
    choice = WorkUserChoice(WorkUser(0, 0), None)
    choice._mounts = {"/w": "/run/x/0", "/w-other": "/run/x/1"}
    sources = ["/w", "/w/.git", "/w-other/a", "/w-third", "/usr"]
    shown = [bind.source for bind in choice.over(tuple(Bind(source, source) for source in sources))]
    assert shown == ["/run/x/0", "/run/x/0/.git", "/run/x/1/a", "/w-third", "/usr"]


def test_folders_in_others_are_shown_once() -> None:
    assert work_user._outermost(["/w/a", "/w", "/w-b", "/w/a", "/z"]) == ["/w", "/w-b", "/z"]
