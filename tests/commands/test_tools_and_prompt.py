"""`codeagent tools` and `codeagent prompt`: what a model is shown."""

import json
from pathlib import Path

import pytest

from tests.e2e.product import Product


@pytest.fixture
def product(tmp_path: Path) -> Product:
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    return Product(tmp_path / "work", tmp_path / "home")


def test_f1_every_tool_is_listed_once(product: Product) -> None:
    names = [tool["name"] for tool in json.loads(product.call("tools", "list", "--json").out)]
    assert len(names) == len(set(names))
    assert {"bash", "read", "write", "edit", "list", "search"} <= set(names)
    assert all(name in product.call("tools", "list").out for name in names)


def test_one_tool_is_shown_with_its_arguments(product: Product) -> None:
    tool = json.loads(product.call("tools", "show", "write", "--json").out)
    assert tool["parameters"]["required"] == ["path", "content"]
    assert "  path " in product.call("tools", "show", "write").out


def test_the_arguments_are_a_column_as_wide_as_the_longest_name(product: Product) -> None:
    lines = product.call("tools", "show", "bash").out.splitlines()
    kinds = {line.split()[0]: line.split()[1] for line in lines if line.startswith("  ")}
    assert kinds["run_in_background"] == "boolean,"
    assert kinds["command"] == "string,"
    columns = {line.index(kinds[line.split()[0]]) for line in lines if line.startswith("  ")}
    assert len(columns) == 1


def test_a_toolset_that_does_not_exist_names_the_built_in_ones(product: Product) -> None:
    model = product.script({"text": "done"})
    for given, said in (("wbe", "unknown toolset wbe; did you mean web?"), ("zzz", "triggers")):
        done = product.run(model, "--toolset", given)
        assert done.code == 2 and said in done.err, given


def test_an_unknown_tool_names_the_closest(product: Product) -> None:
    done = product.call("tools", "show", "wriet")
    assert (done.code, done.out) == (2, "")
    assert done.err == "codeagent: Tool not found: wriet; did you mean write?\n"


def test_the_prompt_is_the_same_from_run_to_run_and_holds_the_workspaces_instructions(
    product: Product,
) -> None:
    (product.workspace / "AGENTS.md").write_text("Use tabs.\n")
    first, second = product.call("prompt"), product.call("prompt")
    assert first.code == 0 and first.out == second.out
    assert "Use tabs." in first.out and str(product.workspace) in first.out


def test_the_hash_changes_with_the_prompt_and_only_then(product: Product) -> None:
    before = product.call("prompt", "--hash").out
    assert before == product.call("prompt", "--hash").out and len(before) == 65
    assert before != product.call("prompt", "--hash", "--sandbox", "off").out
    (product.workspace / "AGENTS.md").write_text("Use tabs.\n")
    assert before != product.call("prompt", "--hash").out


def test_looking_leaves_nothing_behind(product: Product) -> None:
    product.call("tools", "list")
    product.call("prompt")
    assert list(product.home.iterdir()) == list(product.workspace.iterdir()) == []
