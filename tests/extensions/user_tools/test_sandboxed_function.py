"""A function that runs inside the sandbox: what goes in, what comes back, and what no print can
forge."""

import ast
import asyncio
import hashlib
import os
import sys
from collections.abc import AsyncIterator
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codeagent.core.messages import text_of
from codeagent.core.sandbox import Command, CommandResult, OnOutput
from codeagent.core.tool import Cancelled, Failed, InvalidArgs, NotFound, ToolContext
from codeagent.extensions.user_tools import sandboxed_function
from codeagent.extensions.user_tools.sandboxed_function import AnswerTap
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.host import HostSandbox
from codeagent.tools.arguments import parse_arguments
from tests.effort import times
from tests.extensions.user_tools.python_tools import HEAD, SHOWN, Author
from tests.fakes import FakeSandbox, tool_context


@pytest_asyncio.fixture
async def author(tmp_path: Path) -> AsyncIterator[Author]:
    made = Author(tmp_path)
    made.sandbox = HostSandbox(tmp_path, dict(os.environ), tmp_path / "state")
    yield made
    if made.sandbox is not None:
        await made.sandbox.close()


def written(body: str, signature: str = "", *, kind: str = "def", head: str = "") -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    start = (
        f"@register_tool(sandbox=True)\n{kind} does_it({signature}):\n    'Does its work inside.'\n"
    )
    return f"{HEAD}{head}\n{start}{lines}\n"


async def test_the_function_runs_in_another_process_in_the_workspace(author: Author) -> None:
    text = await author.text(written("import os\nreturn {'pid': os.getpid(), 'in': os.getcwd()}"))
    answer = ast.literal_eval(text)
    assert answer["pid"] != os.getpid() and answer["in"] == str(author.workspace.root)


async def test_it_says_so_before_it_runs(author: Author) -> None:
    tool = author.tool(written("return 1", "x: int"))
    assert tool.sandboxed
    preview = await tool.preview(parse_arguments(tool, '{"x": 1}'), tool_context(author.workspace))
    assert preview.blocks[0].text == f"does_it(x=1)\n\nRuns in the sandbox. Source: {SHOWN}:4"  # type: ignore[union-attr]  # a text block


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("return 'ünï\\ncode'", "ünï\ncode"),
        ("return None", "(no output)"),
        ("return [1, {'a': None}]", '[\n  1,\n  {\n    "a": null\n  }\n]'),
        ("return b'abc'", "(3 bytes, which a model cannot read; return text)"),
        ("return ToolResult.from_text('as it is')", "as it is"),
        (
            "import dataclasses as d\nreturn d.make_dataclass('P', [('x', int)])(3)",
            '{\n  "x": 3\n}',
        ),
        ("import sys\nprint('two', file=sys.stderr)\nreturn 'three'", "two\nthree"),
        (
            "import subprocess\nprint('one', flush=True)\nsubprocess.run(['echo', 'child'])\n"
            "print('no newline', end='')\nreturn 'three'",
            "one\nchild\nno newline\nthree",
        ),
    ],
)
async def test_what_it_returns_and_prints_comes_back(author: Author, body: str, text: str) -> None:
    assert await author.text(written(body)) == text


async def test_an_async_function_is_awaited_there(author: Author) -> None:
    assert (
        await author.text(
            written("import asyncio\nawait asyncio.sleep(0)\nreturn 'x'", kind="async def")
        )
        == "x"
    )


