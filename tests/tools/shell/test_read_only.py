"""What is known to only read, and how the line is read for it (the corpora are in
tests/security)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.policy import Policy, Rule
from codeagent.tools.shell.languages import awk_prints, sed_prints
from codeagent.tools.shell.read_only import secret_named
from codeagent.tools.shell.strict import Word, strict_commands
from codeagent.tools.shell.syntax import command_key
from tests.table import for_each


def reads(line: str) -> bool:
    return command_key(line).reads == "freely"


def test_the_strict_reading_takes_quotes_away_and_tells_globs() -> None:
    commands = strict_commands(
        "cat 'a b' \"c\\\"d\" e\\ f *.py '*.md' | wc -l < x 2>/dev/null # done"
    )
    assert commands is not None
    cat, wc = commands
    assert cat.texts == ("cat", "a b", 'c"d', "e f", "*.py", "*.md")
    assert [word.globs for word in cat.words] == [False, False, False, False, True, False]
    assert wc.texts == ("wc", "-l")
    assert [word.text for word in wc.reads] == ["x"]


def test_the_strict_reading_has_commands_in_order_whatever_joins_them() -> None:
    line = "if ! a; then (b; c) && { d; } || e | f\nelse g; fi"
    assert [command.texts for command in strict_commands(line) or ()] == [
        (letter,) for letter in "abcdefg"
    ]


@given(st.text(alphabet="ls;&|()<>{}$`'\"\\ \n#=!*~-[]é", max_size=30) | st.text(max_size=30))
def test_any_text_is_read_strictly_or_not_at_all(line: str) -> None:
    commands = strict_commands(line)
    assert commands is None or all(command.words for command in commands)


@given(
    st.lists(
        st.text(alphabet=st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), max_size=8),
        min_size=1,
    )
)
def test_quoted_words_come_back_as_they_were(words: list[str]) -> None:
    quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
    commands = strict_commands(f"echo {quoted}")
    assert commands is None or [command.texts for command in commands] == [("echo", *words)]
    assert commands is not None or not quoted.isascii()


def test_a_line_the_two_readings_see_differently_is_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert reads("ls -la")
    command_key.cache_clear()
    monkeypatch.setattr(
        "codeagent.tools.shell.syntax.strict_commands", lambda line: strict_commands("ls -l")
    )
    assert not reads("ls -la")
    command_key.cache_clear()


@for_each(
    "line",
    [
        "cat *.py",
        "cat *",
        "ls *",
        "wc -l *",
        "grep foo *",
        "head -n 3 *.md",
        "sort src/*",
        "sort ./*",
        "find src/* -name x",
        "rg x src/*.py",
        "sort -- *",
    ],
)
def test_a_glob_that_cannot_become_a_flag_or_harm_as_one_is_fine(line: str) -> None:
    assert reads(line)


@for_each(
    "line",
    [
        "sort *",
        "rg x *",
        "find *",
        "diff * a",
        "tree *",
        "file *",
        "git diff *",
        "tail *",
        "uniq a*",
        "sed -n p *",
        "awk 1 *",
        "uniq -f * a",
    ],
)
def test_a_glob_that_may_become_a_flag_is_asked_about_where_one_could_harm(line: str) -> None:
    assert not reads(line)


@for_each(
    "text",
    [
        ".env",
        "a/.env.local",
        ".e*",
        ".en?",
        "*.pem",
        "id_*",
        "~/.ssh/x",
        "*/.ssh/x",
        "HEAD:.env",
        ":(top).env",
        "*.key",
        ".*",
        "cred*",
        "*secret*",
    ],
)
def test_what_names_a_secret_is_asked_about(text: str) -> None:
    assert secret_named(Word(text, globs="*" in text or "?" in text)) is not None


@for_each(
    "text",
    [
        "*",
        "*.py",
        "*.md",
        "*.json",
        "src/*",
        "**/*.ts",
        "test_*",
        ".env.example",
        ".gitignore",
        "HEAD:src/a.py",
        "a.pub",
        "README*",
        "src/**/*.yaml",
        "M*",
    ],
)
def test_what_sweeps_over_everything_names_no_secret(text: str) -> None:
    """They read as empty in the sandbox; asking would come with every search."""
    assert secret_named(Word(text, globs="*" in text)) is None


@for_each(
    "script",
    [
        "p",
        "1,5p",
        "$p",
        "/a/p",
        "/a/,/b/p",
        "1~2p",
        "5q",
        "/x/d",
        "s/a/b/",
        "s/a/b/g2p",
        "s|a|b|I",
        "=",
        "1p;3p",
        "$!d",
        "s/[0-9]*/N/g",
        "s/\\//x/",
        "2,+3p",
        "/a/Ip",
    ],
)
def test_sed_scripts_that_only_print(script: str) -> None:
    assert sed_prints(script)


@for_each(
    "script",
    [
        "w x",
        "1w x",
        "e",
        "1e x",
        "s/a/b/e",
        "s/a/b/w x",
        "s/a/b/gwx",
        "r x",
        "W x",
        "R x",
        "p;w x",
        "p\nw x",
        "{p}",
        "{w x\n}",
        "a x",
        "i x",
        "c x",
        "y/a/b/",
        "b",
        ":a",
        "n",
        "s/a/b",
        "s",
        "/a",
        "l",
        "s/[/]/w x/",
        "/[]/w x;]/p",
        "1,p",
        "p x",
        "F",
        "z",
        "Q",
        "\\,a,p",
        "s/a/b\n/w x/",
        "v",
    ],
)
def test_sed_scripts_that_do_more_or_are_not_understood(script: str) -> None:
    assert not sed_prints(script)


@given(st.text(alphabet="psdqwerW/[]|,;$!\\ \n{}123xgI", max_size=16))
def test_no_sed_script_with_a_writing_or_running_command_at_its_head_prints_only(rest: str) -> None:
    for head in "werWRFQ":
        assert not sed_prints(head + rest)
        assert not sed_prints(f"p;{head}{rest}")
        assert not sed_prints(f"1,5{head}{rest}")


@for_each(
    "script",
    [
        "{print $1}",
        "NR==1",
        "$3 > 5 {print}",
        "/a|b/",
        'BEGIN{FS=":"} {print $1}',
        "{s += $1} END {print s / NR}",
        '{printf "%s\\n", $1}',
        "{print length($0)}",
        "!seen[$0]++",
        '$1 == "a" || $2 == "b" {print; exit}',
    ],
)
def test_awk_programs_that_only_print(script: str) -> None:
    assert awk_prints(script)


@given(st.text(max_size=12), st.text(max_size=12))
def test_no_awk_program_with_a_way_out_prints_only(before: str, behind: str) -> None:
    for way in (
        'system("x")',
        "getline",
        '{print > "x"}',
        '{print | "x"}',
        "@load",
        '{printf "a" >> "b"}',
        "{close(x)}",
    ):
        assert not awk_prints(f"{before} {way} {behind}")


def test_parts_that_read_need_no_rule_beside_one_for_the_rest() -> None:
    policy = Policy(rules=(Rule.parse("bash(pytest *)", "auto"),))

    def verdict(line: str) -> str:
        return policy.check("bash", command_key(line), "prompt", "anything").permission

    assert verdict("cd src && pytest -q 2>&1 | tail -20") == "auto"
    assert verdict("cd src && pytest -q && touch x") == "prompt"
    assert verdict("cd src && pytest -q > out") == "prompt"
    assert verdict("cat .env && pytest") == "prompt"


def test_a_part_that_reads_only_in_one_place_is_not_taken_to_read_in_another() -> None:
    """Quotes are not seen in a part: `sort '*'` and `sort *` are the same one."""
    assert command_key("sort '*' && make").reading == {"sort *"}
    assert command_key("sort '*' && sort * && make").reading == frozenset()
