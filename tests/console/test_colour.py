"""When there are colours, and what is painted."""

import io
import os
import sys
from pathlib import Path

import pytest

from codeagent import cli
from codeagent.console.colour import for_eyes, has_colours, with_help_colours, with_mark
from tests.pty_screen import PtyScreen, environment


class Stream(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


CASES = (
    # terminal, variables, a table, colours
    (True, {"TERM": "xterm"}, True, True),
    (True, {"TERM": "xterm", "NO_COLOR": "1"}, True, False),
    (True, {"TERM": "xterm", "NO_COLOR": ""}, True, True),
    (True, {"TERM": "dumb"}, False, False),
    (True, {}, False, False),
    (False, {"TERM": "xterm"}, False, False),
    (False, {"FORCE_COLOR": "1"}, True, True),
    (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
)


def test_a_terminal_has_colours_unless_the_user_turns_them_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for terminal, variables, table, colours in CASES:
        for name in ("TERM", "NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        stream = Stream(terminal=terminal)
        assert (for_eyes(stream), has_colours(stream)) == (table, colours), variables


@pytest.mark.parametrize(
    ("arguments", "coloured"),
    [
        (["--color", "always", "sessions", "list", "--help"], True),
        (["sessions", "--color=always", "list", "--help"], True),
        (["sessions", "list", "--help", "--color", "never"], False),
        (["sessions", "list", "--help", "--color", "auto"], False),
    ],
)
def test_color_may_be_anywhere_on_the_command_line(
    arguments: list[str],
    coloured: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.setenv(name, "")
    assert cli.main(arguments) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("\x1b[1musage:\x1b[0m" if coloured else "usage:")


def test_an_empty_no_color_leaves_the_screen_its_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    assert cli.main(["--version"]) == 0
    assert "NO_COLOR" not in os.environ


@pytest.mark.parametrize("columns", [50, 120])
def test_a_table_in_a_pipe_is_as_wide_as_the_terminal(columns: int, tmp_path: Path) -> None:
    code = "from codeagent.console.table import *; print_table([Column('A', cut=True)], [['x' * 200]], [])"
    shell = f'FORCE_COLOR=1 "{sys.executable}" -c "{code}" | cat'
    env = environment(tmp_path, PYTHONPATH=str(Path(__file__).parents[2]))
    with PtyScreen(["sh", "-c", shell], env, tmp_path, (columns, 24)) as screen:
        assert screen.exit_code() == 0
        assert f"{'x' * (columns - 1)}…" in screen.raw.decode()


def test_behind_two_dashes_color_belongs_to_a_prompt() -> None:
    assert cli._without_color(["run", "--", "--color", "never"]) == [
        "run",
        "--",
        "--color",
        "never",
    ]


def test_a_wrong_color_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--color"]) == 2
    assert capsys.readouterr().err == "codeagent: --color takes auto, always, never, not ''\n"


def test_marks_levels_and_the_program_are_painted_and_nothing_else() -> None:
    assert with_mark("✗ bash  \x1b[2J") == "\x1b[31m✗\x1b[0m bash  \\x1b[2J"
    assert with_mark("child: warning: x") == "\x1b[33mchild: warning\x1b[0m: x"
    assert with_mark("codeagent run: no") == "\x1b[31mcodeagent run:\x1b[0m no"
    assert with_mark("a ✗ b") == "a ✗ b"


def test_in_help_only_headings_names_and_options_are_painted() -> None:
    text = (
        "usage: x [-h]\n\nactions:\n    list    all of\n            them\n  --all   non-options\n"
    )
    assert with_help_colours(text) == (
        "\x1b[1musage:\x1b[0m x [\x1b[36m-h\x1b[0m]\n\n\x1b[1mactions:\x1b[0m\n"
        "    \x1b[36mlist\x1b[0m    all of\n            them\n"
        "  \x1b[36m--all\x1b[0m   non-options\n"
    )


def test_help_fits_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert cli.main(["--help"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 60
