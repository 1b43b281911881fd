"""Regular expressions that are compiled at their first use, and are no different then."""

import ast
import re
from pathlib import Path

import pytest

from codeagent.core.lazy_regex import lazy_regex

ROOT = Path(__file__).parents[2]


def test_nothing_is_compiled_before_the_first_use() -> None:
    broken = lazy_regex("(")
    with pytest.raises(re.error):
        broken.match("x")


def test_it_has_what_a_compiled_expression_has() -> None:
    word = lazy_regex(r"(?P<first>\w)\w*", re.ASCII)
    assert (word.sub("-", "ab cd"), word.pattern, word.groupindex["first"]) == (
        "- -",
        r"(?P<first>\w)\w*",
        1,
    )
    assert [found["first"] for found in word.finditer("ab cd")] == ["a", "c"]
    assert lazy_regex(b"a+").findall(b"aabaa") == [b"aa", b"aa"]


def test_every_expression_in_the_package_compiles() -> None:
    """Without this, a mistake would show only when the expression is used."""
    wrong = []
    for path in (ROOT / "codeagent").rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "lazy_regex(" in text else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "lazy_regex":
                given = [argument for argument in node.args if isinstance(argument, ast.Constant)]
                flags = re.VERBOSE if "VERBOSE" in ast.unparse(node) else 0
                wrong += [
                    f"{path}:{node.lineno}" for one in given[:1] if not _compiles(one.value, flags)
                ]
    assert wrong == []


def _compiles(pattern: str | bytes, flags: int) -> bool:
    try:
        re.compile(pattern, flags)
    except re.error:
        return False
    return True