async def test_what_is_cheap_to_make_arrives_as_its_type(author: Author) -> None:
    head = (
        "import enum, datetime, pathlib, decimal, uuid, dataclasses, typing\n"
        "class C(enum.Enum):\n    RED = 'r'\n@dataclasses.dataclass\nclass P:\n    x: int\n    c: C = C.RED\n"
    )
    signature = (
        "c: C, p: P, d: datetime.date, f: pathlib.Path, n: decimal.Decimal, s: set[int], w: tuple[int, str], "
        "z: tuple[C, ...], o: typing.Optional[P], m: dict[str, P], u: int | str, b: float, k: int = 7"
    )
    text = await author.text(
        written("return repr((c, p, d, f, n, s, w, z, o, m, u, b, k))", signature, head=head),
        c="r",
        p={"x": 1, "c": "r"},
        d="2024-01-02",
        f="a/b",
        n="1.10",
        s=[1, 1],
        w=[1, "a"],
        z=["r"],
        o={"x": 2},
        m={"k": {"x": 3}},
        u="t",
        b=2,
    )
    red = "<C.RED: 'r'>"
    assert text == (
        f"({red}, P(x=1, c={red}), datetime.date(2024, 1, 2), PosixPath('a/b'), Decimal('1.10'), {{1}}, (1, 'a'), "
        f"({red},), P(x=2, c={red}), {{'k': P(x=3, c={red})}}, 't', 2.0, 7)"
    )


async def test_a_default_that_a_field_makes_arrives(author: Author) -> None:
    pytest.importorskip("pydantic")
    head = "from typing import Annotated\nfrom pydantic import Field\n"
    tool = author.tool(
        written(
            "return x", "x: Annotated[list[int], Field(default_factory=lambda: [1])]", head=head
        )
    )
    args = parse_arguments(tool, "{}")
    assert tool._schema.plain(args) == {"x": [1]}  # type: ignore[attr-defined]  # of a FunctionTool


async def test_arguments_are_checked_on_our_side_first(author: Author) -> None:
    author.sandbox = sandbox = FakeSandbox()
    with pytest.raises(InvalidArgs):
        await author.text(written("return x", "x: int"), x="5")
    assert sandbox.commands == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('bad')", f"ValueError: bad ({SHOWN}:6)"),
        ("import sys\nsys.exit(2)", f"SystemExit: 2 ({SHOWN}:7)"),
        (
            "return object()",
            "it returned object, which cannot be written as JSON (object); return text or plain data",
        ),
        ("import os\nos._exit(0)", "the function ended its process before it returned"),
        ("import os\nos._exit(9)", "exit code 9"),
        ("print('got here')\nraise ValueError('bad')", f"got here\nValueError: bad ({SHOWN}:7)"),
    ],
)
async def test_what_goes_wrong_there_is_a_failure_here(
    author: Author, body: str, said: str
) -> None:
    with pytest.raises(Failed) as caught:
        await author.text(written(body))
    assert str(caught.value) == said


async def test_an_error_that_is_raised_on_purpose_keeps_its_kind(author: Author) -> None:
    with pytest.raises(NotFound, match="no such file: a"):
        await author.text(written("raise NotFound('no such file: a')"))


async def test_what_the_sandbox_does_not_have_is_said(author: Author) -> None:
    author.sandbox = FakeSandbox(
        [("stderr", b"bash: exec: python3: not found\n")], CommandResult(exit_code=127)
    )
    with pytest.raises(
        Failed, match="the sandbox has no python3, which a tool with sandbox=True needs"
    ):
        await author.text(written("return 1"))


async def test_without_a_sandbox_it_runs_nowhere(author: Author) -> None:
    author.sandbox = None
    with pytest.raises(
        Failed, match="this tool runs only in a sandbox, and none is available; nothing was run"
    ):
        await author.text(written("return 1"))


async def test_a_print_cannot_forge_the_answer(author: Author) -> None:
    text = await author.text(
        written("print('\\x1e' + '0' * 32 + ':' + '{\"value\": 1}')\nreturn 'real'")
    )
    assert text.endswith("real")


