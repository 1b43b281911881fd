"""However a template is written: what is accepted runs nothing of a value."""

import random
import subprocess
from pathlib import Path

import pytest

from codeagent.core.tool import InvalidArgs
from codeagent.extensions.user_tools.shell_template import ShellTemplate
from codeagent.extensions.user_tools.templates import ArgvTemplate, Parameter
from tests.effort import times
from tests.table import for_each

TEXT = {"x": Parameter("x", "string", allow_dash=True)}
TEMPLATES = times(40)
TOKENS = (
    "echo",
    "printf %s",
    " ",
    " ",
    " ",
    "'",
    '"',
    "`",
    "$(",
    ")",
    "\\",
    "\n",
    "$",
    "<<EOF",
    "<<'EOF'",
    "\nEOF\n",
    "<<<",
    "|",
    "&&",
    ";",
    "{",
    "}",
    "(",
    "[ ",
    " ]",
    "[[ ",
    " ]]",
    "=",
    "==",
    "x=",
    "$x",
    "${x",
    "${x:-",
    "#",
    " #",
    ";;",
    "case a in ",
    "esac",
    "for i in ",
    "do ",
    "done",
    "if true; then ",
    "fi",
    "$'",
    '$"',
    "$((",
    "))",
    "((",
    "*",
    "~",
    "export ",
    "local ",
    "f() ",
    "cat",
    "eval ",
    "bash -c ",
    "-eq",
    "-v",
    " -- ",
    "test ",
    "a[",
    "]",
    "&",
    "<(",
    ">",
    "2>&1",
    ">&",
    "time ",
    "env ",
    "declare ",
    "+=",
    "\t",
    "<<-EOF",
    "é",
    "let ",
    "=~ ",
    "@(",
    "select i in ",
    "$[",
    "coproc ",
    "function g ",
    "${#x}",
    "${x@P}",
    "${!x}",
    "\\`",
    "while ",
    "until false; do ",
)
VALUES = (
    "$(touch P)",
    "`touch P`",
    "'; touch P; '",
    '"; touch P; "',
    "\ntouch P\n",
    "a[$(touch P)]",
    "; touch P #",
    "EOF\ntouch P\n",
    "x)touch P;;esac;touch P",
    "]]; touch P; [[",
    "touch P",
    "\\$(touch P)",
    "${x:-$(touch P)}",
)


def accepted_templates(count: int, seed: int) -> list[ShellTemplate]:
    rng = random.Random(seed)
    found: list[ShellTemplate] = []
    while len(found) < count:
        tokens = [
            rng.choice(["echo ", "printf %s ", "x=1; echo ", "cat ", ""]),
            *rng.choices(TOKENS, k=6),
        ]
        for _ in range(rng.choice([1, 2])):
            tokens.insert(rng.randint(0, len(tokens)), "{{args.x}}")
        template = ShellTemplate("".join(tokens), TEXT)
        if not any(not flaw.warning for flaw in template.flaws()):
            found.append(template)
    return found


@pytest.mark.soak(tried=TEMPLATES, row="user tool values")
def test_no_accepted_template_runs_a_value(tmp_path: Path) -> None:
    rng = random.Random(7)
    scripts = [
        template.render({"x": value})
        for template in accepted_templates(TEMPLATES, seed=11)
        for value in rng.sample(VALUES, 4)
    ]
    each = 'for one in "$@"; do timeout 2 bash -c "$one" < /dev/null; done > /dev/null 2>&1'
    subprocess.run(["bash", "-c", each, "_", *scripts], cwd=tmp_path, timeout=100, check=False)
    assert not (tmp_path / "P").exists()


