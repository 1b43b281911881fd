"""A commit holds exactly what was shown, and leaves everything else of the repository as it was."""

import errno
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codeagent.core.changes import CommitRefused, Committed
from codeagent.core.checkpoints import Node
from codeagent.core.errors import ContentChanged, OutsideWorkspace
from codeagent.disk.repository import repository_of
from codeagent.workspace.commits import GitCommitter
from codeagent.workspace.files import LocalWorkspace
from tests.copies import copied
from tests.effort import part, times


def make_home_and_project(base: Path) -> None:
    (base / "home").mkdir()
    (base / "home/.gitconfig").write_text(
        "[user]\n\tname = Ada L\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n"
    )
    (base / "project").mkdir()
    made = Repo(base / "project", {"HOME": str(base / "home"), "PATH": os.environ["PATH"]})
    made.git("init", "-q")
    for name in ("a.txt", "b.txt", "src/c.txt"):
        made.put(name, f"{name}\n")
    made.git("add", "-A")
    made.git("commit", "-qm", "first")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return copied(make_home_and_project, tmp_path / "base") / "home"


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "PATH": os.environ["PATH"]}


@pytest.fixture
def repo(home: Path, environment: dict[str, str]) -> "Repo":
    return Repo(home.parent / "project", environment)


class Repo:
    """A work tree or a folder in one, looked at with plain git."""

    def __init__(self, root: Path, environment: dict[str, str], *, agreed: bool = False) -> None:
        self.root = root
        self.environment = environment
        self.agreed = agreed
        self.workspace = LocalWorkspace(root)

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done
        return done.stdout

    def put(self, path: str, text: str | bytes) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())
        return target

    def committer(self, *, hooks: bool = False) -> GitCommitter:
        return GitCommitter(
            self.workspace, self.environment, hooks=hooks, agreed=lambda _: self.agreed
        )

    def commit(self, *paths: str, message: str = "second", hooks: bool = False) -> Committed:
        committer = self.committer(hooks=hooks)
        return committer.commit(message, paths, committer.plan(message, paths).base)

    def refusal(self, *paths: str, message: str = "second", hooks: bool = False) -> str:
        """Why not; the repository is as it was."""
        before = self.state()
        for call in (
            lambda: self.committer(hooks=hooks).plan(message, paths),
            lambda: self.committer(hooks=hooks).commit(message, paths, None),
        ):
            with pytest.raises(CommitRefused) as caught:
                call()
        assert self.state() == before
        return str(caught.value)

    def state(self) -> dict[str, bytes]:
        """Every file of the git directory."""
        found = repository_of(self.root)
        assert found is not None
        folder = found.top / ".git" if found.outside is None else found.outside.directory
        files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        return {str(path): path.read_bytes() for path in files}

    def files(self, commit: str = "HEAD") -> list[str]:
        return self.git("ls-tree", "-r", "--name-only", commit).split()


def test_a_changed_and_a_new_file_are_committed_and_nothing_else(repo: Repo) -> None:
    repo.put("a.txt", "changed\n")
    repo.put("new/file.txt", "new\n")
    repo.put("b.txt", "not this\n")
    done = repo.commit("a.txt", "new/file.txt", message="Say why\n\nIn two lines.\n")
    assert (
        done.commit
        == repo.git("rev-parse", "HEAD").strip()
        == repo.git("rev-parse", "main").strip()
    )
    assert repo.git("log", "-1", "--format=%an <%ae>|%cn <%ce>|%B").strip() == (
        "Ada L <ada@example.org>|Ada L <ada@example.org>|Say why\n\nIn two lines."
    )
    assert repo.git("diff", "--name-status", "HEAD~1", "HEAD") == "M\ta.txt\nA\tnew/file.txt\n"
    assert repo.git("status", "--porcelain") == " M b.txt\n"
    assert [(change.kind, change.path) for change in done.plan.changes] == [
        ("modified", "a.txt"),
        ("added", "new/file.txt"),
    ]
    repo.git("fsck", "--strict")


def test_the_plan_says_all_that_the_commit_will_hold_and_writes_nothing(repo: Repo) -> None:
    repo.put("a.txt", "after\n")
    before = repo.state()
    plan = repo.committer().plan("x", ("a.txt",))
    assert repo.state() == before
    (change,) = plan.changes
    assert (plan.branch, plan.author) == ("main", "Ada L <ada@example.org>")
    assert plan.parent == repo.git("rev-parse", "HEAD").strip()
    assert (change.path, change.before, change.after) == (
        "a.txt",
        Node("file", b"a.txt\n"),
        Node("file", b"after\n"),
    )


def test_what_else_is_staged_stays_staged_and_out(repo: Repo) -> None:
    repo.put("b.txt", "staged\n")
    repo.put("added.txt", "staged\n")
    repo.git("add", "b.txt", "added.txt")
    repo.put("b.txt", "and changed again\n")
    repo.git("rm", "-q", "--cached", "src/c.txt")
    staged = repo.git("diff", "--cached", "--raw", "--abbrev=40")
    repo.put("a.txt", "changed\n")
    repo.commit("a.txt")
    assert repo.git("diff", "--name-only", "HEAD~1", "HEAD") == "a.txt\n"
    assert repo.git("diff", "--cached", "--raw", "--abbrev=40") == staged
    assert repo.git("diff-files", "--name-only") == "b.txt\n"


