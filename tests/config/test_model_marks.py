"""Favourites among the models, and those chosen last, are kept in a file of the state folder."""

import stat
from pathlib import Path

import pytest

from codeagent.config.model_marks import MarkedModel, ModelMarks, ModelMarksFile
from codeagent.core.errors import ConfigError
from tests.table import for_each

HOSTED = MarkedModel(name="openai/gpt-5")
OWN = MarkedModel(name="qwen3", api_base="http://127.0.0.1:8080/v1")


def test_a_favourite_stays_one_until_it_is_toggled_again(tmp_path: Path) -> None:
    file = tmp_path / "state/models.json"
    assert ModelMarksFile(file).read() == ModelMarks()
    ModelMarksFile(file).toggle(OWN)
    assert ModelMarksFile(file).toggle(HOSTED) == ModelMarks(favourites=(OWN, HOSTED))
    assert ModelMarksFile(file).toggle(OWN) == ModelMarksFile(file).read()
    assert ModelMarksFile(file).read() == ModelMarks(favourites=(HOSTED,))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_model_chosen_last_comes_first_and_eight_are_remembered(tmp_path: Path) -> None:
    marks = ModelMarksFile(tmp_path / "models.json")
    marks.toggle(HOSTED)
    for number in range(10):
        marks.use(MarkedModel(name=f"m{number}"))
    marks.use(MarkedModel(name="m5"))
    found = marks.read()
    assert [each.name for each in found.recent] == ["m5", *(f"m{n}" for n in (9, 8, 7, 6, 4, 3, 2))]
    assert found.favourites == (HOSTED,)


@for_each("text", ["", "{", "[]", '{"favourites": [{"name": 3}]}', '{"other": []}', "[" * 100_000])
def test_a_damaged_file_is_reported_and_left_as_it_is(tmp_path: Path, text: str) -> None:
    file = tmp_path / "models.json"
    file.touch(0o600)
    file.write_text(text)
    for act in (ModelMarksFile(file).read, lambda: ModelMarksFile(file).toggle(HOSTED)):
        with pytest.raises(ConfigError, match=r"models\.json is damaged .*: repair or remove it"):
            act()
    assert file.read_text() == text


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "models.json").mkdir()
    with pytest.raises(ConfigError, match=r"models\.json cannot be"):
        ModelMarksFile(tmp_path / "models.json").use(HOSTED)
