"""A rule that denies a command holds however it is written; where that cannot be seen, it is
asked about."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codeagent.core.policy import Policy, Rule
from codeagent.tools.shell.carrier_table import CARRIERS
from codeagent.tools.shell.quiet_code import awk_is_quiet, perl_is_quiet, sed_is_quiet
from codeagent.tools.shell.syntax import command_key
from tests.effort import chance, part, times
from tests.security.carried_commands import FIRES, HIDES
from tests.security.everyday_commands import EVERYDAY, WORKING
from tests.security.planted_programs import Planted
from tests.table import for_each

DENIED = tuple(
    Rule.parse(text, "deny") for text in ("bash(rm *)", "bash(git push*)", "bash(git clean*)")
)
POLICY = Policy("auto", DENIED)

RUNS_RM = [
    "rm f",
    "X=1 rm f",
    "X=1 Y=2 rm f",
    "X='a b' rm f",
    "X=$(date) rm f",
    "r\\\nm f",
    "\\rm f",
    "'rm' f",
    '"rm" f',
    "r''m f",
    'r""m f',
    "r\\m f",
    "$'rm' f",
    "$'\\x72m' f",
    "$'\\162\\155' f",
    '$"rm" f',
    "x=rm; $x f",
    "x=rm; ${x} f",
    'x=rm; "$x" f',
    "x=r; ${x}m f",
    "x=r; $x'm' f",
    "x='rm f'; $x",
    "x='rm f'; eval $x",
    'a=(rm f); "${a[@]}"',
    'set -- rm f; "$@"',
    "set -- rm f; $*",
    "$(echo rm) f",
    "`echo rm` f",
    "$(printf '\\162m') f",
    "{rm,f}",
    "r{m,n} f",
    "x=mr; ${x:1:1}${x:0:1} f",
    "x=rmx; ${x%x} f",
    "x=xx; ${x/xx/rm} f",
    "x=RM; ${x,,} f",
    "y=rm; x=y; ${!x} f",
    "/bin/rm f",
    "/bin//rm f",
    "/bin/./rm f",
    "/usr/bin/../bin/rm f",
    "//bin/rm f",
    "/b?n/rm f",
    "/bin/[r]m f",
    "x=$PWD; cd /bin && ./rm $x/f",
    "env rm f",
    "env -i rm f",
    "env A=1 rm f",
    "env -u X rm f",
    "env -S 'rm f'",
    "env -S'rm f'",
    "env --split-string='rm f'",
    "env --split-string 'rm f'",
    "env -iS 'rm f'",
    "/usr/bin/env rm f",
    "nice rm f",
    "nice -n 5 rm f",
    "nice -5 rm f",
    "nohup rm f",
    "timeout 5 rm f",
    "timeout -s KILL 5 rm f",
    "timeout -k 5 10 rm f",
    "timeout --signal=KILL 5 rm f",
    "setsid rm f",
    "setsid -w rm f",
    "stdbuf -oL rm f",
    "ionice -c 3 rm f",
    "time rm f",
    "time -p rm f",
    "command rm f",
    "command -p rm f",
    "builtin command rm f",
    "exec rm f",
    "exec -a ls rm f",
    "( rm f )",
    "{ rm f; }",
    "! rm f",
    "if rm f; then :; fi",
    "while rm f; do :; done",
    "for i in 1; do rm f; done",
    "case x in x) rm f;; esac",
    "until rm f; do :; done",
    "rm f & wait",
    "true && rm f",
    "false || rm f",
    "true | rm f",
    "echo f | xargs rm",
    "echo rm f | xargs env",
    "echo 'rm f' | xargs -I% sh -c %",
    "echo 'rm f' | xargs -0 sh -c",
    "echo f | xargs -I{} rm {}",
    "find . -name f -exec rm {} \\;",
    "find . -name f -exec rm {} +",
    "find . -name f -execdir rm {} +",
    "find . -name f -exec env rm {} \\;",
    "find . -name f -exec sh -c 'rm {}' \\;",
    "bash -c 'rm f'",
    "sh -c 'rm f'",
    "bash -ec 'rm f'",
    "bash -o pipefail -c 'rm f'",
    "bash -c 'bash -c \"rm f\"'",
    "bash -c '\"$@\"' _ rm f",
    "bash -c '$0 f' rm",
    "x='rm f' bash -c '$x'",
    "bash <<< 'rm f'",
    "bash <<EOF\nrm f\nEOF",
    "bash <<'EOF'\nrm f\nEOF",
    "echo 'rm f' | bash",
    "echo 'rm f' | sh -s",
    "bash <(echo rm f)",
    "source <(echo rm f)",
    ". /dev/stdin <<< 'rm f'",
    "bash /dev/stdin <<< 'rm f'",
    "echo rm f > s; bash s",
    "echo rm f > s; . ./s",
    "eval rm f",
    "eval 'rm f'",
    "eval 'r''m f'",
    'eval "r""m f"',
    'x=m; eval "r$x f"',
    "trap 'rm f' EXIT",
    "trap 'rm f' 0; true",
    "coproc rm f",
    "coproc { rm f; }",
    "coproc N { rm f; }",
    'f() { rm "$@"; }; f f',
    "function g { rm f; }; g",
    'f() { "$@"; }; f rm f',
    "shopt -s expand_aliases; alias z=rm\nz f",
    "echo $(rm f)",
    "echo `rm f`",
    "echo <(rm f)",
    'echo "$(rm f)"',
    "cat <<EOF\n$(rm f)\nEOF",
    "cat <<< $(rm f)",
    ": ${x:=$(rm f)}",
    "echo $((1 + $(rm f; echo 1)))",
    "[[ -v 'a[$(rm f)]' ]]",
    "test -v 'a[$(rm f)]'",
    "x='a[$(rm f)]'; [[ $x -eq 0 ]]",
    "x='a[$(rm f)]'; echo $((x))",
    "declare 'a[$(rm f)]=1'",
    "let 'a[$(rm f)]=1'",
    "printf -v 'a[$(rm f)]' x",
    "BASH_ENV=<(echo rm f) bash -c :",
    "rm -- f",
    "rm -f f",
    "rm f;",
    "rm\tf",
    "rm  f",
    "true;rm f",
    "true\nrm f",
    "rm f > /dev/null",
    "> o rm f",
    "2>&1 rm f",
    "hash -p /bin/rm z; z f",
    "mapfile -C 'rm f #' -c 1 <<< x",
    "python3 -c 'import os; os.system(\"rm f\")'",
    "perl -e 'system(\"rm f\")'",
    "awk 'BEGIN { system(\"rm f\") }'",
    "python3 <<'EOF'\nimport subprocess\nsubprocess.run(['rm', 'f'])\nEOF",
    "sed -n '1e rm f' Makefile",
    "tar cf /dev/null --checkpoint=1 --checkpoint-action=exec='rm f' Makefile",
    "git -c alias.z='!rm f' z",
    "select x in a; do rm f; done <<< 1",
]
ELSEWHERE = [
    "/bin/r* f",
    "echo rm | xargs -I% % f",
    "echo rm | xargs -I % % f",
    "PS4='$(rm f)' bash -xc :",
    "sort --compress-program=rm f",
    "sudo rm f",
    "sudo -u root rm f",
    "sudo -u root -- rm f",
    "doas rm f",
    "doas -u x rm f",
    "busybox rm f",
    "toybox rm f",
    "chroot . rm f",
    "chroot --userspec=1 . rm f",
    "parallel rm ::: f",
    "parallel 'rm {}' ::: f",
    "watch rm f",
    "watch -n 1 'rm f'",
    "script -qc 'rm f' /dev/null",
    "script f -c 'rm f'",
    "su -c 'rm f'",
    "su x -c 'rm f'",
    "flock l rm f",
    "flock l -c 'rm f'",
    "unshare -r rm f",
    "strace -o x rm f",
    "ltrace rm f",
    "taskset 1 rm f",
    "chrt 1 rm f",
    "nsenter -t 1 rm f",
    "ssh h rm f",
    "ssh h 'rm f'",
    "fd -x rm",
    "fd . -X rm {}",
    "zsh -c 'rm f'",
    "dash -c 'rm f'",
    "busybox sh -c 'rm f'",
    "npx rm f",
    "uv run rm f",
    "poetry run rm f",
    "docker run x rm f",
    "docker exec x sh -c 'rm f'",
    "kubectl exec p -- rm f",
    "gdb --args rm f",
    "expect -c 'spawn rm f'",
    "somewrap rm f",
    "somewrap -- rm f",
    "somewrap --cmd='rm f'",
    "make SHELL=rm f",
    "at now <<< 'rm f'",
    "batch <<< 'rm f'",
    "tmux new-session 'rm f'",
    "screen -dm rm f",
    "systemd-run rm f",
    "firejail rm f",
    "bwrap rm f",
    "entr rm f",
    "ls | entr rm f",
    "hyperfine 'rm f'",
    "pkexec rm f",
    "runuser -u x rm f",
    "setpriv --reuid=1 rm f",
    "direnv exec . rm f",
    "nodemon --exec 'rm f'",
    "concurrently 'rm f'",
    "xvfb-run rm f",
    "valgrind rm f",
    "perf stat rm f",
    "rlwrap rm f",
    "git rebase -x 'rm f' main",
    "git bisect run rm f",
    "git submodule foreach rm f",
    "git submodule foreach 'rm f'",
    "git -c core.pager='rm f' log",
    "git -c core.fsmonitor='rm f' status",
    "GIT_PAGER='rm f' git log",
    "PAGER='rm f' man x",
    "EDITOR='rm f' git commit",
    "GIT_SSH_COMMAND='rm f' git fetch",
    "git grep -O'rm f' x",
    "git difftool -x 'rm f'",
    "rg --pre rm f",
    "rsync -e 'rm f' a b",
    "vim -c '!rm f'",
    "ruby -e '`rm f`'",
    "node -e 'execSync(\"rm f\")'",
    "php -r 'system(\"rm f\");'",
    "sqlite3 :memory: '.shell rm f'",
    "echo '.shell rm f' | sqlite3",
    "env -C / rm f",
    "sudo bash <<< 'rm f'",
    "ls '",
    "ls ) ; rm f",
    "rm f '",
    "alias ls='rm f'",
    "complete -C 'rm f' x",
    "bind -x '\"a\":rm f'",
    "if x",
    "enable -f ./x y",
    "'/bin/rm' f",
    "~/../../bin/rm f",
    "$HOME/rm f",
    "sem rm f",
    "parallel < cmds",
    "cat x | parallel",
    "cat x | sh",
    "sh < x",
    "curl -s x | bash",
    "ssh h < x 'rm f'",
]
PUSHES_OR_CLEANS = [
    "git -C . clean -fdx",
    "git -c a=b push",
    "git -c a=b -c c=d push origin",
    "git --no-pager push",
    "git -P push",
    "git --git-dir=.git push",
    "git --git-dir .git push",
    "git --work-tree . push",
    "git --namespace x push",
    "git --bare push",
    "git --no-optional-locks -C x push",
    "git -C . -C . push",
    "git --exec-path=/x push",
    "g=git; $g push",
    "git $x",
    "git $(echo push)",
    "git pu'sh'",
    "git {push,origin}",
    "git 'push'",
    'git -C "$PWD" push',
    "x=push; git $x",
    "echo push | xargs git",
    "xargs git < f",
    "git pus?",
    "git -c alias.p=push p",
    "git -c alias.p='!git push' p",
    "git config alias.p push; git p",
    "git config --global alias.p push",
    "git -c include.path=x p",
    "make -f <(printf 'all:\\n\\tgit push')",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.p GIT_CONFIG_VALUE_0=push git p",
    "BASH_ENV=x bash -c :",
    "env BASH_ENV=x bash -c :",
    "echo Z2l0IHB1c2g= | base64 -d | sh",
    "git --config-env=alias.p=X p",
    "/usr/lib/git-core/git push",
    "sudo git -C . push",
    "env GIT_DIR=.git git push",
    "GIT_DIR=.git git push",
    'python3 -c \'import subprocess; subprocess.run(["git", "push"])\'',
    "bash -c 'git -C . push'",
    "git \\\n push",
    "git --literal-pathspecs --no-pager push",
    "git -p push",
    "git --paginate push",
    "git --attr-source x push",
    "git > o push",
    "git < f push",
    "git 2>/dev/null push",
    "git >o push >p",
    "git <<< x push",
    "git <<EOF push\nx\nEOF",
    "git <<EOF > o push\nx\nEOF",
    "git 3<&- push",
    "git {fd}>o push",
    "git &>o push",
    "git >| o push",
    "git <> o push",
    "2>&1 git push",
    "git 2>&1 -C . push",
    "git > o -c Alias.z=push z",
    "env 2>&1 git push",
    "git >&2 'push'",
    "git -c a=b -C . --no-pager clean -f",
    "command git --no-pager push",
    "git submodule foreach git push",
]
UNTOUCHED = [
    "ls -la",
    "git status",
    "git -C . status",
    "git --no-pager log -3",
    "git commit -m 'Mend git push'",
    "git rm f",
    "git add -A && git commit -m 'rm old files'",
    "make test",
    "pytest -q -k remove",
    "echo $HOME",
    "echo hello > f",
    "x=1; echo $x",
    'for f in *.py; do wc -l "$f"; done',
    "grep -rn 'rm -rf' .",
    'grep -rn "rm" src | head',
    "cat <<'EOF' > f\nhello\nEOF",
    "cd src && npm test",
    "python3 -c 'print(1)'",
    "python3 - <<'EOF'\nprint(1)\nEOF",
    "timeout 60 pytest -x",
    "env A=1 pytest",
    "find . -name '*.pyc'",
    "find . -name '*.py' -exec wc -l {} +",
    "find . -name '*.py' | xargs wc -l",
    "find . -name '*.py' -print0 | xargs -0 grep -l foo",
    "xargs -n1 echo < f",
    "bash scripts/test.sh",
    "./configure --prefix=/usr",
    "docker ps",
    "npm run build",
    "sed -i 's/a/b/' f",
    "awk '{print $1}' f | sort | uniq -c",
    "mkdir -p a/b && cp f a/b",
    "echo $(date)",
    "A=1 B=2 make",
    "command -v rm",
    "which rm",
    "type rm",
    "git log --grep=push",
    "git branch push",
    "git stash",
    "cargo build --release",
    "go test ./...",
    "export PATH=$PWD/bin:$PATH; make",
    "tar czf a.tgz src",
    "test -f rm && echo yes",
    "git diff $(git merge-base main HEAD)",
    "kill %1",
    "touch rm",
    "if [ -f a ]; then cat a; fi",
    'while read -r x; do echo "$x"; done < f',
    "sudo apt install -y git",
]


GOT_AROUND = [
    "env -S 'rm\\_f'",
    "sed '1erm f'",
    "make --eval='a:;@rm f'",
    "git -c Alias.z=push z",
    "git -c Include.path=x z",
    "git clone -u 'rm f;git-upload-pack' a b",
    "git clone --config core.fsmonitor='rm f' a b",
    "/usr/lib/git-core/git-push",
    "git for-each-repo --config=x push",
    "HOME=/tmp/x git z",
    "XDG_CONFIG_HOME=/tmp/x git z",
    "GIT_CONFIG_GLOBAL=/tmp/x git z",
]
HIDDEN_FLAGS = [
    "sort --$x f",
    "sort --${x} f",
    'rg "--$x" y f',
    "tar --$x xf x.tar",
    "make --$x all",
    "git -$x log",
    "git --$x log",
    "git -C . -$x log",
    "sed --$x s/a/b/ f",
    "python3 -$x",
    "python3 -B -$x f.py",
    "node --$x f.js",
    "node -$x",
    "env -$x ls",
    "bash -$x f.sh",
    "sh -e -$x f.sh",
    "sudo -$x true",
    "find . -$x",
    "ruby -$x f.rb",
    "php --$x f.php",
    "rsync -a f g --$x",
    "x=1; timeout -$x 5 sort --$x f",
]
"""Flags that are not known before the line runs, of programs that run commands by one."""
CARRIED = [*(line for lines in FIRES.values() for line in lines), *HIDES]
ASKED_AT_WORK = {"source .venv/bin/activate && pytest", ". .venv/bin/activate && pip install -e ."}
"""What is asked about under these rules, too: a file of commands, and words that xargs adds."""
RUNS_NOTHING_ELSE = [
    "env -S 'true f'",
    "env -S 'A=1 true'",
    "sed 's/x/y/' f",
    "sed -i 's/x/e/g;/x/d' f",
    "sed -n '1!G;h;$p' f > o",
    "sed 's|e|w|g' f > o",
    "sed -e '1i e x' -e 's/x/y/' f > o",
    "sed '/x/{s/a/e/;p}' f > o",
    "sed '1a\\\ne x' f > o",
    "awk '{ print $1 > \"o\" }' f",
    "awk '/e|m/ { n++ } END { print n || 0 }' f > o; :",
    "make all",
    "make X=1 show",
    "make -j2 all",
    "git -c color.ui=never status",
    "git -c core.pager=cat log -1",
    "git -c User.Name=x log -1 > o",
    "git clone -q . c",
    "git fetch -q",
    "git rebase side~1 > o",
    "git config user.name y",
    "git config Color.UI never",
    "git bisect start",
    "git submodule status > o",
    "git -C . add f",
    "git -c core.hooksPath=/dev/null add f",
    "PAGER=cat git log > o",
    "GIT_EDITOR=true git commit --amend",
    "PYTHONPATH=src python3 script.py; :",
    "tar cf a.tar f",
    "tar xf x.tar",
    "python3 -c 'import os; print(os.getcwd())'",
    "python3 -c 'print([1][0])' > o",
    "python3 - <<'EOF'\nimport json\nprint(json.dumps({'a': 1}))\nEOF",
    "perl -pi -e 's/x/y/g' f",
    "node script.js",
    "node -e 'console.log([1, 2].length)'",
    "node -p \"require('./package.json').version\"",
    "sort -o o f",
    "split -l 5 f",
    "sqlite3 :memory: 'select 1' > o",
    "gcc -c x.c",
    "find . -name f -exec sed 's/x/y/' {} + > o",
    "cp f g",
    "mv f g; cp g f",
    "ln -s f l",
    "BUILD=1 make all",
    "read -r x < f",
    "zip -q a.zip f",
    "npm run a",
]


def judged(line: str, policy: Policy = POLICY) -> str:
    return policy.check("bash", command_key(line), "prompt", "anything").permission


@for_each("line", [*RUNS_RM, *ELSEWHERE, *PUSHES_OR_CLEANS])
def test_what_a_rule_denies_is_denied_or_asked_about_however_it_is_written(line: str) -> None:
    assert judged(line) in ("deny", "prompt")
    assert judged(line, Policy("auto", (Rule("auto", "bash"), *DENIED))) != "auto", (
        "also where all else is allowed"
    )
    assert judged(line, Policy("auto")) == "auto", "without the rules nothing stops it"


@for_each("line", UNTOUCHED)
def test_what_a_rule_does_not_deny_runs_as_it_did(line: str) -> None:
    assert judged(line) == "auto"


@for_each("line", GOT_AROUND)
def test_what_once_got_around_a_rule_is_asked_about(line: str) -> None:
    for policy in (POLICY, Policy("auto", (Rule("auto", "bash"), *DENIED))):
        assert judged(line, policy) in ("prompt", "deny")


@for_each("line", HIDDEN_FLAGS)
def test_a_flag_that_is_not_known_is_asked_about_if_the_program_can_run_others(line: str) -> None:
    policy = Policy("auto", (Rule("auto", "bash"), *DENIED))
    verdict = policy.check("bash", command_key(line), "prompt", "anything")
    assert verdict.permission == "prompt"
    assert " with an unknown flag can run other commands: " in verdict.reason
    assert judged(line, Policy("auto")) == "auto", "without the rules nothing stops it"


@for_each("line", ["ls -$x", "sudo ls -$x", "node f.js --$x", "mytool --$x", "timeout 5 ls -$x"])
def test_a_flag_that_is_not_known_is_not_asked_about_if_it_runs_nothing(line: str) -> None:
    assert judged(line, Policy("auto", (Rule.parse("bash(rm *)", "deny"),))) == "auto"


@pytest.mark.soak(tried=len(CARRIED), row="deny rules")
@for_each("line", CARRIED)
def test_what_carries_a_command_is_asked_about_although_no_word_of_it_can_be_read(
    line: str,
) -> None:
    assert judged(line, Policy("auto", (Rule("auto", "bash"), *DENIED))) in ("prompt", "deny")
    assert judged(line, Policy("auto")) == "auto", "without the rules nothing stops it"


def test_the_table_of_what_carries_is_as_large_as_promised() -> None:
    assert len(set(CARRIED)) >= 300


@for_each("line", [*EVERYDAY, *(line for line in WORKING if line not in ASKED_AT_WORK)])
def test_everyday_work_is_asked_about_no_more_with_a_rule_than_without(line: str) -> None:
    for rule in ("bash(rm *)", "bash(git push*)"):
        assert judged(line, Policy("auto", (Rule.parse(rule, "deny"),))) == "auto"


def test_an_allowing_rule_holds_for_what_carries_until_a_rule_denies_something() -> None:
    allowed = Rule.parse("bash(make *)", "auto")
    assert judged("make --eval=x", Policy("ask", (allowed,))) == "auto"
    assert judged("make --eval=x", Policy("ask", (allowed, *DENIED))) == "prompt"


def test_the_question_names_what_carries_and_the_rule_that_may_be_broken() -> None:
    said = POLICY.check("bash", command_key("git -c Alias.z=push z"), "prompt", "anything").reason
    assert said == "git -c Alias.z can run other commands: it may be bash(rm *)"


@for_each(
    "line",
    [
        "X=1 rm f",
        "git -C . clean -fdx",
        "git -c a=b push",
        "git --no-pager push",
        "find . -exec rm {} +",
        "sudo -u a rm f",
        "env -S 'rm f'",
        "bash -c 'rm f'",
        "/bin//rm f",
        "timeout -k 5 10 rm f",
        "r\\\nm f",
        "$'rm' f",
        "trap 'rm f' EXIT",
        "coproc rm f",
        "chroot . rm f",
        "/usr/lib/git-core/git-push",
        "/usr/lib/git-core/git-push origin",
        "xargs -n1 rm < f",
        "nice -n5 git --no-pager push",
    ],
)
def test_what_is_plain_to_see_is_denied_and_not_only_asked_about(line: str) -> None:
    assert judged(line) == "deny"


def test_a_rule_that_asks_sees_as_much_as_one_that_denies() -> None:
    policy = Policy("auto", (Rule.parse("bash(git push*)", "prompt"),))
    assert [
        judged(line, policy) for line in ("g=git; $g push", "git -C . push", "eval $x", "git log")
    ] == ["prompt", "prompt", "prompt", "auto"]


def test_a_rule_with_a_path_in_it_matches_the_program_of_that_name() -> None:
    policy = Policy("auto", (Rule.parse("bash(/usr/bin/git push*)", "deny"),))
    assert [
        judged(line, policy) for line in ("git push", "/usr/bin/git push", "git -C . push")
    ] == ["deny"] * 3


@for_each(
    ("line", "expected"),
    [
        ("xargs echo/g < f", "auto"),
        ("xargs git < f", "prompt"),
        ("cp f g", "auto"),
        ("cp git g", "prompt"),
    ],
)
def test_a_word_that_is_not_known_does_not_grow_onto_the_word_before_it(
    line: str, expected: str
) -> None:
    assert judged(line, Policy("auto", (Rule.parse("bash(git push*)", "deny"),))) == expected


def test_thousands_of_commands_in_one_line_are_judged_in_reasonable_time() -> None:
    """The whole line counts as text for each command of it, but is searched only once."""
    assert judged("a|" * 4_000) == "prompt"


def runs_here(line: str) -> bool:
    """Whether the program that the line begins with is there; a shell always is."""
    programs = ("perl", "python3", "awk", "tar", "git", "sort", "sed")
    return all(shutil.which(name) is not None for name in programs if line.startswith(name))


def test_each_of_the_shapes_does_run_the_denied_command(tmp_path: Path) -> None:
    """The control: without it a shape that no shell understands would count as one that was caught.

    Each has ended, also what it left in the background, when all that held its output have closed
    it.
    """
    each_in_a_shell = 'for line; do echo x > f; : "$(bash -c "$line" 2>&1)"; if [ -e f ]; then echo "$line"; fi; done'
    (tmp_path / "Makefile").write_text("x\n")
    lines = ["true", *filter(runs_here, RUNS_RM)]
    done = subprocess.run(
        ["bash", "-c", each_in_a_shell, "_", *lines],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert done.stdout == "true\n", "only the line that removes nothing leaves the file"


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    root = tmp_path_factory.mktemp("planted")
    yield Planted(root)
    shutil.rmtree(root)


def are_here(name: str, line: str) -> bool:
    """Whether the programs are there that the line needs: the one of its group, or the one it
    begins with."""
    own = (
        line.split()[0].rpartition("/")[2]
        if name == "others" and "=" not in line.split()[0]
        else name
    )
    at_hand = (
        name in ("variables", "names")
        or shutil.which("sh" if own in ("export", "others") else own) is not None
    )
    return at_hand and all(
        shutil.which(known) for known in ("git", "make", "sqlite3", "wget", "npm") if known in line
    )


@pytest.mark.soak(row="deny rules")
@pytest.mark.parametrize("name", FIRES)
def test_each_carrier_does_run_the_denied_program(
    planted: Planted, name: str, tried: Callable[[int], None]
) -> None:
    """The control: what does not run it would count as a shape that was caught."""
    lines = part([line for line in FIRES[name] if are_here(name, line)], 5)
    tried(len(lines))
    assert [line for line in lines if not planted.fires(line)] == []


def test_what_goes_without_a_question_does_not_run_the_denied_program(planted: Planted) -> None:
    assert [line for line in RUNS_NOTHING_ELSE if judged(line) != "auto"] == []
    assert [line for line in part(RUNS_NOTHING_ELSE, 20) if planted.fires(line)] == []
    assert planted.fires("sh -c 'rm f'"), "the control"


_SED = [
    "e",
    "e rm f",
    "1",
    "1,2",
    "/x/",
    "s/x/rm f/",
    "s,x,y,",
    "y/x/y/",
    "g",
    "p",
    "w",
    ";",
    "\n",
    "{",
    "}",
    "!",
    " ",
    "a",
    "i\\\n",
    "c t",
    "b",
    ":a",
    "[",
    "]",
    "[/]",
    "\\",
    "/",
    "d",
    "N",
    "s/.*/rm f/",
    "M",
    "r f",
    "$",
    "#",
    "I",
]
_AWK = [
    "system",
    "(",
    ")",
    '"rm f"',
    "|",
    "||",
    "getline",
    "print",
    "BEGIN",
    "{",
    "}",
    ";",
    "/x/",
    "$0",
    " ",
    "> ",
    "@",
    "f = ",
    "x",
    "\n",
    "1",
    '"',
    "\\",
]
_PERL = [
    "s/x/rm f/",
    "e",
    "ee",
    "g",
    ";",
    "`rm f`",
    "@{[",
    "]}",
    "print",
    " if ",
    "/x/",
    "$_",
    "(?{",
    "})",
    '"',
    "s,x,",
    ",",
    "system",
    '("rm f")',
    "\n",
    " ",
    "/",
    "\\",
    "{",
    "}",
    "y/x/y/",
    "|",
    "1",
]


@pytest.mark.soak(tried=3 * times(40), row="deny rules")
@pytest.mark.parametrize(
    ("program", "flags", "pieces", "is_quiet"),
    [
        ("sed", ["-n"], _SED, sed_is_quiet),
        ("awk", [], _AWK, awk_is_quiet),
        ("perl", ["-ne"], _PERL, perl_is_quiet),
    ],
)
def test_code_that_counts_as_quiet_does_not_run_a_program(
    tmp_path: Path, program: str, flags: list[str], pieces: list[str], is_quiet: object
) -> None:
    """Without knowing what the code means: what is made of pieces and judged quiet is run beside a
    stand-in for rm."""
    assert callable(is_quiet)
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    mark, stand_in = tmp_path / "mark", tmp_path / "bin" / "rm"
    stand_in.parent.mkdir()
    stand_in.write_text(f"#!/bin/sh\n: > '{mark}'\n")
    stand_in.chmod(0o755)
    (tmp_path / "f").write_text("x\nrm f\nx y\n")
    dice = chance(program)
    ran = 0
    while ran < times(40):
        code = "".join(dice.choice(pieces) for _ in range(dice.randint(1, 7)))
        if not is_quiet(code):
            continue
        ran += 1
        subprocess.run(
            [program, *flags, code, "f"],
            cwd=tmp_path,
            env={"PATH": f"{stand_in.parent}:/usr/bin:/bin"},
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=10,
        )
        assert not mark.exists(), code


_RUNNERS = [
    "env {}",
    "env A=1 {}",
    "nice -n 5 {}",
    "nohup {}",
    "timeout 5 {}",
    "timeout -k 1 5 {}",
    "setsid {}",
    "stdbuf -oL {}",
    "command {}",
    "exec {}",
    "X=1 {}",
    "sudo {}",
    "sudo -u a {}",
    "doas {}",
    "chroot . {}",
    "busybox {}",
    "unshare -r {}",
    "xargs -n1 {}",
    "find . -exec {} ';'",
    "strace {}",
    "npx {}",
    "uv run {}",
    "poetry run {}",
    "docker run x {}",
    "flock l {}",
    "taskset 1 {}",
    "2>&1 {}",
    "> o {}",
    "env 2>&1 {}",
    "nice < f {}",
    "npx --yes {}",
    "bundle exec {}",
]
_AROUND_ANY = [
    "time {}",
    "! {}",
    "( {} )",
    "{{ {}; }}",
    "if {}; then :; fi",
    "true && {}",
    "{} &",
    "{} | cat",
    "echo x | {}",
    "{} > o",
    "echo $({})",
    "echo `{}`",
    "cat <({})",
    "for i in 1; do {}; done",
    "while {}; do :; done",
    "f() {{ {}; }}; f",
    "case 1 in 1) {};; esac",
    "coproc {{ {}; }}",
    "until {}; do :; done",
    "{}; true",
    "x=$({})",
    "[ -f o ] || {}",
]
_AROUND_TEXT = [
    "bash -c {}",
    "sh -ec {}",
    "eval {}",
    "env bash -c {}",
    "su -c {}",
    "trap {} EXIT",
    "bash <<< {}",
    "echo {} | sh",
    "timeout 5 sh -c {}",
    "docker run x sh -c {}",
    "xargs sh -c {}",
    "script -qc {} o",
    "flock l -c {}",
    "watch {}",
    "git rebase -x {} main",
    "find . -exec sh -c {} ';'",
    "npx -c {}",
    "uv run sh -c {}",
]
_SIMPLE = re.compile(r"[^;&|<>()\n`$]*")


@st.composite
def wrapped(draw: st.DrawFn) -> str:
    """A denied command, or one that carries it, within wrappers of wrappers."""
    line = draw(st.sampled_from(["rm f", "git push", "git -C . push", *GOT_AROUND, *CARRIED]))
    for _ in range(draw(st.integers(0, 4))):
        shapes = [
            *_AROUND_TEXT,
            *([] if "\n" in line else _AROUND_ANY),
            *(_RUNNERS if _SIMPLE.fullmatch(line) else []),
        ]
        shape = draw(
            st.sampled_from([shape for shape in shapes if "`" not in line or "`" not in shape])
        )
        line = shape.format(shlex.quote(line) if shape in _AROUND_TEXT else line)
    return line


@pytest.mark.soak(row="deny rules")
@settings(max_examples=times(300), deadline=None)
@given(wrapped())
def test_no_wrapper_around_a_denied_command_makes_it_allowed(line: str) -> None:
    assert judged(line, Policy("auto", (Rule("auto", "bash"), *DENIED))) != "auto"


_SPECIAL = (
    "awk",
    "bash",
    "env",
    "git",
    "make",
    "node",
    "perl",
    "python3",
    "rename",
    "sed",
    "sh",
    "tar",
)
_BARE = (
    "",
    "-",
    "--",
    "---",
    "-=",
    "--=",
    "=",
    "!=",
    "x=",
    "=x",
    "-e",
    "-c",
    "-m",
    "-F",
    "-S",
    "-C",
    "clone",
    "$x",
)
_FED = ("", " <<< x", " < f")


@given(
    st.sampled_from(sorted({*CARRIERS, *_SPECIAL})),
    st.lists(st.sampled_from(_BARE), max_size=4),
    st.sampled_from(_FED),
)
@example("awk", ["-"], " <<< x")
def test_words_that_mean_nothing_to_a_carrier_are_judged(
    name: str, words: list[str], fed: str
) -> None:
    assert judged(f"{shlex.join([name, *words])}{fed}") in ("auto", "prompt", "deny")
