"""git over a git directory of ours: the user's objects, branches and index, and nothing that could be run.

What the repository's configuration names (hooks, filters, fsmonitor, signing, diff drivers, …) is never seen by git,
because that configuration is not there. New objects stay in the directory of ours until the commit is approved.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from codeagent.core.commits import CommitRefused
from codeagent.workspace.commit_repository import Repository

_SECONDS = 60.0
_GUARDS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.untrackedCache": "keep",
    "core.splitIndex": "false",
    "core.editor": "true",
    "core.pager": "cat",
    "core.sshCommand": "false",
    "core.askPass": "false",
    "commit.gpgSign": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "credential.helper": "",
    "protocol.allow": "never",
}


class ShadowGit:
    """One git directory of ours, for as long as `shadow_git` holds it."""

    def __init__(self, program: str, repository: Repository, folder: Path, environment: Mapping[str, str]) -> None:
        self._program = program
        self._repository = repository
        self.folder = folder
        self.objects = folder / "objects"
        self.index = folder / "index"
        """The person's index, a copy."""
        self.committed = folder / "index-of-the-commit"
        """The index the commit is made from: the last commit's, with the paths put in."""
        settings = _GUARDS | {"core.bare": "false"} | repository.passed_on() | _path_settings(repository, environment)
        self._options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        self._environment = {
            "PATH": os.defpath,
            "LC_ALL": "C",
            "HOME": str(folder),
            "GIT_DIR": str(folder),
            "GIT_WORK_TREE": str(repository.top),
            "GIT_INDEX_FILE": str(self.index),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_PAGER": "cat",
            "GIT_EDITOR": "true",
            **_identity(repository),
        }

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        index: Path | None = None,
        final: bool = False,
        whole: bool = False,
        codes: tuple[int, ...] = (0,),
    ) -> bytes:
        """Standard output. `final`: with the user's own objects alone. Raises CommitRefused.

        Runs in the workspace, so that git takes and gives paths relative to it; `whole`: in the work tree's top.
        Paths are taken as they are, whatever characters they hold; `check-ignore` wants them to begin with `./`.
        """
        environment = self.environment(final=final)
        if arguments[0] != "check-ignore":
            environment["GIT_LITERAL_PATHSPECS"] = "1"
        if index is not None:
            environment["GIT_INDEX_FILE"] = str(index)
        try:
            done = subprocess.run(
                [self._program, "--no-pager", *self._options, *arguments],
                cwd=self._repository.top if whole else self._repository.root,
                env=environment,
                input=stdin,
                capture_output=True,
                timeout=_SECONDS,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise CommitRefused(
                f"git {arguments[0]} did not work ({type(error).__name__}); nothing was changed"
            ) from error
        if done.returncode not in codes:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it gave no reason"]
            raise CommitRefused(f"git {arguments[0]} refused: {said[0].removeprefix('fatal: ')}; nothing was changed")
        return done.stdout

    def environment(self, *, final: bool = False) -> dict[str, str]:
        real = str(self._repository.shared / "objects")
        if final:
            return self._environment | {"GIT_OBJECT_DIRECTORY": real}
        return self._environment | {
            "GIT_OBJECT_DIRECTORY": str(self.objects),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(real),
        }

    def new_objects(self) -> tuple[str, ...]:
        return tuple(f"{path.parent.name}{path.name}" for path in self.objects.glob("[0-9a-f][0-9a-f]/*"))


@contextmanager
def shadow_git(program: str, repository: Repository, environment: Mapping[str, str]) -> Iterator[ShadowGit]:
    """Raises CommitRefused."""
    git, shared = repository.git, repository.shared
    links = {
        "refs": shared / "refs",
        "packed-refs": shared / "packed-refs",
        "logs/refs": shared / "logs/refs",
        "logs/HEAD": git / "logs/HEAD",
    }
    copies = {"info/exclude": shared, "info/attributes": shared, "index": git}
    with tempfile.TemporaryDirectory(prefix="codeagent-commit-") as own:
        folder = Path(own)
        try:
            for name in ("objects", "info", "logs"):
                (folder / name).mkdir()
            (folder / "HEAD").write_text(f"ref: refs/heads/{repository.branch}\n", encoding="utf-8")
            (folder / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
            for name, target in links.items():
                (folder / name).symlink_to(target)
            for name, place in copies.items():
                if (place / name).exists():
                    shutil.copy2(place / name, folder / name, follow_symlinks=False)
        except OSError as error:
            raise CommitRefused(f"the repository cannot be read ({error.strerror}); nothing was changed") from error
        yield ShadowGit(program, repository, folder, environment)


def _path_settings(repository: Repository, environment: Mapping[str, str]) -> dict[str, str]:
    """The person's own files of ignore rules and attributes; never a path that the repository names."""
    home = environment.get("HOME", "/")
    base = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
    found = {}
    for key, usual in (("core.excludesfile", "ignore"), ("core.attributesfile", "attributes")):
        path = repository.own.get(key, f"{base}/git/{usual}")
        found[key] = f"{home}/{path[2:]}" if path.startswith("~/") else path
    return found


def _quoted(path: str) -> str:
    """As an entry of a list that colons divide."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _identity(repository: Repository) -> dict[str, str]:
    """Raises CommitRefused where the person has not said who they are."""
    found = {}
    for role in ("author", "committer"):
        for part in ("name", "email"):
            value = repository.value(f"{role}.{part}", f"user.{part}")
            if not value:
                raise CommitRefused(
                    f"git does not know who commits: ask the person to set it, git config --global user.{part} VALUE"
                )
            found[f"GIT_{role}_{part}".upper()] = value
    return found
