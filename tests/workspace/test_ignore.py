"""Ignore files mean what git says they mean."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.core.patterns import ignore_line, wildmatch
from codeagent.workspace.files import LocalWorkspace
from codeagent.workspace.ignore import IgnoreTree
from tests.effort import times
from tests.fakes import put
from tests.table import for_each

_NAMES = st.sampled_from(["a", "b", "ab", "a.b", ".a", "c"])
_ATOMS = st.sampled_from(
    ["a", "b", "ab", "a.b", "*", "?", "**", "[ab]", "a*", "*b", "[!a]", "\\a", ".a", "[[:alpha:]]"]
)
_PATTERNS = st.builds(
    lambda bang, slash, parts, end: f"{bang}{slash}{'/'.join(parts)}{end}",
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(_ATOMS, min_size=1, max_size=3),
    st.sampled_from(["", "", "/", " "]),
)


def kept_by_us(root: Path) -> set[str]:
    """Files that a walk finds when it enters nothing that is ignored."""
    workspace = LocalWorkspace(root)
    rules = workspace.ignores()

    def walk(folder: str) -> set[str]:
        found: set[str] = set()
        for entry in workspace.entries(folder or "."):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.name == ".git" or rules.ignored(path, entry.kind == "directory"):
                continue
            found |= walk(path) if entry.kind == "directory" else {path}
        return found

    kept = walk("")
    workspace.close()
    return kept


def kept_by_git(root: Path) -> set[str]:
    command = ["git", "-C", str(root), "ls-files", "-o", "--exclude-standard", "-z"]
    return set(
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    ) - {""}


@settings(max_examples=times(15), deadline=None)
@given(
    files=st.lists(st.lists(_NAMES, min_size=1, max_size=4).map("/".join), min_size=5, max_size=20),
    rules=st.dictionaries(
        st.sampled_from(["", "a/", "b/", "a/b/"]), st.lists(_PATTERNS, min_size=1, max_size=4)
    ),
)
def test_a_walk_keeps_exactly_what_git_keeps(
    tmp_path_factory: pytest.TempPathFactory, files: list[str], rules: dict[str, list[str]]
) -> None:
    root = tmp_path_factory.mktemp("repo")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for path in files:
        try:
            put(root, path, "")
        except OSError:
            continue
    for folder, lines in rules.items():
        if (root / folder).is_dir():
            (root / folder / ".gitignore").write_text("\n".join(lines) + "\n")
    assert kept_by_us(root) == kept_by_git(root)


def tree(**files: str) -> IgnoreTree:
    """Ignore files by path, `__` standing for a slash and a leading underscore for a dot."""
    contents = {name: text.encode() for name, text in files.items()}
    return IgnoreTree(contents.get)


def test_a_deeper_file_decides_over_a_higher_one() -> None:
    rules = tree(**{".gitignore": "*.log\n", "a/.gitignore": "!keep.log\n"})
    assert rules.ignored("x.log", False)
    assert not rules.ignored("a/keep.log", False)
    assert rules.ignored("a/other.log", False)


def test_dot_ignore_beats_gitignore_and_exclude_comes_last() -> None:
    rules = tree(
        **{".ignore": "!a.log\n", ".gitignore": "*.log\n!b.tmp\n", ".git/info/exclude": "*.tmp\n"}
    )
    assert not rules.ignored("a.log", False)
    assert rules.ignored("c.log", False)
    assert not rules.ignored("b.tmp", False)
    assert rules.ignored("c.tmp", False)


def test_an_ignore_file_that_is_a_link_to_outside_counts_as_empty(tmp_path: Path) -> None:
    root = tmp_path / "project"
    put(root, "a.txt", "")
    put(tmp_path, "outside", "*.txt\n")
    (root / ".gitignore").symlink_to("../outside")
    assert "a.txt" in kept_by_us(root)


@for_each("line", ["", "# comment", "   ", "/", "!", "!/"])
def test_lines_without_a_pattern_are_passed_over(line: str) -> None:
    assert ignore_line(line) is None


@for_each(
    ("pattern", "text", "matches"),
    [
        ("**/foo", "foo", True),
        ("**/foo", "a/b/foo", True),
        ("foo/**", "foo", False),
        ("foo/**", "foo/a/b", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a**b", "axb", True),
        ("a**b", "a/b", False),
        ("[a-c]", "b", True),
        ("[!a-c]", "b", False),
        ("[^a-c]", "d", True),
        ("[]]", "]", True),
        ("[a-]", "-", True),
        ("[[:digit:]]", "7", True),
        ("[[:nope:]]", "n", False),
        ("[ab", "a", False),
        ("\\*", "*", True),
        ("\\*", "x", False),
        ("a\\", "a", False),
        ("[!a]", "/", False),
        ("?", "/", False),
        ("*", "a/b", False),
    ],
)
def test_wildcards_match_as_git_s_do(pattern: str, text: str, matches: bool) -> None:
    assert (wildmatch(pattern).fullmatch(text) is not None) == matches


@given(
    pattern=st.text(alphabet="ab*?[]!^-\\/:.[:alpha:]", max_size=20),
    text=st.text(alphabet="ab/-]", max_size=10),
)
def test_no_pattern_is_an_error(pattern: str, text: str) -> None:
    wildmatch(pattern).fullmatch(text)
    ignore_line(pattern)


def in_a_repository(top: Path, folder: str, rules: dict[str, str]) -> set[str]:
    """What a walk of one folder of a repository finds."""
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    for name in ("a.log", "b.py", "build/x", "deep/build/y", "deep/a.log"):
        put(top / folder, name, b"x")
    for name, text in rules.items():
        put(top, name, text.encode())
    return kept_by_us(top / folder)


def test_in_a_folder_of_a_repository_the_rules_of_the_folders_above_count(tmp_path: Path) -> None:
    rules = {
        ".gitignore": "*.log\n/packages/one/build\n",
        "packages/.gitignore": "!a.log\n",
        "packages/one/.gitignore": "deep/a.log\n",
        ".git/info/exclude": "y\n",
    }
    found = in_a_repository(tmp_path, "packages/one", rules)
    command = ["git", "-C", str(tmp_path / "packages/one"), "ls-files", "-o", "--exclude-standard"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert found == {".gitignore", "a.log", "b.py"} == set(listed.split())


@pytest.mark.parametrize("rule", ["*", "packages", "/packages/one/", "one"])
def test_a_folder_that_the_rules_above_leave_out_is_worked_in_without_them(
    tmp_path: Path, rule: str
) -> None:
    found = in_a_repository(tmp_path, "packages/one", {".gitignore": f"{rule}\n*.log\n"})
    assert {"a.log", "b.py"} <= found


def test_rules_above_the_repository_do_not_count(tmp_path: Path) -> None:
    put(tmp_path, ".gitignore", b"*.py\n")
    assert "b.py" in in_a_repository(tmp_path / "top", "folder", {})


def test_an_ignore_file_above_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    put(tmp_path, "elsewhere", b"*.py\n")
    (tmp_path / "top").mkdir()
    (tmp_path / "top/.gitignore").symlink_to(tmp_path / "elsewhere")
    assert "b.py" in in_a_repository(tmp_path / "top", "folder", {})
