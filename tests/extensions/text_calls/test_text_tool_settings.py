"""Which models are told about tools as text: the settings, and what is wrong in them."""

from pathlib import Path

import pytest

from codeagent.config.layers import load_settings
from codeagent.config.settings import Settings
from codeagent.core.errors import ConfigError
from codeagent.extensions.text_calls.settings import TextToolSettings


def loaded(folder: Path, text: str) -> Settings:
    (folder / "config.toml").write_text(text)
    return load_settings(
        {},
        environment={},
        user_file=folder / "config.toml",
        workspace=folder,
        decides=lambda rule, example: True,
    )


def test_without_settings_a_refused_model_speaks_json(tmp_path: Path) -> None:
    tools = loaded(tmp_path, "").section("text_tools", TextToolSettings)
    assert (tools.when_refused, tools.models) == ("json", ())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[[text_tools.models]]\nmodel = "a"\nprotocol = "delimited"\n',
            "delimited needs open and close",
        ),
        (
            '[[text_tools.models]]\nmodel = "a"\nprotocol = "delimited"\nopen = " "\nclose = "x"\n',
            "delimited needs open and close",
        ),
        (
            '[[text_tools.models]]\nmodel = "a"\nprotocol = "xml"\nopen = "<"\n',
            "open, close and body are for delimited only",
        ),
        (
            '[[text_tools.models]]\nmodel = "a"\nprotocol = "xml"\nopn = "<"\n',
            "config.toml:4: text_tools.models.opn: no such setting; did you mean text_tools.models.open",
        ),
        (
            '[[text_tools.models]]\nmodel = "a"\nprotocol = "delimited"\n'
            'open = "[{name}"\nclose = "]"\nbody = "lines"\n',
            "config.toml:1: text_tools.models: with body lines, each mark needs a character such as / or <",
        ),
        ('[text_tools]\nwhen_refusd = "xml"\n', "did you mean text_tools.when_refused"),
        (
            '[text_tools]\nwhen_refused = "delimited"\n',
            "text_tools.when_refused: input should be 'json', 'xml'",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        loaded(tmp_path, text)


def test_a_project_cannot_choose(tmp_path: Path) -> None:
    (tmp_path / ".codeagent").mkdir()
    (tmp_path / ".codeagent" / "config.toml").write_text('[text_tools]\nwhen_refused = "xml"\n')
    with pytest.raises(ConfigError, match="text_tools cannot be set by a project"):
        loaded(tmp_path, "")