@for_each(
    ("template", "reason"),
    [
        ('echo a >& "{{args.x}}"', "bash expands what follows >& twice"),
        ("$SHELL -c {{args.x}}", "a program that is not fixed"),
        ("${x@P}bash -c {{args.x}}", "a program that is not fixed"),
        ("{bash,-c} {{args.x}}", "cannot be parsed"),
        ("env $FLAGS {{args.x}}", "a program that is not fixed"),
        ("bash $FLAGS {{args.x}}", "it is not fixed which arguments bash gets before it"),
        ("/opt/bin/bash -c {{args.x}}", "it would be run as shell code"),
        ("b'a'\\sh -ec {{args.x}}", "it would be run as shell code"),
        ("sudo -u root {{args.x}}", "it would name the program"),
        ("find . -exec sh -c {{args.x}} ;", "it would be run as shell code"),
        ('eval "$(echo {{args.x}})"', "it would be evaluated by eval"),
        ("printf -v {{args.x}} 1", "printf evaluates what it is given as a name"),
        ("[[ {{args.x}} -eq 1 ]]", "tests other than"),
        ("[ -v {{args.x}} ]", "tests other than"),
        ("echo ${x:-{{args.x}}}", "inside ${…}"),
        ("echo ${x:{{args.x}}}", "inside ${…}"),
        ("a[{{args.x}}]=1", "an index is evaluated"),
        ("n={{args.x}}; echo $((n))", "arithmetic evaluates what its variables hold"),
        ("declare -i n={{args.x}}", "assign it first"),
        ("PATH={{args.x}} ls", "PATH controls what is run"),
        ("echo \\{{args.x}}", "a backslash before it"),
        ('echo "$' + '{{args.x}}"', "a dollar sign before it"),
        ("echo $HOME{{args.x}}", "part of the variable's name"),
        ("cat <<{{args.x}}\n{{args.x}}\n", "end mark of a here-document"),
        ("read {{args.x}}", "it would be evaluated by read"),
        ("ssh host {{args.x}}", "it would be evaluated by ssh"),
    ],
)
def test_where_no_quoting_is_right_the_template_is_refused(template: str, reason: str) -> None:
    said = [flaw.text for flaw in ShellTemplate(template, TEXT).flaws() if not flaw.warning]
    assert said and any(reason in text for text in said)


ELSEWHERE = [
    ("echo $'a{{args.x}}b'", "echo $'a'{{args.x}}$'b'"),
    ("echo $HOME{{args.x}}", "echo ${HOME}{{args.x}}"),
    ('echo "$HOME{{args.x}}"', 'echo "${HOME}{{args.x}}"'),
    ("echo \\{{args.x}}", "echo {{args.x}}"),
    ('echo "costs $' + '{{args.x}}"', 'echo "costs \\${{args.x}}"'),
    ("[[ $HOME =~ ^{{args.x}} ]]", 'x={{args.x}}\n[[ $HOME =~ ^"${x}" ]]'),
    ("cat <<EOF\nDear {{args.x}},\nEOF\n", "x={{args.x}}\ncat <<EOF\nDear ${x},\nEOF\n"),
    ("cat <<'EOF'\nDear {{args.x}},\nEOF\n", "x={{args.x}}\ncat <<EOF\nDear ${x},\nEOF\n"),
    ('echo "${HOME:-{{args.x}}}"', 'x={{args.x}}\necho "${HOME:-${x}}"'),
    ('echo "${HOME#{{args.x}}}"', 'x={{args.x}}\necho "${HOME#${x}}"'),
    ("echo \"${HOME:-'{{args.x}}'}\"", "x={{args.x}}\necho \"${HOME:-'${x}'}\""),
    ("bash -c 'ls -- {{args.x}} | wc'", "bash -c 'ls -- \"$1\" | wc' _ {{args.x}}"),
]
"""Placements that are refused, and the line as it should be."""


@for_each(("template", "corrected"), ELSEWHERE)
def test_elsewhere_it_is_refused_with_the_line_as_it_should_be(
    template: str, corrected: str
) -> None:
    [said] = {flaw.text for flaw in ShellTemplate(template, TEXT).flaws() if not flaw.warning}
    lines = [line for line in corrected.splitlines() if line not in template.splitlines()]
    assert [line for line in lines if line not in said and "<<" not in line] == []
    assert ("remove the quotes" in said) is ("<<'" in template)
    assert [flaw for flaw in ShellTemplate(corrected, TEXT).flaws() if not flaw.warning] == []


