"""Whatever a model sends as arguments ends as a model or as a message it can repair them from."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codeagent.core.tool import InvalidArgs
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.builtin.bash import Bash
from codeagent.tools.builtin.edit import Edit
from codeagent.tools.builtin.read import Read
from codeagent.tools.builtin.write import Write

TOOLS = [object.__new__(kind) for kind in (Bash, Read, Write, Edit)]
BASH, READ, WRITE, EDIT = TOOLS


def refusal(tool: object, raw: str) -> str:
    with pytest.raises(InvalidArgs) as caught:
        parse_arguments(tool, raw)  # type: ignore[arg-type]  # made without its ports
    return str(caught.value)


def test_a_missing_argument_is_named_with_its_tool() -> None:
    text = refusal(WRITE, '{"content":"x"}')
    assert "Validation Error: Missing required argument 'path' for tool 'write'" in text
    assert '"required":["path","content"]' in text


def test_all_errors_come_at_once() -> None:
    text = refusal(WRITE, '{"content": 5, "pth": "a", "append": "yes"}')
    assert "Missing required argument 'path'" in text
    assert "Unknown argument 'pth' for tool 'write'; did you mean path?" in text
    assert "Argument 'content' for tool 'write' should be a valid string; got a number '5'" in text
    assert "Argument 'append' for tool 'write' should be a valid boolean; got a string 'yes'" in text


@pytest.mark.parametrize("raw", ["", "  ", "{}", "\n"])
def test_no_text_means_no_arguments(raw: str) -> None:
    assert "Missing required argument 'command'" in refusal(BASH, raw)


def test_malformed_json_is_shown_where_it_breaks() -> None:
    raw = '{"path": "' + "x" * 5000 + '", "content": oops}'
    text = refusal(WRITE, raw)
    assert "not valid JSON" in text
    assert "at character 5025" in text
    assert "oops" in text
    assert len(text) < 500


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ('{"path": "a", "path": "b"}', "there twice"),
        ('{"path": NaN}', "NaN is not JSON"),
        ('{"path": "a", "limit": Infinity}', "Infinity is not JSON"),
        ('{"path": "a", "limit": 1e999}', "too large"),
        ('{"path": "a", "limit": ' + "9" * 5000 + "}", "5000 digits"),
        ('{"path": "a\\ud800"}', "half a character"),
        ('{"path": "a"} {"path": "b"}', "Extra data"),
        ("[1]", "not a list"),
        ('"text"', "not a string"),
        ("null", "not null"),
        ("7", "not a number"),
        ("[" * 100_000, "nested too deeply"),
        ('{"path":' + '{"a":' * 50_000, "nested too deeply"),
        ('{"path": "a\nb"}', "Invalid control character"),
        ('{"path": "a",}', "not valid JSON"),
        ("{'path': 'a'}", "not valid JSON"),
        ('{"path": ""}', "the path is empty"),
        ('{"path": "a\\u0000b"}', "NUL"),
        ('{"path": "' + "x" * 300 + '"}', "longer than a path can be"),
        ('{"path": "a", "offset": 0}', "greater than or equal to 1"),
        ('{"path": "a", "offset": true}', "valid integer"),
        ('{"path": "a", "offset": "5"}', "got a string '5'"),
        ('{"path": "a", "offset": 5.5}', "valid integer"),
    ],
)  # fmt: skip
def test_the_traps_are_refused_with_a_reason(raw: str, said: str) -> None:
    assert said in refusal(READ, raw)


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert parse_arguments(READ, '{"path": "a", "offset": 5.0}').model_dump()["offset"] == 5  # type: ignore[arg-type]  # made without its ports


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"path": "a"}, "either old_string and new_string, or edits"),
        ({"path": "a", "old_string": "x"}, "Missing required argument 'new_string'"),
        ({"path": "a", "new_string": "x"}, "Missing required argument 'old_string'"),
        ({"path": "a", "old_string": "x", "new_string": "x"}, "the same"),
        ({"path": "a", "edits": []}, "at least one"),
        ({"path": "a", "old_string": "x", "edits": [{"old_string": "a", "new_string": "b"}]}, "either"),
        ({"path": "a", "edits": [{"old_string": "a"}]}, "Missing required argument 'edits.0.new_string'"),
    ],
)  # fmt: skip
def test_an_edit_that_makes_no_sense_is_refused(arguments: dict[str, object], said: str) -> None:
    assert said in refusal(EDIT, json.dumps(arguments))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["path", "a"]), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip
_KEYS = st.sampled_from(
    ["path", "content", "command", "offset", "limit", "old_string", "new_string", "edits", "x", "timeout"]
)


@settings(max_examples=300, deadline=None)
@example('{"edits":[[[')
@given(
    st.text()
    | st.dictionaries(_KEYS, _JSON).map(json.dumps)
    | st.builds(lambda text, cut: text[:cut], st.dictionaries(_KEYS, _JSON).map(json.dumps), st.integers(0, 60))
)
def test_any_text_at_all_gives_a_model_or_a_refusal(raw: str) -> None:
    for tool in TOOLS:
        try:
            args = parse_arguments(tool, raw)  # type: ignore[arg-type]  # made without its ports
        except InvalidArgs as error:
            assert str(error)
            str(error).encode()
        else:
            args.model_dump_json()