def test_a_staged_path_is_committed_as_it_is_on_disk(repo: Repo) -> None:
    repo.put("a.txt", "staged\n")
    repo.git("add", "a.txt")
    repo.put("a.txt", "on disk\n")
    repo.commit("a.txt")
    assert repo.git("show", "HEAD:a.txt") == "on disk\n"
    assert repo.git("status", "--porcelain") == ""


def test_a_deletion_a_rename_and_a_file_in_a_folders_place(repo: Repo) -> None:
    (repo.root / "a.txt").rename(repo.root / "moved.txt")
    (repo.root / "src" / "c.txt").unlink()
    (repo.root / "src").rmdir()
    repo.put("src", "now a file\n")
    done = repo.commit("a.txt", "moved.txt", "src/c.txt", "src")
    assert [(change.kind, change.path) for change in done.plan.changes] == [
        ("deleted", "a.txt"),
        ("added", "moved.txt"),
        ("added", "src"),
        ("deleted", "src/c.txt"),
    ]
    assert repo.files() == ["b.txt", "moved.txt", "src"]
    assert repo.git("status", "--porcelain") == ""


def test_a_folder_in_a_files_place(repo: Repo) -> None:
    (repo.root / "a.txt").unlink()
    repo.put("a.txt/inside", "x\n")
    repo.commit("a.txt")
    assert repo.files() == ["a.txt/inside", "b.txt", "src/c.txt"]
    assert repo.git("status", "--porcelain") == ""


def test_the_executable_bit_and_links_are_kept_and_said(repo: Repo) -> None:
    (repo.root / "a.txt").chmod(0o755)
    (repo.root / "link").symlink_to("a.txt")
    repo.put("run", "#!/bin/sh\n").chmod(0o755)
    done = repo.commit("a.txt", "link", "run")
    assert [(change.path, change.note) for change in done.plan.changes] == [
        ("a.txt", "now executable"),
        ("link", "link"),
        ("run", "executable"),
    ]
    modes = {
        line.split("\t")[1]: line[:6] for line in repo.git("ls-tree", "-r", "HEAD").splitlines()
    }
    assert (modes["a.txt"], modes["link"], modes["run"]) == ("100755", "120000", "100755")
    assert repo.git("show", "HEAD:link") == "a.txt"
    assert repo.git("status", "--porcelain") == ""


def test_a_folder_stands_for_what_differs_in_it_and_is_not_ignored(repo: Repo) -> None:
    repo.put(".gitignore", "*.log\n")
    repo.put("src/c.txt", "changed\n")
    repo.put("src/deep/new.txt", "x\n")
    repo.put("src/x.log", "x\n")
    repo.put("a.txt", "outside\n")
    done = repo.commit("src")
    assert [change.path for change in done.plan.changes] == ["src/c.txt", "src/deep/new.txt"]
    done = repo.commit(".")
    assert [change.path for change in done.plan.changes] == [".gitignore", "a.txt"]
    assert repo.git("status", "--porcelain") == ""


def test_the_first_commit_of_a_branch(tmp_path: Path, environment: dict[str, str]) -> None:
    root = tmp_path / "fresh"
    root.mkdir()
    repo = Repo(root, environment)
    repo.git("init", "-q")
    repo.put("a.txt", "x\n")
    repo.put("b.txt", "x\n")
    repo.git("add", "b.txt")
    done = repo.commit("a.txt", message="Begin")
    assert done.plan.parent == ""
    assert repo.git("log", "--format=%s %P") == "Begin \n"
    assert repo.git("status", "--porcelain") == "A  b.txt\n"
    assert "commit (initial): Begin" in repo.git("reflog")


def test_a_first_commit_of_everything(tmp_path: Path, environment: dict[str, str]) -> None:
    root = tmp_path / "fresh"
    root.mkdir()
    repo = Repo(root, environment)
    repo.git("init", "-q")
    repo.put("a/b.txt", "x\n")
    repo.commit(".", message="Begin")
    assert repo.git("status", "--porcelain") == ""


def test_the_reflog_of_branch_and_head_has_an_entry(repo: Repo) -> None:
    repo.put("a.txt", "x\n")
    repo.commit("a.txt", message="Second one\n\nbody")
    for name in ("HEAD", "main"):
        assert (
            repo.git("reflog", "show", "-1", "--format=%gs", name).strip() == "commit: Second one"
        )


@pytest.mark.parametrize("pack", [["gc", "-q"], ["pack-refs", "--all"]])
def test_packed_branches_and_objects_are_as_good(repo: Repo, pack: list[str]) -> None:
    repo.git("checkout", "-qb", "feature/deep/x")
    repo.git(*pack)
    repo.put("a.txt", "x\n")
    repo.commit("a.txt")
    assert repo.git("log", "--format=%s", "feature/deep/x") == "second\nfirst\n"
    assert repo.git("log", "--format=%s", "main") == "first\n"
    repo.git("fsck", "--strict")


