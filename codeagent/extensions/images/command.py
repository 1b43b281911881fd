"""The part of `codeagent sandbox` about the image that a repository describes."""

from collections.abc import Iterator
from pathlib import Path

from codeagent.commands.arguments import say
from codeagent.config.paths import config_dir
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.sanitize import one_line, visible
from codeagent.extensions.images.build import BuildLimits, build, tag_of
from codeagent.extensions.images.plan import image_trust, refuse_image
from codeagent.extensions.images.repository_image import described
from codeagent.sandbox.engine import local_engine
from codeagent.sandbox.spec import SandboxSpec

_ANSWERS = {
    "trusted": "trusted as it is now",
    "changed": "changed since you trusted it, so no command runs: codeagent sandbox trust",
    "refused": "not used, as you said",
    "unasked": "not used until you trust it: codeagent sandbox trust",
}


@dataclass(frozen=True)
class OwnImage:
    """The image that a repository describes, in words for the user."""

    file: str
    """The file that describes it; empty if it cannot be read."""
    state: str
    """Whether it is used, as a phrase."""
    is_settled: bool = False
    """Whether the user has trusted it as it is now, or refused it."""
    rows: tuple[tuple[str, str], ...] = ()
    """What it is made of, as names and texts."""


def own_image(workspace: Path) -> OwnImage | None:
    """Return the image that this repository describes, or None; it only parses files."""
    try:
        found = image_trust(workspace, config_dir())
    except ConfigError as error:
        return OwnImage("", str(error))
    if found is None:
        return None
    answer = found.answer
    rows = tuple(described(found.image))
    return OwnImage(found.image.file, _ANSWERS[answer], answer in ("trusted", "refused"), rows)


def own_image_lines(own: OwnImage) -> Iterator[str]:
    yield f"repository  {one_line(f'{own.file}: {own.state}' if own.file else own.state, 300)}"
    for name, text in own.rows:
        # In full, because the user decides about it.
        yield f"            {name:<12}{visible(text)}".replace("\n", "\\n")


def trust_image(workspace: Path) -> int:
    found = image_trust(workspace, config_dir())
    if found is None:
        print("nothing to trust: this repository describes no image")
        return 0
    for line in own_image_lines(
        OwnImage(found.image.file, _ANSWERS["trusted"], True, tuple(described(found.image)))
    ):
        print(line)
    found.trust()  # what was printed, and not what the files may be by now
    print(
        "commands run in it from the next start, which builds it; codeagent sandbox build builds it now"
    )
    return 0


def distrust_image(workspace: Path) -> int:
    refuse_image(workspace, config_dir())
    print(
        "no image of this repository will be used from now on; codeagent sandbox trust uses it again"
    )
    return 0


def build_own_image(spec: SandboxSpec, *, network: bool) -> int:
    """Build the repository's own image, which is trusted. Raises SandboxUnavailable."""
    assert spec.repository is not None
    with local_engine(spec.docker_host) as engine:
        build(engine, spec.repository, BuildLimits(network, spec.memory_bytes), say, again=True)
    print(
        f"built {tag_of(spec.repository)} from {spec.repository.file}; commands run in it from now on"
    )
    return 0
