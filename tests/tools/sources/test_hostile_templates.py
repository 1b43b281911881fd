"""However a template is written: what is accepted runs nothing of a value (SECURITY.md T37)."""

import random
import subprocess
from pathlib import Path

import pytest

from codeagent.tools.sources.template_shell import ShellTemplate
from codeagent.tools.sources.template_text import Parameter

TEXT = {"x": Parameter("x", "string", allow_dash=True)}
TEMPLATES = 150
TOKENS = (
    "echo", "printf %s", " ", " ", " ", "'", '"', "`", "$(", ")", "\\", "\n", "$", "<<EOF", "<<'EOF'", "\nEOF\n", "<<<",
    "|", "&&", ";", "{", "}", "(", "[ ", " ]", "[[ ", " ]]", "=", "==", "x=", "$x", "${x", "${x:-", "#", " #", ";;",
    "case a in ", "esac", "for i in ", "do ", "done", "if true; then ", "fi", "$'", '$"', "$((", "))", "((", "*", "~",
    "export ", "local ", "f() ", "cat", "eval ", "bash -c ", "-eq", "-v", " -- ", "test ", "a[", "]", "&", "<(", ">",
    "2>&1", ">&", "time ", "env ", "declare ", "+=", "\t", "<<-EOF", "é", "let ", "=~ ", "@(", "select i in ", "$[",
    "coproc ", "function g ", "${#x}", "${x@P}", "${!x}", "\\`", "while ", "until false; do ",
)  # fmt: skip
VALUES = (
    "$(touch P)", "`touch P`", "'; touch P; '", '"; touch P; "', "\ntouch P\n", "a[$(touch P)]", "; touch P #",
    "EOF\ntouch P\n", "x)touch P;;esac;touch P", "]]; touch P; [[", "touch P", "\\$(touch P)", "${x:-$(touch P)}",
)  # fmt: skip


def accepted_templates(count: int, seed: int) -> list[ShellTemplate]:
    rng = random.Random(seed)
    found: list[ShellTemplate] = []
    while len(found) < count:
        tokens = [rng.choice(["echo ", "printf %s ", "x=1; echo ", "cat ", ""]), *rng.choices(TOKENS, k=6)]
        for _ in range(rng.choice([1, 2])):
            tokens.insert(rng.randint(0, len(tokens)), "{{args.x}}")
        template = ShellTemplate("".join(tokens), TEXT)
        if not any(not flaw.warning for flaw in template.flaws()):
            found.append(template)
    return found


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


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ('echo a >& "{{args.x}}"', "bash expands what stands behind >& twice"),
        ("$SHELL -c {{args.x}}", "a program that is not fixed"),
        ("${x@P}bash -c {{args.x}}", "a program that is not fixed"),
        ("{bash,-c} {{args.x}}", "cannot be parsed"),
        ("env $FLAGS {{args.x}}", "a program that is not fixed"),
        ("bash $FLAGS {{args.x}}", "it is not fixed what bash is given before"),
        ("/opt/bin/bash -c {{args.x}}", "it would be run as shell code"),
        ("b'a'\\sh -ec {{args.x}}", "it would be run as shell code"),
        ("sudo -u root {{args.x}}", "it would name the program"),
        ("find . -exec sh -c {{args.x}} ;", "it would be run as shell code"),
        ('eval "$(echo {{args.x}})"', "it would be evaluated by eval"),
        ("printf -v {{args.x}} 1", "it would name a variable"),
        ("[[ {{args.x}} -eq 1 ]]", "tests other than"),
        ("[ -v {{args.x}} ]", "tests other than"),
        ("echo ${x:-{{args.x}}}", "inside ${…}"),
        ("echo ${x:{{args.x}}}", "cannot"),
        ("a[{{args.x}}]=1", "an index is evaluated"),
        ("declare -i n={{args.x}}", "so none may keep it"),
        ("n={{args.x}}; echo $((n))", "so none may keep it"),
        ("PATH={{args.x}} ls", "PATH decides what is run"),
        ("echo \\{{args.x}}", "a backslash in front"),
        ('echo "$' + '{{args.x}}"', "a dollar sign in front"),
        ("echo $HOME{{args.x}}", "part of the variable's name"),
        ("cat <<{{args.x}}\n{{args.x}}\n", "end mark of a here-document"),
        ("read {{args.x}}", "it would be evaluated by read"),
        ("ssh host {{args.x}}", "it would be evaluated by ssh"),
    ],
)
def test_where_no_quoting_is_right_the_template_is_refused(template: str, reason: str) -> None:
    said = [flaw.text for flaw in ShellTemplate(template, TEXT).flaws() if not flaw.warning]
    assert said and any(reason in text for text in said)


FIXED = (
    '"$HOME/bin/tool" {{args.x}}',
    'bash "$DIR/run.sh" {{args.x}}',
    "env A=1 ls {{args.x}}",
    "bash -e x.sh {{args.x}}",
)


@pytest.mark.parametrize("template", FIXED)
def test_a_program_whose_name_is_fixed_may_get_it(template: str) -> None:
    assert ShellTemplate(template, TEXT).flaws() == ()
