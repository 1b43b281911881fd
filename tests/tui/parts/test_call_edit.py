"""A call's arguments as text to edit, and back."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.sanitize import visible
from codeagent.tui.parts.checks import CallEdit, call_edit, fits_line
from codeagent.tui.rendering.marked import unseen
from tests.table import for_each

TEXTS = st.text(
    st.sampled_from('a\n\t \u202e\u200b\xa0\u2800é漢\U000e0041\ud800\x1b"\\') | st.characters(),
    max_size=30,
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS, lambda inner: st.lists(inner, max_size=3)
)


def edit_of(name: str, **arguments: Any) -> CallEdit:
    found = call_edit(name, json.dumps(arguments))
    assert found is not None
    return found


def test_a_command_alone_is_edited_as_it_is() -> None:
    edit = edit_of("bash", command="pytest -q")
    assert (edit.kind, edit.text, fits_line(edit.text)) == ("command", "pytest -q", True)
    assert json.loads(edit.arguments("pytest -q 'ü'")) == {"command": "pytest -q 'ü'"}


@for_each("command", ["a\nb", "a\tb", "a\x1b[2J", "a\u202e", "a\xa0b", "a\u2800"])
def test_what_one_line_does_not_show_is_edited_outside(command: str) -> None:
    edit = edit_of("bash", command=command)
    assert (edit.kind, fits_line(edit.text), edit.suffix) == ("command", False, ".sh")
    assert json.loads(edit.arguments(edit.text)) == {"command": command}


def test_anything_else_is_json() -> None:
    edit = edit_of("bash", command="make", timeout=5)
    assert (edit.kind, edit.suffix) == ("json", ".json")
    assert edit.text == '{\n  "command": "make",\n  "timeout": 5\n}'
    assert edit_of("mcp_shell", command="make").kind == "json"


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_json_comes_back_as_it_was_and_shows_all_of_itself(arguments: dict[str, Any]) -> None:
    edit = edit_of(
        "write", **{"path": "a", **{f"x{key}": value for key, value in arguments.items()}}
    )
    assert json.loads(edit.arguments(edit.text)) == json.loads(json.dumps(json.loads(edit.text)))
    assert visible(edit.text) == edit.text and not unseen(edit.text.replace("\n", ""))
    given_back = json.loads(edit.arguments(edit.text))
    assert given_back == {"path": "a", **{f"x{key}": value for key, value in arguments.items()}}


@for_each("arguments", ["", "{", "[1]", "null", '"x"', "[" * 100_000])
def test_what_is_no_object_cannot_be_edited(arguments: str) -> None:
    assert call_edit("bash", arguments) is None


@for_each(
    ("text", "said"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes on line 1, column 2"),
        ("[]", "not a JSON object of arguments"),
        ('{"a": NaN}', "not JSON: NaN is not a JSON number"),
        ("[" * 100_000, "not readable as JSON: nested too deeply"),
    ],
)
def test_what_is_no_json_is_said(text: str, said: str) -> None:
    edit = edit_of("write", path="a")
    with pytest.raises(ValueError, match="JSON") as raised:
        edit.arguments(text)
    assert str(raised.value) == edit.check(text).problem == said


def test_a_text_that_is_empty_or_as_before_asks_nothing() -> None:
    edit = edit_of("bash", command="make")
    assert edit.check(" ").problem == "the command is empty"
    assert edit.check("make").problem == "nothing was changed yet"
    assert edit.check("make -n").says == ("you are asked again, about the edited call",)
