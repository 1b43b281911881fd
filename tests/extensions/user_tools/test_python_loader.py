"""A tool file from its bytes to tools, and everything that can be wrong with it, by file and
line."""

import gc
import linecache
import sys
import weakref
from pathlib import Path

import pytest

from codeagent.core.tool import Failed
from tests.extensions.user_tools.python_tools import HEAD, SHOWN, Author, threads_ended
from tests.table import for_each

COUNT = (
    HEAD
    + '''
@register_tool
def word_count(path: str, limit: int = 5) -> str:
    """Counts the words of a file.

    Args:
        path: The file.
        limit: At most so many.
    """
    return path * limit
'''
)


@pytest.fixture
def author(tmp_path: Path) -> Author:
    return Author(tmp_path)


def test_a_marked_function_is_a_tool(author: Author) -> None:
    tool = author.tool(COUNT)
    assert (tool.name, tool.label, tool.description) == (
        "word_count",
        "Word count",
        "Counts the words of a file.",
    )
    assert (tool.source, tool.origin) == ("python", f"{SHOWN}:4")
    assert (tool.permission, tool.effect, tool.mode, tool.sandboxed) == (
        "prompt",
        "anything",
        "direct",
        False,
    )
    assert author.load(COUNT).problems == ()


def test_a_call_has_a_time_limit_unless_it_is_a_job(author: Author) -> None:
    [tool] = author.load(COUNT).tools
    [job] = author.load(COUNT.replace("@register_tool", "@register_tool(mode='background')")).tools
    assert (tool.timeout, job.timeout) == (120, None)


def test_the_decorator_has_the_say(author: Author) -> None:
    said = (
        "name='counts-it', label='Count!', description='Counts what is in a file.', approval='auto', effect='nothing', "
        "timeout=3, max_calls=2, mode='background', hint='Use it.', documentation='# All', output_limit=100"
    )
    [tool] = author.load(
        COUNT.replace("@register_tool", f"@register_tool({said})"), place="user"
    ).tools
    assert (tool.name, tool.label, tool.description) == (
        "counts-it",
        "Count!",
        "Counts what is in a file.",
    )
    assert (tool.permission, tool.effect, tool.mode, tool.concurrency) == (
        "auto",
        "nothing",
        "background",
        "shared",
    )
    assert (tool.timeout, tool.max_calls, tool.output_limit) == (3, 2, 100)
    assert (tool.hint, tool.documentation) == ("Use it.", "# All")


def test_a_project_cannot_allow_its_own_tools_anything(author: Author) -> None:
    source = COUNT.replace("@register_tool", "@register_tool(approval='auto', effect='files')")
    loaded = author.load(source, place="project")
    [tool] = loaded.tools
    assert (tool.permission, tool.effect) == ("prompt", "anything")
    [told] = [problem for problem in loaded.problems if "your own folder" in problem.text]
    assert told.level == "warning"


@for_each(
    ("said", "fine"),
    [("sandbox=True", True), ("sandbox=False", False), ("sandbox=True, mode='background'", False)],
)
def test_only_a_function_in_the_sandbox_is_tried_out(
    author: Author, said: str, *, fine: bool
) -> None:
    source = COUNT.replace("@register_tool", f"@register_tool(approval='effects', {said})")
    loaded = author.load(source, place="project")
    if fine:
        [tool] = loaded.tools
        assert (tool.permission, tool.tries, loaded.problems) == ("prompt", True, ())
    else:
        needs = 'approval="effects" needs sandbox=True, and not mode="background"'
        assert needs in loaded.problems[0].text


async def test_the_function_itself_stays_what_it_was(author: Author) -> None:
    source = (
        HEAD
        + "@register_tool\ndef doubled(x: int) -> int:\n    'Doubles a number.'\n    return 2 * x\n"
    )
    more = (
        "@register_tool\ndef fourfold(x: int) -> int:\n    'Doubles a number twice.'\n    return "
        "doubled(doubled(x))\n"
    )
    assert (await author.call(author.tool(source + more, "fourfold"), x=3)).content[0].text == "12"  # type: ignore[union-attr]  # text


def test_tools_come_in_the_order_they_stand_there(author: Author) -> None:
    body = "def {0}():\n    'Tells one thing or another.'\n"
    source = HEAD + "".join(
        "@register_tool\n" + body.format(name) for name in ("zeta", "alpha", "mid")
    )
    assert [tool.name for tool in author.load(source).tools] == ["zeta", "alpha", "mid"]


