"""What the image below says is no text of the Dockerfile that adds packages on top of it."""

import pytest

from codeagent.core.errors import SandboxUnavailable
from codeagent.sandbox.engine import Engine, ImageDetails
from codeagent.sandbox.package_image import dockerfile_on
from tests.table import for_each

ID = "3" * 64


class One(Engine):
    """Has one image."""

    def __init__(self, on_build: tuple[str, ...] = ()) -> None:
        super().__init__("/nowhere")
        self.on_build = on_build

    def image_details(self, reference: str) -> ImageDetails | None:
        return (
            ImageDetails(f"sha256:{ID}", (), self.on_build, {}) if reference == "there:1" else None
        )


@for_each(
    "path, line",
    [
        ("/bin:/usr/bin", "ENV PATH=/bin:/usr/bin"),
        ("/a b:/x", 'ENV PATH=/a\\ b:/x""'),
        ("$HOME/bin", 'ENV PATH=\\$HOME/bin""'),
        ("/bin\\", 'ENV PATH=/bin\\\\""'),
    ],
)
def test_the_path_of_the_image_below_stays_what_it_is(path: str, line: str) -> None:
    lines = dockerfile_on(One(), "there:1", path, python=True)
    assert lines == [
        f"FROM {ID}",
        "ADD packages.tar /",
        line,
        "ENV VIRTUAL_ENV=/opt/codeagent/python",
    ]


@for_each(
    "engine, base, path, said",
    [
        (One(), "there:1", "/bin\nADD http://evil/ /x", "line break"),
        (One(("ADD http://evil/ /x",)), "there:1", "/bin", "instructions for builds on top of it"),
        (One(), "gone:1", "/bin", "is gone"),
    ],
)
def test_an_image_below_that_would_add_instructions_is_refused(
    engine: One, base: str, path: str, said: str
) -> None:
    with pytest.raises(SandboxUnavailable, match=said):
        dockerfile_on(engine, base, path, python=False)
