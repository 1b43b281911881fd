"""Rules that keep files from being read hold for commands that only read, and for what a search
finds."""

from pathlib import Path

import pytest

from codeagent.core.events import ToolResultAdded
from codeagent.core.messages import text_of
from codeagent.core.policy import Permission, Policy, Rule
from codeagent.extensions.file_tools.tree import Glob, Tree
from codeagent.extensions.user_tools.yaml_loader import YamlLoader
from codeagent.tools.builtin.list import List
from codeagent.tools.builtin.search import Search
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.folders import LoaderNeeds, ToolFile
from codeagent.tools.shell.syntax import command_key
from codeagent.workspace.files import LocalWorkspace
from tests.agent.doubles import Turn, of, scene
from tests.fakes import FakeOutputs
from tests.table import for_each

DENY = (Rule.parse("read(private/**)", "deny"),)
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


LISTINGS = (
    (List, "list", "{}"),
    (List, "list", '{"path": "private"}'),
    (List, "list", '{"glob": "**/*"}'),
    (List, "list", '{"glob": "private/*"}'),
    (Glob, "glob", '{"patterns": ["private/*"]}'),
    (Glob, "glob", '{"patterns": ["*.txt", "key*"]}'),
    (Tree, "tree", "{}"),
    (Tree, "tree", '{"path": "private", "depth": 9}'),
)


@pytest.mark.parametrize(("tool", "name", "arguments"), LISTINGS)
@pytest.mark.parametrize(
    ("permission", "named"), [("deny", False), ("prompt", True), ("auto", True)]
)
async def test_a_file_that_a_rule_denies_to_read_is_not_named_by_a_listing_either(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tool: type[List | Glob | Tree],
    name: str,
    arguments: str,
    permission: Permission,
    named: bool,
) -> None:
    text = await listed(
        tmp_path, monkeypatch, tool, name, arguments, Rule.parse("read(private/**)", permission)
    )
    assert ("key.txt" in text) is named
    refused = text == "denied by the rule read(private/**)"
    assert (refused or "left out: a rule keeps what is there from being read]" in text) is not named


async def test_a_listing_names_what_the_rule_does_not_cover_and_no_link_to_what_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open.lnk").symlink_to("src/a.txt")
    (tmp_path / "near.lnk").symlink_to("private/key.txt")
    (tmp_path / "far.lnk").symlink_to(tmp_path / "private/key.txt")
    text = await listed(tmp_path, monkeypatch, List, "list", "{}", DENY[0])
    assert "a.txt  " in text and "open.lnk  -> src/a.txt" in text
    assert "near.lnk  link\n" in text and "far.lnk  link\n" in text


@pytest.mark.parametrize("inner", ["search", "list"])
async def test_rules_on_reading_hold_in_a_tool_that_narrows_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inner: str
) -> None:
    workspace = private_workspace(tmp_path, monkeypatch)
    made = Search(workspace, ReadTracker(workspace)) if inner == "search" else List(workspace)
    loader = YamlLoader(LoaderNeeds(FakeOutputs(), ReadTracker(workspace), lambda: {inner: made}))
    text = f"name: docs\nbuiltin: {inner}\n"
    [narrowed] = loader.load(
        ToolFile(tmp_path / "t.yaml", "t.yaml", text.encode(), "project")
    ).tools
    arguments = '{"pattern": "needle"}' if inner == "search" else "{}"
    s = scene(
        Turn("", (("docs", arguments),)), Turn("done"), policy=Policy("ask", DENY), more=(narrowed,)
    )
    [result] = of(await s.run(), ToolResultAdded)
    assert "a.txt" in text_of(result.content) and "key.txt" not in text_of(result.content)


async def listed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tool: type[List | Glob | Tree],
    name: str,
    arguments: str,
    rule: Rule,
) -> str:
    workspace = private_workspace(tmp_path, monkeypatch)
    s = scene(
        Turn("", ((name, arguments),)),
        Turn("done"),
        policy=Policy("ask", (rule,)),
        more=(tool(workspace),),
    )
    [result] = of(await s.run(), ToolResultAdded)
    return text_of(result.content)


def private_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalWorkspace:
    for name in ("private/key.txt", "src/a.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(f"needle in {name}\n")
    workspace = LocalWorkspace(tmp_path)
    monkeypatch.setattr("tests.agent.doubles.Place", lambda: workspace)
    return workspace
