"""The rules of the house: sizes, reasons beside every exception to a rule, and what an import drags
in."""

import ast
import collections
import functools
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from codeagent.config.extensions import BUILT_IN

ROOT = Path(__file__).parent.parent
EXTENSIONS = ROOT / "codeagent" / "extensions"
MODULES = sorted((ROOT / "codeagent").rglob("*.py"))
SOURCES = (
    MODULES + sorted((ROOT / "tests").rglob("*.py")) + sorted((ROOT / "benchmarks").rglob("*.py"))
)
MAX_MODULE_LINES = 500
MAX_FUNCTION_LINES = 60
MAX_HUB_LINES = 300
MAX_FIELDS = 15
MAX_POSITIONAL = 5
MAX_EXTENSION_TOKENS = 20_000
LARGER_EXTENSIONS = {"mcp": 32_000, "user_tools": 32_000, "batch": 24_000}
"""The limits of those that have more to do."""
LAYOUT = {"COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER"}
WIDTH = 100
MOST_WIDE = 0.02
"""The share of lines that may be wider: a table, a message, a pattern."""
UNREASONED = re.compile(r"#[ \t]*(?:noqa|type:\s*ignore|pragma|fmt:\s*skip)(?![^#\n]*#)")
HUBS = (
    "agent/agent",
    "agent/executor",
    "agent/loop",
    "core/ports",
    "tools/catalog",
    "tui/actions",
    "tui/app",
    "tui/pages/chat",
    "tui/parts/card",
    "tui/reduce",
    "tui/session_client",
)
"""Modules that a new feature is tempted to change."""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@dataclass(frozen=True)
class Facts:
    """What the rules ask of a module."""

    lines: int
    documented: bool
    functions: dict[str, int]
    """Lines of each function, by file and name; the longest of a name."""
    classes: tuple[str, ...]
    """The public classes at its top level."""
    fields: dict[str, int]
    """Fields of each dataclass, by file and name."""
    positional: int
    """Calls with more than MAX_POSITIONAL positional arguments."""
    squeezed: int
    """Lines such as `self.a, self.b = a, b`."""