KEPT = (
    "a={{args.x}}; ",
    "a='{{args.x}}'; ",
    "for a in {{args.x}}; do :; done; ",
    "read -r a <<< {{args.x}}; ",
    "export a={{args.x}}; ",
    "a=$(printf %s {{args.x}}); ",
    "printf -v a %s {{args.x}}; ",
    "b={{args.x}}\nIFS= read -r a <<EOF\n$b\nEOF\n",
)
"""A value gets into a variable."""
RUNS_WHAT_IT_HOLDS = (
    "[[ $a -eq 1 ]]",
    "[[ a -eq 1 ]]",
    "[[ 1 -lt $a ]]",
    "[[ -v $a ]]",
    "b[$a]=1",
    "b[a]=1",
    "b=([$a]=1)",
    "echo ${b[$a]}",
    "v=abc; echo ${v:0:$a}",
    "v=abc; echo ${v:a}",
    "v=abc; echo ${v: $a:1}",
    'test -v "$a"',
    '[ -v "$a" ]',
    'test -R "$a"',
    'declare "$a=1"',
    'export "$a=1"',
    'local "$a=1"',
    'typeset "$a=1"',
    'readonly "$a=1"',
    'declare -i b="$a"',
    'declare -n b="$a"; echo "$b"',
    "echo ${!a}",
    'echo "${!a}"',
    'echo "${a@P}"',
    'source "$a"',
    '. "$a"',
    '. ./"$a"',
    'bash -c "$a"',
    "bash -c $a",
    'bash -ec "echo $a"',
    'sh -c "true; $a"',
    'bash "$a"',
    'bash <<< "$a"',
    "bash <<EOF\n$a\nEOF",
    'echo "$a" | bash',
    'echo "$a" | sh -s',
    'printf %s "$a" | env bash',
    'bash <(echo "$a")',
    'source /dev/stdin <<< "$a"',
    'eval "$a"',
    "eval 'echo $a'",
    'trap "$a" EXIT',
    "trap 'eval \"$a\"' EXIT",
    '"$a"',
    "$a",
    'env "$a"',
    'exec "$a"',
    "echo $((a))",
    "echo $(($a+1))",
    "echo $[a]",
    "((a))",
    "((b=a))",
    "for ((i=a;i<1;i++)); do :; done",
    "let b=a",
    'let "$a"',
    'unset "$a"',
    'read "$a" <<< 1',
    'mapfile -t "$a" < /dev/null',
    'printf -v "$a" 1',
    'printf "$a" x',
    'printf %n "$a"',
    "printf -v b[$a] 1",
    'printf -vb "$a" "$a"',
    'printf -v b "$a" "$a"',
    'printf -- "$a" "$a"',
    'printf -vb -- %n "$a"',
    'printf %ln "$a"',
    "b=([a]=1)",
    "b+=(x [ a ]=1)",
    "declare -a b=([a]=1)",
    "cat <<EOF\n$((a))\nEOF",
    "cat <<EOF\n${!a}\nEOF",
    'echo "$((a))"',
    'echo "${b[$a]}"',
    "bash -c '[[ $1 -eq 1 ]]' _ \"$a\"",
    'bash -c \'eval "$1"\' _ "$a"',
    "bash -c '$1' _ \"$a\"",
    'echo "$a" | xargs sh -c',
    "echo \"$a\" | xargs -I{} sh -c 'echo {}'",
    "find . -name \"$a\" -exec sh -c 'echo {}' \\;",
    'echo "$a" | python3',
    'echo "$a" | python3 -',
    'python3 <<< "$a"',
    'ssh h <<< "$a"',
    'f() { [[ $1 -eq 1 ]]; }; f "$a"',
    'f() { "$@"; }; f "$a"',
    'alias b="$a"',
    'PS4="$a" bash -xc :',
    'b="$a"; eval "$b"',
    "rm $a",
    "echo ${a}",
    'complete -C "$a" b',
    'wait -p "$a"',
    'hash -p "$a" b',
    "${a} x",
    'getopts a "$a"',
    'coproc "$a"',
    'bash -c "\\$1" _ "$a"',
    'cd "$a"; rm $PWD',
    'true "$a"; [[ $_ -eq 1 ]]',
    'echo x >& "$a"',
    "find . -exec \"$a\" x ';'",
    'fd . -x "$a"',
    'test "$a" "$a"',
    "test -v 'b[a]'",
    "[ -v b[a] ]",
    '[ "$a" = x -o "$a" = y ]',
    'xargs -a f "$a" x',
    'sudo -u root "$a"',
    'docker exec c bash -c "$a"',
    'b=(["$a"]=1)',
    "export a; bash -c '$a x'",
    "export a; bash -c 'bash -c \"$a\"'",
    '$SHELL -c "$a"',
    'ssh h "$a"',
    'echo "$a" | xargs env',
    'echo "$a" | xargs -n 2 nohup',
    'echo "$a" | xargs -I{} {} x',
    'echo "$a" | xargs -d , -I % nice % x',
    'echo "$a" | unshare',
    'echo "$a" | sudo -s',
    'python3 /dev/stdin <<< "$a"',
    'python3 <(echo "$a")',
    "bash -c 'if' _ \"$a\"",
    'f() { [ "$@" ]; }; f -v "$a"',
    'bash $b <<< "$a"',
    'echo "$a" | sh -e ${b^^}',
    'test {-v,"$a"}',
    '[ x -a {-v,"$a"} ]',
    "[ -n $a ]",
    "[ ! $a ]",
    "[ x$a = y ]",
    'set -- -v "$a"; [ $* ]',
    'f() { [ -n $1 ]; }; f "$a"',
    '[ -n $(echo "$a") ]',
    'test x = $(echo "$a")',
    'mapfile -C eval -c 1 b < "$a"',
    'readarray -tC "echo 1" b < "$a"',
    'f() { test "$@"; }; f -v "$a"',
    'echo "$a" | xargs test -v',
    'timeout sh "$a"',
    "$'\\x65val' \"$a\"",
    '[[ $a =~ (.*) ]]; "${BASH_REMATCH[1]}"',
)
KEEPS_ONE_TEXT = (
    'echo "$a"',
    'echo "${a}"',
    'echo "${a:-none}" "${#a}" ${#a}',
    'echo "${a%.py}" "${a/x/y}" "${a:0:3}" "${a: -3}"',
    "[[ $a == x ]] && echo",
    "[[ -f $a ]]",
    '[ "$a" = x ]',
    'test -n "$a"',
    "case $a in x) echo;; esac",
    'b=$a; echo "$b"',
    'cat <<< "$a"',
    "cat <<EOF\n$a\nEOF",
    'echo "$a" | grep x',
    'grep -e "$a" f',
    'bash -c \'echo "$1"\' _ "$a"',
    'bash run.sh "$a"',
    'find . -name "$a"',
    'echo "$a" | while read -r b; do echo "$b"; done',
    'for b in "$a"; do echo "$b"; done',
    "n=5; echo $((2+3)) $n",
    'printf "%s\\n" "$a"',
    'f() { echo "$1"; }; f "$a"',
    "export a",
    'local b="$a"',
    'cd -- "$a"',
    "xargs -0 rm -- < f",
    'echo "$a" | xargs -d "\\n" ls --',
    'git log -- "$a"',
    'python3 tool.py "$a"',
    'echo "$a" > f',
    'python3 tool.py <<< "$a"',
    "[[ 3 -lt 4 ]]",
    'b=(x y); echo "${b[0]}" "${b[@]}"',
    'printf -vb -- "%s-%s" "$a" "$a"',
    'b=([0]="x" [2]=y [a-z]*.txt)',
    'trap "rm -f tmp" EXIT',
    '[ "$a" -gt 3 ]',
    "[[ $a =~ ^[a-z]+$ ]]",
    '[ ! -f "$a" ]',
    'echo "$a" | xargs',
    'echo "$a" | xargs -I {} cp {} d',
    'echo "$a" | xargs -n 1 -P 2 nice ls --',
    'env | grep "$a"',
    'exec 2>&1; echo "$a" | cat',
    "[[ -f $a && $a != x ]]",
)


