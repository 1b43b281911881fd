"""The rule that is proposed with a question: as narrow as it can be and still of use, and never a
way to everything."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.paths import host_reason
from codeagent.core.policy import ApprovalKey, Policy, Rule
from codeagent.tools.builtin.bash import Bash
from codeagent.tools.shell.proposals import bash_proposal
from codeagent.tools.shell.rules import path_proposal, too_broad
from codeagent.tools.shell.syntax import command_key
from tests.security.everyday_commands import EVERYDAY
from tests.security.hostile_commands import HOSTILE
from tests.table import for_each
from tests.toolbox import Toolbox


def proposed(command: str) -> str:
    return bash_proposal(command, command_key(command))


@for_each(
    ("command", "rule"),
    [
        ("pytest -q tests/x.py", "bash(pytest *)"),
        ("pytest", "bash(pytest *)"),
        ("npm run test -- -w", "bash(npm run test *)"),
        ("npm test", "bash(npm test *)"),
        ("git commit -m x", "bash(git commit *)"),
        ("git add -A", "bash(git add *)"),
        ("cargo test --all", "bash(cargo test *)"),
        ("go test ./...", "bash(go test *)"),
        ("make test -j4", "bash(make test *)"),
        ("make -j4 test", "bash(make -j4 test)"),
        ("make", "bash(make)"),
        ("uv run pytest -q", "bash(uv run pytest *)"),
        ("npx tsc --noEmit", "bash(npx tsc *)"),
        ("python -m pytest -q", "bash(python -m pytest -q)"),
        ("python3 -m mypy src", "bash(python3 -m mypy src)"),
        ("./gradlew test --info", "bash(./gradlew test *)"),
        ("./scripts/check.sh fast", "bash(./scripts/check.sh fast)"),
        ("sort -o out.txt in.txt", "bash(sort -o out.txt in.txt)"),
        ("mkdir -p build/x", "bash(mkdir *)"),
        ("pytest -k 'a and b'", "bash(pytest *)"),
        ("pytest -q 2>&1", "bash(pytest *)"),
    ],
)
def test_a_short_beginning_is_proposed(command: str, rule: str) -> None:
    assert proposed(command) == rule


@for_each(
    ("command", "rule"),
    [
        ("cd src && pytest -q", "bash(pytest *)"),
        ("pytest -q 2>&1 | tail -20", "bash(pytest *)"),
        ("git status && git add . && git diff --cached", "bash(git add *)"),
        ("pytest a; pytest b", "bash(pytest *)"),
        ("pytest && make lint", ""),
        ("cd src && pytest && rm x", ""),
    ],
)
def test_of_several_commands_the_rule_is_for_the_one_that_does_more_than_read(
    command: str, rule: str
) -> None:
    assert proposed(command) == rule


@for_each(
    "command",
    [
        "bash -c ls",
        "sh x.sh",
        "python x.py",
        "python3 -c 1",
        "python -m http.server",
        "python3.11 x.py",
        "node x.js",
        "perl x",
        "ruby x",
        "sudo make",
        "env A=1 make",
        "xargs rm",
        "nohup make",
        "timeout 5 make",
        "time make",
        "eval make",
        "command make",
        "git -c a=b status",
        "git -C x commit",
        "git push",
        "git push --force",
        "git fetch",
        "git clone x",
        "git rebase -i",
        "git config a.b c",
        "rm x",
        "rm -rf build",
        "curl x",
        "wget x",
        "ssh x",
        "docker run x",
        "pip install x",
        "npm publish",
        "npm install x",
        "npm run -s test",
        "cargo publish",
        "find . -delete",
        "sed -i s/a/b/ x",
        "awk {system} x",
        "uv run python x.py",
        "npx -y x",
        "poetry run bash",
        "kubectl apply",
        "make $(x)",
        "pytest > out",
        "pytest `x`",
        "pytest $X",
        "X=1 pytest",
        "pytest <<< x",
        "for i in a; do pytest; done",
        "ls )",
        "pytest & make",
        "tool 'a*b'",
        "tool a?",
        "tool 'a b'",
        "tool (x)",
        "chmod +x a",
        "kill 1",
        "cat .env",
    ],
)
def test_where_a_rule_would_allow_too_much_or_not_be_certain_there_is_none(command: str) -> None:
    assert proposed(command) == ""


def test_whatever_is_proposed_allows_the_call_and_is_no_bare_name() -> None:
    for command in [*HOSTILE, *EVERYDAY]:
        rule = proposed(command)
        if rule:
            assert rule.startswith("bash(")
            assert too_broad(Rule.parse(rule, "auto")) is None
            key = command_key(command)
            policy = Policy(rules=(Rule.parse(rule, "auto"),), ask_reads=key.reads == "freely")
            assert policy.check("bash", key, "prompt", "anything").source == "rule", (command, rule)
        if rule.endswith("*)"):
            assert not any(
                hostile_word in rule
                for hostile_word in ("bash(sh", "bash(bash", "bash(python *", "bash(sudo")
            )


@given(st.text(alphabet="pytest git-c;&|<>$(){}'\"\\ \n*?=./", max_size=40) | st.text(max_size=40))
def test_any_command_has_a_proposal_or_none(command: str) -> None:
    rule = proposed(command)
    assert rule == "" or Rule.parse(rule, "auto").pattern


def key(*paths: str, sensitive: str | None = None) -> ApprovalKey:
    return ApprovalKey("path", paths, sensitive=sensitive)


@for_each(
    ("path", "rule"),
    [
        ("src/a.py", "edit(src/**)"),
        ("src/a/b.py", "edit(src/a/**)"),
        ("README.md", "edit(*.md)"),
        ("LICENSE", "edit(LICENSE)"),
        (".gitignore", "edit(.gitignore)"),
        ("src/a b.py", ""),
        ("src/*.py", ""),
        ("/etc/passwd", ""),
        ("../a.py", ""),
    ],
)
def test_of_a_file_its_folder_is_proposed_and_at_the_top_its_suffix(path: str, rule: str) -> None:
    assert path_proposal("edit", key(path)) == rule


@for_each(
    ("path", "rule"),
    [
        ("src/conftest.py", "write(**/conftest.py)"),
        ("package.json", "write(**/package.json)"),
        ("vite.config.ts", "write(**/*.config.ts)"),
        ("web/karma.conf.js", "write(**/*.conf.js)"),
        (".eslintrc.json", "write(**/.eslintrc.json)"),
    ],
)
def test_of_a_file_that_runs_when_the_project_is_built_its_kind_is_proposed(
    path: str, rule: str
) -> None:
    assert path_proposal("write", key(path, sensitive=host_reason(path))) == rule


@for_each(
    "path",
    [
        "AGENTS.md",
        ".mcp.json",
        ".claude/settings.json",
        ".github/workflows/ci.yml",
        ".gitlab-ci.yml",
        ".envrc",
        ".vscode/tasks.json",
        ".husky/pre-commit",
        ".husky/package.json",
        "node_modules/a/package.json",
        ".venv/bin/activate",
        "tool.code-workspace",
        ".tool/hooks/package.json",
    ],
)
def test_for_what_runs_by_itself_or_says_what_may_run_there_is_no_rule(path: str) -> None:
    assert path_proposal("write", key(path, sensitive=host_reason(path))) == ""


def test_for_what_is_secret_or_not_certain_there_is_no_rule() -> None:
    assert path_proposal("write", key(".npmrc", sensitive=host_reason(".npmrc"))) == ""
    assert path_proposal("write", key(".env", sensitive="looks like a file of secrets")) == ""
    assert (
        path_proposal("write", key("Makefile", sensitive="Makefile is what Makefile.in leads to"))
        == ""
    )
    assert path_proposal("write", ApprovalKey("path", ("a/b.py",), opaque=True)) == ""


def test_a_link_to_another_folder_has_no_rule_that_would_allow_it() -> None:
    assert path_proposal("write", key("src/link.py", "other/real.py")) == ""
    assert path_proposal("write", key("src/link.py", "src/real.py")) == "write(src/**)"


def test_the_tools_propose(box: Toolbox) -> None:
    for name, arguments, rule in [
        ("bash", {"command": "pytest -q"}, "bash(pytest *)"),
        ("write", {"path": "src/a.py", "content": ""}, "write(src/**)"),
        ("edit", {"path": "src/a.py", "old_string": "a", "new_string": "b"}, "edit(src/**)"),
        ("write", {"path": "Makefile", "content": ""}, "write(**/Makefile)"),
        ("write", {"path": "AGENTS.md", "content": ""}, ""),
        ("read", {"path": "a"}, ""),
    ]:
        tool = box.tool(name)
        assert tool.proposal(tool.Args(**arguments)) == rule


def test_without_a_sandbox_nothing_is_known_to_only_read(box: Toolbox) -> None:
    tool = Bash(box.outputs, box.reads, always_ask="it runs on your machine")
    for command in ("ls", "git status && ls", "cat .env"):
        found = tool.approval_key(tool.Args(command=command))
        assert found.reads != "freely"
        assert found == replace(found, reading=frozenset(), sensitive="it runs on your machine")
        assert Policy(mode="auto").check("bash", found, "prompt", "anything").permission == "prompt"
    assert tool.proposal(tool.Args(command="pytest -q")) == "bash(pytest *)"
    assert tool.proposal(tool.Args(command="cd src && pytest -q")) == ""


def test_a_secret_that_is_named_is_asked_about_in_every_mode(box: Toolbox) -> None:
    tool = box.tool("bash")
    found = tool.approval_key(tool.Args(command="head -3 .env"))
    verdict = Policy(mode="auto").check("bash", found, "prompt", "anything")
    assert (verdict.permission, verdict.reason) == ("prompt", ".env looks like a file of secrets")
