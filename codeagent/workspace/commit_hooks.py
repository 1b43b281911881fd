"""The repository's own hooks around a commit, where the person allows them: programs of the repository, run here."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from codeagent.core.commits import CommitRefused
from codeagent.workspace.commit_git import ShadowGit
from codeagent.workspace.commit_repository import Repository

_SECONDS = 300.0
_MOST_SAID = 2000


class Hooks:
    """Run by `git hook run`, which finds them as git does, over the person's own git directory."""

    def __init__(self, program: str, repository: Repository, environment: Mapping[str, str]) -> None:
        """`environment` is what they find, as they would from the person's shell; git's own variables are taken out."""
        self._program = program
        self._repository = repository
        kept = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
        self._environment = kept | {"GIT_DIR": str(repository.git), "GIT_WORK_TREE": str(repository.top)}

    def before(self, git: ShadowGit, message: str) -> str:
        """Those that may refuse the commit or change its message; returns the message. Raises CommitRefused."""
        file = git.folder / "COMMIT_EDITMSG"
        file.write_text(message, encoding="utf-8")
        tree = git.run("write-tree", "--missing-ok", index=git.committed)
        objects = {name: value for name, value in git.environment().items() if "OBJECT_DIRECTOR" in name}
        seen = objects | {"GIT_INDEX_FILE": str(git.committed), "GIT_EDITOR": ":"}
        self._run("pre-commit", (), seen)
        self._run("prepare-commit-msg", (str(file), "message"), seen)
        self._run("commit-msg", (str(file),), seen)
        if git.run("write-tree", "--missing-ok", index=git.committed) != tree:
            raise CommitRefused("a hook changed what would be committed; look at the files and commit again")
        return _read(file)

    def after(self) -> tuple[str, ...]:
        """What is to be said about those that come too late to refuse."""
        try:
            self._run("post-commit", (), {})
        except CommitRefused as refusal:
            return (str(refusal),)
        return ()

    def _run(self, name: str, arguments: tuple[str, ...], more: dict[str, str]) -> None:
        words = [self._program, "hook", "run", "--ignore-missing", name, "--", *arguments]
        try:
            done = subprocess.run(
                words,
                cwd=self._repository.top,
                env=self._environment | more,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_SECONDS,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise CommitRefused(f"the hook {name} did not end ({type(error).__name__}); look at it") from error
        if done.returncode != 0:
            said = done.stdout.decode("utf-8", "replace").strip()[-_MOST_SAID:] or "it gave no reason"
            raise CommitRefused(f"the hook {name} refused: {said}")


def _read(file: Path) -> str:
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(fd, encoding="utf-8", errors="replace") as opened:
            text = opened.read().strip()
    except OSError as error:
        raise CommitRefused(f"a hook took the message away ({error.strerror}); look at it") from error
    if not text:
        raise CommitRefused("a hook left no message; look at it")
    return f"{text}\n"