@for_each("runs", RUNS_WHAT_IT_HOLDS)
def test_what_would_run_a_variable_s_content_is_refused_however_the_value_got_there(
    runs: str,
) -> None:
    for kept in KEPT:
        assert [flaw for flaw in ShellTemplate(kept + runs, TEXT).flaws() if not flaw.warning], kept


@for_each("keeps", KEEPS_ONE_TEXT)
def test_what_keeps_one_text_is_taken(keeps: str) -> None:
    for kept in KEPT:
        assert [
            flaw for flaw in ShellTemplate(kept + keeps, TEXT).flaws() if not flaw.warning
        ] == [], kept


def test_of_what_is_taken_nothing_of_a_value_runs(tmp_path: Path) -> None:
    scripts = [
        ShellTemplate(KEPT[at % len(KEPT)] + keeps, TEXT).render({"x": VALUES[at % len(VALUES)]})
        for at, keeps in enumerate(KEEPS_ONE_TEXT)
    ]
    each = 'for one in "$@"; do timeout 2 bash -c "$one" < /dev/null; done > /dev/null 2>&1'
    subprocess.run(["bash", "-c", each, "_", *scripts], cwd=tmp_path, timeout=100, check=False)
    assert not (tmp_path / "P").exists()


@for_each(
    "template",
    [
        "bash <<EOF\n{{args.x}}\nEOF\n",
        "bash <<< {{args.x}}",
        "echo {{args.x}} | bash",
        "echo {{args.x}} | sudo sh",
        "bash -s <<< '{{args.x}}'",
        "cat <<EOF | sh\n{{args.x}}\nEOF\n",
        "echo {{args.x}} | tee >(bash)",
        "bash < <(echo {{args.x}})",
        "python3 - <<EOF\n{{args.x}}\nEOF\n",
        "echo {{args.x}} | ssh host",
        "echo {{args.x}} | at now",
        "echo {{args.x}} | parallel",
        "test {{args.x}} {{args.x}}",
        "b=([{{args.x}}]=1)",
        "echo ${b:-a {{args.x}}}",
        "(bash) <<< {{args.x}}",
        "{ sh; } <<< {{args.x}}",
        "if sh; then :; fi <<< {{args.x}}",
        "printf {{args.x}} a",
    ],
)
def test_what_would_run_its_input_is_refused(template: str) -> None:
    assert [flaw for flaw in ShellTemplate(template, TEXT).flaws() if not flaw.warning]


