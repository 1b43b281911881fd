"""A commit runs nothing that the repository or the environment names; plain
git does."""

import asyncio
import contextlib
import os
import pty
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from codeagent.core.changes import CommitRefused
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.commits import GitCommitter
from codeagent.workspace.files import LocalWorkspace
from codeagent.workspace.git_status import git_status
from tests.copies import copied
from tests.effort import FACTOR, part

_CONTROL_SECONDS = 20


@dataclass
class Ground:
    """A repository, and a program whose running leaves a mark."""

    base: Path
    environment: dict[str, str] = field(default_factory=dict)
    folder: str = "."
    """The workspace, in the work tree."""
    linked: bool = False
    """The work tree is a linked one of the repository `main`."""

    @property
    def root(self) -> Path:
        """The work tree."""
        return self.base / "project"

    @property
    def git(self) -> Path:
        """With configuration, hooks and objects."""
        return self.base / "main/.git" if self.linked else self.root / ".git"

    @property
    def own(self) -> Path:
        """With the HEAD and index of the work tree."""
        return self.git / "worktrees/project" if self.linked else self.git

    @property
    def program(self) -> Path:
        return self.base / "evil" / "program"

    @property
    def mark(self) -> Path:
        return self.base / "mark"

    def put(self, path: str, text: str) -> Path:
        """Below the base."""
        target = self.base / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def arm(self, path: Path) -> None:
        """The program in another place."""
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.program, path)

    def config(self, *lines: str, file: str = "") -> None:
        path = self.base / file if file else self.git / "config"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = (
            "\n".join(lines).replace("PROGRAM", str(self.program)).replace("BASE", str(self.base))
        )
        path.write_text((path.read_text() if path.exists() else "") + text + "\n")

    def attributes(self, line: str, file: str = "project/.gitattributes") -> None:
        self.put(file, f"{line}\n")

    def plain(
        self, *arguments: str, stdin: str = "", terminal: bool = False, check: bool = False
    ) -> None:
        """git as a user runs it; what becomes of it is told by the mark."""
        output = subprocess.DEVNULL
        leader = follower = -1
        if terminal:
            leader, follower = pty.openpty()
            output = follower
        try:
            process = subprocess.Popen(
                ["git", *arguments],
                cwd=self.root,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
            try:
                process.communicate(stdin, timeout=_CONTROL_SECONDS)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # helpers of git may outlive it
        finally:
            for fd in (leader, follower):
                if fd >= 0:
                    os.close(fd)
        assert not check or process.returncode == 0, arguments

    def fired(self) -> bool:
        """Whether the program ran since the last time this was asked."""
        there = self.mark.exists()
        self.mark.unlink(missing_ok=True)
        return there


Act = Callable[[Ground], object]


@dataclass(frozen=True)
class Vector:
    plant: Act
    control: Act
    """What plain git does that runs it."""
    refused: bool = False
    """No commit is made at all."""


def config(*lines: str) -> Act:
    return lambda ground: ground.config(*lines)


def git(*arguments: str, stdin: str = "", terminal: bool = False) -> Act:
    return lambda ground: ground.plain(*arguments, stdin=stdin, terminal=terminal)


def variable(name: str, value: str) -> Act:
    def plant(ground: Ground) -> None:
        ground.environment[name] = value.replace("PROGRAM", str(ground.program)).replace(
            "BASE", str(ground.base)
        )

    return plant


def both(*acts: Act) -> Act:
    def act(ground: Ground) -> None:
        for one in acts:
            one(ground)

    return act


def hook(name: str) -> Act:
    return lambda ground: ground.arm(ground.git / "hooks" / name)


def attributed(line: str, *lines: str) -> Act:
    """A driver in the configuration, and the attribute that names it."""
    return both(config(*lines), lambda ground: ground.attributes(line))


def configured(file: str, *lines: str) -> Act:
    """A configuration in another file."""
    return lambda ground: ground.config(*lines, file=file)


def armed(path: str) -> Act:
    return lambda ground: ground.arm(ground.base / path)


def loosened(ground: Ground) -> None:
    """Takes one blob of the last commit away, as a partial clone never had it."""
    found = subprocess.check_output(
        ["git", "rev-parse", "HEAD:b.txt"], cwd=ground.root, text=True
    ).strip()
    (ground.git / "objects" / found[:2] / found[2:]).unlink()


def nested(ground: Ground) -> None:
    """A repository within, known as a submodule, with a configuration of its own."""
    ground.plain("init", "-q", "sub", check=True)
    ground.put("project/sub/x", "x\n")
    ground.plain("-C", "sub", "add", "x", check=True)
    ground.plain("-C", "sub", "commit", "-qm", "x", check=True)
    ground.plain("-c", "advice.addEmbeddedRepo=false", "add", "sub", check=True)
    ground.config("[core]", "\tfsmonitor = PROGRAM", file="project/sub/.git/config")


def conflicting(ground: Ground) -> None:
    for branch, text in (("one", "1\n"), ("two", "2\n")):
        ground.plain("checkout", "-qb", branch, "main", check=True)
        ground.put("project/b.txt", text)
        ground.plain("commit", "-qam", branch, check=True)
    ground.plain("checkout", "-q", "main", check=True)


def elsewhere(ground: Ground) -> None:
    """Another git directory, with a configuration that runs the program."""
    shutil.copytree(ground.git, ground.base / "evil" / "git")
    ground.config("[core]", "\tfsmonitor = PROGRAM", file="evil/git/config")


def as_file(ground: Ground) -> None:
    elsewhere(ground)
    shutil.rmtree(ground.git)
    ground.put("project/.git", f"gitdir: {ground.base}/evil/git\n")


def linked(name: str) -> Act:
    """A link where git writes: what is written there lands in the user's file."""

    def plant(ground: Ground) -> None:
        (ground.own / name).unlink()
        (ground.own / name).symlink_to(ground.mark)

    return plant


def loose_refs(ground: Ground) -> None:
    (ground.git / "refs/heads").rename(ground.base / "evil" / "heads")
    (ground.git / "refs/heads").symlink_to(ground.base / "evil" / "heads")


def moved_ref(ground: Ground) -> None:
    ground.plain("branch", "elsewhere")
    if (ground.base / "evil" / "heads" / "elsewhere").exists():
        ground.mark.touch()


def borrowed(ground: Ground) -> None:
    shutil.copytree(ground.git, ground.base / "evil" / "lender")
    ground.put("project/.git/objects/info/alternates", f"{ground.base}/evil/lender/objects\n")
    ground.config("[core]", "\talternateRefsCommand = PROGRAM")


STATUS = git("status")
COMMIT = git("commit", "-qam", "plain")
DIFF = git("diff", "HEAD")
ADD = git("add", "a.txt")
FETCH = git("fetch", "ssh://host.invalid/x")
FILL = git("credential", "fill", stdin="protocol=https\nhost=x\n\n")
FSMONITOR = ("[core]", "\tfsmonitor = PROGRAM")

VECTORS: dict[str, Vector] = {
    **{
        f"the hook {name}": Vector(hook(name), COMMIT)
        for name in (
            "pre-commit",
            "prepare-commit-msg",
            "commit-msg",
            "post-commit",
            "reference-transaction",
            "post-index-change",
        )
    },
    "the hook post-checkout": Vector(hook("post-checkout"), git("checkout", "-q", "--", "a.txt")),
    "the hook pre-auto-gc": Vector(
        both(
            hook("pre-auto-gc"),
            config("[gc]", "\tauto = 1", "\tautoPackLimit = 1"),
            lambda ground: [
                ground.put(f"project/.git/objects/17/{number:038x}", "") for number in range(9)
            ],
        ),
        git("gc", "--auto"),
    ),
    "core.hooksPath": Vector(
        both(config("[core]", "\thooksPath = BASE/evil/hooks"), armed("evil/hooks/pre-commit")),
        COMMIT,
    ),
    "core.hooksPath in the workspace": Vector(
        both(config("[core]", "\thooksPath = hooks"), armed("project/hooks/pre-commit")), COMMIT
    ),
    "core.hooksPath of the user": Vector(
        both(
            lambda g: g.config("[core]", "\thooksPath = BASE/evil/hooks", file="home/.gitconfig"),
            armed("evil/hooks/pre-commit"),
        ),
        COMMIT,
    ),
    "core.fsmonitor": Vector(config(*FSMONITOR), STATUS),
    "core.fsmonitor of the user": Vector(
        lambda g: g.config(*FSMONITOR, file="home/.gitconfig"), STATUS
    ),
    "config.worktree": Vector(
        both(
            config("[extensions]", "\tworktreeConfig = true"),
            lambda g: g.config(*FSMONITOR, file=str(g.own / "config.worktree")),
        ),
        STATUS,
    ),
    "include.path": Vector(
        both(
            config("[include]", "\tpath = BASE/evil/config"), configured("evil/config", *FSMONITOR)
        ),
        STATUS,
    ),
    "includeIf gitdir": Vector(
        both(
            config('[includeIf "gitdir:BASE/"]', "\tpath = BASE/evil/config"),
            configured("evil/config", *FSMONITOR),
        ),
        STATUS,
    ),
    "includeIf onbranch": Vector(
        both(
            config('[includeIf "onbranch:main"]', "\tpath = BASE/evil/config"),
            configured("evil/config", *FSMONITOR),
        ),
        STATUS,
    ),
    "core.editor": Vector(config("[core]", "\teditor = PROGRAM"), git("commit", "-qa")),
    "sequence.editor": Vector(
        config("[sequence]", "\teditor = PROGRAM", "[rebase]", "\tautoStash = true"),
        both(git("commit", "-q", "--allow-empty", "-m", "x"), git("rebase", "-i", "HEAD~1")),
    ),
    "core.pager": Vector(config("[core]", "\tpager = PROGRAM"), git("log", terminal=True)),
    "pager.config": Vector(
        config("[pager]", "\tconfig = PROGRAM"), git("config", "--list", terminal=True)
    ),
    "pager.log": Vector(config("[pager]", "\tlog = PROGRAM"), git("log", terminal=True)),
    "an alias": Vector(config("[alias]", "\tnew = !PROGRAM"), git("new")),
    "gpg.program": Vector(
        config("[gpg]", "\tprogram = PROGRAM", "[commit]", "\tgpgSign = true"), COMMIT
    ),
    "gpg.ssh.program": Vector(
        config(
            "[gpg]",
            "\tformat = ssh",
            '[gpg "ssh"]',
            "\tprogram = PROGRAM",
            "[user]",
            "\tsigningKey = key::x",
            "[commit]",
            "\tgpgSign = true",
        ),
        COMMIT,
    ),
    "a filter's clean": Vector(
        attributed("* filter=f", '[filter "f"]', "\tclean = PROGRAM"), ADD, refused=True
    ),
    "a filter's clean, required": Vector(
        attributed("* filter=f", '[filter "f"]', "\tclean = PROGRAM", "\trequired = true"),
        ADD,
        refused=True,
    ),
    "a filter's process": Vector(
        attributed("* filter=f", '[filter "f"]', "\tprocess = PROGRAM"), ADD, refused=True
    ),
    "a filter's smudge": Vector(
        attributed("* filter=f", '[filter "f"]', "\tsmudge = PROGRAM"),
        git("checkout", "--", "a.txt"),
        refused=True,
    ),
    "a filter in info/attributes": Vector(
        both(
            config('[filter "f"]', "\tclean = PROGRAM"),
            lambda g: g.attributes("* filter=f", str(g.git / "info/attributes")),
        ),
        ADD,
        refused=True,
    ),
    "a filter of the user's attributes": Vector(
        both(
            lambda g: g.config('[filter "f"]', "\tclean = PROGRAM", file="home/.gitconfig"),
            lambda g: g.attributes("* filter=f", "home/.config/git/attributes"),
        ),
        ADD,
        refused=True,
    ),
    "a filter of a neighbour": Vector(
        attributed("b.txt filter=f", '[filter "f"]', "\tclean = PROGRAM"),
        both(lambda g: (g.root / "b.txt").touch(), STATUS),
    ),
    "diff.external": Vector(config("[diff]", "\texternal = PROGRAM"), DIFF),
    "a driver's textconv": Vector(
        attributed("* diff=d", '[diff "d"]', "\ttextconv = PROGRAM"), DIFF
    ),
    "a driver's command": Vector(attributed("* diff=d", '[diff "d"]', "\tcommand = PROGRAM"), DIFF),
    "a merge driver": Vector(
        both(conflicting, attributed("* merge=m", '[merge "m"]', "\tdriver = PROGRAM")),
        both(git("checkout", "-qf", "one"), git("merge", "-q", "two")),
    ),
    "a difftool": Vector(
        config('[difftool "t"]', "\tcmd = PROGRAM"),
        git("difftool", "--no-prompt", "--tool=t", "HEAD"),
    ),
    "a trailer's command": Vector(
        config('[trailer "t"]', "\tkey = T", "\tcommand = PROGRAM"),
        git("interpret-trailers", stdin="x\n"),
    ),
    "an archive's command": Vector(
        config('[tar "t"]', "\tcommand = PROGRAM"), git("archive", "--format=t", "HEAD")
    ),
    "core.sshCommand": Vector(config("[core]", "\tsshCommand = PROGRAM"), FETCH),
    "core.gitProxy": Vector(
        config("[core]", "\tgitProxy = PROGRAM"), git("fetch", "git://host.invalid/x")
    ),
    "core.askPass": Vector(config("[core]", "\taskPass = PROGRAM"), FILL),
    "credential.helper": Vector(config("[credential]", "\thelper = PROGRAM"), FILL),
    "a remote that is a program": Vector(
        config('[remote "origin"]', "\turl = ext::PROGRAM", '[protocol "ext"]', "\tallow = always"),
        git("fetch", "origin"),
    ),
    "a promisor that is a program": Vector(
        both(
            config(
                "[core]",
                "\trepositoryFormatVersion = 1",
                "[extensions]",
                "\tpartialClone = origin",
                '[remote "origin"]',
                "\turl = ext::PROGRAM",
                "\tpromisor = true",
                '[protocol "ext"]',
                "\tallow = always",
            ),
            loosened,
        ),
        git("show", "HEAD:b.txt"),
    ),
    "core.alternateRefsCommand": Vector(
        borrowed, lambda g: g.plain("fetch", f"{g.base}/evil/lender"), refused=True
    ),
    "core.worktree": Vector(
        both(
            config("[core]", "\tworktree = BASE/evil/tree", '[filter "f"]', "\tclean = PROGRAM"),
            lambda g: g.attributes("* filter=f", "evil/tree/.gitattributes"),
            lambda g: g.put("evil/tree/a.txt", "x\n"),
        ),
        git("--git-dir=.git", "add", "a.txt"),
        refused=True,
    ),
    "a repository within": Vector(nested, STATUS),
    "commondir": Vector(
        both(elsewhere, lambda g: g.put(str(g.own / "commondir"), f"{g.base}/evil/git\n")),
        STATUS,
        refused=True,
    ),
    "a .git that is a file": Vector(as_file, STATUS, refused=True),
    "a link at logs/HEAD": Vector(linked("logs/HEAD"), COMMIT, refused=True),
    "a link at the branch's log": Vector(linked("logs/refs/heads/main"), COMMIT, refused=True),
    "a link at refs/heads": Vector(loose_refs, moved_ref, refused=True),
    "GIT_CONFIG_COUNT": Vector(
        both(
            variable("GIT_CONFIG_COUNT", "1"),
            variable("GIT_CONFIG_KEY_0", "core.fsmonitor"),
            variable("GIT_CONFIG_VALUE_0", "PROGRAM"),
        ),
        STATUS,
    ),
    "GIT_CONFIG_PARAMETERS": Vector(
        variable("GIT_CONFIG_PARAMETERS", "'core.fsmonitor'='PROGRAM'"), STATUS
    ),
    "GIT_CONFIG_GLOBAL": Vector(
        both(
            variable("GIT_CONFIG_GLOBAL", "BASE/evil/config"), configured("evil/config", *FSMONITOR)
        ),
        STATUS,
    ),
    "GIT_CONFIG_SYSTEM": Vector(
        both(
            variable("GIT_CONFIG_SYSTEM", "BASE/evil/config"), configured("evil/config", *FSMONITOR)
        ),
        STATUS,
    ),
    "GIT_DIR": Vector(
        both(
            elsewhere,
            variable("GIT_DIR", "BASE/evil/git"),
            variable("GIT_WORK_TREE", "BASE/project"),
        ),
        STATUS,
    ),
    "GIT_COMMON_DIR": Vector(
        both(
            elsewhere,
            variable("GIT_COMMON_DIR", "BASE/evil/git"),
            variable("GIT_DIR", "BASE/project/.git"),
        ),
        STATUS,
    ),
    "GIT_EXTERNAL_DIFF": Vector(variable("GIT_EXTERNAL_DIFF", "PROGRAM"), DIFF),
    "GIT_EDITOR": Vector(variable("GIT_EDITOR", "PROGRAM"), git("commit", "-qa")),
    "EDITOR": Vector(variable("EDITOR", "PROGRAM"), git("commit", "-qa")),
    "GIT_PAGER": Vector(variable("GIT_PAGER", "PROGRAM"), git("log", terminal=True)),
    "GIT_SSH_COMMAND": Vector(variable("GIT_SSH_COMMAND", "PROGRAM"), FETCH),
    "GIT_SSH": Vector(variable("GIT_SSH", "PROGRAM"), FETCH),
    "GIT_ASKPASS": Vector(variable("GIT_ASKPASS", "PROGRAM"), FILL),
    "GIT_PROXY_COMMAND": Vector(
        variable("GIT_PROXY_COMMAND", "PROGRAM"), git("fetch", "git://host.invalid/x")
    ),
    "GIT_EXEC_PATH": Vector(
        both(
            variable("GIT_EXEC_PATH", "BASE/evil/exec"),
            lambda g: g.arm(g.base / "evil/exec/git-remote-x"),
        ),
        git("fetch", "x::y"),
    ),
    "GIT_TRACE": Vector(variable("GIT_TRACE", "BASE/mark"), STATUS),
    "GIT_TRACE2_EVENT": Vector(variable("GIT_TRACE2_EVENT", "BASE/mark"), STATUS),
    "a git in the workspace": Vector(
        both(
            lambda g: g.arm(g.root / "bin/git"), variable("PATH", "BASE/project/bin:/usr/bin:/bin")
        ),
        lambda g: subprocess.run(
            ["/bin/sh", "-c", "git status"], cwd=g.root, env=g.environment, capture_output=True
        ),
    ),
}


def ground_at(base: Path) -> Ground:
    return Ground(
        base,
        {"PATH": os.environ["PATH"], "HOME": str(base / "home"), "TERM": "xterm", "LC_ALL": "C"},
    )


def make_ground(base: Path) -> None:
    ground = ground_at(base)
    ground.put(
        "home/.gitconfig",
        "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n",
    )
    ground.root.mkdir()
    ground.plain("init", "-q", check=True)
    for name in ("a.txt", "b.txt", "src/c.txt"):
        ground.put(f"project/{name}", f"{name}\n")
    ground.plain("add", "-A", check=True)
    ground.plain("commit", "-qm", "first", check=True)


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    ground = ground_at(copied(make_ground, tmp_path / "ground"))
    (ground.base / "evil").mkdir()
    ground.put("evil/program", f"#!/bin/sh\n/bin/touch {ground.mark}\nexit 1\n").chmod(0o755)
    return ground


def operations(ground: Ground, paths: tuple[str, ...]) -> list[str]:
    """What becomes of looking at a commit and of making it; the status line's look at the
    repository goes before."""
    done = []
    git_status(ground.root / ground.folder)
    assert not ground.fired(), "status"
    committer = GitCommitter(
        LocalWorkspace(ground.root / ground.folder),
        dict(ground.environment),
        agreed=lambda _: ground.linked,
    )
    for what, act in (
        ("plan", lambda: committer.plan("message", paths)),
        ("commit", lambda: committer.commit("message", paths, None)),
    ):
        try:
            act()
            done.append(f"{what} done")
        except CommitRefused:
            done.append(f"{what} refused")
        assert not ground.fired(), what
    return done


def nothing_fires(
    ground: Ground, vector: Vector, monkeypatch: pytest.MonkeyPatch, *paths: str
) -> int:
    """For each of the paths; and it does under plain git. How many operations were tried."""
    vector.plant(ground)
    ground.put("project/a.txt", "changed\n")
    ground.put("project/src/c.txt", "changed\n")
    ground.fired()
    expected = (
        ["plan refused", "commit refused"] if vector.refused else ["plan done", "commit done"]
    )
    with monkeypatch.context() as patch:
        for key, value in ground.environment.items():
            patch.setenv(key, value)
        for path in paths:
            assert operations(ground, (path,)) == expected
    ground.put("project/a.txt", "changed again\n")
    looked = asyncio.run(checkpoints_taken(ground)) if FACTOR else 0
    vector.control(ground)
    assert ground.fired(), "the positive control did not fire"
    return 3 * len(paths) + looked


async def checkpoints_taken(ground: Ground) -> int:
    """What a session does for its checkpoints, with git and files; how many operations that is."""
    checkpoints = GitCheckpoints(
        ground.base / "state", ground.root / ground.folder, environment=ground.environment
    )
    first = await checkpoints.take()
    ground.put("project/a.txt", "changed in between\n")
    second = await checkpoints.take()
    acts: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: checkpoints.changes(first.id, second.id),
        lambda: checkpoints.changes(first.id, None),
        lambda: checkpoints.node(first.id, "a.txt"),
        lambda: checkpoints.restore(first.id, present=second.id),
        lambda: checkpoints.restore(second.id, present=first.id),
        checkpoints.prune,
        checkpoints.recover,
    )
    for act in acts:
        await act()
        assert not ground.fired(), "a checkpoint"
    checkpoints.close()
    return 2 + len(acts)


