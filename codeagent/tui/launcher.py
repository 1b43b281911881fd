"""What the command line hands to the screen: everything it may open, as plain values, so that it
need not import it."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol
from zlib import crc32

from codeagent.core.budget import Effort
from codeagent.core.dataclass import dataclass

if TYPE_CHECKING:  # the first frame needs the values, but nothing that these import
    from codeagent.config.choices import Choices
    from codeagent.config.model_marks import ModelMarksFile
    from codeagent.config.settings import Settings
    from codeagent.core.events import KnownEvent, UnknownEvent
    from codeagent.core.extension import Extension
    from codeagent.core.messages import Message
    from codeagent.core.model import ModelFacts, ModelRequest
    from codeagent.core.recipes import Recipes
    from codeagent.core.runtime import Session, SessionSummary


LAST = "last"
"""Given instead of a session's id: the most recent session of this workspace."""


@dataclass(frozen=True)
class Consent:
    """The user's answer to a question about what a folder has."""

    given: bool | None = None
    """None if the user was not asked."""
    seen: str = ""
    """The digest of what the question showed, which alone the answer is about."""


@dataclass(frozen=True)
class FirstPrompt:
    """What is in the composer at the start."""

    text: str = ""
    sent: bool = False
    """It is sent at once."""


@dataclass(frozen=True)
class LaunchOptions:
    """What the command line asked for; None leaves a value to the settings."""

    model: str | None = None
    api_base: str | None = None
    chosen: bool = False
    """Model and server were chosen on the screen."""
    thinking: Effort | None = None
    mode: str | None = None
    theme: str | None = None
    flags: Mapping[str, Any] = field(default_factory=dict)
    """The other flags that the settings are made of, by their names in the parsed arguments."""
    resume: str | None = None
    """A session's id, or the beginning of one."""
    named: bool = False
    """The user named the workspace."""
    proceed: bool = False
    """The user agreed to work in a folder that is not a project."""
    git: Consent = Consent()
    """Whether commands may read a git directory outside the workspace."""
    image: Consent = Consent()
    """Whether commands run in the image that the repository describes."""
    prompt: FirstPrompt = FirstPrompt()
    inline: bool = False
    """Draw below the shell's lines, and print finished turns there."""
    step: bool = False
    """Pause before every batch from the beginning."""


OWN_FLAGS = ("model", "api_base", "thinking", "mode", "theme")
"""The flags that are fields of `LaunchOptions`: the screen reads them, or changes them."""


@dataclass(frozen=True)
class ModelRow:
    """One line of the model picker."""

    name: str
    """The value for `--model`."""
    about: str
    """Where it runs, and what is missing."""
    ready: bool
    """Whether it can be used: its key is set, or it needs none."""
    api_base: str | None = None
    facts: "ModelFacts | None" = None
    """What is known about it, if its server or provider was asked."""
    next_cost: float | None = None
    """The cost in US dollars of the next request if nothing is cached; None if it is not known."""


@dataclass(frozen=True)
class ModelOffer:
    """The models to choose from, as far as their servers and providers have answered."""

    rows: tuple[ModelRow, ...]
    waiting: tuple[str, ...] = ()
    """The servers and providers that have not answered yet."""
    problems: tuple[str, ...] = ()
    """One line for each that listed no models, with the reason."""


@dataclass(frozen=True)
class Missing:
    """Why a conversation cannot begin yet, and what would help."""

    kind: Literal["model", "key", "place", "git", "image", "session", "error"]
    """git: whether commands may read a git directory outside the workspace; image: whether they run
    in the image that the repository describes; session: the one to continue cannot be opened."""
    text: str
    """One line: what is missing."""
    variable: str = ""
    """The environment variable of the key that is missing, or the address of the user's own server
    that wants one."""
    servers: tuple[ModelRow, ...] = ()
    """Models that can be used now: of local servers that answered, and of providers whose keys are
    there."""
    digest: str = ""
    """Of what `text` shows of a git directory or an image; a yes counts only while it is the
    same."""


@dataclass(frozen=True)
class AppFolders:
    """Where the screen keeps and finds its files."""

    state: Path
    """The folder of drafts, prompt history and crash reports."""
    config: Path
    """The folder of the user's `themes/*.yaml` and `keys.yaml`."""
    workspace: Path

    @property
    def drafts(self) -> Path:
        """The first draft for the workspace; those of further windows are beside it."""
        return (
            self.state
            / "drafts"
            / f"{self.workspace.name[:40]}-{crc32(os.fsencode(self.workspace)):08x}"
        )

    @property
    def prompts(self) -> Path:
        return self.state / "prompts.jsonl"