def test_line_endings_are_stored_as_the_user_has_set_it(repo: Repo) -> None:
    repo.git("config", "core.autocrlf", "input")
    repo.put("crlf.txt", "a\r\nb\r\n")
    repo.put(".gitattributes", "*.bat -text\n")
    repo.put("x.bat", "a\r\n")
    repo.commit("crlf.txt", "x.bat", ".gitattributes")
    assert subprocess.check_output(["git", "show", "HEAD:crlf.txt"], cwd=repo.root) == b"a\nb\n"
    assert subprocess.check_output(["git", "show", "HEAD:x.bat"], cwd=repo.root) == b"a\r\n"
    assert repo.git("status", "--porcelain") == ""


def test_odd_names_are_names(repo: Repo) -> None:
    names = [
        "-rf",
        "$(touch x)",
        "a\nb",
        ";",
        "ä €",
        "x" * 255,
        ":(top)a",
        "*",
        '"quoted"',
        " lead",
        "tab\tbed",
    ]
    for name in names:
        repo.put(name, "x\n")
    done = repo.commit(*(f"./{name}" for name in names))
    assert {change.path for change in done.plan.changes} == set(names)
    assert repo.git("status", "--porcelain") == ""


Change = Callable[[Repo], object]
CHANGES: dict[str, Change] = {
    "the file": lambda repo: repo.put("a.txt", "another\n"),
    "its mode": lambda repo: (repo.root / "a.txt").chmod(0o755),
    "the index": lambda repo: (repo.put("b.txt", "x\n"), repo.git("add", "b.txt")),
    "the last commit": lambda repo: repo.git("commit", "-q", "--allow-empty", "-m", "between"),
    "the branch": lambda repo: repo.git("checkout", "-qb", "other"),
    "the author": lambda repo: repo.git("config", "user.name", "Somebody Else"),
    "the attributes": lambda repo: repo.put(".gitattributes", "* text eol=lf\n"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_changed_after_it_was_shown_is_not_committed(repo: Repo, what: str) -> None:
    repo.put("a.txt", "shown\r\n")
    committer = repo.committer()
    base = committer.plan("x", ("a.txt",)).base
    CHANGES[what](repo)
    before = repo.state()
    with pytest.raises(ContentChanged):
        committer.commit("x", ("a.txt",), base)
    assert repo.state() == before


def test_a_look_at_the_status_meanwhile_changes_nothing(repo: Repo) -> None:
    repo.put("a.txt", "shown\n")
    committer = repo.committer()
    base = committer.plan("x", ("a.txt",)).base
    (repo.root / "b.txt").touch()
    repo.git("status")
    committer.commit("x", ("a.txt",), base)


def test_the_user_s_own_ignore_file_and_identity_for_some_folders_are_read(
    repo: Repo, home: Path
) -> None:
    (home / "work").write_text("[user]\n\temail = ada@work.example\n")
    (home / ".gitconfig").write_text(
        (home / ".gitconfig").read_text()
        + f'[core]\n\texcludesFile = ~/ignore\n[includeIf "gitdir:{repo.root.parent}/"]\n\tpath = ~/work\n'
    )
    (home / "ignore").write_text("*.tmp\n")
    repo.put("x.tmp", "x\n")
    assert "x.tmp is ignored" in repo.refusal("x.tmp")
    repo.put("a.txt", "x\n")
    assert repo.commit("a.txt").plan.author == "Ada L <ada@work.example>"


def test_a_tracked_file_may_be_ignored(repo: Repo) -> None:
    repo.put(".gitignore", "*.txt\n")
    repo.put("a.txt", "x\n")
    repo.commit("a.txt")
    assert repo.git("show", "HEAD:a.txt") == "x\n"


def test_without_an_identity_it_says_how_to_set_one(repo: Repo, home: Path) -> None:
    (home / ".gitconfig").write_text("[user]\n\tname = Ada\n")
    repo.put("a.txt", "x\n")
    said = repo.refusal("a.txt")
    assert "git config --global user.name" in said and "git config --global user.email" in said


@pytest.mark.parametrize("message", ["", "  \n\t\n"])
def test_an_empty_message_is_refused(repo: Repo, message: str) -> None:
    repo.put("a.txt", "x\n")
    assert "message is empty" in repo.refusal("a.txt", message=message)


def test_nothing_to_commit_is_said(repo: Repo) -> None:
    assert "nothing to commit: a.txt is the same as in the last commit" in repo.refusal("a.txt")
    assert "nothing to commit" in repo.refusal("src")


def test_a_path_nobody_knows_is_said(repo: Repo) -> None:
    assert "nope.txt does not exist" in repo.refusal("nope.txt")


def test_a_path_outside_is_refused(repo: Repo) -> None:
    with pytest.raises(OutsideWorkspace):
        repo.committer().plan("x", ("../outside",))


def test_a_path_over_a_link_is_refused_and_its_target_is_not_read(
    repo: Repo, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    (repo.root / "way").symlink_to(tmp_path / "outside")
    assert "reached through a link" in repo.refusal("way/secret")


@pytest.mark.parametrize("path", [".git/config", ".GIT/x", "src/.git/config"])
def test_git_s_own_files_are_refused(repo: Repo, path: str) -> None:
    assert "belongs to git" in repo.refusal(path)


def test_special_and_huge_files_are_refused(repo: Repo) -> None:
    os.mkfifo(repo.root / "pipe")
    assert "pipe" in repo.refusal("pipe")
    with (repo.root / "huge").open("wb") as file:
        file.truncate(200 << 20)
    assert "larger than 100 MiB" in repo.refusal("huge")


def test_a_file_that_is_stored_through_a_filter_is_refused(repo: Repo) -> None:
    repo.put(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    repo.put("x.bin", "x\n")
    assert "stored through a filter (lfs)" in repo.refusal("x.bin")


def test_a_repository_within_is_refused_by_every_path(
    repo: Repo, tmp_path: Path, environment: dict[str, str]
) -> None:
    repo.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repo.root), "module"
    )
    repo.git("commit", "-qm", "module")
    repo.put("module/a.txt", "x\n")
    assert "module is a submodule" in repo.refusal("module")
    assert "repository of its own" in repo.refusal("module/a.txt")
    repo.git("init", "-q", "planted")
    repo.put("planted/x", "x\n")
    assert "repository of its own" in repo.refusal("planted/x")
    assert "planted/ is a repository of its own" in repo.refusal(".")


def test_a_submodule_that_is_not_checked_out_is_refused(repo: Repo) -> None:
    repo.git(
        "update-index",
        "--add",
        "--cacheinfo",
        f"160000,{repo.git('rev-parse', 'HEAD').strip()},module",
    )
    assert "submodule" in repo.refusal("module")


def test_a_secret_is_committed_only_by_its_own_name(repo: Repo) -> None:
    repo.put("conf/.env", "KEY=1\n")
    assert "looks like a file of secrets" in repo.refusal("conf")
    repo.commit("conf/.env")
    assert "conf/.env" in repo.files()


def merging(repo: Repo) -> None:
    repo.git("checkout", "-qb", "x")
    repo.put("b.txt", "1\n")
    repo.git("commit", "-qam", "x")
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--no-ff", "--no-commit", "x")


def linked(repo: Repo, name: str) -> None:
    """A link where git keeps something of its own."""
    path = repo.root / ".git" / name
    path.rename(repo.root / ".git/moved")
    path.symlink_to(repo.root / ".git/moved")


BUSY: dict[str, Change] = {
    "a merge": merging,
    "a rebase": lambda repo: (repo.root / ".git/rebase-merge").mkdir(),
    "a bisect": lambda repo: repo.git("bisect", "start"),
    "a cherry-pick": lambda repo: repo.put(".git/CHERRY_PICK_HEAD", "x"),
    "a revert": lambda repo: repo.put(".git/REVERT_HEAD", "x"),
    "no branch": lambda repo: repo.git("checkout", "-q", "--detach"),
    "index.lock": lambda repo: repo.put(".git/index.lock", ""),
    "commondir": lambda repo: repo.put(".git/commondir", "../elsewhere"),
    "alternates": lambda repo: repo.put(".git/objects/info/alternates", "/elsewhere"),
    "core.worktree": lambda repo: repo.git("config", "core.worktree", "/tmp"),
    "core.attributesfile": lambda repo: repo.git("config", "core.attributesFile", "/tmp/x"),
    "bare": lambda repo: repo.put(".git/config", "[core]\n\tbare = true\n"),
    "does not know": lambda repo: repo.put(".git/config", "[extensions]\n\tnewThing = yes\n"),
    "cannot read its configuration": lambda repo: repo.put(".git/config", "[core\n"),
    "split": lambda repo: repo.git("update-index", "--split-index"),
    "logs/HEAD": lambda repo: linked(repo, "logs/HEAD"),
    "logs/refs/heads/main": lambda repo: linked(repo, "logs/refs/heads/main"),
    "refs/heads": lambda repo: linked(repo, "refs/heads"),
    "HEAD cannot be read": lambda repo: linked(repo, "HEAD"),
    ".git/index is not": lambda repo: linked(repo, "index"),
    "objects contains": lambda repo: (repo.root / ".git/objects/00").symlink_to("/tmp"),
}


@pytest.mark.soak(tried=1)
@pytest.mark.parametrize("reason", part([*BUSY], 9))
def test_a_repository_in_an_unusual_state_is_refused_with_the_reason(
    repo: Repo, reason: str
) -> None:
    repo.put("a.txt", "x\n")
    BUSY[reason](repo)
    assert reason in repo.refusal("a.txt")


def folder(repo: Repo) -> Repo:
    """A folder of the repository, with neighbours that are changed and staged."""
    repo.put("src/a.txt", "a.txt\n")
    repo.put("src/b.txt", "b.txt\n")
    repo.git("add", "src")
    repo.git("commit", "-qm", "more")
    repo.put("a.txt", "a neighbour\n")
    repo.git("add", "a.txt")
    repo.put("a.txt", "a neighbour, changed again\n")
    return Repo(repo.root / "src", repo.environment)


def worktree(repo: Repo) -> Repo:
    repo.git("worktree", "add", "-q", "-b", "feature", "../tree")
    return Repo(repo.root.parent / "tree", repo.environment, agreed=True)


def submodule(repo: Repo) -> Repo:
    repo.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repo.root), "module"
    )
    repo.git("commit", "-qm", "module")
    return Repo(repo.root / "module", repo.environment, agreed=True)


