"""The documentation's tool files are good ones, and the editors' schema says of a file what the
loader says."""

import re
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from codeagent.extensions.user_tools.yaml_model import ToolFields, file_schema
from tests.extensions.user_tools.test_yaml_refusals import BROKEN, load
from tests.table import for_each

PAGE = Path(__file__).parents[3] / "docs/how-to/yaml-tools.md"
EXAMPLES = [
    text
    for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    if "name:" in text
]
VALIDATOR: Any = Draft202012Validator(file_schema())


@for_each("example", EXAMPLES)
def test_an_example_is_a_tool_without_a_fault(example: str) -> None:
    loaded = load(example)
    assert ([str(problem) for problem in loaded.problems], len(loaded.tools)) == ([], 1)
    assert list(VALIDATOR.iter_errors(yaml.safe_load(example))) == []


def test_the_page_names_every_field() -> None:
    table = (
        PAGE.read_text(encoding="utf-8")
        .partition("## The fields")[2]
        .partition("## Placeholders")[0]
    )
    assert [name for name in ToolFields.model_fields if f"`{name}" not in table] == []


def test_the_editors_schema_is_one_and_refuses_unknown_keys_and_wrong_types() -> None:
    Draft202012Validator.check_schema(file_schema())
    good = {"name": "a", "description": "d", "argv": ["ls", ["-a", "b"]], "network": ["a.org"]}
    assert VALIDATOR.is_valid(good) and VALIDATOR.is_valid({"tools": [good]})
    for wrong in (
        {"argvs": []},
        {"argv": [1]},
        {"timeout": "x"},
        {"mode": "stateful"},
        {"network": 3},
        {"name": "a b"},
    ):
        assert not VALIDATOR.is_valid(good | wrong)


def test_what_the_loader_takes_the_editors_schema_takes() -> None:
    taken = [text for text, _ in BROKEN if isinstance(text, str) and _fits(text)]
    assert [text for text in taken if not VALIDATOR.is_valid(yaml.safe_load(text))] == []
    assert len(taken) > 20


def _fits(text: str) -> bool:
    """Each key and type of it is right, whatever else is wrong."""
    try:
        return isinstance(ToolFields.model_validate(yaml.safe_load(text)), ToolFields)
    except (ValueError, yaml.YAMLError):
        return False
