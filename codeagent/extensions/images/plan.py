"""The image that a repository describes: whether the user trusts it, and which image a sandbox
gets."""

from hashlib import sha256
from pathlib import Path
from typing import Literal

from codeagent.config.kept import TrustFile
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.sanitize import visible
from codeagent.extensions.images.repository_image import (
    RepositoryImage,
    described,
    read_repository_image,
)
from codeagent.sandbox.described_image import DESCRIBED, ImagePlan, ImageQuestion, ImageSummary

ImageAnswer = Literal["trusted", "changed", "refused", "unasked"]
_REFUSAL = sha256(b"no image of this repository").hexdigest()
_REFUSE = "codeagent sandbox distrust"
_LOOK = f"codeagent sandbox status shows it, codeagent sandbox trust uses it, {_REFUSE} does not"
_GONE = f"this repository describes no image; use the usual one: {_REFUSE}"
_ANSWERS: dict[ImageAnswer, str] = {
    "trusted": "trusted as it is now",
    "changed": "changed since you trusted it, so no command runs: codeagent sandbox trust",
    "refused": "not used, as you said",
    "unasked": "not used until you trust it: codeagent sandbox trust",
}
_MOST_ROWS = 10
_WIDEST = 60
"""Of what an image is made of, in a question: what is more or longer is not asked about on the
screen."""


@dataclass(frozen=True)
class ImageTrust:
    """What a repository describes as its image, and what the user said about it."""

    image: RepositoryImage
    _kept: TrustFile

    @property
    def answer(self) -> ImageAnswer:
        """`changed`: the user trusted what it was before. Raises ConfigError."""
        if self._kept.trusts(self.image.digest):
            return "trusted"
        if self._kept.trusts(_REFUSAL):
            return "refused"
        return "changed" if self._kept.holds_any else "unasked"

    def trust(self) -> None:
        """Use it from now on, as it is now. Raises ConfigError."""
        self._kept.trust(self.image.digest)

    def summary(self, answer: ImageAnswer) -> ImageSummary:
        """Return it in words, as if the user had given that answer."""
        settled = answer in ("trusted", "refused")
        rows = tuple(described(self.image))
        return ImageSummary(self.image.file, _ANSWERS[answer], settled, rows)


@dataclass(frozen=True)
class RepositoryImages:
    """Implements the ImageSource of `codeagent.sandbox.described_image` for one repository."""

    workspace: Path
    config_dir: Path | None

    def found(self) -> ImageTrust | None:
        """Return what the repository describes, None if it is nothing or no answer can be kept.

        Raises ConfigError, also if what it describes cannot be built here.
        """
        if (kept := self._kept) is None:
            return None
        image = read_repository_image(self.workspace.resolve())
        return None if image is None else ImageTrust(image, kept)

    def refuse(self) -> None:
        """Use no image of this repository from now on, whatever it becomes. Raises ConfigError."""
        if self._kept is not None:
            self._kept.trust(_REFUSAL)

    def accepted(self) -> str:
        try:
            found = self.found()
        except ConfigError:
            return ""  # the sandbox says so when it starts
        return "" if found is None else found.image.digest

    def plan(self, configured: str | None, *, accepted: str = "") -> ImagePlan:
        if configured not in (None, DESCRIBED):
            return ImagePlan(configured)
        required = configured == DESCRIBED or bool(accepted)
        try:
            found = self.found()
        except ConfigError as error:
            if required or self._used_before:
                return ImagePlan(withheld=f"{error}; repair it, or use the usual image: {_REFUSE}")
            return ImagePlan(note=f"the repository's own image is not used: {error}")
        if found is None:
            gone = required or self._used_before
            return ImagePlan(withheld=_GONE if gone else "")
        file = found.image.file
        answer = found.answer
        if answer == "trusted" or accepted == found.image.digest:
            return _built(found.image)
        if accepted:
            why = f"{file} has changed since this run began, which accepted its image"
            return ImagePlan(withheld=f"{why}; {_LOOK}")
        if answer == "changed":
            why = f"{file} has changed since you trusted the image it describes"
            return ImagePlan(withheld=f"{why}; {_LOOK}")
        if required:
            return ImagePlan(withheld=f"the image of {file} is not trusted; {_LOOK}")
        if answer == "refused" or found.image.is_plain:
            return ImagePlan()
        return ImagePlan(note=f"this repository describes an image of its own, {file}: {_LOOK}")

    def summary(self) -> ImageSummary | None:
        try:
            found = self.found()
        except ConfigError as error:
            return ImageSummary("", str(error))
        if found is None:
            return None
        return found.summary(found.answer)

    def question(self, answer: bool | None, seen: str) -> ImageQuestion | None:
        try:
            found = self.found()
        except ConfigError:
            return None  # the sandbox says so when it starts
        if found is None or (kept := found.answer) in ("trusted", "refused"):
            return None
        said = (
            "has changed since you trusted its image"
            if kept == "changed"
            else "describes an image of its own"
        )
        match answer:
            case None if found.image.is_plain and kept == "unasked":
                return None
            case None:
                pass
            case False:
                self.refuse()
                return None
            case True if seen == found.image.digest:
                found.trust()
                return None
            case True:
                said = "changed while you were being asked, and nothing was trusted"
        shown = _shown(found.image, said)
        return ImageQuestion(shown, found.image.digest) if shown else None

    @property
    def _kept(self) -> TrustFile | None:
        """The answers of the user; None if none can be kept."""
        if self.config_dir is None:
            return None
        return TrustFile(self.config_dir, self.workspace, Path.home(), "image.jsonl")

    @property
    def _used_before(self) -> bool:
        """Whether the user trusted an image of this folder, and did not refuse it since. Raises
        ConfigError."""
        kept = self._kept
        return kept is not None and kept.holds_any and not kept.trusts(_REFUSAL)


def _built(image: RepositoryImage) -> ImagePlan:
    """Plan to use the image."""
    from codeagent.extensions.images.build import BuildableImage  # few runs have such an image

    return ImagePlan(described=BuildableImage(image))


def _shown(image: RepositoryImage, said: str) -> str:
    """Say what would be built; empty if a small screen cannot show all of it, for which nobody
    could say yes then."""
    shown = [
        (name, visible(text))
        for name, text in described(image)
        if name not in ("file", "not applied")
    ]
    if len(shown) > _MOST_ROWS or any(len(text) > _WIDEST or "\n" in text for _, text in shown):
        return ""
    return "\n".join([*(f"{name:<12}{text}" for name, text in shown), "", f"{image.file} {said}"])
