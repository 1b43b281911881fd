"""The rules of the house: sizes, reasons beside every exception to a rule, and what an import drags in."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "codeagent").rglob("*.py"))
SOURCES = MODULES + sorted((ROOT / "tests").rglob("*.py")) + sorted((ROOT / "benchmarks").rglob("*.py"))
MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 60
UNREASONED = re.compile(r"#\s*(?:noqa|type:\s*ignore|pragma)(?![^#\n]*#)")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_has_at_most_400_lines_and_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= MAX_MODULE_LINES
    assert ast.get_docstring(ast.parse(text)), "every module opens with one sentence"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_function_has_at_most_60_lines(path: Path) -> None:
    functions = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    lengths = {f.name: f.end_lineno - f.lineno + 1 for f in functions}
    assert {f: lines for f, lines in lengths.items() if lines > MAX_FUNCTION_LINES} == {}


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_an_exception_to_a_check_gives_its_reason(path: Path) -> None:
    """`# type: ignore[code]  # why`, and the same for noqa."""
    lines = path.read_text().splitlines()
    assert [line.strip() for line in lines if UNREASONED.search(line)] == []


@pytest.mark.parametrize("module", ["codeagent.agent", "codeagent.core.events"])
def test_importing_the_engine_loads_no_screen_and_no_model_library(module: str) -> None:
    loaded = modules_after(f"import {module}")
    assert loaded.isdisjoint({"textual", "rich", "litellm", "openai", "docker", "git"})


def test_the_command_line_answers_version_without_pydantic() -> None:
    loaded = modules_after("import codeagent.cli")
    assert loaded.isdisjoint({"pydantic", "textual", "rich", "litellm", "docker", "git", "asyncio"})


def modules_after(statement: str) -> set[str]:
    """Names of the modules a fresh interpreter holds after `statement`."""
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split())
