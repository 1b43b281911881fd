"""Opens what reads the image that a workspace describes: the part `image` of an
extension, if one is on."""

from pathlib import Path
from typing import TYPE_CHECKING

from codeagent.config.extensions import all_extensions
from codeagent.config.settings import Settings
from codeagent.core.extension import resolved

if TYPE_CHECKING:  # only for containers
    from codeagent.sandbox.described_image import ImageSource, OpenImageSource


def image_source(
    settings: Settings, workspace: Path, config_dir: Path | None
) -> "ImageSource | None":
    """Return what reads the image, None if no extension that is on does; blocks on small files.

    Raises ConfigError.
    """
    extensions = all_extensions().without(settings.extensions.off)
    named = next((each.image for each in extensions.on if each.image), None)
    if named is None:
        return None
    open_source: OpenImageSource = resolved(named)
    return open_source(workspace, config_dir)


def accepted_image(settings: Settings, workspace: Path, config_dir: Path | None) -> str:
    """Return the digest of the image that the workspace describes now, for a run that accepts it;
    empty if there is none."""
    images = image_source(settings, workspace, config_dir)
    return "" if images is None else images.accepted()