ERRORS = [
    ("def (", f"{SHOWN}:1: syntax error: invalid syntax"),
    (
        "x = 1\nif x:\ny = 2\n",
        f"{SHOWN}:3: syntax error: expected an indented block after 'if' statement on line 2",
    ),
    (b"\x00", ": source code string cannot contain null bytes"),
    ("\n\n1 / 0\n", f"{SHOWN}:3: ZeroDivisionError: division by zero"),
    ("def f():\n    raise ValueError\nf()\n", f"{SHOWN}:2: ValueError"),
    (
        "import json\n\njson.loads('x')\n",
        f"{SHOWN}:3: JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    ),
    ("import sys\nsys.exit(3)\n", f"{SHOWN}:2: it ends the program when imported: SystemExit: 3"),
    (
        "import nowhere_at_all\n",
        f"{SHOWN}:1: ModuleNotFoundError: No module named 'nowhere_at_all'; a tool can import what is "
        "installed with codeagent, but not another tool",
    ),
    (
        HEAD + "@register_tool\n@staticmethod\ndef f(): ...\n",
        f"{SHOWN}:2: TypeError: register_tool marks functions; this is <staticmethod(<function f at 0x",
    ),
    (
        HEAD + "@register_tool(approval='yes')\ndef f(): ...\n",
        "approval is one of auto, prompt, deny, effects, not 'yes'",
    ),
    (
        HEAD + "@register_tool(timeout=0)\ndef f(): ...\n",
        f"{SHOWN}:2: ValueError: timeout is a number above 0, not 0",
    ),
    (
        HEAD + "@register_tool(nam='x')\ndef f(): ...\n",
        f"{SHOWN}:2: TypeError: register_tool has no argument 'nam'; it takes",
    ),
    (
        HEAD + "@register_tool(mode='slow')\ndef f(): ...\n",
        "mode is one of direct, background, stateful, not 'slow'",
    ),
    (
        HEAD + "\n@register_tool\ndef f(x): 'Tells it.'\n",
        f"{SHOWN}:4: f: parameter 'x' has no type hint, as in x: str",
    ),
    (HEAD + "@register_tool\n\ndef f(x: int): ...\n", f"{SHOWN}:4: f: it has no docstring"),
    (
        HEAD + "@register_tool\ndef größe(): 'Tells it.'\n",
        f"{SHOWN}:3: größe: its name is not 1 to 64 of A-Z",
    ),
    (
        HEAD + "@register_tool(name='a b')\ndef f(): 'Tells it.'\n",
        f"{SHOWN}:3: a b: its name is not 1 to 64",
    ),
    (
        HEAD + "@register_tool(name='')\ndef f(): 'Tells it.'\n",
        f"{SHOWN}:3: : its name is not 1 to 64",
    ),
    (
        HEAD + "@register_tool\ndef f(x: int = 'a'): 'Tells it.'\n",
        "the default of 'x', 'a', does not fit its type",
    ),
    (
        HEAD + "@register_tool\ndef f():\n    'Tells.'\n    yield\n",
        f"{SHOWN}:3: f: it is a generator; make it",
    ),
    (
        HEAD + "@register_tool(mode='stateful')\ndef f(): 'Tells.'\n",
        "a stateful tool is an async generator",
    ),
    (
        HEAD + "@register_tool(mode='direct')\nasync def f():\n    'Tells.'\n    yield\n",
        "it is an async generator, so its mode is stateful, not direct",
    ),
    (
        HEAD + "@register_tool(sandbox=True)\ndef f(ctx: ToolContext): 'Tells.'\n",
        "sandbox=True cannot be combined with a ToolContext; leave out one of the two",
    ),
    (
        HEAD + "@register_tool(sandbox=True)\nasync def f():\n    'Tells.'\n    yield\n",
        "sandbox=True runs functions, not async generators",
    ),
]


@for_each(("source", "said"), ERRORS)
def test_what_is_wrong_is_said_by_file_and_line(
    author: Author, source: str | bytes, said: str
) -> None:
    [error] = author.errors(source)
    assert said in error and error.startswith(SHOWN) and "\n" not in error


def test_everything_wrong_with_a_file_is_said_at_once(author: Author) -> None:
    body = "@register_tool\ndef f(a, *b, **c): ...\n@register_tool\ndef g(x): 'Tells.'\n"
    assert [error.partition(": ")[0] for error in author.errors(HEAD + body)] == [
        *[f"{SHOWN}:3"] * 4,
        f"{SHOWN}:5",
    ]


def test_a_name_that_is_there_twice_is_an_error_at_the_second(author: Author) -> None:
    again = COUNT.removeprefix(HEAD).replace("path * limit", "path")
    assert author.errors(COUNT + again) == [
        f"{SHOWN}:14: there is another tool word_count, at {SHOWN}:4"
    ]


def test_one_error_keeps_the_whole_file_out(author: Author) -> None:
    assert author.load(COUNT + "@register_tool\ndef other(x): 'Tells it all.'\n").tools == ()


def test_a_file_without_tools_is_a_warning(author: Author) -> None:
    [warning] = author.warnings("x = 1\n")
    assert (
        str(warning)
        == f"{SHOWN}:1: none of its functions is marked with @register_tool, so it adds none"
    )


def test_lint_names_the_line_of_the_function(author: Author) -> None:
    body = "\n\n@register_tool\ndef run(x: int):\n    '''Does what it has to.\n\n    Args:\n        y: Gone.\n    '''\n"
    assert [str(warning) for warning in author.warnings(HEAD + body)] == [
        f"{SHOWN}:5: the name run does not say what the tool does; the model chooses by the name",
        f"{SHOWN}:5: run does not describe 'x'; say what belongs there",
        f"{SHOWN}:5: the docstring of run describes 'y', which it does not take",
    ]


def test_a_file_that_takes_too_long_to_import_is_reported_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    author = Author(tmp_path, import_seconds=0.2)
    source = "import threading\nthreading.Event().wait(0.6)\n"
    assert author.errors(source) == [
        f"{SHOWN}:1: it takes longer than 0.2 s to import; that cannot be stopped and continues until it ends. "
        "Move the work into the function"
    ]
    assert author.tool(COUNT).name == "word_count"
    threads_ended()


def test_what_is_printed_on_import_comes_out_nowhere(
    author: Author, capfd: pytest.CaptureFixture[str]
) -> None:
    [warning] = author.warnings(COUNT + "import sys\nprint('loud')\nsys.stderr.write('louder')\n")
    assert str(warning) == f"{SHOWN}:1: it prints when it is imported; that is not shown"
    assert capfd.readouterr() == ("", "")


def test_exactly_what_was_read_is_executed(author: Author) -> None:
    assert not Path("/nowhere").exists()
    body = "here = __file__\n@register_tool\ndef whereabouts() -> str:\n    'Tells the file.'\n    return here\n"
    assert author.tool(HEAD + body)._function() == f"/nowhere/{SHOWN}"  # type: ignore[attr-defined]  # of a FunctionTool


def test_no_module_stays_behind(author: Author) -> None:
    before = set(sys.modules)
    author.load(COUNT)
    author.load("1 / 0")
    assert {
        name for name in set(sys.modules) - before if name.startswith("codeagent_tool")
    } == set()


def test_a_module_cannot_be_imported_by_another_file(author: Author) -> None:
    author.load(COUNT, shown=".codeagent/tools/mine.py")
    assert "No module named 'mine'" in author.errors("import mine\n")[0]


def test_tools_that_are_only_imported_are_not_the_files_own(author: Author, tmp_path: Path) -> None:
    (tmp_path / "some_package.py").write_text(COUNT)
    sys.path.insert(0, str(tmp_path))
    try:
        loaded = author.load(HEAD + "from some_package import word_count\n")
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("some_package", None)
    assert loaded.tools == ()


async def test_an_edited_file_gives_new_tools_and_the_old_ones_go(author: Author) -> None:
    body = "class Big: ...\nbig = Big()\n@register_tool\ndef version():\n    'Tells the version.'\n    return '{}'\n"
    tool = author.tool(HEAD + body.format("old"))
    old = weakref.ref(tool._function.__globals__["big"])  # type: ignore[attr-defined]  # of a FunctionTool
    assert old() is not None
    tool = author.tool(HEAD + body.format("new"))
    gc.collect()
    assert old() is None
    assert (await author.call(tool)).content[0].text == "new"  # type: ignore[union-attr]  # text


def test_tracebacks_show_the_source_that_was_loaded(author: Author) -> None:
    author.load(COUNT)
    assert linecache.getline(SHOWN, 4) == "def word_count(path: str, limit: int = 5) -> str:\n"
    linecache.checkcache(SHOWN)
    assert linecache.getline(SHOWN, 4).startswith("def word_count")


TYPES = '''from __future__ import annotations
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict
from pydantic import BaseModel
from codeagent import register_tool
if TYPE_CHECKING:
    from codeagent import ToolContext

@register_tool
def shapes(point: Point, tree: Tree, row: Row, ctx: ToolContext) -> str:
    """Tells what kind each shape is of."""
    return f"{point!r} {tree!r} {row!r} {ctx.name}"

@dataclass
class Point:
    x: int
    next: Point | None = None

class Tree(BaseModel):
    below: list[Tree] = []

class Row(TypedDict):
    a: int
'''


async def test_types_may_stand_after_the_function_that_takes_them(author: Author) -> None:
    text = await author.text(
        TYPES, point={"x": 1, "next": {"x": 2}}, tree={"below": [{}]}, row={"a": 1}
    )
    assert text == (
        "Point(x=1, next=Point(x=2, next=None)) Tree(below=[Tree(below=[])]) {'a': 1} tool"
    )


async def test_a_failure_names_the_line_in_the_file_as_people_write_it(author: Author) -> None:
    source = (
        HEAD
        + "import json\n@register_tool\ndef parsed(text: str):\n    'Parses some text.'\n    return json.loads(text)\n"
    )
    with pytest.raises(Failed) as caught:
        await author.text(source, text="{")
    assert str(caught.value).endswith(f"({SHOWN}:6)") and str(caught.value).startswith(
        "JSONDecodeError: "
    )
    assert "/nowhere" not in str(caught.value)
