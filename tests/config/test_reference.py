"""Every setting has its words, its choices and a value that a text can give it."""

import pytest

from codeagent.config.checking import checked
from codeagent.config.extensions import all_extensions
from codeagent.config.reference import Setting, every_setting
from codeagent.config.settings import Settings
from codeagent.core.errors import ConfigError
from tests.table import for_each

GIVEN = {"limits": {"max_turns": 7}, "theme": "ink", "origins": {"limits.max_turns": "here"}}


def found() -> dict[str, Setting]:
    settings = checked(Settings, GIVEN)
    return {one.name: one for one in every_setting(settings, all_extensions().sections)}


def test_a_setting_has_its_value_its_origin_and_what_it_is_about() -> None:
    turns, steer = found()["limits.max_turns"], found()["queue.steer"]
    assert (turns.value, turns.origin) == (7, "here")
    assert (steer.value, steer.origin, steer.choices, steer.is_free) == (
        "all",
        "",
        ("all", "one"),
        False,
    )
    assert "bell" in found()["bell"].about
    assert not any("None" in each.about for each in found().values())


def test_the_sections_of_extensions_are_listed_and_tables_cannot_be_set_on_one_line() -> None:
    settings = found()
    assert "web.private_hosts" in settings
    assert [
        name
        for name in ("prices", "hooks", "toolsets.groups", "sandbox.kind")
        if settings[name].is_one_value
    ] == []
    assert [
        name
        for name in ("tools", "thinking", "limits.model_timeout", "bell")
        if not settings[name].is_one_value
    ] == []


@for_each(
    ("name", "text", "value"),
    [
        ("limits.max_turns", "12", 12),
        ("limits.model_timeout", "2m", "2m"),
        ("model", "openai/gpt-5", "openai/gpt-5"),
        ("model", "12", "12"),
        ("model", '"quoted"', "quoted"),
        ("thinking", "low", "low"),
        ("thinking", "4000", 4000),
        ("bell", "false", False),
        ("tools", '["read", "bash"]', ["read", "bash"]),
        ("theme", "unset", None),
    ],
)
def test_a_text_is_read_as_toml_or_as_it_is(name: str, text: str, value: object) -> None:
    assert found()[name].read(text) == value


@for_each(
    ("name", "text", "why"),
    [
        ("limits.max_turns", "0", "greater than 0"),
        ("limits.max_turns", "many", "valid integer"),
        ("mode", "yolo", "'ask', 'accept-edits'"),
        ("api_base", "ftp://x", "must begin with http"),
        ("context.compact_at", "1.5", "less than or equal to 1"),
        ("bell", "maybe", "valid boolean"),
    ],
)
def test_what_a_setting_cannot_be_is_refused_with_the_reason(
    name: str, text: str, why: str
) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        found()[name].read(text)
    assert str(refused.value).startswith(f"{name}: ")
