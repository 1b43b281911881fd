"""An image that a workspace describes: the port between the sandbox, which runs it, and whoever
reads, trusts and builds it.

`Extension.image` names who does. Without one, no description is read, and the sandbox gets one of
the usual images.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from codeagent.core.dataclass import dataclass
from codeagent.core.sanitize import one_line, visible

if TYPE_CHECKING:  # only for builds
    from codeagent.sandbox.engine import Engine, ImageDetails

DESCRIBED = "repository"
"""As the configured image: the one that the workspace describes, and no other."""


@dataclass(frozen=True)
class BuildLimits:
    network: bool
    """Its commands get a network, and images that are missing are pulled."""
    memory_bytes: int


class DescribedImage(Protocol):
    """What the user agreed to, as it was then; no file that describes it is read again."""

    @property
    def file(self) -> str:
        """The file that describes it, relative to the workspace."""

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of all that decides what is built."""

    @property
    def tag(self) -> str:
        """Its name in the engine, which nothing but another build of it changes."""

    def build(
        self,
        engine: "Engine",
        limits: BuildLimits,
        on_progress: Callable[[str], None],
        *,
        again: bool = False,
    ) -> "ImageDetails":
        """Return the image, built now unless it was before; `again`: in any case.

        Raises SandboxUnavailable, and then nothing else is to be used instead.
        """

    def is_outdated(self, details: "ImageDetails") -> bool:
        """Tell whether files that went into the image may have changed since; blocks on them."""


@dataclass(frozen=True)
class ImagePlan:
    """Which image a sandbox gets."""

    reference: str | None = None
    """An image that exists on this machine; None: see `codeagent.sandbox.image`."""
    described: DescribedImage | None = None
    """What the workspace describes as its image and the user trusts; it is built if it was not
    yet."""
    withheld: str = ""
    """Why there is no image that commands may use, with the next step behind a semicolon; empty if
    there may be one."""
    note: str = ""
    """What the user is told about images at the start; empty if there is nothing to say."""
    build_network: bool = False
    """Whether building the described image may use the network."""
    pull: bool = True
    """Whether an image may be pulled or built."""
    packages_of: Path | None = None
    """The workspace whose packages may be in an image; None: the sandbox's own."""


@dataclass(frozen=True)
class ImageSummary:
    """The image that a workspace describes, in words for the user."""

    file: str
    """The file that describes it; empty if it cannot be read."""
    state: str
    """Whether it is used, as a phrase."""
    is_settled: bool = False
    """Whether the user has trusted it as it is now, or refused it."""
    rows: tuple[tuple[str, str], ...] = ()
    """What it is made of, as names and texts."""

    @property
    def text(self) -> str:
        return f"{self.file}: {self.state}" if self.file else self.state


def summary_lines(summary: ImageSummary) -> Iterator[str]:
    yield f"repository  {one_line(summary.text, 300)}"
    for name, text in summary.rows:
        # In full, because the user decides about it.
        yield f"            {name:<12}{visible(text)}".replace("\n", "\\n")


@dataclass(frozen=True)
class ImageQuestion:
    """Whether a described image may be used, put to the user."""

    text: str
    digest: str
    """Of what was shown; a yes is for this and nothing else."""


class ImageSource(Protocol):
    """Reads the image that one workspace describes, and keeps what the user said about it.

    Every method blocks on small files.
    """

    def plan(self, configured: str | None, *, accepted: str = "") -> ImagePlan:
        """Choose between the configured image, the described one and the usual ones.

        `accepted`: the digest with which the described one is used whatever the user said before.
        Raises ConfigError.
        """

    def accepted(self) -> str:
        """Return the digest of what is described now, for a run that accepts it; empty if there is
        nothing."""

    def summary(self) -> ImageSummary | None:
        """Return what is described, None if there is nothing; the files are parsed only."""

    def question(self, answer: bool | None, seen: str) -> ImageQuestion | None:
        """Keep the answer to an earlier question, and return what is to be asked now; None if there
        is nothing to ask.

        `answer`: None if nothing was asked yet. `seen`: the digest of what the question showed. A
        yes is for that: if it has changed since, nothing is trusted, and it is asked again. Raises
        ConfigError if the answer cannot be kept.
        """


OpenImageSource = Callable[[Path, Path | None], ImageSource]
"""What `Extension.image` names: given the workspace and the folder where trust is kept, None if
nothing can be kept."""


def plan_without_source(configured: str | None) -> ImagePlan:
    """Choose an image where nobody reads what the workspace describes."""
    if configured != DESCRIBED:
        return ImagePlan(configured)
    return ImagePlan(
        withheld="the configured image is the repository's own, and the extension that reads it is "
        "off; turn it on, or name another image"
    )
