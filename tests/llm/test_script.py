"""A script is checked before it plays, and its errors say where."""

from pathlib import Path

import pytest

from codeagent.core.errors import ConfigError
from codeagent.llm.script import ScriptedError, Turn, load_script, parse_script


def test_every_field_is_read(tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    file.write_text(
        '[{"text": "a", "reasoning": "b", "calls": [["bash", {"command": "ls"}], ["read", "{\\"pa"]],'
        ' "stop": "length", "delay_ms": 20, "expect": "^x"},'
        ' {"error": {"status": 529, "message": "m", "retry_after": 1}}]'
    )
    first, second = load_script(str(file))
    assert first == Turn(
        text="a",
        reasoning="b",
        calls=[("bash", {"command": "ls"}), ("read", '{"pa')],
        stop="length",
        delay_ms=20,
        expect="^x",
    )
    assert second.error == ScriptedError(status=529, message="m", retry_after=1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "the script s is no JSON"),
        ("{}", "must be a list of turns"),
        ("[]", "with at least one"),
        ("[1]", "the script s, turn 1: "),
        ('[{"text": "a"}, {"txet": "b"}]', "the script s, turn 2: txet: "),
        ('[{"calls": [["bash"]]}]', "the script s, turn 1: calls.0"),
        ('[{"calls": [["bash", 1]]}]', "the script s, turn 1: calls.0"),
        ('[{"expect": "("}]', "the script s, turn 1: expect: Value error, no regular expression"),
        ('[{"stop": "never"}]', "the script s, turn 1: stop"),
        ('[{"error": {"status": 200}}]', "the script s, turn 1: error.status"),
        ('[{"delay_ms": -1}]', "the script s, turn 1: delay_ms"),
    ],
)
def test_a_bad_script_names_its_file_and_turn(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_script(text, "s")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_or_binary_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_script(str(tmp_path / "none.json"))
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_script(str(tmp_path / "binary.json"))


def test_the_example_of_the_reference_is_a_script() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "script-model.md"
    example = page.read_text().split("```json\n")[1].split("```")[0]
    turns = parse_script(example, "the example")
    assert [bool(turn.error) for turn in turns] == [False, False, True, False, False]
    assert all(f"| `{field}` |" in page.read_text() for field in Turn.model_fields)
