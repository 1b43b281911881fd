"""Copies of repositories: one mirror of each, and a working copy of its own for each task."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node, NodeKind
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.host_programs import HostProgram, minimal, run_program
from codeagent.core.programs import find_program
from codeagent.core.sanitize import one_line
from codeagent.disk.locks import locked
from codeagent.disk.private import make_private_folder
from codeagent.disk.repository import isolated_environment

CLONING = HostProgram("git for batches", None)
_SECONDS = 1800.0
_SAFE = {
    "protocol.ext.allow": "never",
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "gc.auto": "0",
}
"""Settings that no repository and no file of the user's overrides."""


_KINDS: Mapping[str, NodeKind] = {
    "100644": "file",
    "100755": "executable",
    "120000": "link",
    "160000": "link",
}
"""What the modes of git are here; a submodule is left like a link."""


@dataclass(frozen=True)
class Mirror:
    """A bare copy of a repository, with all its branches and tags."""

    folder: Path

    @classmethod
    def of(cls, repository: str, folder: Path) -> "Mirror":
        """Name the mirror of this repository in a folder of mirrors."""
        return cls(folder / f"{sha256(repository.encode()).hexdigest()[:24]}.git")

    def update(self, repository: str) -> None:
        """Make it, or fetch what is new. Blocks; raises ConfigError with what git says."""
        make_private_folder(self.folder.parent)
        with locked(self.folder.with_suffix(".lock")):
            if self.folder.exists():
                refs = ("+refs/*:refs/*", "--prune", "--no-auto-gc")
                _with_user(["fetch", "--quiet", repository, *refs], self.folder)
                return
            new = Path(tempfile.mkdtemp(dir=self.folder.parent))
            try:
                words = ["clone", "--quiet", "--mirror", "--no-local", "--", repository, str(new)]
                _with_user(words, self.folder.parent)
                new.rename(self.folder)
            finally:
                shutil.rmtree(new, ignore_errors=True)

    def commit(self, name: str) -> str:
        """Return the full hash of what a commit, branch or tag names. Raises ConfigError."""
        found = self._git(
            "rev-parse", "--quiet", "--verify", "--end-of-options", f"{name}^{{commit}}"
        )
        return found.decode().strip()

    def check_out(self, commit: str, folder: Path) -> None:
        """Make a working copy, with a repository of its own that shares the objects. Raises
        ConfigError."""
        self._git("clone", "--quiet", "--local", "--no-checkout", ".", str(folder))
        for words in (("remote", "remove", "origin"), ("checkout", "--quiet", "--detach", commit)):
            _isolated(list(words), folder, {"GIT_DIR": str(folder / ".git")})

    def patch(self, commit: str, folder: Path) -> bytes:
        """Return what differs in a working copy from its commit, new files included and ignored
        ones not. Raises ConfigError.

        Nothing that is in the copy's own repository is looked at.
        """
        with tempfile.TemporaryDirectory(prefix="codeagent-patch-") as own:
            (objects := Path(own, "objects")).mkdir()
            there = {
                "GIT_DIR": str(self.folder),
                "GIT_WORK_TREE": str(folder),
                "GIT_INDEX_FILE": str(Path(own, "index")),
                "GIT_OBJECT_DIRECTORY": str(objects),
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self.folder / "objects"),
            }
            _isolated(["read-tree", commit], folder, there)
            _isolated(["add", "--all", "."], folder, there)
            words = ["diff", "--cached", "--binary", "--full-index", "--no-ext-diff", commit]
            return _isolated(words, folder, there)

    def changes(self, commit: str, patch: Path) -> list[Change[Node]]:
        """Return what a patch makes of a commit, file by file. Raises ConfigError, OSError."""
        with tempfile.TemporaryDirectory(prefix="codeagent-patch-") as own:
            (objects := Path(own, "objects")).mkdir()
            there = {
                "GIT_DIR": str(self.folder),
                "GIT_INDEX_FILE": str(Path(own, "index")),
                "GIT_OBJECT_DIRECTORY": str(objects),
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self.folder / "objects"),
            }

            def git(*words: str) -> bytes:
                return _isolated(words, self.folder, there)

            def node(mode: str, blob: str) -> Node | None:
                if (kind := _KINDS.get(mode)) is None:
                    return None
                submodule = mode == "160000"
                return Node(kind, blob.encode() if submodule else git("cat-file", "blob", blob))

            git("read-tree", commit)
            git("apply", "--cached", "--whitespace=nowarn", str(patch.absolute()))
            words = ("diff-index", "--cached", "--raw", "-z", "--no-abbrev", "--no-renames")
            found = git(*words, commit).split(b"\0")[:-1]
            changes = list[Change[Node]]()
            for said, path in zip(found[::2], found[1::2], strict=True):
                before, after, old, new, _ = said.decode().removeprefix(":").split()
                name = os.fsdecode(path)
                changes.append(Change(name, node(before, old), node(after, new)))
            return changes

    def _git(self, *words: str) -> bytes:
        return _isolated(list(words), self.folder, {"GIT_DIR": str(self.folder)})


def merged_text(mine: bytes, base: bytes, theirs: bytes) -> bytes | None:
    """Return a file with what changed on both sides since `base`; None if git cannot merge it.
    Raises OSError."""
    with tempfile.TemporaryDirectory(prefix="codeagent-merge-") as own:
        for name, data in (("mine", mine), ("base", base), ("theirs", theirs)):
            Path(own, name).write_bytes(data)
        try:
            return _isolated(["merge-file", "-p", "mine", "base", "theirs"], Path(own), {})
        except ConfigError:
            return None


def changed_lines(patch: bytes) -> tuple[int, int, int]:
    """Return how many files a patch changes, and how many lines it adds and removes."""
    files = added = removed = 0
    within = False
    for line in patch.split(b"\n"):
        if line.startswith(b"diff --git "):
            files += 1
        within = (within and not line.startswith(b"diff --git ")) or line.startswith(b"@@ ")
        added += within and line.startswith(b"+")
        removed += within and line.startswith(b"-")
    return files, added, removed


def _with_user(words: Sequence[str], folder: Path) -> None:
    """Run git with the user's own configuration and keys, as an address may need them."""
    own = {"GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": "ssh -oBatchMode=yes"}
    more = ("SSH_AUTH_SOCK", "GIT_SSH_COMMAND", "XDG_CONFIG_HOME", "http_proxy", "https_proxy")
    _run(words, folder, own | minimal(os.environ, *more))


def _isolated(words: Sequence[str], folder: Path, variables: Mapping[str, str]) -> bytes:
    """Run git without the configuration of the user or the system."""
    return _run(words, folder, {**isolated_environment(folder), **variables})


def _run(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> bytes:
    program = find_program("git", folder)
    if program is None:
        raise ConfigError("git is not installed; nothing was run")
    safe = [word for name, value in _SAFE.items() for word in ("-c", f"{name}={value}")]
    try:
        ran = run_program(
            CLONING,
            [program, *safe, *words],
            folder=folder,
            environment=environment,
            seconds=_SECONDS,
            start_new_session=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigError(f"git {words[0]}: {error}") from error
    if ran.returncode:
        said = one_line(ran.stderr.decode("utf-8", "replace"), 300) or f"exit {ran.returncode}"
        raise ConfigError(f"git {words[0]}: {said}")
    return ran.stdout
