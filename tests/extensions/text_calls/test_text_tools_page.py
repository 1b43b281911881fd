"""The page about tools as text says what is so."""

import re
from pathlib import Path

from codeagent.config.layers import load_settings
from codeagent.core.tool import ToolDefinition
from codeagent.extensions.text_calls.protocol import ParsedCall
from codeagent.extensions.text_calls.settings import TextToolSettings
from codeagent.tools.shell.rules import decides
from tests.extensions.text_calls.reading import BRACKET, JSON, WRITE, XML, calls, read

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "text-tools.md").read_text()


NEEDING = (ToolDefinition(WRITE.name, "", {**WRITE.parameters, "required": ["path", "content"]}),)


def example(language: str) -> str:
    [found] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def test_the_example_of_the_settings_is_one(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(example("toml"))
    settings = load_settings(
        {}, environment={}, user_file=tmp_path / "config.toml", workspace=tmp_path, decides=decides
    )
    assert [one.protocol for one in settings.section("text_tools", TextToolSettings).models] == [
        "hermes",
        "delimited",
        "native",
    ]


def test_the_examples_of_calls_are_calls() -> None:
    assert calls(read(JSON, [example("json")])) == [ParsedCall("bash", '{"command": "ls"}')]
    assert calls(read(XML, [example("xml")])) == [
        ParsedCall("write", '{"path": "a.txt", "content": "its text, byte for byte"}')
    ]
    assert calls(read(BRACKET, [example("text")], NEEDING)) == calls(read(XML, [example("xml")]))
