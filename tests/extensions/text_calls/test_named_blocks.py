"""Blocks whose marks name the tool: what is a call, what belongs to its text, and what is only
prose."""

import json
from typing import Any

import pytest

from codeagent.core.tool import ToolDefinition
from codeagent.extensions.text_calls.formats import TextProtocol, delimited
from codeagent.extensions.text_calls.json_blocks import UNCLOSED
from codeagent.extensions.text_calls.named_blocks import NO_ARGUMENT
from tests.extensions.text_calls.reading import (
    BASH,
    BRACKET,
    LINES,
    TAGS,
    WRITE,
    broken,
    calls,
    read,
    text,
)
from tests.table import for_each

READ = ToolDefinition(
    "read",
    "Reads a file.",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["path"],
    },
)
EDIT = ToolDefinition(
    "edit",
    "Edits a file.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "old": {"type": "string"},
            "new": {"type": "string"},
        },
        "required": ["path", "old", "new"],
    },
)


def needing(tool: ToolDefinition, *names: str) -> ToolDefinition:
    return ToolDefinition(tool.name, tool.description, {**tool.parameters, "required": [*names]})


TOOLS = (needing(BASH, "command"), needing(WRITE, "path", "content"), READ, EDIT)


def found(protocol: TextProtocol, whole: str) -> list[tuple[str, Any]]:
    """The calls that run, read in one piece and character by character, which must be the same."""
    pieces = read(protocol, [whole], TOOLS)
    assert read(protocol, list(whole), TOOLS) == pieces
    return [(one.name, json.loads(one.arguments)) for one in calls(pieces)]


@for_each(
    ("protocol", "whole", "expected"),
    [
        (BRACKET, "[/bash]ls -la[bash/]", [("bash", {"command": "ls -la"})]),
        (BRACKET, "[/read]@@path=src/main.py[read/]", [("read", {"path": "src/main.py"})]),
        (
            BRACKET,
            "[/read]\n@@path=a b.py\n@@limit=50\n[read/]",
            [("read", {"path": "a b.py", "limit": 50})],
        ),
        (
            BRACKET,
            "[/write]\n@@path=a.py\ndef f():\n    return 1\n\n[write/]",
            [("write", {"path": "a.py", "content": "def f():\n    return 1\n"})],
        ),
        (BRACKET, '[/bash]\n@@command:json="a\\nb"\n[bash/]\n', [("bash", {"command": "a\nb"})]),
        (
            BRACKET,
            "[/bash]ls[bash/] [/bash]pwd[bash/]\n[/read]a[read/]",
            [("bash", {"command": "ls"}), ("bash", {"command": "pwd"}), ("read", {"path": "a"})],
        ),
        (BRACKET, "First look.\n\n[/read]a.py[read/]\nThen more.", [("read", {"path": "a.py"})]),
        (
            BRACKET,
            "[/write]\r\n@@path=a\r\nx\r\n[write/]\r\n",
            [("write", {"path": "a", "content": "x"})],
        ),
        (TAGS, '<read path="a.py" limit="5"></read>', [("read", {"path": "a.py", "limit": 5})]),
        (TAGS, "<read path='a.py'/>", [("read", {"path": "a.py"})]),
        (TAGS, "<bash>ls -la</bash>", [("bash", {"command": "ls -la"})]),
        (
            TAGS,
            '<write path="a &amp; b&quot;c">\n<p class="x">1 &amp; 2</p>\n</write>',
            [("write", {"path": 'a & b"c', "content": '<p class="x">1 &amp; 2</p>'})],
        ),
        (TAGS, '<bash command="a > b"/>', [("bash", {"command": "a > b"})]),
        (LINES, "<<do bash\nls\n>>", [("bash", {"command": "ls"})]),
        (
            LINES,
            "<<do write\n@@path=a\nx >> y\n>>\n",
            [("write", {"path": "a", "content": "x >> y"})],
        ),
    ],
)
def test_arguments_and_text_make_a_call(
    protocol: TextProtocol, whole: str, expected: list[tuple[str, Any]]
) -> None:
    assert found(protocol, whole) == expected


