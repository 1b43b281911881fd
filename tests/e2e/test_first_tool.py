"""The tutorial about the first tool is done, step by step, as it is written."""

import re
import shlex
from pathlib import Path

import pytest

from tests.e2e.product import Product

PAGE = (Path(__file__).parents[2] / "docs/tutorials/first-tool.md").read_text()
FILES = {
    "yaml": ".codeagent/tools/todos.yaml",
    "python": ".codeagent/tools/words.py",
    "json": "model.json",
}
STEP = re.compile(r"```(console|yaml|python|json)\n(.*?)```", re.DOTALL)


def commands(block: str) -> list[tuple[str, str]]:
    """Each command of a console block, with what it prints."""
    pieces = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(first, rest) for first, _, rest in (piece.partition("\n") for piece in pieces)]


@pytest.mark.docker
def test_the_tutorial_about_the_first_tool_is_true(product: Product) -> None:
    (product.workspace / ".codeagent" / "tools").mkdir(parents=True)
    done = 0
    for kind, text in STEP.findall(PAGE):
        if kind != "console":
            (product.workspace / FILES[kind]).write_text(text)
            continue
        for command, printed in commands(text):
            if command.startswith("printf "):
                assert product.call_in(product.workspace, "bash", "-c", command).code == 0
            if not command.startswith("codeagent "):
                continue
            result = product.call_apart(*shlex.split(command)[1:])
            assert (result.code, result.out) == (0, printed), f"{command}\n{result.err}"
            done += 1
    assert done == 8


def test_its_tools_are_shorter_than_thirty_lines() -> None:
    pieces = [text for kind, text in STEP.findall(PAGE) if kind in ("yaml", "python")]
    assert all(len(text.splitlines()) < 30 for text in pieces)
