"""A Dockerfile is read as the engine reads it, and what it begins with and copies is told without
building it."""

import pytest

from codeagent.extensions.images.dockerfile import (
    DockerfileError,
    bases,
    copies_files,
    instructions,
)
from tests.table import for_each


@for_each(
    "text, expected",
    [
        ("FROM a", ("a",)),
        ("from a as b\nFROM b", ("a",)),
        ("FROM scratch", ()),
        ("FROM --platform=linux/amd64 a:1", ("a:1",)),
        ("ARG V=3\nFROM python:$V", ("python:3",)),
        ("ARG V\nFROM python:${V:-4}-slim", ("python:4-slim",)),
        ("ARG GIVEN=1\nFROM a:${GIVEN}", ("a:9",)),
        ("ARG A=1\nARG B=$A\nFROM a:${B:+x$B}", ("a:x1",)),
        ('ARG A="1 2"\nFROM "a":\'$A\'\\$', ("a:$A$",)),
        ("FROM a\nCOPY --from=uv/uv:1 /uv /uv", ("a", "uv/uv:1")),
        ("FROM a AS one\nFROM b\nCOPY --from=one /x /x\nCOPY --from=0 /y /y", ("a", "b")),
    ],
)
def test_the_images_of_a_build_are_known(text: str, expected: tuple[str, ...]) -> None:
    assert bases(text, {"GIVEN": "9"}) == expected


@for_each(
    "text, copies",
    [
        ("FROM a", False),
        ("FROM a\nCOPY x /x", True),
        ("FROM a\nCOPY\t--from=b x /x", False),
        ("FROM a\nADD\thttp://x.org/y /y", True),
        ("FROM a\nRUN echo COPY x \\\n  ADD y", False),
        ("FROM a\nRUN x \\\n# ADD http://y /\n z", False),
        ("# escape=`\nFROM a\nADD `\n x /y", True),
    ],
)
def test_whether_files_are_copied_is_known(text: str, copies: bool) -> None:
    assert copies_files(text) is copies


@for_each(
    "text, read",
    [
        ("# x\nFROM a\n\nrun one && \\\n   two \\\n three", ["FROM a", "RUN one && two three"]),
        ("FROM a\nRUN r\\\nm -r x", ["FROM a", "RUN rm -r x"]),
        ("FROM a\nRUN x \\\n  # not this\n\n  y", ["FROM a", "RUN x y"]),
        ("FROM a\nRUN x \\\n\u00a0# nor this\n y", ["FROM a", "RUN x y"]),
        ("\ufeffFROM\ta\r\nRUN\tx  y\r\n", ["FROM a", "RUN x  y"]),
        (
            "FROM a\nRUN x\x0bRUN y\x85ADD z\u2028COPY z",
            ["FROM a", "RUN x\x0bRUN y\x85ADD z\u2028COPY z"],
        ),
        (
            "# syntax=x\n#escape = `\nFROM a\nRUN x \\\nADD y`\n z",
            ["FROM a", "RUN x \\", "ADD y z"],
        ),
        ("\n# escape=`\nFROM a\nRUN x`\nADD y \\\n z", ["FROM a", "RUN x`", "ADD y z"]),
        ("# other=1\n# escape=`\nFROM a\nRUN x`\n", ["FROM a", "RUN x`"]),
        ("FROM a\nRUN x \\ \t\ny\nRUN z \\", ["FROM a", "RUN x y", "RUN z"]),
        ("\\\nFROM a\nADD\xa0x /y", ["FROM a", "ADD\xa0x /y"]),
    ],
)
def test_instructions_end_and_are_joined_as_the_engine_does_it(text: str, read: list[str]) -> None:
    assert [str(one) for one in instructions(text)] == read


@for_each("text", ["FROM a\nRUN \0", "# escape=x\nFROM a", "# escape=`\n# escape=`\nFROM a"])
def test_what_cannot_be_split_for_certain_is_refused(text: str) -> None:
    with pytest.raises(DockerfileError):
        instructions(text)
