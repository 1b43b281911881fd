"""A function as a tool: what it gets, what becomes of what it returns, prints and raises, and how
it is stopped."""

import asyncio
import json
import os
import threading
from collections.abc import AsyncGenerator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from codeagent.agent.calls import result_of_error
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import RunCancelled
from codeagent.core.messages import text_of
from codeagent.core.policy import Policy, Rule
from codeagent.core.sandbox import CommandResult
from codeagent.core.tool import (
    Cancelled,
    Failed,
    InvalidArgs,
    NotFound,
    TimedOut,
    Tool,
    ToolContext,
    ToolError,
)
from codeagent.tools.arguments import parse_arguments
from tests.extensions.user_tools.python_tools import HEAD, SHOWN, Author, threads_ended
from tests.fakes import FakeSandbox, tool_context
from tests.table import for_each


@pytest.fixture
def author(tmp_path: Path) -> Author:
    return Author(tmp_path)


def written(
    body: str,
    signature: str = "",
    *,
    decorator: str = "@register_tool",
    kind: str = "def",
    head: str = "",
) -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"{HEAD}{head}\n{decorator}\n{kind} does_it({signature}):\n    'Does what it has to do.'\n{lines}\n"


def awaited(body: str, signature: str = "", **more: str) -> str:
    return written(body, signature, kind="async def", **more)


RETURNS = [
    ("return 'text'", "text"),
    ("return 'ünï\\ncode'", "ünï\ncode"),
    ("return None", "(no output)"),
    ("pass", "(no output)"),
    ("return ''", "(no output)"),
    ("return 5", "5"),
    ("return 1.5", "1.5"),
    ("return True", "true"),
    ("return [1, 'ü']", '[\n  1,\n  "ü"\n]'),
    ("return {'a': None}", '{\n  "a": null\n}'),
    ("return (1, 2)", "[\n  1,\n  2\n]"),
    ("return b'ab\\xff'", "(3 bytes, which a model cannot read; return text)"),
    ("return 'half \\ud800'", "half \\ud800"),
    ("return ToolResult.from_text('as it is')", "as it is"),
    ("import dataclasses as d\nreturn d.make_dataclass('P', [('x', int)])(3)", '{\n  "x": 3\n}'),
    ("import pydantic as p\nreturn p.create_model('P', x=(int, 4))()", '{\n  "x": 4\n}'),
    (
        "import pathlib, datetime\nreturn [pathlib.Path('a'), datetime.date(2024, 1, 2)]",
        '[\n  "a",\n  "2024-01-02"\n]',
    ),
    (
        "import enum\nreturn {'colour': enum.Enum('C', {'RED': 'red'}).RED}",
        '{\n  "colour": "red"\n}',
    ),
]


@for_each("kind", ["def", "async def"])
@for_each(("body", "text"), RETURNS)
async def test_what_is_returned_becomes_this_text(
    author: Author, body: str, text: str, kind: str
) -> None:
    assert await author.text(written(body, kind=kind)) == text


@pytest.mark.parametrize(
    "value", ["object()", "lambda: 1", "open", "{'a': object()}", "b'' + b'\\xff', b'\\xff'"]
)
async def test_what_cannot_be_shown_is_an_error_that_says_what_can(
    author: Author, value: str
) -> None:
    with pytest.raises(
        Failed, match=r"which cannot be shown .* a tool may return text, None, anything that can be"
    ):
        await author.text(written(f"return {value}"))


async def test_a_value_that_holds_itself_is_an_error(author: Author) -> None:
    with pytest.raises(Failed, match="it returned list, which cannot be shown"):
        await author.text(written("a = []\na.append(a)\nreturn a"))


async def test_a_result_is_passed_on_whole(author: Author) -> None:
    source = written("return ToolResult.from_text('x', details={'a': 1})")
    assert (await author.call(author.tool(source))).details == {"a": 1}


