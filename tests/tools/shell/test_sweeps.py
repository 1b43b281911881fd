"""Reads that may come across files they do not name are asked about where secrets are not all
hidden."""

from codeagent.tools.builtin.bash import Bash, BashArgs
from codeagent.tools.shell.read_only import sweeps
from tests.table import for_each
from tests.toolbox import Toolbox

SWEEPING = (
    "grep -r KEY .",
    "rg KEY",
    "cat *",
    "cat .e*",
    "head -n 5 {a,b}",
    "git grep KEY",
    "git diff",
    "git log -p",
    "git log -U3 -1",
    "git log --unified=5",
    "git log -wp",
    "git log --cc",
    "git reflog -c",
    "git log --binary",
    "grep -d recurse KEY .",
    "grep -nd rec KEY",
    "grep --directories=recurse KEY .",
    "xargs cat",
    "cat conf[ig]",
    "time rg KEY",
    "cd src && cat *",
)
NAMING = (
    "cat README.md",
    "ls -la",
    "git status --short",
    "git log --stat -5",
    "grep -d skip KEY a.py",
    "git status -u",
    "git blame -p a.py",
    "wc -l a b",
    "find . -name x",
    "head -n 5 a.py",
    "awk 1 x",
    "ls *",
)


@for_each("command", SWEEPING)
def test_a_command_that_may_show_unnamed_files_sweeps(command: str) -> None:
    assert sweeps(command)


@for_each("command", NAMING)
def test_a_command_that_shows_named_files_or_none_does_not(command: str) -> None:
    assert not sweeps(command)


def test_where_secrets_could_not_be_hidden_reads_that_sweep_ask_and_others_run(
    box: Toolbox,
) -> None:
    exposed = ""
    bash = Bash(box.outputs, box.reads, exposed=lambda: exposed)
    sweep, named = BashArgs(command="grep -r KEY ."), BashArgs(command="cat README.md")
    assert bash.approval_key(sweep).reads == "freely" and bash.approval_key(named).reads == "freely"
    exposed = ".env.local may contain secrets and is not hidden"
    asked = bash.approval_key(sweep)
    assert (asked.reads == "freely", asked.sensitive) == (False, exposed)
    assert bash.approval_key(named).reads == "freely"