@functools.cache
def facts(path: Path) -> Facts:
    """Of the syntax tree only these are kept: all of the trees would be 100 MB."""
    text = path.read_text()
    tree = ast.parse(text)
    functions: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            where = f"{name(path)}:{node.name}"
            functions[where] = max(
                functions.get(where, 0), (node.end_lineno or node.lineno) - node.lineno + 1
            )
    classes = (
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    nodes = list(ast.walk(tree))
    dataclasses = [node for node in nodes if isinstance(node, ast.ClassDef) and is_dataclass(node)]
    return Facts(
        len(text.splitlines()),
        bool(ast.get_docstring(tree)),
        functions,
        tuple(classes),
        {
            f"{name(path)}:{node.name}": sum(isinstance(each, ast.AnnAssign) for each in node.body)
            for node in dataclasses
        },
        sum(isinstance(node, ast.Call) and len(node.args) > MAX_POSITIONAL for node in nodes),
        sum(isinstance(node, ast.Assign) and is_squeezed(node) for node in nodes),
    )


def is_dataclass(node: ast.ClassDef) -> bool:
    dumped = [ast.dump(decorator) for decorator in node.decorator_list]
    return any("dataclass" in each or "'record'" in each for each in dumped)


def is_squeezed(node: ast.Assign) -> bool:
    """Whether several attributes get a value each in one statement."""
    target = node.targets[0]
    return (
        isinstance(target, ast.Tuple)
        and isinstance(node.value, ast.Tuple)
        and any(isinstance(each, ast.Attribute) for each in target.elts)
    )


def test_a_module_says_what_it_is() -> None:
    assert {name(path) for path in MODULES if not facts(path).documented} == set()


def test_a_module_has_at_most_500_lines() -> None:
    found = {name(path): facts(path).lines for path in MODULES}
    assert beyond(found, MAX_MODULE_LINES) == {}


def test_a_hub_has_at_most_300_lines() -> None:
    found = {hub: facts(ROOT / "codeagent" / f"{hub}.py").lines for hub in HUBS}
    assert beyond(found, MAX_HUB_LINES) == {}


def test_a_function_has_at_most_60_lines() -> None:
    found = dict(each for path in MODULES for each in facts(path).functions.items())
    assert beyond(found, MAX_FUNCTION_LINES) == {}


def test_a_dataclass_has_at_most_15_fields() -> None:
    found = dict(each for path in MODULES for each in facts(path).fields.items())
    assert beyond(found, MAX_FIELDS) == {}


def test_a_call_has_at_most_5_positional_arguments() -> None:
    assert [name(path) for path in MODULES if facts(path).positional] == []


def test_each_attribute_is_assigned_in_a_line_of_its_own() -> None:
    assert [name(path) for path in MODULES if facts(path).squeezed] == []


def beyond(found: dict[str, int], limit: int) -> dict[str, int]:
    return {each: number for each, number in found.items() if number > limit}


def test_private_names_of_textual_are_imported_only_where_nothing_public_does_the_same() -> None:
    """Each with its reason beside it. A new version of Textual may change any of them unsaid, so
    that every further one has to be wanted here, too."""
    found = [each for path in MODULES for each in private_imports(path)]
    assert {(path, names) for path, names, _ in found} == {
        ("codeagent/tui/driver.py", "textual._ansi_sequences import ANSI_SEQUENCES_KEYS"),
        ("codeagent/tui/driver.py", "textual._xterm_parser import XTermParser"),
        ("codeagent/tui/driver.py", "textual.keys import _character_to_key"),
        ("codeagent/tui/keymap.py", "textual.keys import _character_to_key"),
        ("codeagent/tui/parts/line_input.py", "textual import _ansi_sequences"),
    }
    assert [each for each in found if not each[2]] == []


def private_imports(path: Path) -> Iterator[tuple[str, str, bool]]:
    """Yield the file, what it imports, and whether a comment beside it gives the reason."""
    lines = path.read_text().splitlines()
    for node in ast.walk(ast.parse("\n".join(lines))):
        if not isinstance(node, ast.ImportFrom | ast.Import):
            continue
        source = ast.unparse(node).removeprefix("from ").removeprefix("import ")
        if re.match(r"(textual|rich)\b.*\b_[a-z]", source):
            yield name(path), source, "#" in lines[(node.end_lineno or node.lineno) - 1]


def test_an_extension_has_at_most_its_number_of_tokens() -> None:
    found: collections.Counter[str] = collections.Counter()
    for path in MODULES:
        if path.is_relative_to(EXTENSIONS):
            found[path.relative_to(EXTENSIONS).parts[0]] += tokens(path)
    del found["__init__.py"]
    limits = {name: LARGER_EXTENSIONS.get(name, MAX_EXTENSION_TOKENS) for name in found}
    assert set(found) == set(BUILT_IN)
    assert {name: size for name, size in found.items() if size > limits[name]} == {}


def tokens(path: Path) -> int:
    """Count the tokens of a module without comments, layout and docstrings, which squeezing does
    not change; a string counts once, whatever it is made of."""
    text = path.read_text()
    docstrings = {
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    count, within = 0, 0
    for each in tokenize.generate_tokens(io.StringIO(text).readline):
        kind = tokenize.tok_name[each.type]
        within -= kind == "FSTRING_END"  # of Python 3.12; before, it is one token
        is_docstring = kind == "STRING" and each.start[0] in docstrings
        count += within == 0 and not is_docstring and kind not in {*LAYOUT, "FSTRING_END"}
        within += kind == "FSTRING_START"
    return count


def test_few_lines_are_wider_than_the_code() -> None:
    lines = [line for path in MODULES for line in path.read_text().splitlines()]
    assert sum(len(line) > WIDTH for line in lines) <= MOST_WIDE * len(lines)


def test_no_two_classes_share_a_name() -> None:
    found = collections.Counter(each for path in MODULES for each in facts(path).classes)
    assert [each for each, times in found.items() if times > 1] == []


def test_an_exception_to_a_check_gives_its_reason() -> None:
    """`# type: ignore[code]  # why`, and the same for noqa."""
    assert [
        f"{name(path)}: {found}"
        for path in SOURCES
        for found in UNREASONED.findall(path.read_text())
    ] == []


def test_every_dataclass_is_made_by_our_own_decorator_which_compiles_nothing_at_import() -> None:
    librarys = re.compile(r"^from dataclasses import .*\bdataclass\b", re.MULTILINE)
    assert [name(path) for path in MODULES if librarys.search(path.read_text())] == []


def test_importing_the_engine_loads_no_screen_and_no_model_library() -> None:
    loaded = modules_after(
        "import codeagent.agent.agent, codeagent.headless, codeagent.app.work, codeagent.app.describe"
    )
    assert loaded.isdisjoint({"textual", "rich", "litellm", "openai", "docker", "git"})


def test_the_vocabulary_and_the_first_frame_load_no_pydantic() -> None:
    loaded = modules_after(
        "import codeagent.core.events, codeagent.tui.app, codeagent.tui.pages.chat"
    )
    assert loaded.isdisjoint({"pydantic", "pydantic_core", "yaml", "litellm", "docker", "git"})


def test_the_first_frame_makes_no_event_but_those_it_shows() -> None:
    loaded = modules_after("import codeagent.tui.app, codeagent.tui.pages.chat")
    assert "codeagent.core.events" not in loaded


def test_the_command_line_answers_version_without_pydantic() -> None:
    loaded = modules_after("import codeagent.cli")
    assert loaded.isdisjoint({"pydantic", "textual", "rich", "litellm", "docker", "git", "asyncio"})


def modules_after(statement: str) -> set[str]:
    """Names of the modules a fresh interpreter holds after `statement`."""
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stdout.split())