async def test_arguments_come_as_the_types_the_function_declares(author: Author) -> None:
    head = (
        "import enum, datetime, pathlib, decimal, uuid, dataclasses\n"
        "class C(enum.Enum):\n    RED = 'r'\n@dataclasses.dataclass\nclass P:\n    x: int\n"
    )
    signature = (
        "c: C, p: P, d: datetime.date, t: datetime.datetime, f: pathlib.Path, n: decimal.Decimal, u: uuid.UUID, "
        "s: set[int], w: tuple[int, str], z: tuple[C, ...]"
    )
    text = await author.text(
        written("return repr((c, p, d, t.year, f, n, u.int, s, w, z))", signature, head=head),
        c="r",
        p={"x": 1},
        d="2024-01-02",
        t="2024-01-02T03:04:05Z",
        f="a/b",
        n="1.10",
        u="00000000-0000-0000-0000-000000000001",
        s=[1, 1],
        w=[1, "a"],
        z=["r"],
    )
    assert text == (
        "(<C.RED: 'r'>, P(x=1), datetime.date(2024, 1, 2), 2024, PosixPath('a/b'), Decimal('1.10'), 1, {1}, (1, 'a'), "
        "(<C.RED: 'r'>,))"
    )


@pytest.mark.parametrize(
    ("signature", "arguments", "said"),
    [
        (
            "x: int",
            {"x": "5"},
            "Argument 'x' for tool 'does_it' should be a valid integer; got a string '5'",
        ),
        ("x: int", {}, "Missing required argument 'x' for tool 'does_it'"),
        (
            "path: str",
            {"pth": "a"},
            "Unknown argument 'pth' for tool 'does_it'; did you mean path?",
        ),
        (
            "x: 'list[str]'",
            {"x": ["a", 1]},
            "Argument 'x.1' for tool 'does_it' should be a valid string",
        ),
        ("x: bool", {"x": "yes"}, "Argument 'x' for tool 'does_it' should be a valid boolean"),
        ("_x: int", {"_x": "a"}, "Argument '_x' for tool 'does_it' should be a valid integer"),
    ],
)
async def test_arguments_are_checked_strictly(
    author: Author, signature: str, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidArgs, match="Validation Error") as caught:
        await author.text(written("return 1", signature), **arguments)
    assert said in str(caught.value)


async def test_the_context_is_given_wherever_it_is_asked_for(author: Author) -> None:
    assert (
        await author.text(awaited("return f'{x} {ctx.call_id}'", "x: int, ctx: ToolContext"), x=1)
        == "1 call-1"
    )
    assert (
        await author.text(
            written("return ctx.call_id + x", "ctx: 'ToolContext', /, *, x: str"), x="!"
        )
        == "call-1!"
    )


async def test_a_plain_function_runs_in_a_thread_and_an_async_one_on_the_loop(
    author: Author,
) -> None:
    body = "import threading\nreturn threading.get_ident()"
    assert await author.text(written(body)) != str(threading.get_ident())
    assert await author.text(awaited(body)) == str(threading.get_ident())


async def test_a_coroutine_that_a_plain_function_returns_is_awaited(author: Author) -> None:
    head = "async def later():\n    print('now')\n    return 'then'\n"
    assert await author.text(written("return later()", head=head)) == "now\nthen"


# errors


@for_each("kind", ["def", "async def"])
@for_each(
    ("body", "said"),
    [
        ("raise ValueError('bad')", f"ValueError: bad ({SHOWN}:6)"),
        ("raise ValueError", f"ValueError ({SHOWN}:6)"),
        ("x = 1\n\n{}['key']", f"KeyError: 'key' ({SHOWN}:8)"),
        ("import sys\nsys.exit(2)", f"SystemExit: 2 ({SHOWN}:7)"),
        ("raise StopIteration('over')", "StopIteration"),
        ("assert 1 == 2, 'why'", f"AssertionError: why ({SHOWN}:6)"),
    ],
)
async def test_an_exception_is_a_failure_with_its_line(
    author: Author, body: str, said: str, kind: str
) -> None:
    with pytest.raises(Failed) as caught:
        await author.text(written(body, kind=kind))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("raised", "kind"), [("Failed", Failed), ("NotFound", NotFound), ("InvalidArgs", InvalidArgs)]
)
async def test_an_error_that_is_raised_on_purpose_is_the_result(
    author: Author, raised: str, kind: type[ToolError]
) -> None:
    with pytest.raises(kind) as caught:
        await author.text(written(f"raise {raised}('no such file: a')"))
    assert type(caught.value) is kind and str(caught.value) == "no such file: a"


