"""What a Dockerfile would fetch and copy, told without building it."""

from codeagent.sandbox.dockerfile import BuildPlan, instructions, plan
from tests.table import for_each


@for_each(
    "text, expected",
    [
        ("FROM a", BuildPlan(("a",), (), copies=False)),
        ("from a as b\nFROM b", BuildPlan(("a",), (), copies=False)),
        ("FROM scratch", BuildPlan((), (), copies=False)),
        ("FROM --platform=linux/amd64 a:1", BuildPlan(("a:1",), (), copies=False)),
        ("ARG V=3\nFROM python:$V", BuildPlan(("python:3",), (), copies=False)),
        ("ARG V\nFROM python:${V:-4}-slim", BuildPlan(("python:4-slim",), (), copies=False)),
        ("ARG GIVEN=1\nFROM a:${GIVEN}", BuildPlan(("a:9",), (), copies=False)),
        ("FROM a\nCOPY x /x", BuildPlan(("a",), (), copies=True)),
        ("FROM a\nCOPY --from=uv/uv:1 /uv /uv", BuildPlan(("a", "uv/uv:1"), (), copies=False)),
        ("FROM a AS one\nFROM b\nCOPY --from=one /x /x\nCOPY --from=0 /y /y", BuildPlan(("a", "b"), (), copies=False)),
        ("FROM a\nADD https://x.org/y /y", BuildPlan(("a",), ("ADD https://x.org/y /y",), copies=True)),
        ('FROM a\nADD ["HTTP://x.org/y", "/y"]', BuildPlan(("a",), ('ADD ["HTTP://x.org/y", "/y"]',), copies=True)),
        ("FROM a\nARG U=http://x\nADD $U /y", BuildPlan(("a",), ("ADD $U /y",), copies=True)),
        ("FROM a\nADD git@x.org:y /y", BuildPlan(("a",), ("ADD git@x.org:y /y",), copies=True)),
        ("FROM a\nADD --chown=1:1 local.tar /y", BuildPlan(("a",), (), copies=True)),
        ("FROM a\nRUN echo COPY x \\\n  ADD y", BuildPlan(("a",), (), copies=False)),
        ("FROM a\nRUN x \\\n# ADD http://y /\n z", BuildPlan(("a",), (), copies=False)),
        ("# escape=`\nFROM a\nADD `\n http://x/y /y", BuildPlan(("a",), ("ADD http://x/y /y",), copies=True)),
    ],
)
def test_what_would_be_fetched_and_copied_is_known(text: str, expected: BuildPlan) -> None:
    assert plan(text, {"GIVEN": "9"}) == expected


def test_instructions_are_joined_over_lines() -> None:
    assert [str(one) for one in instructions("# x\nFROM a\n\nrun one && \\\n   two \\\n three")] == [
        "FROM a",
        "RUN one && two three",
    ]
