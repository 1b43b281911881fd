"""The image that a repository describes: whether the user trusts it, and which image a sandbox
gets."""

from hashlib import sha256
from pathlib import Path
from typing import Literal

from codeagent.config.kept import TrustFile
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.extensions.images.repository_image import RepositoryImage, read_repository_image

REPOSITORY = "repository"
"""As the configured image: the repository's own, and no other."""
_REFUSAL = sha256(b"no image of this repository").hexdigest()
_REFUSE = "codeagent sandbox distrust"
_LOOK = f"codeagent sandbox status shows it, codeagent sandbox trust uses it, {_REFUSE} does not"


@dataclass(frozen=True)
class ImageTrust:
    """What a repository describes as its image, and what the user said about it."""

    image: RepositoryImage
    _book: TrustFile

    @property
    def answer(self) -> Literal["trusted", "changed", "refused", "unasked"]:
        """`changed`: the user trusted what it was before. Raises ConfigError."""
        if self._book.trusts(self.image.digest):
            return "trusted"
        if self._book.trusts(_REFUSAL):
            return "refused"
        return "changed" if self._book.holds_any else "unasked"

    def trust(self) -> None:
        """Use it from now on, as it is now. Raises ConfigError."""
        self._book.trust(self.image.digest)


def image_trust(workspace: Path, config_dir: Path | None) -> ImageTrust | None:
    """Return what the repository describes, None if it is nothing or no answer can be kept; blocks
    on small files.

    Raises ConfigError, also if what it describes cannot be built here.
    """
    if config_dir is None or (image := read_repository_image(workspace.resolve())) is None:
        return None
    return ImageTrust(image, _book(workspace, config_dir))


def _book(workspace: Path, config_dir: Path) -> TrustFile:
    return TrustFile(config_dir, workspace, Path.home(), "image.jsonl")


@dataclass(frozen=True)
class ImagePlan:
    """Which image a sandbox gets; see the fields of `SandboxSpec`."""

    image: str | None = None
    repository: RepositoryImage | None = None
    withheld: str = ""
    note: str = ""


def accepted_image(workspace: Path, config_dir: Path | None) -> str:
    """Return the digest of what the repository describes now, for a run that accepts it; empty if
    there is none."""
    try:
        found = image_trust(workspace, config_dir)
    except ConfigError:
        return ""  # the sandbox says so when it starts
    return "" if found is None else found.image.digest


def plan_image(
    configured: str | None, workspace: Path, config_dir: Path | None, *, accepted: str = ""
) -> ImagePlan:
    """Choose between the configured image, the repository's own and the usual ones; blocks on small
    files.

    `accepted`: the digest with which the repository's own is used whatever the user said before.
    Raises ConfigError.
    """
    if configured not in (None, REPOSITORY):
        return ImagePlan(configured)
    required = configured == REPOSITORY or bool(accepted)
    try:
        found = image_trust(workspace, config_dir)
    except ConfigError as error:
        if required or _used_before(workspace, config_dir):
            return ImagePlan(withheld=f"{error}; repair it, or use the usual image: {_REFUSE}")
        return ImagePlan(note=f"the repository's own image is not used: {error}")
    if found is None:
        gone = required or _used_before(workspace, config_dir)
        return ImagePlan(
            withheld=f"this repository describes no image; use the usual one: {_REFUSE}"
            if gone
            else ""
        )
    file, answer = found.image.file, found.answer
    if answer == "trusted" or accepted == found.image.digest:
        return ImagePlan(repository=found.image)
    if accepted:
        return ImagePlan(
            withheld=f"{file} has changed since this run began, which accepted its image; {_LOOK}"
        )
    if answer == "changed":
        return ImagePlan(
            withheld=f"{file} has changed since you trusted the image it describes; {_LOOK}"
        )
    if required:
        return ImagePlan(withheld=f"the image of {file} is not trusted; {_LOOK}")
    told = answer == "unasked" and not found.image.is_plain
    return ImagePlan(
        note=f"this repository describes an image of its own, {file}: {_LOOK}" if told else ""
    )


def _used_before(workspace: Path, config_dir: Path | None) -> bool:
    """Whether the user trusted an image of this folder, and did not refuse it since. Raises
    ConfigError."""
    if config_dir is None:
        return False
    book = _book(workspace, config_dir)
    return book.holds_any and not book.trusts(_REFUSAL)


def refuse_image(workspace: Path, config_dir: Path) -> None:
    """Use no image of this repository from now on, whatever it becomes. Raises ConfigError."""
    _book(workspace, config_dir).trust(_REFUSAL)
