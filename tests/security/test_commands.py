"""No line that could do more than read goes without a question, and everyday reading
does."""

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.core.policy import Policy, Rule
from codeagent.tools.shell.known_git import GIT_COMMANDS
from codeagent.tools.shell.reading_programs import SYSTEM_PROGRAMS, TEXT_PROGRAMS
from codeagent.tools.shell.strict import Program, flags, strict_commands
from codeagent.tools.shell.syntax import command_key
from tests.effort import FACTOR, chance, part, times, up_to
from tests.security.everyday_commands import EVERYDAY, EXPANDING
from tests.security.hostile_commands import HOSTILE, SHAPES
from tests.table import for_each

READS = [line for line in EVERYDAY if command_key(line).reads == "freely"]


def asks(line: str) -> bool:
    return Policy().check("bash", command_key(line), "prompt", "anything").permission == "prompt"


@pytest.mark.soak(tried=len(HOSTILE), row="hostile commands")
@for_each("shape", SHAPES)
def test_no_hostile_line_is_taken_to_only_read(shape: str) -> None:
    assert [line for line in SHAPES[shape] if not asks(line)] == []


def test_the_corpora_are_as_large_as_promised() -> None:
    assert len(HOSTILE) >= 500
    assert len(set(EVERYDAY)) >= 200
    assert not set(HOSTILE) & set(EVERYDAY)


@pytest.mark.soak(tried=len(EVERYDAY), row="everyday commands")
def test_at_least_95_of_100_everyday_lines_need_no_question() -> None:
    assert len(READS) / len(EVERYDAY) >= 0.95, [line for line in EVERYDAY if line not in READS]


@for_each("line", EXPANDING)
def test_what_expands_is_asked_about_although_it_is_everyday(line: str) -> None:
    assert asks(line)


def test_a_question_can_be_asked_about_reading_too() -> None:
    assert (
        Policy(ask_reads=True).check("bash", command_key("ls"), "prompt", "anything").permission
        == "prompt"
    )


def test_a_rule_of_the_user_s_comes_before_what_is_known_of_a_program() -> None:
    for permission, expected in (("deny", "deny"), ("prompt", "prompt")):
        policy = Policy(rules=(Rule.parse("bash(cat *)", permission),))  # type: ignore[arg-type]  # literals
        assert (
            policy.check("bash", command_key("ls | cat -n"), "prompt", "anything").permission
            == expected
        )


@for_each(
    "name",
    [
        *(name for name in TEXT_PROGRAMS if name != "echo"),
        *SYSTEM_PROGRAMS,
        *(f"git {name}" for name in GIT_COMMANDS),
        "sed",
        "awk",
        "find",
        "tar",
    ],
)
def test_a_flag_that_is_not_known_is_asked_about(name: str) -> None:
    for flag in ("--no-such-flag", "--no-such-flag=x", "-é", "--"[:1] + "-no-such x", "---"):
        assert asks(f"{name} {flag}"), flag
        assert asks(f"{name} README.md {flag}"), flag