def test_what_a_variable_of_the_environment_holds_is_not_run_either() -> None:
    assert (
        ShellTemplate('eval "$V"', TEXT).flaws()
        and ArgvTemplate(["bash", "-c", 'eval "$V"'], TEXT).flaws()
    )
    for line in ('"$V" x', "$V x", 'find . -exec "$V" \\;', "bash -c '\"$V\" x'"):
        assert ShellTemplate(line, TEXT, frozenset({"V"})).flaws(), line
    assert ArgvTemplate(["bash", "-c", '"$V" x'], TEXT, frozenset({"V"})).flaws()
    assert not ShellTemplate('echo "$V" | grep x', TEXT, frozenset({"V"})).flaws()
    assert ArgvTemplate(["bash", "-c", "[[ $1 -eq 1 ]]", "_", "{{args.x}}"], TEXT).flaws()
    assert not ArgvTemplate(["bash", "-c", 'echo "$1"', "_", "{{args.x}}"], TEXT).flaws()


def test_a_list_is_not_the_operators_of_a_test() -> None:
    lists = {"x": Parameter("x", "array", allow_dash=True)}
    for line in ("[ {{args.x}} ]", "test {{args.x}}", "[ {{args.x}} = a ]"):
        assert ShellTemplate(line, lists).flaws(), line
    assert ShellTemplate("ls {{args.x}}", lists).flaws() == ()


def test_a_number_may_be_computed_with() -> None:
    number = {"n": Parameter("n", "integer")}
    assert (
        ShellTemplate(
            "echo $(({{args.n}} + 1)); i=0; while [[ $i -lt 3 ]]; do i=$((i+1)); done", number
        ).flaws()
        == ()
    )


@for_each(
    "template", ['a={{args.x}}; rm "$a"', 'for a in {{args.x}}; do rm "$a"; done', "b=({{args.x}})"]
)
def test_what_a_variable_keeps_must_not_begin_like_an_option(template: str) -> None:
    strict = ShellTemplate(template, {"x": Parameter("x", "string")})
    assert strict.flaws() == ()
    with pytest.raises(InvalidArgs):
        strict.render({"x": "-rf"})


FIXED = (
    '"$HOME/bin/tool" {{args.x}}',
    'bash "$DIR/run.sh" {{args.x}}',
    "env A=1 ls {{args.x}}",
    "bash -e x.sh {{args.x}}",
)


@for_each("template", FIXED)
def test_a_program_whose_name_is_fixed_may_get_it(template: str) -> None:
    assert ShellTemplate(template, TEXT).flaws() == ()


OPTIONAL = {"x": Parameter("x", "string"), "o": Parameter("o", "string", may_be_missing=True)}


def test_what_is_dropped_takes_its_dashes_along() -> None:
    argv = ArgvTemplate(["grep", ["--", "{{args.o}}"], "{{args.x}}"], OPTIONAL)
    assert argv.flaws() == ()
    assert argv.render({"o": "a", "x": "-f"}) == ["grep", "--", "a", "-f"]
    with pytest.raises(InvalidArgs, match="begins with -"):
        argv.render({"x": "-f"})


@for_each(
    ("items", "why"),
    [
        ([["ls", "{{args.o}}"], "{{args.x}}"], "it would name the program"),
        (["sh", ["run.sh", "{{args.o}}"], "{{args.x}}"], "it would name the script that sh runs"),
        (["env", ["cat", "{{args.o}}"], "{{args.x}}"], "it would name the program that env runs"),
        ([["ls", "{{args.o}}"]], "no program is left to run"),
    ],
)
def test_a_call_without_what_keeps_a_value_a_text_is_refused(
    items: list[str | list[str]], why: str
) -> None:
    argv = ArgvTemplate(items, OPTIONAL)
    assert argv.flaws() == () and argv.render({"x": "a", "o": "b"})
    with pytest.raises(
        InvalidArgs, match=f"give the optional arguments as well: without them, {why}"
    ):
        argv.render({"x": "touch"})
