"""What the command line hands to the screen: everything it may open, so that it imports none of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from codeagent.config.settings import Settings
from codeagent.core.events import KnownEvent, UnknownEvent
from codeagent.core.runtime import Runtime, SessionSummary
from codeagent.tui.ports import LaunchOptions, Missing, ModelRow


class Launcher(Protocol):
    """Methods that are not `async` may block on small files and belong into a thread."""

    @property
    def workspace(self) -> Path: ...

    def settings(self, options: LaunchOptions) -> Settings:
        """Flags, environment and files. Raises ConfigError."""

    async def missing(self, settings: Settings, options: LaunchOptions) -> Missing | None:
        """What stands in the way: the folder, a model, its key. Local servers are probed only then."""

    async def open(self, settings: Settings, *, resume: str | None, tell: Callable[[str], None]) -> Runtime:
        """A conversation, model library and container starting side by side. Raises CodeagentError."""

    def sessions(self) -> tuple[SessionSummary, ...]:
        """Those of this workspace, the latest first."""

    def find(self, session: str) -> str:
        """The id of the session that begins so, or of the last one for `last`. Raises SessionNotFound."""

    def enter(self, session: str) -> str:
        """As `find`, to continue that session: `workspace` becomes the folder it belongs to.

        Raises SessionError: it is not there, in use by another process, or its folder is gone.
        """

    def recorded(self, session_id: str) -> tuple[KnownEvent | UnknownEvent, ...]:
        """Its events, also while it is in use. Raises SessionError."""

    async def models(self, settings: Settings) -> tuple[ModelRow, ...]:
        """Models worth offering: the one in use, hosted ones with their keys, local servers that answer."""

    async def keep_key(self, variable: str, value: str) -> str:
        """Try a key at its provider, and keep it in the keyring, or in a 0600 file where there is none.

        Returns how it went and where it is, as one line. Raises ConfigError where it was refused, or cannot be kept.
        """

    async def files(self) -> tuple[str, ...]:
        """Paths of the workspace that are not ignored, directories with a slash at the end."""

    def git_status(self) -> tuple[str, int]:
        """Branch (empty without git) and number of changed files, read without running the repository's code."""