class ExtensionsInUse(Protocol):
    """The extensions of one start, in the order in which they are asked."""

    @property
    def on(self) -> "tuple[Extension, ...]": ...

    @property
    def off(self) -> "tuple[Extension, ...]":
        """Those that the user switched off."""


class Launcher(Protocol):
    """What the screen may open. Methods that are not `async` may block on small files: call them in
    a thread."""

    @property
    def workspace(self) -> Path: ...

    def settings(self, options: LaunchOptions) -> "Settings":
        """Read the settings from flags, environment and files. Raises ConfigError."""

    def extensions(self, settings: "Settings") -> ExtensionsInUse:
        """Return the extensions that the settings leave on, and the others. Raises ConfigError."""

    async def missing(self, settings: "Settings", options: LaunchOptions) -> Missing | None:
        """Return what is missing: consent to the folder, a model, its key. Local servers are probed
        only then."""

    async def open(
        self, settings: "Settings", *, resume: str | None, tell: Callable[[str], None]
    ) -> "Session":
        """Open a conversation; model library and container start side by side. Raises
        CodeagentError."""

    def sessions(self) -> "tuple[SessionSummary, ...]":
        """Return the sessions of this workspace, the latest first."""

    def find(self, session: str) -> str:
        """Return the id of the session whose id begins so, or of the latest for `last`. Raises
        SessionNotFound."""

    def enter(self, session: str) -> str:
        """Find a session to continue it: `workspace` becomes the folder that it belongs to. Returns
        its id.

        Raises SessionError if it does not exist, is in use by another process, or its folder is
        gone.
        """

    def recorded(self, session_id: str, after: int = 0) -> "tuple[KnownEvent | UnknownEvent, ...]":
        """Return its events after that number, with those of its children, even while it is in use.

        Raises SessionError.
        """

    def messages(self, session_id: str) -> "tuple[Message, ...]":
        """Return the messages that the model is sent now. Raises SessionError."""

    def rename(self, session_id: str, title: str) -> None:
        """Give a session a title; an empty one takes it away. Raises SessionError."""

    def export(self, session_id: str, name: str) -> Path:
        """Write a session into a new file, in the format that its ending names, and return its
        path.

        A relative name is below the workspace. Raises ConfigError, SessionError.
        """

    def fork(self, session_id: str, before: int | None) -> str:
        """Copy a session, up to a prompt (from 1) if given, and return the copy's id. Raises
        SessionError."""

    async def models(self, settings: "Settings") -> tuple[ModelRow, ...]:
        """Return the models worth offering: the one in use, hosted ones with a key, and those of
        local servers."""

    def offers(
        self, settings: "Settings", prompt: "int | ModelRequest"
    ) -> "AsyncIterator[ModelOffer]":
        """Yield what is known at once, and again with each answer of a local server, of the server
        in use, and of a provider whose key is set.

        `prompt` is what the next request sends, or how many tokens. Those that do not answer within
        seconds are reported.
        """

    @property
    def model_marks(self) -> "ModelMarksFile":
        """The user's favourites among the models, and those chosen last."""

    async def efforts(self, settings: "Settings") -> tuple[tuple[Effort, str], ...]:
        """Return how much the model can be told to think, each with what that means to it; empty if
        it is known not to think."""

    async def keep_key(self, variable: str, value: str) -> str:
        """Try a key with its provider, then keep it in the keyring or, without one, in a file with
        mode 0600.

        `variable` is as in `Missing`. Returns one line: how that went and where the key is. Raises
        ConfigError if it was refused or cannot be kept.
        """

    def keep(self, choices: "Choices") -> str:
        """Keep what the user chose for the next start; return that it was, with what wins over it
        there.

        Returns an empty text for what is not worth keeping, such as a scripted model. Raises
        ConfigError: nothing was kept then.
        """

    async def files(self) -> tuple[str, ...]:
        """Return the paths of the workspace that are not ignored; directories end with a slash."""

    def recipes(self) -> "Recipes":
        """Read the recipes of the user and the workspace. Raises ConfigError."""

    def git_status(self) -> tuple[str, int]:
        """Return the branch (empty without git) and how many files changed, without running the
        repository's code."""
