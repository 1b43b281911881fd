"""Which commands a line holds, and when nobody can be sure (it only decides asking)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.core.policy import Policy, Rule
from codeagent.tools.shell.syntax import command_key
from tests.effort import times
from tests.table import for_each

ALLOW = tuple(
    Rule.parse(f"bash({pattern})", "auto")
    for pattern in (
        "git status*",
        "git log*",
        "git diff*",
        "ls*",
        "echo*",
        "cat *",
        "pytest*",
        "python -m pytest*",
        "make*",
        "cd *",
        "wc*",
        "grep *",
        "head*",
        "tail*",
        "true",
        "false",
        "test *",
        "find *",
        "sort*",
        "pwd",
        "timeout *",
    )
)
POLICY = Policy(rules=ALLOW)


def verdict(command: str, policy: Policy = POLICY) -> str:
    return policy.check("bash", command_key(command), "prompt", "anything").permission


BYPASSES = [
    "git status; touch P",
    "git status && touch P",
    "git status || touch P",
    "git status | tee P",
    "git status & touch P",
    "git status\ntouch P",
    "git status\r\ntouch P",
    "git status\rtouch P",
    "git status $(touch P)",
    "git status `touch P`",
    "git status <(touch P)",
    "git status >(touch P)",
    'git status "$(touch P)"',
    'git status "`touch P`"',
    "git status > P",
    "git status >> P",
    "git status >| P",
    "git status &> P",
    "git status 2> P",
    "git status <> P",
    "git status${IFS}-x",
    "git status $IFS",
    "git$IFS status",
    "git status ${x@P}",
    "git status ${!x}",
    "git status $'\\x24(touch P)'",
    "$'git' status",
    "g\\it status; rm x",
    "{touch,P}",
    "git status {a,b}",
    "git status {1..9}",
    "echo {a,$(touch P)}",
    "cat <<EOF\n$(touch P)\nEOF",
    "cat <<'EOF'\nx\nEOF",
    "cat <<< $(touch P)",
    "cat <<< x",
    "PAGER=./evil git log",
    "GIT_EXTERNAL_DIFF=x git diff",
    "x=1",
    "export PATH=.:$PATH",
    "ls() { touch P; }; ls",
    "function ls { touch P; }; ls",
    "alias ls='touch P'; ls",
    "eval 'touch P'",
    "eval ls",
    "bash -c 'ls'",
    "sh -c 'touch P'",
    "bash -lc ls",
    "source x",
    ". ./x",
    "exec touch P",
    "if touch P; then ls; fi",
    "while touch P; do ls; done",
    "for i in 1; do touch P; done",
    "case x in x) touch P;; esac",
    "(touch P)",
    "{ touch P; }",
    "! touch P",
    "time touch P",
    "coproc touch P",
    "ls; (ls; (ls; touch P))",
    "[[ -v 'a[$(touch P)]' ]]",
    "test -v 'a[$(touch P)]'",
    "((x=$(touch P)))",
    "let x=1",
    "echo $((a[$(touch P)]))",
    "ls )",
    "ls (",
    "ls '",
    'ls "',
    "ls `",
    "ls $(",
    "ls \\",
    "ls | | ls",
    "ls &&",
    "if ls",
    "'git status' x",
    '"git status"',
    "git\u00a0status",
    "git status\u2028touch P",
    "git\u3000status; x",
    "git status \x0btouch",
    "ls\x00touch P",
    "sudo ls",
    "env ls",
    "xargs touch",
    "nohup touch P",
    "timeout 5 touch P",
    "timeout 5 sh -c ls",
    "command touch P",
    "builtin eval ls",
    "/bin/sh -c ls",
    "/usr/bin/env touch P",
    "declare -x A=1",
    "local a=1",
    "readonly a",
    "unset PATH",
    "trap 'touch P' EXIT",
    "set -x",
    "ls # \n touch P",
    "ls $HOME",
    "ls ${HOME}",
    "ls ~+; touch P",
    "select x in a; do touch P; done",
    "until touch P; do ls; done",
    "ls | while read x; do touch $x; done",
    "./ls",
    "../ls",
    "ls 2>&1 >P",
    "ls >&P",
    "ls 1>P",
    "l''s; touch P",
    "\\touch P",
    "t''ouch P",
    "*",
    "?? x",
    "ls && touch\\\n P",
    "echo a >/dev/tcp/1.1.1.1/1",
]
BENIGN = [
    "git status",
    "git status -s",
    "git log --oneline -5",
    "git diff HEAD~1 -- src/a.py",
    "ls",
    "ls -la src",
    "ls *.py",
    "echo hello world",
    "echo 'it is; fine'",
    'echo "a && b"',
    "echo a\\ b",
    "cat a.txt b.txt",
    "cat 'my file.txt'",
    "pytest -q",
    "pytest tests/test_a.py::test_b -x",
    "python -m pytest -k 'a and b'",
    "make -j4 test",
    "cd src && ls",
    "cd src; git status",
    "ls | wc -l",
    "grep -rn 'foo(' src | head -20",
    "git log | grep fix | tail -3",
    "ls 2>&1",
    "ls 2>/dev/null",
    "ls >/dev/null 2>&1",
    "test -f a && echo yes || echo no",
    "! ls",
    "(cd src && ls)",
    "{ ls; pwd; }",
    "if test -f a; then cat a; fi",
    "true; false",
    "ls # a comment",
    "while true; do ls; done",
    "find . -name '*.py'",
    "sort < a.txt",
    "/usr/bin/git status",
    "ls &",
    "timeout 60 pytest",
    "grep -E 'a|b' x",
    'echo "it\'s"',
    "ls -- -weird",
    "git diff --stat && git status",
]


@for_each("command", BYPASSES)
def test_a_line_that_could_do_more_than_the_rules_allow_is_asked_about(command: str) -> None:
    assert verdict(command) == "prompt"


@for_each("command", BENIGN)
def test_a_line_of_allowed_commands_only_is_not_asked_about(command: str) -> None:
    assert verdict(command) == "auto"


@for_each(
    "command",
    [
        "git push",
        "ls; git push",
        "ls | git push",
        "(git push)",
        "if ls; then git push; fi",
        "g'i't push",
        "gi\\t push",
        '"git" push',
        "/usr/bin/git push",
        "git  push",
        "git\tpush",
        "echo $(git push)",
        "echo `git push`",
        "x=$(git push)",
        "f() { git push; }",
        "sudo git push",
        "env A=1 git push",
        "timeout 5 git push",
        "bash -c 'git push'",
        "bash -c \"sh -c 'git push'\"",
        "eval git push",
        "ls )\ngit push",
        "ls; git push '",
        "echo <(git push)",
        "git push > x",
        "cat <<EOF\n$(git push)\nEOF",
        "case x in x) git push;; esac",
        "nohup nice git push &",
        "git \\\n push",
    ],
)
def test_a_denying_rule_sees_the_command_wherever_it_hides(command: str) -> None:
    assert (
        verdict(command, Policy(mode="auto", rules=(Rule.parse("bash(git push*)", "deny"),)))
        == "deny"
    )


@for_each("count", [51, 500, 5_000])
def test_however_many_commands_there_are_the_last_is_still_seen(count: int) -> None:
    line = "; ".join(f"ls {n}" for n in range(count)) + "; git push"
    assert (
        verdict(line, Policy(mode="auto", rules=(Rule.parse("bash(git push*)", "deny"),))) == "deny"
    )
    assert verdict(line.replace("; git push", "")) == "prompt", (
        "more than a hundred nodes are asked about"
    )


@for_each(
    "command",
    [
        "sudo -u root git push",
        "env -u X git push",
        "timeout -k 5 10 git push",
        "nice -n 5 git push",
        "xargs -I {} git push",
        "watch -n 1 git push",
        "sudo -u a env -u B nice -n 5 git push",
        "sudo /usr/bin/env A=1 /usr/bin/git push",
        "bash -o pipefail -c 'git push'",
        "bash -ec 'git push'",
        "sudo -u a bash -lc 'ls; git push'",
        "eval eval eval eval git push",
        'bash -c "bash -c \\"bash -c \'sh -c git\\ push\'\\""',
        "busybox sh -c 'git push'",
    ],
)
def test_a_denying_rule_sees_through_the_flags_of_wrappers(command: str) -> None:
    assert (
        verdict(command, Policy(mode="auto", rules=(Rule.parse("bash(git push*)", "deny"),)))
        == "deny"
    )


WRAPPERS = ("nice ", "nice -n5 ", "sudo -u x ", "env A=1 ", "timeout 5 ", "command ")


@for_each(
    ("wrapper", "count"),
    [
        *((wrapper, count) for wrapper in WRAPPERS for count in (11, 500)),
        ("nice ", 6_000),
        ("timeout 5 ", 6_000),
    ],
)
def test_however_many_wrappers_there_are_the_innermost_command_is_seen(
    wrapper: str, count: int
) -> None:
    assert (
        verdict(
            wrapper * count + "git push",
            Policy(mode="auto", rules=(Rule.parse("bash(git push*)", "deny"),)),
        )
        == "deny"
    )
    assert (
        verdict(wrapper * count + "ls", Policy(rules=(Rule.parse("bash(*)", "auto"),))) == "prompt"
    )


def test_parts_are_words_with_single_spaces_and_their_redirections() -> None:
    key = command_key("git   log  -3 | head  -n 'a  b' 2>&1")
    assert key.parts == ("git log -3", "head -n 'a  b' 2>&1")
    assert not key.opaque


def test_characters_that_are_no_ascii_are_letters_of_their_word_and_never_end_the_process() -> None:
    crashed = b"\xf0\x9b\x99\x81*<\xda\xbaS#\xdc\x9c\xf2\xb0\xbd\x8a\xeb\x86\xbb\xf1\x86\xbb\x8a\xdf\x8f\rA".decode()
    for _ in range(50):
        assert command_key.__wrapped__(crashed).opaque
    key = command_key("größe --für 'ein λ' | wc -l")
    assert key.parts == ("größe --für 'ein λ'", "wc -l")
    assert not key.opaque


@settings(max_examples=times(80), deadline=None)
@given(st.text(alphabet="ls;&|()<>{}$`'\"\\ \n\r#=!*~-aé\x00", max_size=40) | st.text(max_size=40))
def test_any_text_has_a_key(command: str) -> None:
    key = command_key(command)
    assert key.parts


@for_each(
    "text", ["(" * 20_000, "$(" * 20_000, "`" * 9_999, "{ " * 20_000, "if " * 20_000, "\\" * 9_999]
)
def test_deep_nesting_is_asked_about_and_never_an_error(text: str) -> None:
    assert command_key(text).opaque
