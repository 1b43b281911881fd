"""What the user chose on the screen is written into their own config.toml, where the next start
finds it."""

import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.config.choices import keep_choices
from codeagent.config.layers import check_user
from codeagent.core.errors import ConfigError
from codeagent.tools.shell.rules import decides

MINE = (
    '# mine\nmode = "plan"  # never change it\nmodel = "a"  # at home\n\n[limits]\nbudget = 2.0\n'
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "config").mkdir()
    return tmp_path / "config/config.toml"


def keep(file: Path, **choices: Any) -> dict[str, Any]:
    keep_choices(file, file.parents[1] / "work", choices)
    return tomllib.loads(file.read_text())


def test_a_file_is_made_that_only_its_owner_may_read(file: Path) -> None:
    assert keep(file, model="openai/qwen", api_base="http://127.0.0.1:8080/v1") == {
        "model": "openai/qwen",
        "api_base": "http://127.0.0.1:8080/v1",
    }
    assert file.stat().st_mode & 0o777 == 0o600


def test_comments_order_and_other_settings_stay(file: Path) -> None:
    file.write_text(MINE)
    assert keep(file, model="b", thinking=4000) == {
        "mode": "plan",
        "model": "b",
        "thinking": 4000,
        "limits": {"budget": 2.0},
    }
    assert file.read_text().startswith(
        '# mine\nmode = "plan"  # never change it\nmodel = "b"  # at home\n'
    )


def test_a_setting_of_a_section_is_put_into_its_table_and_taken_out_again(file: Path) -> None:
    file.write_text(MINE)
    new = {"limits.max_turns": 9, "queue.steer": "one"}
    assert keep(file, **new)["limits"] == {"budget": 2.0, "max_turns": 9}
    assert file.read_text().startswith(MINE.rstrip()) and 'steer = "one"' in file.read_text()
    without = keep(file, **dict.fromkeys([*new, "web.private_hosts"]))
    assert without == {"mode": "plan", "model": "a", "limits": {"budget": 2.0}, "queue": {}}


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("extensions.off", ["nothing"], "unknown extension 'nothing'"),
        ("limits.max_turns", 0, "limits.max_turns: input should be greater than 0"),
        ("lmits.max_turns", 1, "lmits: no such setting; did you mean limits?"),
    ],
)
def test_what_the_next_start_would_refuse_is_not_written(
    file: Path, name: str, value: object, why: str
) -> None:
    file.write_text(MINE)
    with pytest.raises(ConfigError, match=why):
        keep_choices(
            file, file.parents[1] / "work", {name: value}, partial(check_user, decides=decides)
        )
    assert file.read_text() == MINE


def test_a_model_without_an_address_takes_the_old_address_away(file: Path) -> None:
    keep(file, model="openai/qwen", api_base="http://127.0.0.1:8080/v1")
    assert keep(file, model="anthropic/x", api_base=None) == {"model": "anthropic/x"}


def test_a_link_to_the_file_stays_a_link(file: Path) -> None:
    real = file.parent / "dotfiles.toml"
    real.write_text(MINE)
    file.symlink_to(real)
    keep(file, theme="ink")
    assert file.is_symlink() and tomllib.loads(real.read_text())["theme"] == "ink"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model = ", "not valid TOML: repair it first"),
        ("\udcff", "not valid TOML: repair it first"),
    ],
)
def test_a_file_that_cannot_be_read_is_left_as_it_is(file: Path, text: str, said: str) -> None:
    file.write_bytes(before := text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match=said):
        keep(file, theme="ink")
    assert file.read_bytes() == before


def test_a_file_that_others_may_change_is_left_as_it_is(file: Path) -> None:
    file.write_text(MINE)
    file.chmod(0o666)
    with pytest.raises(ConfigError, match="can be changed by others"):
        keep(file, theme="ink")
    assert file.read_text() == MINE


def test_nothing_is_kept_where_the_agent_could_change_it(tmp_path: Path) -> None:
    file = tmp_path / "config/config.toml"
    with pytest.raises(ConfigError, match="where the agent could change it"):
        keep_choices(file, tmp_path, {"theme": "ink"})
    assert not file.exists()


@given(
    st.text(st.characters(codec="utf-8"), min_size=1),
    st.text(st.characters(codec="utf-8"), min_size=1),
)
def test_any_text_comes_back_as_it_was_chosen(
    tmp_path_factory: pytest.TempPathFactory, model: str, theme: str
) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / "config").mkdir()
    (folder / "config/config.toml").write_text(MINE)
    kept = keep(folder / "config/config.toml", model=model, theme=theme)
    assert (kept["model"], kept["theme"], kept["mode"]) == (model, theme, "plan")


@pytest.mark.parametrize("text", ["limits = 3\n", 'limits = "x"\n', "limits = [1]\n"])
def test_a_section_that_is_not_a_table_is_said_and_left(file: Path, text: str) -> None:
    """The user may have edited the file since the start."""
    file.write_text(text)
    with pytest.raises(ConfigError, match="cannot be changed here"):
        keep(file, **{"limits.max_turns": 9})
    assert file.read_text() == text
