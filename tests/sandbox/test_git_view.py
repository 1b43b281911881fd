"""Git in a container does not call a file changed because it is masked there, and nothing else
about git differs."""

import shutil
import subprocess
from pathlib import Path

import pytest

from codeagent.disk.repository import repository_of
from codeagent.sandbox.git_view import skipping
from tests.conftest import MakeSandbox
from tests.sandboxes import make_repository, run

CONTENT = "needle of the certificate\n"


def git(root: Path, *arguments: str) -> str:
    settings = (
        "-c",
        "user.name=T",
        "-c",
        "user.email=t@example.org",
        "-c",
        "protocol.file.allow=always",
    )
    done = subprocess.run(
        ["git", "-C", root, *settings, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout


def with_tracked_secret(root: Path, name: str = "etc/store.p12") -> Path:
    """A repository with one commit that has a file which is masked in containers."""
    make_repository(root)
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(CONTENT)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "with a secret")
    return root


def many_files(root: Path, *, kind: str) -> list[str]:
    """A repository whose file names have every length modulo eight; returns those of its
    secrets."""
    subprocess.run(["git", "init", "-q", f"--object-format={kind}", root], check=True)
    secrets = [f"{'d' * length}/k.pem" for length in range(1, 10)]
    for name in (
        *secrets,
        *(f"{'d' * length}/{'f' * length}.txt" for length in range(1, 10)),
        "é.key",
        f"{'l' * 250}.c",
    ):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(f"content of {name}\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "all")
    return [*secrets, "é.key"]


@pytest.mark.parametrize("kind", ["sha1", "sha256"])
@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_git_reads_an_index_of_every_version_in_which_files_are_skipped(
    tmp_path: Path, version: str, kind: str
) -> None:
    secrets = many_files(tmp_path, kind=kind)
    git(tmp_path, "update-index", "--index-version", version, "--untracked-cache")
    (tmp_path / "planned.txt").touch()
    git(tmp_path, "add", "--intent-to-add", "planned.txt")  # an entry with further flags
    index = tmp_path / ".git/index"
    before, listed = index.read_bytes(), git(tmp_path, "ls-files", "--stage")
    names = frozenset(name.encode() for name in secrets)
    data, found = skipping(before, names | {b"not/tracked.pem"})
    assert found == names
    index.write_bytes(data)
    for name in secrets:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "d/f.txt").write_text("changed\n")
    assert git(tmp_path, "status", "--porcelain") == " M d/f.txt\n A planned.txt\n"
    assert git(tmp_path, "ls-files", "--stage") == listed
    marks = {
        line[0]
        for line in git(
            tmp_path, "-c", "core.quotePath=off", "ls-files", "-v", *secrets
        ).splitlines()
    }
    assert marks == {"S"}


def test_an_index_without_these_files_stays_as_it_is(tmp_path: Path) -> None:
    index = (make_repository(tmp_path / "r") / ".git/index").read_bytes()
    assert skipping(index, frozenset({b"other.pem"})) == (index, frozenset())


@pytest.mark.parametrize("damage", ["split", "cut", "other", "flipped"])
def test_an_index_that_is_not_understood_is_refused(tmp_path: Path, damage: str) -> None:
    root = with_tracked_secret(tmp_path / "r")
    if damage == "split":
        git(root, "update-index", "--split-index")
    data = (root / ".git/index").read_bytes()
    damaged = {
        "cut": data[:90],
        "other": b"x" * 200,
        "flipped": data[:40] + b"\xff" + data[41:],
    }.get(damage, data)
    with pytest.raises(ValueError):
        skipping(damaged, frozenset({b"etc/store.p12"}))


@pytest.mark.docker
async def test_a_masked_file_is_unchanged_for_git_and_stays_hidden(
    make_sandbox: MakeSandbox, tmp_path: Path
) -> None:
    root = with_tracked_secret(tmp_path / "project")
    index = (root / ".git/index").read_bytes()
    sandbox = await make_sandbox(root)
    ran = await run(
        sandbox, "git status --porcelain; git diff --stat; git diff-index HEAD; git ls-files -m"
    )
    assert (ran.stdout, ran.stderr, ran.result.exit_code) == (b"", b"", 0)
    ran = await run(sandbox, "cat etc/store.p12; grep -r needle etc; git grep needle")
    assert ran.stdout == b""
    ran = await run(
        sandbox,
        "echo x >> hello.py; git status --porcelain; git log --oneline | wc -l; git rev-parse --git-dir",
    )
    assert ran.stdout == b" M hello.py\n2\n.git\n"
    assert (root / ".git/index").read_bytes() == index


@pytest.mark.docker
async def test_a_masked_file_can_be_neither_added_nor_committed(
    make_sandbox: MakeSandbox, tmp_path: Path
) -> None:
    root = with_tracked_secret(tmp_path / "project")
    head, index = git(root, "rev-parse", "HEAD"), (root / ".git/index").read_bytes()
    sandbox = await make_sandbox(root)
    for command in (
        "git add -f etc/store.p12",
        "git update-index --no-skip-worktree etc/store.p12",
        "git -c user.name=a -c user.email=b commit -am x",
        "git checkout -- etc/store.p12",
        "echo x > .git/index",
        "rm -f .git/index",
        "ln -sf x .git/HEAD",
        "touch .git/codeagent-git/x",
        "GIT_DIR=.git/codeagent-git git add -f etc/store.p12",
    ):
        ran = await run(sandbox, command)
        assert ran.result.exit_code != 0, command
    outside = "cp -r . /tmp/copy && cd /tmp/copy && git -c user.name=a -c user.email=b commit -qam x; git show --stat"
    assert b"store.p12 | 1 -" not in (await run(sandbox, outside)).stdout
    assert (git(root, "rev-parse", "HEAD"), (root / ".git/index").read_bytes()) == (head, index)
    assert (root / "etc/store.p12").read_text() == CONTENT


@pytest.mark.docker
async def test_what_the_user_does_with_git_is_seen_by_the_next_command(
    make_sandbox: MakeSandbox, tmp_path: Path
) -> None:
    root = with_tracked_secret(tmp_path / "project")
    sandbox = await make_sandbox(root)
    await run(sandbox, "touch /tmp/kept")
    (root / "new.py").touch()
    git(root, "add", "new.py")
    assert (await run(sandbox, "git status --porcelain")).stdout == b"A  new.py\n"
    git(root, "commit", "-qm", "third")
    git(root, "checkout", "-qb", "side")
    git(root, "pack-refs", "--all")
    (root / ".git/MERGE_MSG").write_text("merged\n")
    asked = (
        "git status --porcelain; git branch --show-current; git log -1 --format=%s; cat "
        ".git/MERGE_MSG; ls /tmp/kept"
    )
    ran = await run(sandbox, asked)
    assert (ran.stdout, ran.result.notices) == (b"side\nthird\nmerged\n/tmp/kept\n", ())
    git(root, "rm", "-q", "--cached", "etc/store.p12")
    assert (await run(sandbox, "git status --porcelain")).stdout == b"D  etc/store.p12\n?? etc/\n"


@pytest.mark.docker
async def test_a_masked_file_that_git_tracks_later_is_unchanged_from_then_on(
    make_sandbox: MakeSandbox, tmp_path: Path
) -> None:
    root = make_repository(tmp_path / "project")
    (root / ".env").write_text(CONTENT)
    sandbox = await make_sandbox(root)
    assert (await run(sandbox, "git status --porcelain")).stdout == b"?? .env\n"
    (root / "new.py").touch()
    git(root, "add", "new.py")
    assert (await run(sandbox, "git status --porcelain")).result.notices == ()
    git(root, "add", ".env")
    ran = await run(sandbox, "git status --porcelain")
    assert ran.stdout == b"A  .env\nA  new.py\n"
    assert "replaced because .git/index changed" in ran.result.notices[0]
    assert (await run(sandbox, "true")).result.notices == ()


@pytest.mark.docker
async def test_it_holds_in_a_folder_of_the_repository(
    make_sandbox: MakeSandbox, tmp_path: Path
) -> None:
    root = with_tracked_secret(tmp_path / "project", "src/store.p12")
    (root / "above.p12").write_text(CONTENT)
    git(root, "add", "-A")
    sandbox = await make_sandbox(root / "src")
    assert (
        await run(sandbox, "git status --porcelain; cat store.p12 ../above.p12")
    ).stdout == b"A  above.p12\n"


@pytest.mark.docker
@pytest.mark.parametrize("linked", ["worktree", "submodule"])
async def test_it_holds_where_the_git_directory_is_elsewhere(
    make_sandbox: MakeSandbox, tmp_path: Path, linked: str
) -> None:
    main = with_tracked_secret(tmp_path / "main")
    root = tmp_path / "tree"
    if linked == "worktree":
        git(main, "worktree", "add", "-q", str(root))
    else:
        outer = make_repository(tmp_path / "outer")
        git(outer, "submodule", "add", "-q", str(main), "inner")
        root = outer / "inner"
    found = repository_of(root)
    assert found is not None and found.outside is not None
    sandbox = await make_sandbox(root, agreed_git=frozenset({found.outside.digest}))
    ran = await run(
        sandbox, "git status --porcelain; cat etc/store.p12; git log --format=%s | head -1"
    )
    assert (ran.stdout, ran.stderr) == (b"with a secret\n", b"")


@pytest.mark.docker
async def test_a_submodule_in_the_workspace_keeps_working(
    make_sandbox: MakeSandbox, tmp_path: Path
) -> None:
    inner, root = make_repository(tmp_path / "inner"), with_tracked_secret(tmp_path / "project")
    git(root, "submodule", "add", "-q", str(inner), "lib")
    git(root, "commit", "-qm", "with a submodule")
    sandbox = await make_sandbox(root)
    ran = await run(
        sandbox,
        "git status --porcelain; git -C lib rev-parse --show-toplevel; git -C lib status --porcelain",
    )
    assert (ran.stdout, ran.stderr) == (f"{root}/lib\n".encode(), b"")


@pytest.mark.docker
async def test_objects_that_are_borrowed_from_elsewhere_in_the_workspace_are_found(
    make_sandbox: MakeSandbox, tmp_path: Path
) -> None:
    root = with_tracked_secret(tmp_path / "project")
    git(root, "clone", "-q", "--bare", ".", "store")
    (root / ".gitignore").write_text("store\n")
    (root / ".git/objects/info/alternates").write_text("../../store/objects\n")
    git(root, "repack", "-qadl")
    sandbox = await make_sandbox(root)
    ran = await run(sandbox, "git log --oneline | wc -l; git status --porcelain")
    assert (ran.stdout, ran.stderr) == (b"2\n?? .gitignore\n", b"")


@pytest.mark.docker
async def test_the_sandbox_stays_usable_when_the_repository_is_removed_or_made_again(
    make_sandbox: MakeSandbox, tmp_path: Path
) -> None:
    root = with_tracked_secret(tmp_path / "project")
    sandbox = await make_sandbox(root)
    (root / ".git").rename(tmp_path / "away")
    ran = await run(sandbox, "cat etc/store.p12; echo still here")
    assert ran.stdout == b"still here\n"
    (tmp_path / "away").rename(root / ".git")
    await sandbox.sweep()
    assert (await run(sandbox, "git status --porcelain")).stdout == b""


@pytest.mark.docker
async def test_a_view_that_cannot_be_kept_is_said_and_the_container_stays(
    make_sandbox: MakeSandbox, tmp_path: Path
) -> None:
    root = with_tracked_secret(tmp_path / "project")
    sandbox = await make_sandbox(root)
    views = sandbox.spec.state_dir / "sandbox/git"
    shutil.rmtree(views)
    views.touch()  # in place of the folder
    assert (
        "replaced because .git/index changed"
        in (await run(sandbox, "touch /tmp/kept")).result.notices[0]
    )
    warnings = (await sandbox.start(lambda _: None)).warnings
    assert any("may show files as changed that are only hidden" in each for each in warnings), (
        warnings
    )
    ran = await run(sandbox, "ls /tmp/kept; cat etc/store.p12; git status --porcelain")
    assert (ran.stdout, ran.result.notices) == (b"/tmp/kept\n M etc/store.p12\n", ())


@pytest.mark.docker
async def test_an_index_that_cannot_be_used_is_said(
    make_sandbox: MakeSandbox, tmp_path: Path
) -> None:
    root = with_tracked_secret(tmp_path / "project")
    git(root, "update-index", "--split-index")
    sandbox = await make_sandbox(root)
    warnings = (await sandbox.start(lambda _: None)).warnings
    assert any("may show files as changed that are only hidden" in each for each in warnings), (
        warnings
    )
    assert (await run(sandbox, "git status --porcelain")).stdout == b" M etc/store.p12\n"
