"""Whatever a model sends as arguments ends as a model or as a message it can repair them from."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codeagent.core.tool import InvalidArgs
from codeagent.tools.arguments import parse_arguments, read_arguments
from codeagent.tools.builtin.bash import Bash
from codeagent.tools.builtin.edit import Edit
from codeagent.tools.builtin.read import Read
from codeagent.tools.builtin.write import Write
from tests.effort import chance, times, up_to
from tests.table import for_each

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
    assert (
        "Argument 'append' for tool 'write' should be a valid boolean; got a string 'yes'" in text
    )


@for_each("raw", ["", "  ", "{}", "\n"])
def test_no_text_means_no_arguments(raw: str) -> None:
    assert "Missing required argument 'command'" in refusal(BASH, raw)


def test_malformed_json_is_shown_where_it_breaks() -> None:
    raw = '{"path": "' + "x" * 5000 + '", "content": oops}'
    text = refusal(WRITE, raw)
    assert "not valid JSON" in text
    assert "at character 5025" in text
    assert "oops" in text
    assert len(text) < 500


@for_each(
    ("raw", "said"),
    [
        ('{"path": "a", "path": "b"}', "appears twice"),
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
        ('{"path": "' + "x" * 300 + '"}', "the path is too long"),
        ('{"path": "a", "offset": 0}', "greater than or equal to 1"),
        ('{"path": "a", "offset": true}', "valid integer"),
        ('{"path": "a", "offset": "5"}', "got a string '5'"),
        ('{"path": "a", "offset": 5.5}', "valid integer"),
    ],
)
def test_the_traps_are_refused_with_a_reason(raw: str, said: str) -> None:
    assert said in refusal(READ, raw)


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert parse_arguments(READ, '{"path": "a", "offset": 5.0}').model_dump()["offset"] == 5  # type: ignore[arg-type]  # made without its ports


def test_null_for_what_may_be_left_out_leaves_it_out() -> None:
    args = read_arguments(READ, '{"path": "a", "offset": null, "limit": null}').args  # type: ignore[arg-type]  # as above
    assert args.model_dump(exclude_unset=True) == {"path": "a"}
    with pytest.raises(InvalidArgs, match="should be a valid string; got null"):
        read_arguments(READ, '{"path": null}')  # type: ignore[arg-type]  # as above


@for_each(
    ("tool", "raw", "value", "said"),
    [
        (
            READ,
            '{"path": "a", "offset": "10"}',
            {"path": "a", "offset": 10},
            "offset: the text '10' was read as a number",
        ),
        (
            BASH,
            '{"command": "ls", "timeout": "2.5"}',
            {"command": "ls", "timeout": 2.5},
            "was read as a number",
        ),
        (
            WRITE,
            '{"path": "a", "content": "x", "append": "false"}',
            {"path": "a", "content": "x", "append": False},
            "append: the text 'false' was read as a boolean",
        ),
        (
            EDIT,
            '{"path": "a", "edits": "[{\\"old_string\\": \\"x\\", \\"new_string\\": \\"y\\"}]"}',
            {"path": "a", "edits": [{"old_string": "x", "new_string": "y"}]},
            "was read as a list",
        ),
    ],
)
def test_text_is_read_as_what_the_schema_asks_for_and_the_log_can_say_so(
    tool: object, raw: str, value: dict[str, object], said: str
) -> None:
    read = read_arguments(tool, raw)  # type: ignore[arg-type]  # made without its ports
    assert read.args.model_dump(mode="json", exclude_unset=True) == value
    (line,) = read.read_as
    assert said in line
    assert read.dropped == ()


def test_a_string_stays_the_string_it_is() -> None:
    read = read_arguments(WRITE, '{"path": "10", "content": "[1]"}')  # type: ignore[arg-type]  # as above
    assert read.args.model_dump(exclude_unset=True) == {"path": "10", "content": "[1]"}
    assert read.read_as == ()


def test_what_the_tool_does_not_have_is_dropped_with_a_line() -> None:
    read = read_arguments(BASH, '{"command": "ls", "description": "List", "comand": "x"}')  # type: ignore[arg-type]  # as above
    assert read.args.model_dump(exclude_unset=True) == {"command": "ls"}
    assert read.dropped == (
        "bash has no argument 'description', so it ran without",
        "bash has no argument 'comand', so it ran without; did you mean command?",
    )


def test_what_is_missing_stays_an_error_that_names_what_was_unknown() -> None:
    with pytest.raises(InvalidArgs) as caught:
        read_arguments(WRITE, '{"pth": "a", "content": "x"}')  # type: ignore[arg-type]  # as above
    assert "Unknown argument 'pth' for tool 'write'; did you mean path?" in str(caught.value)
    assert "Missing required argument 'path'" in str(caught.value)


def test_an_edit_of_the_users_is_taken_as_it_is() -> None:
    """Nobody would tell them what was made of it."""
    assert "Unknown argument 'old' for tool 'edit'; did you mean old_string?" in refusal(
        EDIT, '{"path": "a.py", "old": "x", "new_string": "y"}'
    )
    assert "Unknown argument 'note'" in refusal(BASH, '{"command": "ls", "note": "x"}')
    assert "seconds as a number" in refusal(BASH, '{"command": "ls", "timeout": "5"}')


def test_a_time_limit_in_milliseconds_is_refused_with_the_unit() -> None:
    text = refusal(BASH, '{"command": "ls", "timeout": 120000}')
    assert (
        "timeout is in seconds, and 120000 seconds are 33 hours; if you mean milliseconds, write 120"
        in text
    )
    assert parse_arguments(BASH, '{"command": "ls", "timeout": 7200, "run_in_background": true}')  # type: ignore[arg-type]  # as above


@for_each(
    ("arguments", "said"),
    [
        ({"path": "a"}, "either old_string and new_string, or edits"),
        ({"path": "a", "old_string": "x"}, "Missing required argument 'new_string'"),
        ({"path": "a", "new_string": "x"}, "Missing required argument 'old_string'"),
        ({"path": "a", "old_string": "x", "new_string": "x"}, "the same"),
        ({"path": "a", "edits": []}, "at least one"),
        (
            {"path": "a", "old_string": "x", "edits": [{"old_string": "a", "new_string": "b"}]},
            "either",
        ),
        (
            {"path": "a", "edits": [{"old_string": "a"}]},
            "Missing required argument 'edits.0.new_string'",
        ),
    ],
)
def test_an_edit_that_makes_no_sense_is_refused(arguments: dict[str, object], said: str) -> None:
    assert said in refusal(EDIT, json.dumps(arguments))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["path", "a"]), inner, max_size=3)
    ),
    max_leaves=12,
)
_KEYS = st.sampled_from(
    [
        "path",
        "content",
        "command",
        "offset",
        "limit",
        "old_string",
        "new_string",
        "edits",
        "x",
        "timeout",
    ]
)


@settings(max_examples=times(80), deadline=None)
@example('{"edits":[[[')
@given(
    st.text()
    | st.dictionaries(_KEYS, _JSON).map(json.dumps)
    | st.builds(
        lambda text, cut: text[:cut],
        st.dictionaries(_KEYS, _JSON).map(json.dumps),
        st.integers(0, 60),
    )
)
def test_any_text_at_all_gives_a_model_or_a_refusal(raw: str) -> None:
    read_by_every_tool(raw)


def read_by_every_tool(raw: str) -> None:
    for tool in TOOLS:
        try:
            args = read_arguments(tool, raw).args  # type: ignore[arg-type]  # made without its ports
        except InvalidArgs as error:
            assert str(error)
            str(error).encode()
        else:
            args.model_dump_json()


_PIECES = (
    '{"path": "a.py"}',
    '{"command": "ls"}',
    '{"path": "a", "content": "x"}',
    '"edits":',
    "[[[[",
    "{" * 200,
    "}",
    "]",
    '"',
    "\\",
    "\\u0000",
    "\\ud800",
    "\ud800",
    "\0",
    "\n",
    "\x1b",
    ",",
    ":",
    "null",
    "NaN",
    "Infinity",
    "-0",
    "1e999",
    "9" * 5000,
    "true",
    "'",
    "```json",
    "<path>",
    "\ufeff",
    "é",
    "\U000e0041",
    '{"path": "a", "path": "b"}',
    "{}{}",
    "// no",
    '"timeout": 1e9',
    '"old_string": "a"',
    '"new_string":',
    "undefined",
    "None",
    " " * 300,
)


@pytest.mark.soak(tried=up_to(75, 25_000) * len(TOOLS), row="tool arguments")
def test_fuzzed_arguments_give_a_model_or_a_refusal() -> None:
    dice = chance("arguments")
    for _ in range(up_to(75, 25_000)):
        pieces = list(dice.choices(_PIECES, k=dice.randint(1, 8)))
        at = dice.randrange(len(pieces))
        pieces[at] = pieces[at][: dice.randrange(len(pieces[at]) + 1)]
        read_by_every_tool("".join(pieces))
