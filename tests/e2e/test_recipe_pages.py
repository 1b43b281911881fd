"""The tutorial about a recipe with two steps is done as it is written, and the how-to's recipes are
good ones."""

import json
import re
import shlex
from pathlib import Path

import yaml
from jsonschema import Draft202012Validator

from codeagent.extensions.recipes.model import PromptFields, recipe_schema
from codeagent.extensions.recipes.reading import load_recipe
from codeagent.tools.folders import ToolFile
from tests.e2e.conftest import product as product
from tests.e2e.product import Product

DOCS = Path(__file__).parents[2] / "docs"
TUTORIAL = (DOCS / "tutorials/two-step-recipe.md").read_text()
PAGE = (DOCS / "how-to/recipes.md").read_text()
FILES = {"yaml": ".codeagent/commands/todos.yaml", "json": "model.json"}
STEP = re.compile(r"```(console|yaml|json)\n(.*?)```", re.DOTALL)


def test_the_tutorial_about_a_recipe_is_true(product: Product) -> None:
    (product.workspace / ".codeagent" / "commands").mkdir(parents=True)
    (product.workspace / "app").mkdir()
    done = []
    for kind, text in STEP.findall(TUTORIAL):
        if kind != "console":
            (product.workspace / FILES[kind]).write_text(text)
            continue
        for piece in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, printed = piece.partition("\n")
            if command.startswith("printf "):
                assert product.call_in(product.workspace, "bash", "-c", command).code == 0
            if command.startswith("codeagent "):
                result = product.call(*shlex.split(command)[1:])
                assert printed in (result.out, result.err), f"{command}\n{result.out}\n{result.err}"
                done.append(result)
    assert [result.code for result in done] == [0, 0, 0, 0, 2]
    assert "write is not among the tools of this step: search, read" in done[3].err
    written = json.loads((product.workspace / "model.json").read_text())[2]["calls"][0][1]
    assert (product.workspace / written["path"]).read_text() == written["content"]
    assert not (product.workspace / "x").exists()


def test_the_recipes_of_the_page_are_without_a_fault() -> None:
    [prompt], [steps, _] = (
        re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL) for kind in ("markdown", "yaml")
    )
    for name, text in (("review.md", prompt), ("release.yaml", steps)):
        shown = f".codeagent/commands/{name}"
        loaded = load_recipe(ToolFile(Path("/w") / shown, shown, text.encode(), "project"))
        assert loaded.recipe is not None and loaded.problems == ()
    Draft202012Validator.check_schema(recipe_schema())
    assert list(Draft202012Validator(recipe_schema()).iter_errors(yaml.safe_load(steps))) == []


def test_the_page_names_every_key() -> None:
    assert [key for key in PromptFields.model_fields if f"{key}" not in PAGE] == []


def test_the_workflow_of_the_page_becomes_what_the_page_shows(product: Product) -> None:
    [_, flow] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    [shown] = re.findall(r"```console\n\$ (.*?)```", PAGE, re.DOTALL)
    command, _, printed = shown.partition("\n")
    (product.workspace / "flow.yaml").write_text(flow)
    done = product.call(*shlex.split(command)[1:])
    assert (done.code, done.out + done.err) == (0, printed)
    for kind, folder in (("recipes", "commands"), ("tools", "tools")):
        assert product.call(kind, "check", f".codeagent/{folder}/small-fix.yaml").code == 0
