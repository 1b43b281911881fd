"""`codeagent sandbox trust` and `distrust`, and what `codeagent doctor` says about the repository's
image."""

import argparse
from pathlib import Path

from codeagent.commands.arguments import add_cwd, workspace_of
from codeagent.config.local_environment import config_dir
from codeagent.core.extension import Finding
from codeagent.extensions.images.plan import RepositoryImages
from codeagent.sandbox.described_image import summary_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_cwd(parser)


def main(args: argparse.Namespace, app: object) -> int:
    images = RepositoryImages(workspace_of(args.cwd), config_dir())
    return trust_image(images) if args.action == "trust" else distrust_image(images)


def trust_image(images: RepositoryImages) -> int:
    found = images.found()
    if found is None:
        print("nothing to trust: this repository describes no image")
        return 0
    for line in summary_lines(found.summary("trusted")):
        print(line)
    found.trust()  # what was printed, and not what the files may be by now
    print(
        "commands run in it from the next start, which builds it; codeagent sandbox build builds it now"
    )
    return 0


def distrust_image(images: RepositoryImages) -> int:
    images.refuse()
    print(
        "no image of this repository will be used from now on; codeagent sandbox trust uses it again"
    )
    return 0


def findings(workspace: Path) -> list[Finding]:
    """Report whether commands run in the image that the repository describes."""
    summary = RepositoryImages(workspace, config_dir()).summary()
    if summary is None:
        return []
    return [Finding("repository", "ok" if summary.is_settled else "note", summary.text)]