def bare(repo: Repo) -> Repo:
    """A worktree of a repository that has no other."""
    repo.git("clone", "-q", "--bare", ".", "../bare")
    repo.git("-C", "../bare", "worktree", "add", "-q", "-b", "feature", "../of-bare")
    return Repo(repo.root.parent / "of-bare", repo.environment, agreed=True)


def packed(repo: Repo) -> Repo:
    """A worktree whose branch is in the packed refs, without a log of any."""
    repo.git("config", "core.logAllRefUpdates", "false")
    tree = worktree(repo)
    repo.git("pack-refs", "--all")
    return tree


PLACES: dict[str, Callable[[Repo], Repo]] = {
    "a folder": folder,
    "a worktree": worktree,
    "a worktree's folder": lambda repo: Repo(
        worktree(folder(repo)).root / "src", repo.environment, agreed=True
    ),
    "a worktree of a bare repository": bare,
    "a worktree with packed refs": packed,
    "a submodule": submodule,
    "a worktree of a submodule": lambda repo: worktree(submodule(repo)),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_commit_from_a_folder_a_worktree_or_a_submodule_is_as_git_makes_it(
    repo: Repo, place: str
) -> None:
    here = PLACES[place](repo)
    here.put("b.txt", "staged\n")
    here.git("add", "b.txt")
    here.put("b.txt", "changed again\n")
    here.put("a.txt", "changed\n")
    here.put("new/file.txt", "new\n")
    before, index = (
        here.git("rev-parse", "HEAD").strip(),
        here.git("ls-files", "--stage", "b.txt", ":/"),
    )
    branch = here.git("symbolic-ref", "--short", "HEAD").strip()
    done = here.commit("a.txt", "new")
    assert here.git("rev-parse", "HEAD", branch).split() == [done.commit] * 2
    assert here.git("log", "-1", "--format=%P %D").strip() == f"{before} HEAD -> {branch}"
    assert (
        here.git("diff", "--relative", "--name-status", "HEAD~1", "HEAD")
        == "M\ta.txt\nA\tnew/file.txt\n"
    )
    assert [change.path for change in done.plan.changes] == ["a.txt", "new/file.txt"]
    assert here.git("status", "--porcelain", ".").split() == [
        "MM",
        here.git("rev-parse", "--show-prefix").strip() + "b.txt",
    ]
    rows = {row for row in index.splitlines() if not row.endswith("\ta.txt")}
    assert rows <= set(here.git("ls-files", "--stage", ":/").splitlines())
    here.git("fsck", "--strict")
    if place != "a worktree with packed refs":
        assert here.git("reflog", "-1", "--format=%gs", "HEAD") == here.git(
            "reflog", "-1", "--format=%gs", branch
        )
        assert here.git("reflog", "-1", "--format=%gs").strip() == "commit: second"


def test_from_a_folder_nothing_beside_it_is_committed_or_changed(repo: Repo) -> None:
    here = folder(repo)
    repo.put("beside.txt", "new\n")
    here.put("c.txt", "changed\n")
    here.put("b.txt", "staged\n")
    here.git("add", "b.txt")
    (here.root / "a.txt").unlink()
    staged = repo.git("ls-files", "--stage", "a.txt")
    assert here.committer().plan("x", (".",)).work_tree == str(repo.root)
    assert [(change.kind, change.path) for change in here.commit(".").plan.changes] == [
        ("deleted", "a.txt"),
        ("modified", "b.txt"),
        ("modified", "c.txt"),
    ]
    assert repo.git("diff", "--name-only", "HEAD~1", "HEAD").split() == [
        "src/a.txt",
        "src/b.txt",
        "src/c.txt",
    ]
    assert repo.git("ls-files", "--stage", "a.txt") == staged
    assert repo.git("status", "--porcelain").splitlines() == ["MM a.txt", "?? beside.txt"]
    with pytest.raises(OutsideWorkspace):
        here.committer().plan("x", ("../beside.txt",))


def test_rules_of_the_folders_above_count_in_a_folder(repo: Repo) -> None:
    here = folder(repo)
    repo.put(".gitignore", "*.tmp\n")
    repo.put(".gitattributes", "src/*.bin filter=lfs\nsrc/*.bat text eol=lf\n")
    here.put("x.tmp", "x\n")
    here.put("x.bin", "x\n")
    here.put("x.bat", "x\r\n")
    assert "x.tmp is ignored" in here.refusal("x.tmp")
    assert "x.bin is stored through a filter (lfs)" in here.refusal("x.bin")
    here.commit("x.bat")
    assert repo.git("cat-file", "blob", "HEAD:src/x.bat") == "x\n"


@pytest.mark.parametrize("where", ["the last commit", "the index"])
def test_a_folder_that_git_knows_as_something_else_is_not_put_in_its_place(
    repo: Repo, where: str
) -> None:
    (repo.root / "kept").write_text("a file\n")
    repo.git("add", "kept")
    if where == "the last commit":
        repo.git("commit", "-qm", "a file")
        repo.git("rm", "-q", "--cached", "kept")
    (repo.root / "kept").unlink()
    (repo.root / "kept/inner").mkdir(parents=True)
    here = Repo(repo.root / "kept/inner", repo.environment)
    here.put("x", "x\n")
    assert "git knows kept, outside the workspace" in here.refusal("x")


def test_a_folder_takes_its_first_commit(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "empty/src").mkdir(parents=True)
    here = Repo(tmp_path / "empty/src", environment)
    here.git("init", "-q", "..")
    here.put("x", "x\n")
    here.commit(".")
    assert here.git("ls-tree", "-r", "--name-only", "--full-tree", "HEAD") == "src/x\n"


def test_a_commit_in_a_worktree_leaves_the_others_as_they_are(repo: Repo) -> None:
    here = worktree(repo)
    repo.put("a.txt", "staged\n")
    repo.git("add", "a.txt")
    kept = {
        name: (repo.root / ".git" / name).read_bytes()
        for name in ("HEAD", "index", "logs/HEAD", "refs/heads/main")
    }
    here.put("a.txt", "in the worktree\n")
    here.commit("a.txt")
    assert {name: (repo.root / ".git" / name).read_bytes() for name in kept} == kept
    assert repo.git("show", "feature:a.txt") == "in the worktree\n"
    assert not list((repo.root / ".git").rglob("*.lock"))


@pytest.mark.parametrize("place", [worktree, submodule])
def test_without_the_users_yes_nothing_goes_to_a_git_directory_outside(
    repo: Repo, place: Callable[[Repo], Repo]
) -> None:
    here = place(repo)
    here.put("a.txt", "x\n")
    here.agreed = False
    assert "codeagent sandbox git --allow" in here.refusal("a.txt")


def test_a_yes_is_for_one_git_directory(repo: Repo) -> None:
    here = worktree(repo)
    here.put("a.txt", "x\n")
    found = repository_of(here.root)
    assert found is not None and found.outside is not None
    digest = found.outside.digest
    committer = GitCommitter(
        here.workspace, here.environment, agreed=lambda git: git.digest == digest
    )
    committer.plan("x", ("a.txt",))
    (repo.root / ".git").rename(repo.root / "moved")
    shutil.copytree(repo.root / "moved", repo.root / ".git")
    with pytest.raises(CommitRefused, match="sandbox git --allow"):
        committer.commit("x", ("a.txt",), None)


def test_a_pointer_to_the_git_folder_of_another_work_tree_is_refused_even_after_a_yes(
    repo: Repo,
) -> None:
    here = worktree(repo)
    here.put("a.txt", "x\n")
    (here.root / ".git").write_text(f"gitdir: {repo.root}/.git\n")
    assert f"belongs to the work tree {repo.root}" in here.refusal("a.txt")


def test_a_submodule_whose_files_are_elsewhere_is_refused(repo: Repo) -> None:
    here = submodule(repo)
    here.put("a.txt", "x\n")
    here.git("config", "core.worktree", str(repo.root / "src"))
    assert "core.worktree" in here.refusal("a.txt")


def own(repo: Repo) -> Path:
    return repo.root.parent / "project/.git/worktrees/tree"


def replaced(path: Path) -> None:
    """By a link to itself elsewhere."""
    path.rename(path.parent / "moved")
    path.symlink_to(path.parent / "moved")


UNDER_WAY: dict[str, Change] = {
    "a rebase": lambda here: (own(here) / "rebase-merge").mkdir(),
    "tree/index.lock": lambda here: (own(here) / "index.lock").touch(),
    "tree/index is not": lambda here: replaced(own(here) / "index"),
    "tree/logs is not": lambda here: replaced(own(here) / "logs"),
    "tree/logs/HEAD is not": lambda here: replaced(own(here) / "logs/HEAD"),
    ".git/refs/heads is not": lambda here: replaced(own(here).parents[1] / "refs/heads"),
    ".git/logs/refs/heads/feature is not": lambda here: replaced(
        own(here).parents[1] / "logs/refs/heads/feature"
    ),
    "alternates": lambda here: (own(here).parents[1] / "objects/info/alternates").write_text(
        "/elsewhere"
    ),
    "does not point back": lambda here: (own(here) / "gitdir").write_text("/elsewhere/.git\n"),
    "core.worktree": lambda here: (
        here.git("config", "extensions.worktreeConfig", "true"),
        here.git("config", "--worktree", "core.worktree", "/tmp"),
    ),
}


@pytest.mark.soak(tried=1)
@pytest.mark.parametrize("reason", part([*UNDER_WAY], 4))
def test_a_worktree_in_an_unusual_state_is_refused_with_the_reason(repo: Repo, reason: str) -> None:
    here = worktree(repo)
    here.put("a.txt", "x\n")
    UNDER_WAY[reason](here)
    assert reason in here.refusal("a.txt")


def test_what_is_under_way_in_the_main_work_tree_does_not_hold_up_a_worktree(repo: Repo) -> None:
    here = worktree(repo)
    merging(repo)
    repo.put(".git/index.lock", "")
    here.put("a.txt", "x\n")
    here.commit("a.txt")
    assert here.git("log", "-1", "--format=%s") == "second\n"


def test_a_branch_that_another_git_holds_locked_is_not_moved(repo: Repo) -> None:
    here = worktree(repo)
    here.put("a.txt", "x\n")
    (repo.root / ".git/refs/heads/feature.lock").touch()
    before = here.git("rev-parse", "HEAD"), here.git("ls-files", "--stage")
    with pytest.raises(CommitRefused, match="cannot lock ref"):
        here.commit("a.txt")
    assert (here.git("rev-parse", "HEAD"), here.git("ls-files", "--stage")) == before
    assert not (own(here) / "index.lock").exists()


@pytest.mark.parametrize("place", [folder, worktree, submodule])
def test_allowed_hooks_run_at_the_top_of_the_work_tree(
    repo: Repo, tmp_path: Path, place: Callable[[Repo], Repo]
) -> None:
    here = place(repo)
    shared = here.root / here.git("rev-parse", "--git-common-dir").strip()
    top = here.git("rev-parse", "--show-toplevel").strip()
    hooked = shared / "hooks/pre-commit"
    hooked.write_text(
        f'#!/bin/sh\necho "$PWD" $(git diff --cached --name-only) > {tmp_path}/seen\n'
    )
    hooked.chmod(0o755)
    here.put("a.txt", "x\n")
    assert here.committer().plan("x", ("a.txt",)).skipped_hooks == ("pre-commit",)
    here.commit("a.txt", hooks=True)
    assert (
        tmp_path / "seen"
    ).read_text() == f"{top} {here.git('rev-parse', '--show-prefix').strip()}a.txt\n"


def test_a_folder_in_no_repository_is_refused(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "plain").mkdir()
    committer = GitCommitter(LocalWorkspace(tmp_path / "plain"), environment)
    with pytest.raises(
        CommitRefused, match="not in a git repository; ask the user to run git init"
    ):
        committer.plan("x", ("c.txt",))


def test_a_repository_of_somebody_else_is_refused(repo: Repo) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(repo.root / ".git", 1000, 1000)
    assert "belongs to another user" in repo.refusal("a.txt")


def test_a_failure_in_the_middle_leaves_branch_index_and_lock_as_they_were(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    from codeagent.workspace import commits

    def fails(*_: object) -> None:
        raise CommitRefused("the branch moved")

    monkeypatch.setattr(commits, "_move_branch", fails)
    repo.put("a.txt", "x\n")
    before = repo.git("status", "--porcelain"), repo.git("rev-parse", "HEAD")
    with pytest.raises(CommitRefused, match="the branch moved"):
        repo.commit("a.txt")
    assert (repo.git("status", "--porcelain"), repo.git("rev-parse", "HEAD")) == before
    assert not (repo.root / ".git/index.lock").exists()


def hook(repo: Repo, name: str, script: str) -> None:
    path = repo.put(f".git/hooks/{name}", f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_hooks_do_not_run_unless_they_are_allowed_and_that_is_said(
    repo: Repo, tmp_path: Path
) -> None:
    hook(repo, "pre-commit", f"touch {tmp_path}/ran")
    repo.put("a.txt", "x\n")
    assert repo.commit("a.txt").plan.skipped_hooks == ("pre-commit",)
    assert not (tmp_path / "ran").exists()


def test_allowed_hooks_run_in_order_and_see_what_is_committed(repo: Repo, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    hook(repo, "pre-commit", f"echo pre $(git diff --cached --name-only) >> {seen}")
    hook(
        repo,
        "commit-msg",
        f'echo msg $(head -1 "$1") >> {seen}; printf "\\nChange-Id: 1\\n" >> "$1"',
    )
    hook(repo, "post-commit", f"echo post $(git log -1 --format=%s) >> {seen}")
    repo.put("a.txt", "x\n")
    repo.put("b.txt", "not this\n")
    done = repo.commit("a.txt", hooks=True)
    assert seen.read_text() == "pre a.txt\nmsg second\npost second\n"
    assert repo.git("log", "-1", "--format=%B").split() == ["second", "Change-Id:", "1"]
    assert (done.plan.skipped_hooks, done.notices) == ((), ("a hook changed the message",))


def test_a_hook_may_refuse_and_its_reason_is_told(repo: Repo) -> None:
    hook(repo, "pre-commit", "echo 'lint: line 3' >&2; exit 1")
    repo.put("a.txt", "x\n")
    with pytest.raises(CommitRefused, match="pre-commit refused: lint: line 3"):
        repo.commit("a.txt", hooks=True)
    assert repo.git("log", "--format=%s") == "first\n"
    assert not (repo.root / ".git/index.lock").exists()


def test_a_hook_that_changes_what_is_committed_is_refused(repo: Repo) -> None:
    hook(repo, "pre-commit", "echo more > a.txt; git add a.txt")
    repo.put("a.txt", "x\n")
    with pytest.raises(CommitRefused, match="a hook changed what would be committed"):
        repo.commit("a.txt", hooks=True)
    assert repo.git("log", "--format=%s") == "first\n"


def test_a_signature_that_is_asked_for_is_said_to_be_missing(repo: Repo) -> None:
    repo.git("config", "commit.gpgSign", "true")
    repo.put("a.txt", "x\n")
    assert repo.commit("a.txt").plan.unsigned


States = st.sampled_from(
    ["same", "changed", "gone", "staged", "staged and changed", "removed from the index"]
)


@settings(
    max_examples=times(5),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(States, min_size=5, max_size=5), st.sets(st.integers(0, 4), min_size=1))
def test_always_the_chosen_paths_are_as_on_disk_and_all_others_as_before(
    tmp_path_factory: pytest.TempPathFactory,
    environment: dict[str, str],
    states: list[str],
    chosen: set[int],
) -> None:
    root = tmp_path_factory.mktemp("any")
    repo = Repo(root, environment)
    repo.git("init", "-q")
    names = [f"d{number % 2}/f{number}" for number in range(5)]
    for name in names:
        repo.put(name, f"{name}\n")
    repo.git("add", "-A")
    repo.git("commit", "-qm", "first")
    for name, state in zip(names, states, strict=True):
        act(repo, name, state)
    selected = [names[number] for number in sorted(chosen)]
    others = [name for name in names if name not in selected]
    before = [repo.git("ls-files", "--stage", "--", name) for name in others]
    old = {name: repo.git("ls-tree", "HEAD", "--", name) for name in others}
    disk = {name: (root / name).read_text() if (root / name).exists() else None for name in names}
    try:
        repo.commit(*selected)
    except CommitRefused as refusal:
        assert "nothing to commit" in str(refusal)
        return
    tree = set(repo.files())
    for name in selected:
        assert (name in tree) == (disk[name] is not None)
        assert disk[name] is None or repo.git("show", f"HEAD:{name}") == disk[name]
        assert repo.git("status", "--porcelain", "--", name) == ""
    assert [repo.git("ls-files", "--stage", "--", name) for name in others] == before
    assert {name: repo.git("ls-tree", "HEAD", "--", name) for name in others} == old
    assert {
        name: (root / name).read_text() if (root / name).exists() else None for name in names
    } == disk


def act(repo: Repo, name: str, state: str) -> None:
    match state:
        case "changed":
            repo.put(name, "changed\n")
        case "gone":
            (repo.root / name).unlink()
        case "staged":
            repo.put(name, "staged\n")
            repo.git("add", name)
        case "staged and changed":
            repo.put(name, "staged\n")
            repo.git("add", name)
            repo.put(name, "changed again\n")
        case "removed from the index":
            repo.git("rm", "-q", "--cached", name)
        case _:
            return


def test_an_object_that_is_a_pipe_is_not_waited_for_longer_than_a_while(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    from codeagent.workspace import repository

    blob = repo.git("rev-parse", "HEAD:a.txt").strip()
    file = repo.root / ".git/objects" / blob[:2] / blob[2:]
    file.unlink()
    os.mkfifo(file)
    repo.put("a.txt", "changed\n")
    monkeypatch.setattr(repository, "_SECONDS", 1.0)
    assert "did not work (" in repo.refusal("a.txt")


@pytest.mark.parametrize(
    "head",
    [
        "",
        "nonsense",
        "ref: config",
        "ref: refs/heads/../../x",
        "ref: refs/tags/v1",
        "ref: refs/heads/main x",
    ],
)
def test_a_head_that_git_would_not_write_is_refused(repo: Repo, head: str) -> None:
    repo.put("a.txt", "changed\n")
    repo.put(".git/HEAD", f"{head}\n")
    assert "no branch is checked out" in repo.refusal("a.txt")


def test_a_git_directory_that_the_environment_names_is_not_used(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "GIT_DIR",
        "GIT_COMMON_DIR",
        "GIT_OBJECT_DIRECTORY",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
    ):
        monkeypatch.setenv(name, "/nonexistent")
    repo.put("a.txt", "changed\n")
    done = repo.commit("a.txt")
    assert repo.git("rev-parse", "HEAD").strip() == done.commit


def test_a_commit_is_whole_even_if_its_temporary_folder_cannot_be_removed(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that a hook left in the background may still be writing there."""
    remove, refused = os.rmdir, list[str]()

    def rmdir(path: str, *, dir_fd: int | None = None) -> None:
        if Path(path).name.startswith("codeagent-commit-"):
            refused.append(path)
            raise OSError(errno.ENOTEMPTY, "Directory not empty")
        remove(path, dir_fd=dir_fd)

    repo.put("a.txt", "changed\n")
    with monkeypatch.context() as patched:
        patched.setattr(os, "rmdir", rmdir)
        done = repo.commit("a.txt")
    assert refused
    assert repo.git("rev-parse", "HEAD").strip() == done.commit
    assert repo.git("status", "--porcelain") == ""
    for left in refused:
        shutil.rmtree(left)