# printing


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_what_is_printed_stands_before_what_is_returned_and_is_seen_as_it_comes(
    author: Author, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    body = "import sys\nprint('one')\nprint('two', file=sys.stderr)\nreturn 'three'"
    assert await author.text(written(body, kind=kind)) == "one\ntwo\nthree"
    assert "".join(text for _, text in author.updates) == "one\ntwo\n"
    assert {stream for stream, _ in author.updates} == {"stdout", "stderr"}
    assert capfd.readouterr() == ("", "")


async def test_a_function_that_only_prints_answers_with_that(author: Author) -> None:
    assert await author.text(written("print('all of it')")) == "all of it"


async def test_what_was_printed_before_an_error_is_part_of_the_answer(author: Author) -> None:
    with pytest.raises(Failed) as caught:
        await author.text(written("print('got here')\nraise ValueError('bad')"))
    assert text_of(caught.value.content) == f"got here\nValueError: bad ({SHOWN}:7)"


async def test_prints_of_calls_that_overlap_do_not_mix(author: Author) -> None:
    head = "import asyncio, threading\nboth = threading.Barrier(2)\n"
    tool = author.tool(written("print('a', n)\nboth.wait(10)\nprint('b', n)", "n: int", head=head))
    first, second = await asyncio.gather(author.call(tool, n=1), author.call(tool, n=2))
    assert (text_of(first.content), text_of(second.content)) == ("a 1\nb 1", "a 2\nb 2")


async def test_threads_that_a_function_starts_print_to_its_call(
    author: Author, capfd: pytest.CaptureFixture[str]
) -> None:
    body = "import threading\nt = threading.Thread(target=print, args=('from below',))\nt.start()\nt.join()"
    assert await author.text(written(body)) == "from below"
    assert capfd.readouterr() == ("", "")


async def test_our_own_prints_come_out_meanwhile(
    author: Author, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "import threading\ngo = threading.Event()\n"
    tool = author.tool(written("go.wait(10)\nprint('theirs')", head=head))
    call = asyncio.create_task(author.call(tool))
    await asyncio.sleep(0)
    print("ours")  # noqa: T201  # what is tested
    tool._function.__globals__["go"].set()  # type: ignore[attr-defined]  # of a FunctionTool
    assert text_of((await call).content) == "theirs"
    assert capsys.readouterr().out == "ours\n"


async def test_a_flood_of_prints_is_cut_in_the_middle_and_kept_whole(author: Author) -> None:
    text = await author.text(written("for n in range(20_000):\n    print('line', n)"))
    assert text.startswith("line 0\n") and text.endswith("line 19999") and len(text) < 40_000
    assert "output_read" in text and "line 10000\n" in "".join(author.outputs.texts.values())


async def test_of_what_nobody_has_seen_yet_only_the_end_waits(author: Author) -> None:
    text = await author.text(awaited("for n in range(300):\n    print('x' * 10_000, n)"))
    seen = "".join(text for _, text in author.updates)
    assert len(text) < 40_000 and 900_000 < len(seen) <= 1 << 20 and seen.endswith("x 299\n")


@for_each("depth", [100, 150, 199, 201, 500, 5000])
@for_each("hint", ["Any", "Node"])
async def test_deep_arguments_are_a_result_however_deep(
    author: Author, hint: str, depth: int
) -> None:
    head = (
        "from typing import Any\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Node:\n    x: 'Node | None' = None\n"
    )
    tool = author.tool(written("return 'fine'", f"x: {hint}", head=head))
    try:
        args = parse_arguments(tool, '{"x":' * depth + "null" + "}" * depth)
    except InvalidArgs:
        assert depth > 100
        return
    assert tool.approval_key(args).parts[0].count("x") == tool.target(args).count("x") == depth
    assert text_of((await tool.run(args, tool_context(author.workspace))).content) == "fine"


# stopping


async def stopped(author: Author, source: str, reason: str = "cancelled") -> BaseException:
    """What a call raises that is cancelled once it has printed something."""
    tool = author.tool(source)
    token = CancelToken()
    started = asyncio.Event()

    async def on_update(text: str, stream: str = "output") -> None:
        started.set()

    context = ToolContext("call-1", "does_it", author.workspace, None, token, on_update=on_update)
    call = asyncio.create_task(token.guard(tool.run(parse_arguments(tool, "{}"), context)))
    await asyncio.wait_for(started.wait(), 10)
    token.cancel(reason)
    with pytest.raises((ToolError, RunCancelled)) as caught:
        await call
    return caught.value


async def test_a_thread_that_cannot_be_stopped_is_said_to_go_on(
    author: Author, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    error = await stopped(author, written(f"print('began')\nopen({str(gate)!r}).read()"))
    assert isinstance(error, Cancelled) and text_of(error.content) == "began"
    result = result_of_error(error, executed=True, cancelled_because="timeout after 1 s")
    assert text_of(result.content) == (
        "began\nTimed out after 1 s; the function runs in a thread, which cannot be stopped: it may still be running"
    )
    assert result.error is not None and result.error.kind == "timeout"
    gate.write_text("")
    threads_ended()


async def test_a_function_that_watches_for_the_cancel_ends_with_what_it_has(author: Author) -> None:
    body = "import time\nprint('began')\nwhile not ctx.cancel.cancelled:\n    time.sleep(0.01)\nraise Failed('gave up')"
    error = await stopped(author, written(body, "ctx: ToolContext"))
    assert isinstance(error, Failed) and str(error) == "gave up"


async def test_an_async_function_is_cancelled_and_may_clean_up(author: Author) -> None:
    body = "import asyncio\nprint('began')\ntry:\n    await asyncio.sleep(60)\nfinally:\n    print('cleaned')"
    error = await stopped(author, awaited(body))
    assert isinstance(error, Cancelled) and text_of(error.content) == "began\ncleaned"


# commands


def ready(author: Author, *printed: bytes, code: int = 0) -> FakeSandbox:
    sandbox = FakeSandbox([("stdout", piece) for piece in printed], CommandResult(exit_code=code))
    author.sandbox = sandbox
    return sandbox


async def test_run_runs_a_command_in_the_sandbox_and_gives_what_it_printed(author: Author) -> None:
    sandbox = ready(author, b"3 passed\n")
    source = awaited(
        "return (await ctx.run('pytest -q', hosts=('pypi.org',))).upper()", "ctx: ToolContext"
    )
    assert await author.text(source) == "3 PASSED"
    [command] = sandbox.commands
    assert (command.text, command.call_id, command.hosts, command.read_only) == (
        "pytest -q",
        "call-1",
        ("pypi.org",),
        False,
    )
    assert author.updates == [("stdout", "3 passed\n")]


async def test_a_sequence_reaches_the_program_word_for_word(author: Author) -> None:
    sandbox = ready(author)
    await author.text(
        awaited("await ctx.run(['echo', 'a b', '$HOME', \"it's\"])", "ctx: ToolContext")
    )
    assert sandbox.commands[0].text == """echo 'a b' '$HOME' 'it'"'"'s'"""


async def test_plan_mode_is_passed_on_to_commands(author: Author) -> None:
    sandbox = ready(author)
    tool = author.tool(awaited("await ctx.run('ls')", "ctx: ToolContext"))
    context = ToolContext("c", "t", author.workspace, sandbox, CancelToken(), read_only=True)
    await tool.run(parse_arguments(tool, "{}"), context)
    assert sandbox.commands[0].read_only


async def test_a_command_that_fails_is_a_failure_with_its_output_unless_it_is_caught(
    author: Author,
) -> None:
    ready(author, b"boom\n", code=3)
    with pytest.raises(Failed) as caught:
        await author.text(awaited("await ctx.run('make')", "ctx: ToolContext"))
    assert text_of(caught.value.content) == "boom\n[exit code 3]"
    body = "try:\n    await ctx.run('make')\nexcept Failed as error:\n    return f'caught {error}'"
    assert await author.text(awaited(body, "ctx: ToolContext")) == "caught exit code 3"


async def test_a_command_has_its_own_time_limit(author: Author) -> None:
    author.sandbox = FakeSandbox([("stdout", b"so far"), 60.0])
    with pytest.raises(TimedOut, match=r"Timed out after 0\.05 s"):
        await author.text(awaited("await ctx.run('sleep 60', timeout=0.05)", "ctx: ToolContext"))


@pytest.mark.parametrize(
    ("command", "said"), [("''", "the command is empty"), ("'a\\0b'", "cannot contain a NUL")]
)
async def test_a_command_that_none_can_run_is_refused(
    author: Author, command: str, said: str
) -> None:
    ready(author)
    with pytest.raises(InvalidArgs, match=said):
        await author.text(awaited(f"await ctx.run({command})", "ctx: ToolContext"))


async def test_without_a_sandbox_no_command_runs(author: Author) -> None:
    with pytest.raises(
        Failed, match="without a sandbox, this tool cannot run commands; nothing was run"
    ):
        await author.text(awaited("await ctx.run('ls')", "ctx: ToolContext"))


SAYING = """
print('a')
{0}ctx.on_progress('1 of 2')
{0}ctx.on_progress('2 of 2')
{0}ctx.on_update('b')
print('c')
{0}ctx.on_update('d', 'stderr')
return 'e'
"""


@for_each(
    "source",
    [
        written(SAYING.format(""), "ctx: ToolContext"),
        awaited(SAYING.format(""), "ctx: ToolContext"),
        awaited(SAYING.format("await "), "ctx: ToolContext"),
    ],
)
async def test_what_a_function_says_is_shown_in_its_order_whether_or_not_it_is_awaited(
    author: Author, source: str
) -> None:
    author.updates.clear()
    assert await author.text(source) == "a\nc\ne"
    shown = [
        (kind, "".join(text for _, text in pieces))
        for kind, pieces in groupby(author.updates, itemgetter(0))
    ]
    assert shown == [
        ("stdout", "a\n"),
        ("progress", "1 of 22 of 2"),
        ("output", "b"),
        ("stdout", "c\n"),
        ("stderr", "d"),
    ]


async def test_what_an_interactive_job_says_without_waiting_is_shown(author: Author) -> None:
    tool = author.tool(awaited("ctx.on_progress('soon')\nyield 'here'", "ctx: ToolContext"))
    assert text_of((await author.call(tool)).content) == "here"
    assert ("progress", "soon") in author.updates


@for_each("kind", ["def", "async def"])
@for_each(
    ("call", "told"),
    [
        ("on_update(5)", "on_update takes text, not int"),
        ("on_progress(b'x')", "on_progress takes text, not bytes"),
        ("on_update('x', 'stdin')", "stream is one of output, stdout, stderr, not 'stdin'"),
    ],
)
async def test_what_cannot_be_shown_fails_where_it_is_said(
    author: Author, call: str, told: str, kind: str
) -> None:
    with pytest.raises(Failed, match=told):
        await author.text(written(f"ctx.{call}", "ctx: ToolContext", kind=kind))


@pytest.mark.parametrize("call", ["run('ls')", "receive()"])
async def test_a_plain_function_is_told_that_it_cannot_await(author: Author, call: str) -> None:
    ready(author)
    with pytest.raises(
        Failed, match="a plain function cannot await this; make the tool `async def`"
    ):
        await author.text(written(f"ctx.{call}", "ctx: ToolContext"))


# approval


def judged(author: Author, rule: str, **arguments: object) -> str:
    tool = author.tool(written("return 1", "path: str, limit: int = 5"))
    key = tool.approval_key(parse_arguments(tool, json.dumps(arguments)))
    policy = Policy(rules=(Rule.parse(rule, "auto"),))
    return policy.check(tool.name, key, default=tool.permission, effect=tool.effect).permission


def test_rules_match_the_arguments_as_canonical_json(author: Author) -> None:
    assert judged(author, "does_it(*)", path="a") == "auto"
    assert judged(author, 'does_it({"limit":5,"path":"src/*"})', path="src/a.py", limit=5) == "auto"
    assert judged(author, 'does_it({"path":"src/*"})', path="lib/a.py") == "prompt"


def test_arguments_in_any_order_are_one_key_and_nothing_is_proposed(author: Author) -> None:
    tool = author.tool(written("return 1", "path: str, more: dict[str, int]"))
    first = parse_arguments(tool, '{"path": "ü", "more": {"b": 1, "a": 2}}')
    second = parse_arguments(tool, '{"more": {"a": 2, "b": 1}, "path": "\\u00fc"}')
    assert (
        tool.approval_key(first).parts
        == tool.approval_key(second).parts
        == ('{"more":{"a":2,"b":1},"path":"ü"}',)
    )
    assert tool.proposal(first) == ""


def test_what_is_logged_and_judged_is_what_was_asked_for_whatever_a_type_shows(
    author: Author,
) -> None:
    tool = author.tool(
        written("return 1", "key: SecretStr", head="from pydantic import SecretStr\n")
    )
    args = parse_arguments(tool, '{"key": "abc"}')
    assert tool.approval_key(args).parts == ('{"key":"abc"}',)
    assert args.model_dump(mode="json", exclude_unset=True) == {"key": "abc"}


async def previewed(author: Author, tool: Tool[Any], **arguments: object) -> str:
    preview = await tool.preview(
        parse_arguments(tool, json.dumps(arguments)), tool_context(author.workspace)
    )
    [block] = preview.blocks
    assert block.type == "text"
    return block.text


async def test_the_preview_is_the_call_as_a_user_would_write_it(author: Author) -> None:
    tool = author.tool(written("return 1", "path: str, limit: int = 5"))
    assert await previewed(author, tool, path="a'b", limit=2) == (
        f'does_it(path="a\'b", limit=2)\n\nRuns on this machine, outside the sandbox. Source: {SHOWN}:4'
    )
    assert tool.target(parse_arguments(tool, '{"path": "a"}')) == "path='a'"


async def test_a_long_text_is_shown_line_by_line_and_whole(author: Author) -> None:
    tool = author.tool(written("return 1", "path: str, text: str"))
    shown = await previewed(author, tool, path="a", text="one\ntwo\x1b[2J")
    assert shown.startswith(
        "does_it(\n    path='a',\n    text=(\n        'one\\n'\n        'two\\x1b[2J'\n    ),\n)\n"
    )


# stateful


TALK = "for n in range(2):\n    print('tick', n)\n    got = yield {'n': n}\n    if got:\n        yield f'got {got}'"


async def test_an_async_generator_is_a_stateful_tool(author: Author) -> None:
    tool = author.tool(awaited(TALK))
    assert tool.mode == "stateful" and tool.in_background(parse_arguments(tool, "{}"))


def talking(author: Author, source: str) -> AsyncGenerator[str, str | None]:
    tool = author.tool(source)
    return tool.talk(
        parse_arguments(tool, "{}"), tool_context(author.workspace, updates=author.updates)
    )


async def test_each_yield_is_an_update_and_gives_what_was_sent(author: Author) -> None:
    talk = talking(author, awaited(TALK))
    assert await talk.asend(None) == '{\n  "n": 0\n}'
    assert await talk.asend("hello") == "got hello"
    assert await talk.asend(None) == '{\n  "n": 1\n}'
    with pytest.raises(StopAsyncIteration):
        await talk.asend(None)
    assert "".join(text for _, text in author.updates) == "tick 0\ntick 1\n"


async def test_a_talk_that_is_closed_cleans_up(author: Author) -> None:
    talk = talking(
        author, awaited("try:\n    yield 'on'\n    yield 'never'\nfinally:\n    print('off')")
    )
    assert await talk.asend(None) == "on"
    await talk.aclose()
    assert author.updates == [("stdout", "off\n")]


async def test_an_exception_in_a_talk_is_a_failure_with_its_line(author: Author) -> None:
    talk = talking(author, awaited("yield 'on'\nraise ValueError('bad')"))
    await talk.asend(None)
    with pytest.raises(Failed, match=rf"ValueError: bad \({SHOWN}:7\)"):
        await talk.asend(None)


async def test_where_nobody_holds_jobs_its_updates_are_the_result(author: Author) -> None:
    assert await author.text(awaited("yield 'one'\nyield 2")) == "one\n2"