@pytest.mark.soak(row="git vectors")
@pytest.mark.parametrize("name", part([*VECTORS], 14))
def test_no_vector_fires_while_a_commit_is_shown_or_made_and_each_fires_under_plain_git(
    ground: Ground, name: str, monkeypatch: pytest.MonkeyPatch, tried: Callable[[int], None]
) -> None:
    tried(nothing_fires(ground, VECTORS[name], monkeypatch, *part(("a.txt", "src"), 1)))


ELSEWHERE = (
    "the hook pre-commit",
    "the hook reference-transaction",
    "the hook post-index-change",
    "core.hooksPath in the workspace",
    "core.fsmonitor",
    "config.worktree",
    "include.path",
    "gpg.program",
    "a filter's clean",
    "a filter in info/attributes",
    "a filter of a neighbour",
    "diff.external",
    "a promisor that is a program",
    "a repository within",
    "GIT_COMMON_DIR",
)
"""Those whose place depends on where the git directory and the workspace are."""


@pytest.mark.soak(row="git vectors")
@pytest.mark.parametrize("name", part(ELSEWHERE, 5))
def test_no_vector_fires_in_a_folder_of_a_repository(
    ground: Ground, name: str, monkeypatch: pytest.MonkeyPatch, tried: Callable[[int], None]
) -> None:
    ground.folder = "src"
    tried(nothing_fires(ground, VECTORS[name], monkeypatch, "."))


@pytest.mark.soak(row="git vectors")
@pytest.mark.parametrize(
    "name",
    [*part(ELSEWHERE, 5), *part(["commondir", "a link at logs/HEAD", "a link at refs/heads"], 1)],
)
def test_no_vector_fires_in_a_worktree_whose_git_directory_the_user_agreed_to(
    ground: Ground, name: str, monkeypatch: pytest.MonkeyPatch, tried: Callable[[int], None]
) -> None:
    ground.root.rename(ground.base / "main")
    ground.linked = True
    add = (
        "git",
        "-C",
        str(ground.base / "main"),
        "worktree",
        "add",
        "-q",
        "-b",
        "feature",
        str(ground.root),
    )
    subprocess.run(add, env=ground.environment, check=True)
    tried(nothing_fires(ground, VECTORS[name], monkeypatch, "a.txt"))
