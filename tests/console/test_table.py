"""Tables for users, and lines for programs."""

import re

import pytest

from codeagent.console.table import Column, print_facts, print_table

STYLE = re.compile(r"\x1b\[[0-9;]*m")
COLUMNS = (Column("NAME", "cyan"), Column("IS"), Column("DOES", cut=True))
ROWS = [("bash", "ask", "runs commands " * 6), ("a\x1b[2Jb", "allow", "reads")]


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_a_program_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, ROWS, ["bash prompt"])
    assert printed(capsys) == ["bash prompt"]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_table_fits_the_terminal_and_cuts_only_columns_that_allow_it(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    print_table(COLUMNS, ROWS, [])
    head, first, second = (STYLE.sub("", line) for line in printed(capsys))
    assert head == "NAME       IS     DOES"
    assert len(first) <= width
    assert first.endswith("…") is (width < 100)
    assert first.startswith("bash       ask    runs commands")
    assert second == "a\\x1b[2Jb  allow  reads"


def test_a_state_has_its_colour_and_none_without_colours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    print_table(COLUMNS, ROWS, [])
    out = capsys.readouterr().out
    assert "\x1b[33mask" in out and "\x1b[32mallow" in out
    monkeypatch.setenv("NO_COLOR", "1")
    print_table(COLUMNS, ROWS, [])
    assert "\x1b[3" not in capsys.readouterr().out


def test_a_long_fact_wraps_beside_its_label(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = [("engine", "one two three"), ("image", "none")]
    print_facts(facts, 8)
    assert printed(capsys) == ["engine  one two three", "image   none"]
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "16")
    print_facts(facts, 8)
    assert [STYLE.sub("", line) for line in printed(capsys)] == [
        "engine  one two",
        "        three",
        "image   none",
    ]