@pytest.mark.soak(tried=len(TEXT_PROGRAMS | SYSTEM_PROGRAMS | GIT_COMMANDS))
@for_each(
    ("name", "known"),
    [
        *(TEXT_PROGRAMS | SYSTEM_PROGRAMS).items(),
        *((f"git {name}", known) for name, known in GIT_COMMANDS.items()),
    ],
)
def test_an_abbreviated_flag_is_asked_about(name: str, known: Program) -> None:
    everything = flags(f"{known.switches} {known.valued} {known.optional}")
    for flag in part(sorted(flag for flag in everything if flag.startswith("--")), 8):
        for short in {flag[:-1], flag[: len(flag) // 2 + 1]} - everything - {"--", "-"}:
            assert asks(f"{name} {short} x"), short
            assert asks(f"{name} {short}=x"), short


_RUN_WHAT_FOLLOWS = ("time", "timeout", "xargs", "command")
INSERTED = [
    ";touch P;",
    "&&touch P;",
    "||touch P;",
    "|tee P;",
    "&touch P;",
    "\ntouch P\n",
    "\rtouch P",
    "$(touch P)",
    "`touch P`",
    "${x@P}",
    "$IFS",
    "$x",
    ">P ",
    ">>P ",
    "<(touch P)",
    ">(touch P)",
    "<<EOF\nx\nEOF\n",
    "<<<x ",
    "{a,b}",
    "{1..2}",
    "$'a'",
    "\x00",
    "\u00a0",
    "\u200b",
    " $(<P) ",
    "&>P ",
    "2>P ",
    "<>P ",
    ";x=1;",
    "(",
    ")",
    ";function ls {",
]


def outside_quotes(line: str) -> list[int]:
    """Places where the shell reads operators: behind no backslash and in no quotes or comment."""
    places, quote, skip = [], "", False
    for at, letter in enumerate(line):
        if skip:
            skip = False
        elif quote:
            skip = letter == "\\" and quote == '"'
            quote = "" if letter == quote else quote
        elif letter == "#" and line[at - 1 : at] in ("", " "):
            return places
        else:
            places.append(at)
            skip = letter == "\\"
            quote = letter if letter in "'\"" else ""
    return [*places, len(line)] if not quote else places


@settings(max_examples=times(300), deadline=None)
@given(st.data())
def test_a_benign_line_with_an_operator_in_it_is_never_taken_to_only_read(
    data: st.DataObject,
) -> None:
    line = data.draw(st.sampled_from(READS))
    at = data.draw(st.sampled_from(outside_quotes(line)))
    inserted = data.draw(st.sampled_from(INSERTED))
    assert asks(line[:at] + inserted + line[at:])


@pytest.mark.soak(tried=up_to(600, 1_000_000 // 8), row="fuzzed commands")
@pytest.mark.parametrize("group", range(8 if FACTOR else 1))
def test_no_fuzzed_line_crashes_or_hides_an_operator(group: int) -> None:
    """Two in three are everyday lines with an operator in them, which is asked about; of others
    nothing is known."""
    dice = chance(group)
    lines = [(line, outside_quotes(line)) for line in READS]
    for number in range(up_to(600, 1_000_000 // 8)):
        line, places = dice.choice(lines)
        if number % 3:
            at = dice.choice(places)
            made = line[:at] + dice.choice(INSERTED) + line[at:]
            assert asks(made), made
        else:
            pieces = [
                dice.choice((line, chr(dice.randrange(0x300)), *INSERTED))
                for _ in range(dice.randint(1, 6))
            ]
            command_key("".join(pieces))


def test_every_operator_at_every_place_of_a_few_lines_is_asked_about() -> None:
    lines = [
        "ls -la src",
        "git log --oneline -5 | head",
        "cat 'a b' \"c\" < README.md",
        "(cd src && ls) 2>/dev/null",
    ]
    for line in lines:
        for at in outside_quotes(line):
            for inserted in INSERTED:
                assert asks(line[:at] + inserted + line[at:]), (line, at, inserted)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("scratch")
    for name, text in {
        "README.md": "foo\nbar\nfoo bar\n",
        "setup.cfg": "# x\n[a]\nb = 1\n",
        "names.txt": "b\na\na\n",
        "a.txt": "a\n",
        "data.txt": "1 2\n3 4\n",
        "data.csv": "a,b\nc,d\n",
        "data.bin": "\x01\x02abcdef\n",
        "log.txt": "error\nok\n",
        "package.json": '{"name": "x", "scripts": {}}\n',
        "pyproject.toml": "version = 1\n",
        "src/a.py": "def main():\n",
        "src/b.py": "import os\n",
        "tests/t.py": "x\n",
        "docs/d.md": "x\n",
        "größe.txt": "x\n",
        "my file.txt": "x\n",
        "encoded.txt": "YQ==\n",
        "P": "p\n",
        ".gitignore": "build\n",
        ".github/workflows/ci.yml": "x\n",
    }.items():
        (root / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "work" / name).write_text(text)
    (root / "home").mkdir()
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "one")
    git(root, "commit", "-q", "--allow-empty", "-m", "two")
    (root / "work" / "src/a.py").write_text("def main():\n    return 1\n")
    yield root
    shutil.rmtree(root)


def environment(root: Path) -> dict[str, str]:
    """As in the container: see sandbox/profile.py."""
    who = {
        f"GIT_{role}_{what}": "x" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    quiet = {
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "GIT_OPTIONAL_LOCKS": "0",
        "TERM": "dumb",
        "LANG": "C.UTF-8",
    }
    return (
        {"PATH": os.environ["PATH"], "HOME": str(root / "home"), "GIT_CONFIG_NOSYSTEM": "1"}
        | who
        | quiet
    )


def git(root: Path, *words: str) -> None:
    subprocess.run(
        ["git", *words], cwd=root / "work", env=environment(root), check=True, capture_output=True
    )


def state(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "a folder"
        for path in sorted(root.rglob("*"))
    }


def run(root: Path, lines: list[str]) -> None:
    """Each in a shell of its own, as the tool does."""
    for line in lines:
        try:
            subprocess.run(
                ["bash", "-c", line],
                cwd=root / "work",
                env=environment(root),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=20,
                check=False,
            )
        except ValueError:
            continue  # a NUL cannot be given to any program


def test_a_line_that_writes_is_seen(scratch: Path) -> None:
    before = state(scratch)
    run(scratch, ["sort -o made names.txt"])
    assert state(scratch).keys() - before.keys() == {"work/made"}
    (scratch / "work" / "made").unlink()


@pytest.mark.soak(tried=len(READS))
def test_what_is_taken_to_only_read_leaves_every_file_as_it_was(scratch: Path) -> None:
    before = state(scratch)
    run(scratch, part([line for line in READS if "sleep" not in line and "/etc" not in line], 80))
    assert state(scratch) == before


@pytest.mark.soak(tried=times(60))
def test_mutated_lines_that_are_still_taken_to_only_read_do(scratch: Path) -> None:
    """Without knowing what a mutation means: those that need no question are run, and nothing
    changes."""
    chance = random.Random(20)
    before = state(scratch)
    taken: list[str] = []
    lines = [
        line for line in READS if "sleep" not in line and "/etc" not in line and "/usr" not in line
    ]
    pieces = [*";&|<>(){}'\"\\\n*?~#! -oPwie=/.", "P", " -o P", " > P"]
    for _ in range(times(3000)):
        line = chance.choice(lines)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(line) + 1)
            line = line[:at] + chance.choice(pieces) + line[at:]
        if not asks(line):
            taken.append(line)
        if len(taken) == times(60):
            break
    run(scratch, taken)
    assert len(taken) == times(60)
    assert state(scratch) == before


def test_the_shell_runs_the_words_that_were_judged(tmp_path: Path) -> None:
    """Every program is replaced by one that writes down its arguments; what it got is what the
    reading saw."""
    chance = random.Random(5)
    plain = [line for line in READS if not set("*?[~") & set(line) and "sleep" not in line]
    log, programs = tmp_path / "log", tmp_path / "bin"
    programs.mkdir()
    recorder = f"#!/bin/bash\nIFS=$'\\2'\nwords=(\"${{0##*/}}\" \"$@\")\nprintf '%s\\1' \"${{words[*]}}\" >> '{log}'\n"
    for name in {
        word.texts[0].rpartition("/")[2] for line in plain for word in strict_commands(line) or ()
    }:
        (programs / name).write_text(recorder)
        (programs / name).chmod(0o755)
    seen = 0
    for line in chance.sample(plain, 120):
        at = chance.randrange(len(line) + 1)
        line = (
            line[:at]
            + chance.choice(["", "''", '""', "\\ ", "'a b'", " # ", "\\'", "&& ", "^", "#"])
            + line[at:]
        )
        if asks(line):
            continue
        judged = [command.texts for command in strict_commands(line) or ()]
        judged += [
            words[at:]
            for words in judged
            for at in range(1, len(words))
            if words[0] in _RUN_WHAT_FOLLOWS
        ]
        log.write_text("")
        subprocess.run(
            ["/bin/bash", "-c", line],
            env={"PATH": str(programs)},
            stdin=subprocess.DEVNULL,
            check=False,
            capture_output=True,
            timeout=20,
        )
        for record in log.read_text().split("\1")[:-1]:
            seen += 1
            assert tuple(record.split("\2")) in judged, line
    assert seen >= 40
