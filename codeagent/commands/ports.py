"""What the command line hands to each command: the way to sessions, and to what they are made
of."""

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from codeagent.config.sessions import Sessions

if TYPE_CHECKING:  # a command imports what it uses
    from codeagent.config.local_environment import LocalEnvironment
    from codeagent.config.settings import Settings
    from codeagent.core.events import RunFinished
    from codeagent.core.recipes import Recipes
    from codeagent.core.sandbox import SandboxKind
    from codeagent.sandbox.described_image import ImageSource
    from codeagent.sandbox.docker_sandbox import DockerSandbox
    from codeagent.tools.catalog import ToolCatalog


class App(Sessions, Protocol):
    """Opens sessions, works on tasks, and describes what a session would have."""

    def prepare(self) -> None:
        """Import what a session needs, which takes most of a start: before the event loop starts,
        or in a thread."""

    async def ask(
        self, prompt: str, instructions: str, settings: "Settings", local: "LocalEnvironment"
    ) -> "RunFinished":
        """Have the model of the settings answer without tools, in a session of its own, which is
        logged and held to limits like any; return how that ended. Raises CodeagentError."""

    def describe_tools(
        self, local: "LocalEnvironment", settings: "Settings | None" = None
    ) -> "ToolCatalog":
        """Load the tools that a conversation with a container would have; no source is started.
        Raises CodeagentError."""

    def describe_prompt(self, local: "LocalEnvironment", kind: "SandboxKind") -> str:
        """Build the system prompt that a conversation there would have. Raises CodeagentError."""

    def read_recipes(self, local: "LocalEnvironment") -> "Recipes":
        """Read the recipes that a conversation would have. Raises CodeagentError."""

    def image_source(
        self, settings: "Settings", workspace: Path, config_dir: Path | None
    ) -> "ImageSource | None":
        """Return what reads the image that a workspace describes; None if no extension that is on
        does. Blocks on small files; raises ConfigError."""

    def accepted_image(self, settings: "Settings", workspace: Path, config_dir: Path | None) -> str:
        """Return the digest of the image that the workspace describes now, for a run that accepts
        it; empty if there is none."""

    def docker_sandbox(
        self, settings: "Settings", local: "LocalEnvironment", root: Path, session: str
    ) -> "DockerSandbox":
        """Make the container of one session, not started yet. Raises CodeagentError."""
