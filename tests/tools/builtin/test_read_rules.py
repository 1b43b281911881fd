"""Rules that keep files from being read hold for commands that only read, and for what a search
finds."""

from pathlib import Path

import pytest

from codeagent.core.events import ToolResultAdded
from codeagent.core.messages import text_of
from codeagent.core.policy import Permission, Policy, Rule
from codeagent.tools.builtin.list import List
from codeagent.tools.builtin.search import Search
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.shell.syntax import command_key
from tests.agent.doubles import Turn, of, scene
from tests.table import for_each
from tests.tools.private_files import DENY, listed, named_and_kept_back, private_workspace

NAMES_IT = [
    "cat private/key.txt",
    "head -n 3 ./private/key.txt",
    "cat src/../private/key.txt",
    "wc -l < private/key.txt",
    "ls private",
    "tail private/a private/b",
    "cat src/a.py private/x | sort",
    "stat private/x && true",
    "sed -n 1,5p private/x",
    "grep x -f private/list a.py",
    "grep --file=private/list x a.py",
    "awk 1 private/x",
    "timeout 5 cat private/key.txt",
    "cut -c1-9 private/x",
    "diff private/x a.py",
    "grep -r needle private",
    "rg needle private/",
    "git blame private/key.txt",
    "git show HEAD:private/key.txt",
]
MAY_READ_IT = [
    "grep -r needle",
    "grep -r needle .",
    "grep -d recurse needle .",
    "rg needle",
    "git diff",
    "git show HEAD",
    "git grep needle",
    "cat p*/key.txt",
    "cat */*.txt",
    "cat private?/x || cat priv*/x",
    "cd private && cat key.txt",
    "cd src && cat ../private/key.txt",
    "cat /home/ada/project/private/x",
    "cat ../project/private/x",
    "diff . ../other",
    "grep -rn -A 3 needle",
    "git log -p",
    "git log -U1",
    "git reflog -u",
    "git -C . diff",
    "find private -type f | xargs cat",
    "find . -name 'k*' -exec cat {} +",
    "cd - && cat key.txt",
    "cd .. && cat project/private/x",
]
FREE = [
    "cat src/a.py",
    "ls",
    "ls src",
    "grep -r needle src",
    "rg needle src tests",
    "git status",
    "git log --oneline -5",
    "find . -name '*.py'",
    "cat src/*.py",
    "head -5 README.md",
    "cd src && cat a.py",
    "wc -l src/a.py < src/b.py",
    "grep private src/a.py",
    "echo private",
    "pwd",
    "sed -n 1,5p src/private.py",
    "cat privateer/x",
    "ls | grep private",
    "cat src/a.py | head -3",
    "rg private src",
    "grep -rn -A 3 needle src",
    "timeout 5 cat src/a.py",
    "git blame src/a.py",
]


def judged(command: str, rules: tuple[Rule, ...]) -> Permission:
    key = command_key(command)
    assert key.reads == "freely", "without the rule nobody is asked"
    return Policy("ask", rules).check("bash", key, "prompt", "anything").permission


@for_each("command", NAMES_IT + MAY_READ_IT)
def test_without_a_rule_nobody_is_asked_about_it(command: str) -> None:
    assert judged(command, ()) == "auto"


@for_each("command", NAMES_IT)
def test_a_command_that_names_a_file_that_must_not_be_read_is_denied(command: str) -> None:
    assert judged(command, DENY) == "deny"


@for_each("command", MAY_READ_IT)
def test_a_command_that_may_read_such_a_file_is_asked_about(command: str) -> None:
    assert judged(command, DENY) == "prompt"


@for_each("command", FREE)
def test_other_commands_that_only_read_still_run_unasked(command: str) -> None:
    assert judged(command, DENY) == "auto"


def test_a_rule_on_writing_says_nothing_about_reading() -> None:
    assert judged("cat private/key.txt", (Rule.parse("write(private/**)", "deny"),)) == "auto"


@pytest.mark.parametrize(
    ("permission", "path", "found"),
    [
        ("deny", ".", False),
        ("prompt", ".", False),
        ("prompt", "private", True),
        ("auto", ".", True),
    ],
)
async def test_a_search_shows_nothing_of_files_that_a_rule_keeps_from_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, permission: Permission, path: str, found: bool
) -> None:
    workspace = private_workspace(tmp_path, monkeypatch)
    s = scene(
        Turn("", (("search", f'{{"pattern": "needle", "path": "{path}"}}'),)),
        Turn("done"),
        policy=Policy("ask", (Rule.parse("read(private/**)", permission),)),
        more=(Search(workspace, ReadTracker(workspace)),),
    )
    [result] = of(await s.run(), ToolResultAdded)
    text = text_of(result.content)
    assert ("private/key.txt:1:needle" in text) is found
    assert ("1 matching lines are in files that a rule keeps from being read" in text) is not found
    assert ("src/a.txt" in text) is (path == ".")


LISTINGS = ("{}", '{"path": "private"}', '{"glob": "**/*"}', '{"glob": "private/*"}')


@pytest.mark.parametrize("arguments", LISTINGS)
@pytest.mark.parametrize(
    ("permission", "named"), [("deny", False), ("prompt", True), ("auto", True)]
)
async def test_a_file_that_a_rule_denies_to_read_is_not_named_by_a_listing_either(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    permission: Permission,
    named: bool,
) -> None:
    rule = Rule.parse("read(private/**)", permission)
    text = await listed(tmp_path, monkeypatch, List, arguments, rule)
    assert named_and_kept_back(text) == (named, not named)


async def test_a_listing_names_what_the_rule_does_not_cover_and_no_link_to_what_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open.lnk").symlink_to("src/a.txt")
    (tmp_path / "near.lnk").symlink_to("private/key.txt")
    (tmp_path / "far.lnk").symlink_to(tmp_path / "private/key.txt")
    text = await listed(tmp_path, monkeypatch, List, "{}", DENY[0])
    assert "a.txt  " in text and "open.lnk  -> src/a.txt" in text
    assert "near.lnk  link\n" in text and "far.lnk  link\n" in text