@for_each(
    ("protocol", "whole", "content"),
    [
        (
            BRACKET,
            "[/write]\n@@path=a\nEnd it with [write/] as here.\nx\n[write/]",
            "End it with [write/] as here.\nx",
        ),
        (
            BRACKET,
            "[/write]\n@@path=a\n[/read]\n@@path=b\n[read/]\n[write/]",
            "[/read]\n@@path=b\n[read/]",
        ),
        (
            BRACKET,
            "[/write]\n@@path=a\nx\n[/write]\ny\n[write/]\nz\n[write/]",
            "x\n[/write]\ny\n[write/]\nz",
        ),
        (BRACKET, "[/write]\n@@path=a\n@@ -1,2 +1,3 @@\n x\n[write/]", "@@ -1,2 +1,3 @@\n x"),
        (
            BRACKET,
            "[/write]\n@@path=a\n```\n[write/] in a fence\n```\n[write/]",
            "```\n[write/] in a fence\n```",
        ),
        (BRACKET, "[/write]\n@@path=a\n\n  indented\n\n[write/]", "\n  indented\n"),
        (
            TAGS,
            '<write path="a">\n<write path="b"></write> is a call\n</write>',
            '<write path="b"></write> is a call',
        ),
        (TAGS, '<write path="a">\n<read path="b"/>\n</write>', '<read path="b"/>'),
        (TAGS, '<write path="a">\nif a < b and c > d:\n</write>', "if a < b and c > d:"),
    ],
)
def test_marks_within_a_text_belong_to_it(protocol: TextProtocol, whole: str, content: str) -> None:
    assert found(protocol, whole) == [("write", {"path": "a", "content": content})]


@for_each(
    ("protocol", "whole"),
    [
        (BRACKET, "Call it as [/read]@@path=file.py[read/] and wait."),
        (BRACKET, "Write `[/read]@@path=x[read/]` to read.\n"),
        (BRACKET, "An example:\n\n```\n[/bash]rm -rf x[bash/]\n```\n"),
        (BRACKET, "    [/bash]rm -rf x[bash/]\n"),
        (BRACKET, "[/read]@@path=x[read/] reads the file x.\n"),
        (BRACKET, "- [/bash]ls[bash/]\n"),
        (BRACKET, "[/code]x[code/] and [b]bold[/b] and [1] and [ /read] [read/]\n"),
        (BRACKET, "[/readme]x[readme/]\n"),
        (BRACKET, "<think>[/bash]rm x[bash/]</think>\nDone."),
        (TAGS, 'Use <read path="x"/> to read.'),
        (TAGS, "<reader path='x'/>\n"),
        (TAGS, "<read of a file>\n<write it, then read it>\n"),
        (TAGS, "<read\n<write\n"),
        (TAGS, "<div>\n<ul><li>x</li></ul>\n</div>\n"),
        (TAGS, "```xml\n<bash>rm x</bash>\n```\n"),
        (TAGS, "</bash>\n"),
        (LINES, "Write <<do bash with what it shall do >> and wait."),
    ],
)
def test_prose_that_mentions_the_format_is_no_call_and_stays_as_it_is(
    protocol: TextProtocol, whole: str
) -> None:
    assert found(protocol, whole) == []
    pieces = read(protocol, [whole], TOOLS)
    assert broken(pieces) == [] and text(pieces).strip() == whole.strip()


@for_each(
    ("protocol", "whole", "why"),
    [
        (BRACKET, "[/bash]rm -rf x", UNCLOSED),
        (BRACKET, "[/bash]\nrm -rf x\n[bash", UNCLOSED),
        (BRACKET, "[/bash]\nrm\n[write/]\n", UNCLOSED),
        (BRACKET, "[/bash]\nx\n[/bash]\ny\n[bash/]\nz\n", UNCLOSED),
        (BRACKET, "[/edit]\n@@path=a\nwhich of the two is it?\n[edit/]", NO_ARGUMENT),
        (BRACKET, "[/read]\n@@path=a\n@@limit=3\nwhat is this?\n[read/]", NO_ARGUMENT),
        (TAGS, '<bash command="rm -rf x', UNCLOSED),
        (TAGS, "<bash>rm -rf x", UNCLOSED),
        (TAGS, '<edit path="a">which of the two?</edit>', NO_ARGUMENT),
        (LINES, "<<do bash\nrm -rf x", UNCLOSED),
    ],
)
def test_a_block_that_is_not_closed_or_cannot_be_told_runs_nothing_and_is_reported(
    protocol: TextProtocol, whole: str, why: str
) -> None:
    pieces = read(protocol, [whole], TOOLS)
    assert calls(pieces) == []
    assert [piece.why for piece in broken(pieces)] == [why]


def test_after_fixed_marks_a_tool_that_there_is_not_is_a_call_that_is_answered() -> None:
    assert found(LINES, "<<do raed\n@@path=a\n>>") == [("raed", {"path": "a"})]


def test_marks_of_ones_own_may_name_the_tool() -> None:
    own = delimited("<<{name}>>", "<</{name}>>", "lines")
    assert found(own, "<<bash>>\nls\n<</bash>>") == [("bash", {"command": "ls"})]


@for_each("marks", [("[", "]"), ("{{", "}}"), ("true", ">>"), ("<<", '"')])
def test_marks_that_could_be_json_are_refused(marks: tuple[str, str]) -> None:
    with pytest.raises(
        ValueError, match="a mark needs a character that occurs in JSON only within"
    ):
        delimited(*marks, "lines")