async def test_a_cancel_stops_it(author: Author) -> None:
    tool = author.tool(written("import time\nprint('began', flush=True)\ntime.sleep(60)"))
    began = asyncio.Event()

    async def on_update(text: str, stream: str = "output") -> None:
        began.set()

    given_context = tool_context(author.workspace, author.sandbox)
    context = ToolContext(
        "c", "t", author.workspace, author.sandbox, given_context.cancel, on_update=on_update
    )
    call = asyncio.create_task(tool.run(parse_arguments(tool, "{}"), context))
    await asyncio.wait_for(began.wait(), 20)
    call.cancel()
    with pytest.raises(Cancelled) as caught:
        await call
    assert text_of(caught.value.content) == "began"


@pytest.mark.docker
async def test_it_runs_in_the_container_with_hostile_text_and_much_of_it(
    sandbox: DockerSandbox, tmp_path: Path
) -> None:
    author = Author(tmp_path)
    author.sandbox = sandbox
    hostile = "'; exit 1; $(id) `id` \\ \"\nEND\n\x00\x1b ü" + "x" * 200_000
    body = (
        "import hashlib, pathlib\nin_container = pathlib.Path('/.dockerenv').exists()\n"
        "return [hashlib.sha256(x.encode()).hexdigest(), in_container]"
    )
    text = await author.text(written(body, "x: str"), x=hostile)
    assert ast.literal_eval(text.replace("true", "True")) == [
        hashlib.sha256(hostile.encode()).hexdigest(),
        True,
    ]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(
    max_examples=times(2),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(values=st.lists(JSON, min_size=20, max_size=40))
def test_any_values_arrive_and_return_equal(tmp_path: Path, values: list[Any]) -> None:
    async def echoed() -> list[Any]:
        author = Author(tmp_path)
        author.sandbox = HostSandbox(tmp_path, dict(os.environ), tmp_path / "state")
        source = written(
            "return ToolResult.from_text('', details={'x': x})",
            "x: list[Any]",
            head="from typing import Any\n",
        )
        result = await author.call(author.tool(source), x=values)
        await author.sandbox.close()
        return result.details["x"]  # type: ignore[return-value]  # a list

    assert asyncio.run(echoed()) == values


class Printing:
    """A sandbox that prints these pieces on standard output."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def run(self, command: Command, on_output: OnOutput) -> CommandResult:
        for piece in self._pieces:
            await on_output("stdout", piece)
        return CommandResult(exit_code=0)


@given(
    before=st.binary(max_size=40),
    after=st.binary(max_size=40),
    cuts=st.lists(st.integers(0, 140), max_size=8),
)
def test_the_answer_is_taken_out_of_the_output_however_it_is_cut(
    before: bytes, after: bytes, cuts: list[int]
) -> None:
    marker, whole = b"\x1eabab:", b""
    before, after = before.replace(marker, b""), after.replace(marker, b"")
    whole = before + marker + b'{"value": 1}' + b"\n" + after
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    pieces = [whole[start:end] for start, end in pairwise(places)]
    passed: list[bytes] = []

    async def take(stream: str, data: bytes) -> None:
        passed.append(data)

    async def ran() -> AnswerTap:
        tap = AnswerTap(Printing(pieces), marker)
        await tap.run(Command("x", "c"), take)
        return tap

    tap = asyncio.run(ran())
    assert (tap.answer, b"".join(passed)) == (b'{"value": 1}', before + after)


async def test_an_answer_without_end_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, author: Author
) -> None:
    monkeypatch.setattr(sandboxed_function, "LARGEST_ANSWER", 1 << 20)
    with pytest.raises(
        Failed, match="the function returned more than 1 MiB; write it to a file instead"
    ):
        await author.text(written("return 'x' * 2_000_000"))


def test_what_runs_there_is_written_for_an_old_python_and_imports_nothing_but_its_library() -> None:
    source = (
        resources.files("codeagent.extensions.user_tools").joinpath("sandbox_side.py").read_text()
    )
    tree = ast.parse(source, feature_version=(3, 8))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in nodes for alias in node.names if isinstance(node, ast.Import)}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names
