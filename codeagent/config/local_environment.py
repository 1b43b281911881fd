"""Where a conversation happens: the folders of codeagent, the user and the project, the environment
variables and the kept keys."""

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path

import platformdirs

from codeagent.config.kept import TrustFile
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.redact import Redactor
from codeagent.disk.repository import OutsideGit, repository_of

PROJECT_FILE = Path(".codeagent/config.toml")
ORIGIN = "origin"
"""The file beside a kept worktree that names the folder it is a copy of."""


@dataclass(frozen=True)
class LocalEnvironment:
    """The folders and the environment of a conversation."""

    workspace: Path
    state_dir: Path
    environment: Mapping[str, str]
    find_key: Callable[[str], str | None] = field(default=lambda variable: None)
    """Returns the key kept for a variable that the environment lacks; may block. Raises
    ConfigError."""
    config_dir: Path | None = None
    """Where rules and trust are kept beyond a session, and where the user's own tools, skills and
    hooks are."""
    trust_project: bool = False
    """The project's tool files are loaded as they are now, for this conversation."""
    accepted_image: str = ""
    """The digest of the image that the repository described when this program began, which accepts
    it; else empty."""
    agreed_git: frozenset[str] = frozenset()
    """Digests of git directories that commands may read, besides those that the user agreed to."""
    copy_of: Path | None = None
    """The workspace that this one is a copy of, and whose image and package cache it uses; None if
    it is not a copy."""

    @classmethod
    def of_user(
        cls, workspace: Path, *, trust_project: bool = False, accepted_image: str = ""
    ) -> "LocalEnvironment":
        """Return the folders, the environment and the keys of the user who runs this program."""
        own = config_dir()
        return cls(
            workspace,
            state_dir(),
            dict(os.environ),
            partial(_find_key, own),
            own,
            trust_project=trust_project,
            accepted_image=accepted_image,
        )

    @cached_property
    def own_folder(self) -> Path | None:
        """The `config_dir`, unless the agent could write to it."""
        folder = self.config_dir
        if folder is None or folder.resolve().is_relative_to(self.workspace.resolve()):
            return None
        return folder

    @property
    def splits(self) -> Path:
        """The folder that keeps how models divided large toolsets."""
        return self.state_dir / "toolsets"

    def secret(self, name: str) -> str | None:
        """Return the value of a variable, or the key kept for it; blocks. Raises ConfigError."""
        return self.environment.get(name) or self.find_key(name)

    @cached_property
    def redactor(self) -> Redactor:
        """Knows the environment's secrets, and every kept key that was used."""
        return Redactor(self.environment)


def _find_key(own: Path, variable: str) -> str | None:
    from codeagent.config.keys import KeyStore  # only if the environment has no key

    return KeyStore(own).find(variable)


def local_environment(workspace: LocalEnvironment | Path | str) -> LocalEnvironment:
    """Return the folder with the user's environment and keys. Raises ConfigError."""
    if isinstance(workspace, LocalEnvironment):
        return workspace
    folder = Path(workspace).absolute()
    if not folder.is_dir():
        raise ConfigError(f"{str(folder)[:200]!r} is not an existing folder; nothing was run")
    return LocalEnvironment.of_user(folder)


@dataclass(frozen=True)
class GitElsewhere:
    """A git directory outside the workspace, and what the user said about it."""

    git: OutsideGit
    _trust: TrustFile

    @property
    def answer(self) -> bool | None:
        """Whether commands may read it; None if the user was not asked yet. Raises ConfigError."""
        if self._trust.trusts(self.git.digest):
            return True
        return False if self._trust.trusts(self._refusal) else None

    def keep(self, answer: bool) -> None:
        """Remember the answer. Raises ConfigError."""
        self._trust.trust(self.git.digest if answer else self._refusal)

    @property
    def _refusal(self) -> str:
        return sha256(f"not {self.git.digest}".encode()).hexdigest()


def git_elsewhere(workspace: Path, config_dir: Path | None) -> GitElsewhere | None:
    """Find a git directory outside the workspace, or None; blocks on small files. Raises
    ConfigError."""
    repository = repository_of(workspace.resolve())
    if config_dir is None or repository is None or repository.outside is None:
        return None
    return GitElsewhere(
        repository.outside, TrustFile(config_dir, workspace, Path.home(), "git.jsonl")
    )


def agrees_to(git: OutsideGit, workspace: Path, config_dir: Path | None) -> bool:
    """Tell whether the user agreed to this very directory; blocks on a small file. Raises
    ConfigError."""
    elsewhere = git_elsewhere(workspace, config_dir)
    return elsewhere is not None and elsewhere.git.digest == git.digest and elsewhere.answer is True


def active_environment(root: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the activated virtual environment; None if it is not inside the workspace."""
    given = environment.get("VIRTUAL_ENV", "")
    if not Path(given).is_absolute():
        return None
    folder, top = Path(given).resolve(), root.resolve()
    return folder if top in folder.parents and (folder / "pyvenv.cfg").is_file() else None


def kept_worktrees() -> Path:
    """Return the folder of the kept worktrees, each in a folder of its own."""
    return state_dir().resolve() / "kept-worktrees"


def origin_of(folder: Path) -> Path | None:
    """Return the folder that a kept worktree is a copy of; None if it is not one."""
    beside = folder.resolve().parent
    if beside.parent != kept_worktrees():
        return None
    try:
        return Path(os.fsdecode((beside / ORIGIN).read_bytes()))
    except OSError:
        return None


def worktrees_of(origin: Path | None = None) -> dict[str, Path]:
    """Return the kept worktrees of a folder, or of all, by their names in the folder of
    worktrees."""
    found = {}
    for file in sorted(kept_worktrees().glob(f"*/{ORIGIN}")):
        known = Path(os.fsdecode(file.read_bytes()))
        if origin in (None, known):
            found[file.parent.name] = file.parent / known.name
    return found


def worktree_name(folder: Path) -> str:
    """Return the user's name for a worktree, from its folder in `kept_worktrees`."""
    return folder.name.rpartition("-")[0]


def folders_of(workspace: Path) -> tuple[str, ...]:
    """Return the folders whose sessions are those of a workspace: its own, and its worktrees'."""
    own = workspace.resolve()
    return tuple(map(str, (own, *worktrees_of(own).values())))


def state_dir() -> Path:
    """Return the folder of the sessions; on Linux `$XDG_STATE_HOME/codeagent`."""
    return platformdirs.user_state_path("codeagent", appauthor=False)


def config_dir() -> Path:
    """Return the folder of what the user wrote or saved; on Linux `$XDG_CONFIG_HOME/codeagent`."""
    return platformdirs.user_config_path("codeagent", appauthor=False)


def user_config_file() -> Path:
    """Return the user's own configuration file; on Linux
    `$XDG_CONFIG_HOME/codeagent/config.toml`."""
    return config_dir() / "config.toml"
