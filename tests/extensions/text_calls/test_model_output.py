"""What models really write: one table per rule, each read whole and character by character."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import pytest

from codeagent.extensions.text_calls.formats import TextProtocol
from codeagent.extensions.text_calls.protocol import ParsedCall
from tests.effort import part
from tests.extensions.text_calls.reading import (
    HERMES,
    JSON,
    MARKED,
    NAMED,
    TOOLS,
    XML,
    broken,
    calls,
    read,
    text,
)
from tests.table import for_each

LS = ParsedCall("bash", '{"command": "ls"}')
OBJECT = '{"name": "bash", "arguments": {"command": "ls"}}'
INVOKE = '<invoke name="bash"><parameter name="command">ls</parameter></invoke>'
QWEN = "<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>"


@dataclass(frozen=True)
class Case:
    protocol: TextProtocol
    written: str
    calls: tuple[ParsedCall, ...] = ()
    text: str = ""
    broken: tuple[str, ...] = ()
    """The tools named by blocks that must not run."""


CALLS = {
    "hermes": Case(HERMES, f"<tool_call>\n{OBJECT}\n</tool_call>", (LS,)),
    "hermes, odd white space": Case(HERMES, f"<tool_call>  {OBJECT} \n\n </tool_call>\n\n", (LS,)),
    "hermes, in a fence within the tags": Case(HERMES, f"<tool_call>\n```json\n{OBJECT}\n```\n</tool_call>", (LS,)),
    "hermes, one object after the other": Case(HERMES, f"<tool_call>\n{OBJECT}\n{OBJECT}\n</tool_call>", (LS, LS)),
    "hermes, arguments as a string": Case(
        HERMES, '<tool_call>{"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}</tool_call>',
        (ParsedCall("bash", '{"command": "ls"}'),),
    ),
    "hermes, without arguments": Case(HERMES, '<tool_call>{"name": "bash"}</tool_call>', (ParsedCall("bash", ""),)),
    "hermes, after prose and before more": Case(
        HERMES, f"I look.\n\n<tool_call>{OBJECT}</tool_call>\n<tool_call>{OBJECT}</tool_call>\nDone.",
        (LS, LS), "I look.\nDone.",
    ),
    "hermes, the end mark in a string": Case(
        HERMES, '<tool_call>{"name": "bash", "arguments": {"command": "</tool_call>"}}</tool_call>',
        (ParsedCall("bash", '{"command": "</tool_call>"}'),),
    ),
    "hermes, an unknown tool": Case(
        HERMES, '<tool_call>{"name": "bsh", "arguments": {}}</tool_call>', (ParsedCall("bsh", "{}"),)
    ),
    "hermes, after thinking": Case(
        HERMES, f"<think><tool_call>{OBJECT}</tool_call></think><tool_call>{OBJECT}</tool_call>", (LS,),
        f"<think><tool_call>{OBJECT}</tool_call></think>",
    ),
    "after thinking that was never closed": Case(
        HERMES, f"<think>Let me look.\n<tool_call>{OBJECT}</tool_call>\n<tool_call>{OBJECT}</tool_call>\n", (LS, LS),
        "<think>Let me look.",
    ),
    "json, after thinking that was never closed": Case(
        JSON, f"[THINK]Let me look.\n```json\n{OBJECT}\n```", (LS,), "[THINK]Let me look."
    ),
    "json, llama's own tag": Case(JSON, f"<|python_tag|>{OBJECT}<|eom_id|>", (LS,)),
    "json, several behind llama's tag": Case(
        JSON, f"Now.\n<|python_tag|>{OBJECT}; {OBJECT};{OBJECT}", (LS, LS, LS), "Now."
    ),
    "hermes, several behind llama's tag": Case(HERMES, f"<|python_tag|>{OBJECT}; {OBJECT}<|eot_id|>", (LS, LS)),
    "llama's tag and words after the calls": Case(HERMES, f"<|python_tag|>{OBJECT}; Done.", (LS,), "Done."),
    "llama's tag and an unknown tool": Case(
        JSON, '<|python_tag|>{"name": "bsh", "parameters": {}}', (ParsedCall("bsh", "{}"),)
    ),
    "seed, a value's own last line break": Case(
        HERMES,
        "<seed:tool_call>\n<function=write>\n<parameter=path>a</parameter>\n<parameter=content>x = 1\n</parameter>"
        "\n</function>\n</seed:tool_call>",
        (ParsedCall("write", '{"path": "a", "content": "x = 1\\n"}'),),
    ),
    "xml, all arguments as one object": Case(
        XML, '<invoke name="bash"><parameter name="input">{"command": "ls"}</parameter></invoke>', (LS,)
    ),
    "qwen": Case(HERMES, f"<tool_call>\n{QWEN}\n</tool_call>", (LS,)),
    "qwen, without the outer tags": Case(HERMES, f"Now:\n{QWEN}", (LS,), "Now:"),
    "qwen, a number": Case(
        HERMES,
        "<function=bash><parameter=timeout>\n5\n</parameter></function>",
        (ParsedCall("bash", '{"timeout": 5}'),),
    ),
    "qwen, what does not fit stays text": Case(
        HERMES, "<function=bash><parameter=timeout>soon</parameter></function>",
        (ParsedCall("bash", '{"timeout": "soon"}'),),
    ),
    "qwen, a forgotten end of a value": Case(
        HERMES, "<function=bash>\n<parameter=command>\nls\n<parameter=timeout>\n5\n</parameter>\n</function>",
        (ParsedCall("bash", '{"command": "ls", "timeout": 5}'),),
    ),
    "qwen, the format itself as a value": Case(
        HERMES, f"<function=write><parameter=content>\n{QWEN}\n</parameter></function>",
        (ParsedCall("write", '{"content": "' + QWEN.replace("\n", "\\n") + '"}'),),
    ),
    "qwen, JSON instead of tags": Case(HERMES, '<function=bash>{"command": "ls"}</function>', (LS,)),
    "glm": Case(
        HERMES, "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>", (LS,)
    ),
    "mistral": Case(HERMES, '[TOOL_CALLS]bash[ARGS]{"command": "ls"}', (LS,)),
    "json in a fence": Case(JSON, f"Sure:\n```json\n{OBJECT}\n```", (LS,), "Sure:"),
    "json in a fence without a word": Case(JSON, f"```\n{OBJECT}\n```\n", (LS,)),
    "json, in a fence that says nothing, after thinking": Case(
        JSON, f"<think>Hm.</think>\n```\n{OBJECT}\n```", (LS,), "<think>Hm.</think>"
    ),
    "json, in two fences of which one says json": Case(
        JSON, f"```\n{OBJECT}\n```\n\n```json\n{OBJECT}\n```", (LS, LS)
    ),
    "json, at the end of words": Case(JSON, f"First I look.\n```json\n{OBJECT}\n```\n", (LS,), "First I look."),
    "json, bare, at the end of words": Case(JSON, f"I call {OBJECT}", (LS,), "I call"),
    "json, an example and then the call": Case(
        JSON, f"```json\n{OBJECT}\n```\nlists a folder:\n{OBJECT}", (LS,), f"```json\n{OBJECT}\n```\nlists a folder:"
    ),
    "json, several in one fence": Case(JSON, f"```json\n[{OBJECT},\n {OBJECT}]\n```", (LS, LS)),
    "json, line by line": Case(JSON, f"```json\n{OBJECT}\n{OBJECT}\n```", (LS, LS)),
    "json, bare": Case(JSON, OBJECT, (LS,)),
    "json, bare, several": Case(JSON, f"{OBJECT}; {OBJECT}\n{OBJECT}", (LS, LS, LS)),
    "json, parameters": Case(JSON, '{"name": "bash", "parameters": {"command": "ls"}}', (LS,)),
    "json, OpenAI's message": Case(
        JSON, '{"tool_calls": [{"id": "1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}]}',
        (ParsedCall("bash", "{}"),),
    ),
    "json, a function wrapper": Case(JSON, f'{{"type": "function", "function": {OBJECT}}}', (LS,)),
    "xml": Case(XML, f"Look:\n{INVOKE}\nThen.", (LS,), "Look:\nThen."),
    "xml, with tags around": Case(XML, f"<function_calls>\n{INVOKE}\n{INVOKE}\n</function_calls>", (LS, LS)),
    "xml, white space is part of a value": Case(
        XML, '<invoke name="write">\n<parameter name="content">\n  a\n</parameter>\n</invoke>',
        (ParsedCall("write", '{"content": "\\n  a\\n"}'),),
    ),
    "xml, nothing is unescaped": Case(
        XML, '<invoke name="write"><parameter name="content">&lt;b&gt; < c</parameter></invoke>',
        (ParsedCall("write", '{"content": "&lt;b&gt; < c"}'),),
    ),
    "xml, CDATA": Case(
        XML, '<invoke name="write"><parameter name="content"><![CDATA[</parameter>]]></parameter></invoke>',
        (ParsedCall("write", '{"content": "</parameter>"}'),),
    ),
    "xml, an end mark within a value": Case(
        XML, '<invoke name="write"><parameter name="content">a</parameter> b</parameter></invoke>',
        (ParsedCall("write", '{"content": "a</parameter> b"}'),),
    ),
    "xml, an empty value": Case(
        XML, '<invoke name="write"><parameter name="content"></parameter></invoke>',
        (ParsedCall("write", '{"content": ""}'),),
    ),
    "xml, other words": Case(XML, '<function name="bash"><param name="command">ls</param></function>', (LS,)),
    "delimited": Case(MARKED, f"So: <<call {OBJECT} >> and on", (LS,), "So: and on"),
    "delimited, name and arguments": Case(NAMED, '@call bash\n{"command": "ls"}\n@end', (LS,)),
}  # fmt: skip  # a table
TEXT = {
    "hermes, in a code fence": Case(
        HERMES, f"```xml\n<tool_call>{OBJECT}</tool_call>\n```\nThat is it."
    ),
    "hermes, in a longer fence": Case(
        HERMES, f"````\n```\n<tool_call>{OBJECT}</tool_call>\n```\n````"
    ),
    "hermes, in tildes": Case(HERMES, f"~~~\n<tool_call>{OBJECT}</tool_call>\n~~~"),
    "hermes, in inline code": Case(HERMES, f"Write `<tool_call>{OBJECT}</tool_call>` to call."),
    "hermes, in double inline code": Case(
        HERMES, f"Write ``<tool_call>`{OBJECT}</tool_call>`` to call."
    ),
    "hermes, a mention": Case(HERMES, "The <tool_call> tag holds a call."),
    "hermes, only the beginning of a mark": Case(HERMES, "a < b and <tool"),
    "qwen, in a fence that is never closed": Case(HERMES, f"```\n{QWEN}"),
    "xml, in a fence": Case(XML, f"```xml\n{INVOKE}\n```"),
    "xml, other tags": Case(XML, '<div name="bash"><p>ls</p></div>'),
    "json, within a sentence": Case(JSON, f"I call {OBJECT} now."),
    "json, an example in a fence": Case(
        JSON, f"A call looks like this:\n```json\n{OBJECT}\n```\nYou can try it."
    ),
    "json, an example of several": Case(
        JSON, f"```json\n{OBJECT}\n```\n\n```json\n{OBJECT}\n```\nare two calls."
    ),
    "json, an unknown tool": Case(JSON, '{"name": "nope", "arguments": {}}'),
    "json, another shape": Case(JSON, '{"name": "bash", "arguments": {}, "comment": 1}'),
    "json, without arguments": Case(JSON, '{"name": "bash"}'),
    "json, within other JSON": Case(JSON, f'{{"example": {OBJECT}}}'),
    "json, in inline code": Case(JSON, f"Like `{OBJECT}`."),
    "json, in a fence that says nothing, after words": Case(
        JSON, f"A call:\n\n```\n{OBJECT}\n```\n"
    ),
    "json, in a fence that says nothing, before words": Case(
        JSON, f"\n```\n{OBJECT}\n```\n\nThat is one."
    ),
    "json, in a fence of another language": Case(JSON, f"```python\n{OBJECT}\n```"),
    "json, in a fence with a comment": Case(JSON, f"```json\n// like this\n{OBJECT}\n```"),
    "json, a fence with data": Case(JSON, '```json\n{"a": [1, 2]}\n```\nThat is the data.'),
    "json, in a fence within a fence": Case(JSON, f"````markdown\n```json\n{OBJECT}\n```\n````"),
    "json, links and lists": Case(JSON, "[a](b) and [1, 2] and {x}"),
    "delimited, in a fence": Case(MARKED, f"```\n<<call {OBJECT} >>\n```"),
}
BROKEN = {
    "hermes, cut off": Case(HERMES, f"Now: <tool_call>{OBJECT}", (), "Now:", ("bash",)),
    "hermes, cut off within": Case(HERMES, '<tool_call>{"name": "bash", "arguments": {"com', (), "", ("bash",)),
    "hermes, cut off at once": Case(HERMES, "Now:\n<tool_call>\n", (), "Now:", ("",)),
    "hermes, no call at all": Case(HERMES, '<tool_call>{"command": "ls"}</tool_call>', (), "", ("",)),
    "hermes, arguments in the wrong place": Case(
        HERMES, '<tool_call>{"name": "bash", "command": "ls"}</tool_call>', (), "", ("bash",)
    ),
    "qwen, cut off": Case(HERMES, "<function=bash><parameter=command>ls", (), "", ("bash",)),
    "qwen, cut off before its end": Case(
        HERMES, "<function=bash><parameter=command>ls</parameter>", (), "", ("bash",)
    ),
    "qwen, a bracket is missing": Case(HERMES, "<function=bash\n</function>", (), "", ("bash",)),
    "xml, cut off": Case(XML, '<invoke name="bash"><parameter name="command">rm -rf', (), "", ("bash",)),
    "xml, cut off in CDATA": Case(
        XML, '<invoke name="bash"><parameter name="command"><![CDATA[ls', (), "", ("bash",)
    ),
    "json, cut off": Case(JSON, '{"name": "bash", "arguments": {"command": "l', (), "", ("bash",)),
    "json, cut off in its fence": Case(JSON, f"```json\n{OBJECT}\n", (), "", ("bash",)),
    "json, no JSON": Case(JSON, "{\"name\": \"bash\", \"arguments\": {'command'", (), "'command'", ("bash",)),
    "delimited, cut off": Case(MARKED, f"<<call {OBJECT}", (), "", ("bash",)),
    "a block after one whose end is not certain": Case(
        HERMES, f'<tool_call>{{"name": "write", "arguments": {{"content": "a\nb"}}}}</tool_call>{OBJECT}'
        f"<tool_call>{OBJECT}</tool_call>",
        (ParsedCall("write", '{"name": "write", "arguments": {"content": "a\nb"}}'),), OBJECT, ("bash",),
    ),
}  # fmt: skip  # a table
CALL_OF = {
    "hermes": f"<tool_call>{OBJECT}</tool_call>",
    "qwen": QWEN,
    "json": f"```json\n{OBJECT}\n```",
}
CALL_OF |= {"bare json": f"\n{OBJECT}\n", "xml": INVOKE, "delimited": f"<<call {OBJECT} >>"}
READS = {
    "hermes": HERMES,
    "qwen": HERMES,
    "json": JSON,
    "bare json": JSON,
    "xml": XML,
    "delimited": MARKED,
}
THINKING = [
    ("<think>", "</think>"),
    ("<THINK>", "</THINK>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|channel>thought", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
    ("Here is my thought process:", "Here is my response:"),
]
MALFORMED = {
    "hermes, a line break in a string": Case(
        HERMES, '<tool_call>{"name": "bash", "arguments": {"command": "a\nb"}}</tool_call>',
        (ParsedCall("bash", '{"name": "bash", "arguments": {"command": "a\nb"}}'),),
    ),
    "hermes, a bracket too many": Case(
        HERMES, f"<tool_call>{OBJECT}}}</tool_call>", (ParsedCall("bash", OBJECT + "}"),)
    ),
    "hermes, too early an end, and a good call after it": Case(
        HERMES,
        f'<tool_call>{{"name": "bash", "arguments": {{"command": "ls"</tool_call><tool_call>{OBJECT}</tool_call>',
        (ParsedCall("bash", '{"name": "bash", "arguments": {"command": "ls"'), LS),
    ),
    "xml, plain text instead of arguments": Case(
        XML, '<invoke name="bash">ls -l</invoke>', (ParsedCall("bash", "ls -l"),)
    ),
    "json, in a fence": Case(
        JSON, '```json\n{"name": "bash", "arguments": {command: "ls"}}\n```\n',
        (ParsedCall("bash", '{"name": "bash", "arguments": {command: "ls"}}'),),
    ),
}  # fmt: skip  # a table


def table(cases: dict[str, Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases.values(), ids=cases.keys())


SIZES = part((1, 10_000, 4), 2)
"""Characters at a time."""


def check(case: Case, sizes: Sequence[int] = SIZES) -> None:
    for size in sizes:
        pieces = read(case.protocol, cut(case.written, size))
        assert tuple(calls(pieces)) == case.calls, size
        assert tuple(piece.name for piece in broken(pieces)) == case.broken, size
        assert text(pieces) == case.text, size


def cut(written: str, size: int) -> list[str]:
    return [written[at : at + size] for at in range(0, len(written), size)]


@pytest.mark.soak(tried=3)
@table(CALLS)
def test_a_call_is_found(case: Case) -> None:
    check(case)


@pytest.mark.soak(tried=3)
@table(TEXT)
def test_what_is_no_call_stays_text(case: Case) -> None:
    check(Case(case.protocol, case.written, text=case.written))


@pytest.mark.soak(tried=3)
@table(BROKEN)
def test_a_block_that_is_not_whole_never_runs_and_is_reported(case: Case) -> None:
    check(case)


@pytest.mark.soak(tried=3)
@table(MALFORMED)
def test_malformed_arguments_are_passed_on_as_they_are(case: Case) -> None:
    check(case)


@for_each(
    ("protocol", "block"),
    [
        (HERMES, f"<tool_call>{OBJECT}</tool_call>"),
        (HERMES, QWEN),
        (XML, INVOKE),
        (MARKED, f"<<call {OBJECT} >>"),
    ],
)
def test_a_call_is_out_the_moment_its_block_closes(protocol: TextProtocol, block: str) -> None:
    parser = protocol.parser(TOOLS)
    before = parser.feed(block[:-1])
    assert calls(before) == []
    assert calls(parser.feed(block[-1])) == [LS]


@pytest.mark.parametrize("form", ["json", "bare json"])
def test_plain_json_is_a_call_only_once_nothing_can_follow_it(form: str) -> None:
    parser = JSON.parser(TOOLS)
    assert calls(parser.feed(CALL_OF[form])) == []
    assert calls(parser.close()) == [LS]


def test_words_are_out_as_soon_as_they_cannot_begin_a_mark() -> None:
    parser = HERMES.parser(())
    assert text(parser.feed("a <tool")) == "a"
    assert text(parser.feed("box")) == " <toolbox"


WAYS = list(product(CALL_OF, SIZES))
"""How a call is written, and how many characters come at a time."""


@pytest.mark.parametrize(("opened", "closed"), THINKING, ids=[opened for opened, _ in THINKING])
@pytest.mark.soak(tried=6 * 3 * 2)
def test_a_call_inside_thinking_never_runs_and_the_one_behind_it_does(
    opened: str, closed: str
) -> None:
    for (form, size), before in part([*product(WAYS, ("", "First, words.\n"))], 9):
        block = CALL_OF[form]
        shown = f"{before}{opened}I could do\n{block}\nor not.{closed}"
        check(Case(READS[form], f"{shown}\n{block}\n", (LS,), shown), [size])


@pytest.mark.soak(tried=18)
@pytest.mark.parametrize("opened", ["<think>", "[THINK]"])
def test_a_call_in_thinking_that_was_never_closed_does_not_run_where_words_follow(
    opened: str,
) -> None:
    for form, size in WAYS:
        written = f"{opened}I could do\n{CALL_OF[form]}\nbut I will not."
        assert calls(read(READS[form], cut(written, size))) == []


@pytest.mark.soak(tried=18)
def test_a_call_in_thinking_that_the_prompt_began_never_runs() -> None:
    """Only its end is in the answer."""
    for form, size in WAYS:
        block = CALL_OF[form]
        pieces = read(READS[form], cut(f"I could do\n{block}\nor not.\n</think>\n\n{block}", size))
        assert calls(pieces) == [LS]
