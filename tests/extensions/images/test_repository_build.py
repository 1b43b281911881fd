"""The image that a repository describes, built by a real engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.core.errors import SandboxUnavailable
from codeagent.extensions.images.build import BuildableImage
from codeagent.extensions.images.repository_image import RepositoryImage, read_repository_image
from tests.images import small_image
from tests.sandboxes import opened, run

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with small_image() as tag:
        yield tag


def described(folder: Path, dockerfile: str, **files: str) -> RepositoryImage:
    folder.mkdir(exist_ok=True)
    for name, text in {"Dockerfile": dockerfile, **files}.items():
        (folder / name).write_text(text)
    found = read_repository_image(folder)
    assert found is not None
    return found


async def test_commands_run_in_it_and_it_is_built_once_without_a_network(
    base: str, tmp_path: Path
) -> None:
    dockerfile = f"""FROM {base}
ENV MADE=here
COPY list /list
RUN cat /list /proc/net/dev > /built && mkdir /usr/bin
"""
    image = described(tmp_path / "work", dockerfile, list="first\n")
    told: list[str] = []
    for again in (False, True):
        async with opened(
            tmp_path / "work", tmp_path / "state", described=BuildableImage(image), pull=True
        ) as sandbox:
            info = await sandbox.start(told.append)
            ran = await run(sandbox, "echo $MADE; cat /built; id -u > /x || echo read-only")
        lines = ran.stdout.decode().splitlines()
        assert (lines[:2], lines[-1]) == (["here", "first"], "read-only")
        assert [line.split(":")[0].strip() for line in lines[4:-1]] == ["lo"], (
            "the build had loopback only"
        )
        assert info.image_origin == "this repository's Dockerfile"
        assert any("Step " in text for text in told) is not again
        assert [note for note in info.told if "codeagent sandbox build" in note] == (
            [
                "files that went into the image of Dockerfile have changed; codeagent sandbox build builds it again"
            ]
            if again
            else []
        )
        (tmp_path / "work/list").write_text("second\n")
        told.clear()


async def test_if_it_cannot_be_built_its_last_lines_are_said_and_nothing_else_is_used(
    base: str, tmp_path: Path
) -> None:
    image = described(tmp_path / "work", f"FROM {base}\nRUN echo one thing is missing && exit 3\n")
    async with opened(
        tmp_path / "work", tmp_path / "state", described=BuildableImage(image), pull=True
    ) as sandbox:
        with pytest.raises(SandboxUnavailable, match="one thing is missing") as caught:
            await sandbox.start(lambda text: None)
        assert (
            "sandbox build --network" in caught.value.remedy
            and "sandbox distrust" in caught.value.remedy
        )
        with pytest.raises(SandboxUnavailable):
            await run(sandbox, "echo elsewhere")
