"""Whatever a value holds, the program gets exactly it, and the shell runs nothing
of it."""

import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.extensions.user_tools.shell_template import ShellTemplate
from codeagent.extensions.user_tools.templates import ArgvTemplate, Parameter
from tests.effort import part, times

MIXED = times(25)
"""Values for each state that are mixtures, beside all of the single pieces."""
TEXT = {"x": Parameter("x", "string", allow_dash=True)}
SHOW = "printf '<%s>\\0' "
"""Prints each argument it gets between < and >, and a NUL."""
STATES: dict[str, tuple[str, str, str]] = {
    "bare": (SHOW + "{{args.x}}", "", ""),
    "bare with text around": (SHOW + "a={{args.x}}.b", "a=", ".b"),
    "in double quotes": (SHOW + '"{{args.x}}"', "", ""),
    "in double quotes with text": (
        SHOW + '"say ${HOME_OF_NOBODY}{{args.x}}\\" `true`"',
        "say ",
        '" ',
    ),
    "in single quotes": (SHOW + "'{{args.x}}'", "", ""),
    "in single quotes with text": (SHOW + "'a\"b\\{{args.x}}\\'", 'a"b\\', "\\"),
    "between parts of $'…'": (SHOW + "$'\\x41'{{args.x}}$'\\n'", "A", "\n"),
    "between quotes of both kinds": (SHOW + "\"a\"'b'{{args.x}}'c'\"d\"", "ab", "cd"),
    "in a substitution": ("true $(" + SHOW + "{{args.x}} >&3)", "", ""),
    "in backticks": ("true `" + SHOW.replace("\\0", "\\\\0") + "{{args.x}} >&3`", "", ""),
    "in backticks in double quotes": (
        'true "`' + SHOW.replace("\\0", "\\\\0") + '{{args.x}} >&3`"',
        "",
        "",
    ),
    "in a function": ("show() { " + SHOW + '"{{args.x}}"; }; show other', "", ""),
    "in a loop": ("for one in {{args.x}}; do " + SHOW + '"$one"; done', "", ""),
    "assigned": ("kept={{args.x}}; " + SHOW + '"$kept"', "", ""),
    "assigned in quotes": ("kept='a{{args.x}}'; " + SHOW + '"$kept"', "a", ""),
    "exported": (
        'export kept="{{args.x}}"; bash -c \'' + SHOW.replace("'", '"') + '"$kept"\'',
        "",
        "",
    ),
    "before a command": (
        "kept={{args.x}} bash -c '" + SHOW.replace("'", '"') + '"$kept"\'',
        "",
        "",
    ),
    "given to a shell": ("bash -c '" + SHOW.replace("'", '"') + '"$1"\' _ {{args.x}}', "", ""),
    "in a comment": ("true # {{args.x}}\n" + SHOW + "none # '{{args.x}}", "none", None),  # type: ignore[dict-item]  # the value is nowhere
    "in braces": (SHOW + "{z,{{args.x}}} | tail -zn 1", "", ""),
    "in a subshell": ("(" + SHOW + "{{args.x}})", "", ""),
    "behind a pipe": ("true | " + SHOW + "{{args.x}}", "", ""),
    "as a case": ("case {{args.x}} in {{args.x}}) " + SHOW + '"{{args.x}}";; esac', "", ""),
    "in a test": ("[ {{args.x}} = '{{args.x}}' ] && " + SHOW + "{{args.x}}", "", ""),
    "in a double test": ("[[ {{args.x}} == '{{args.x}}' ]] && " + SHOW + "{{args.x}}", "", ""),
    "in a process substitution": ("cat <(" + SHOW + "{{args.x}})", "", ""),
    "after a backslash and a newline": (SHOW + "\\\n{{args.x}}", "", ""),
    "in a substitution in double quotes": (SHOW + '"a $(printf %s. "{{args.x}}")"', "a ", "."),
}
DOCUMENTS = {
    "in a here-document, from a variable": ("x={{args.x}}\ncat <<EOF\n<${x}>\nEOF\n", "<", ">\n"),
    "in one with tabs": ("x={{args.x}}\ncat <<-EOF\n\t<a ${x}>\n\tEOF\n", "<a ", ">\n"),
    "in a here-string": ("cat <<< '<{{args.x}}>'", "<", ">\n"),
}
PIECES = (
    "'",
    '"',
    "`",
    "$",
    "\\",
    "$(touch P)",
    "`touch P`",
    "${IFS}",
    "$'",
    '$"',
    "; touch P #",
    "&& touch P",
    "|touch P",
    "\n",
    "\r\n",
    "\t",
    " ",
    "",
    "*",
    "?",
    "[a-z]",
    "{a,b}",
    "~",
    "!",
    "!!",
    "#",
    "%s",
    "%n",
    "<",
    ">",
    "<(touch P)",
    "EOF",
    "\nEOF\n",
    "\n\tEOF\ntouch P\n",
    "--",
    "-rf",
    "--pre=./x",
    "-",
    "=",
    "a[$(touch P)]",
    "$((1))",
    "$[1]",
    "\x01",
    "\x7f",
    "\x1b[31m",
    "é",
    "日本",
    "\U0001f600",
    "\u202e",
    "\u2028",
    "\ufeff",
    "]]",
    "))",
    "esac",
    "fi",
    ";;",
    "}",
    "done",
    "$@",
    "$*",
    "$1",
    "$0",
    "$?",
    "${x@P}",
    "\\'",
    '\\"',
    "\\\\",
    "\\n",
    "\\x27",
    "\\0",
    "\xa0",
)


def hostile_values(seed: int) -> list[str]:
    """Single pieces, then mixtures of them."""
    rng = random.Random(seed)
    return [*PIECES, *("".join(rng.choices(PIECES, k=rng.randint(1, 9))) for _ in range(MIXED))]


def bash(scripts: Sequence[str], folder: Path) -> list[bytes]:
    """What each script writes; they are run one after another by one shell, and a broken one breaks
    the count."""
    mark = b"\x02end-of-one\x02\n"
    marked = [f"{script}\nprintf '\\002end-of-one\\002\\n'" for script in scripts]
    together = "\n".join(["exec 3>&1", *marked])
    (folder / "script").write_bytes(together.encode())
    done = subprocess.run(
        ["bash", "script"],
        cwd=folder,
        capture_output=True,
        timeout=100,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    pieces = done.stdout.split(mark)
    assert pieces[-1] == b"", done.stderr[-2000:]
    return pieces[:-1]


@pytest.mark.soak(tried=MIXED, row="user tool values")
@pytest.mark.parametrize("state", part([*STATES], 10))
def test_the_shell_hands_on_exactly_the_value_in_every_state(state: str, tmp_path: Path) -> None:
    template, before, after = STATES[state]
    shell = ShellTemplate(template, TEXT)
    assert [flaw for flaw in shell.flaws() if not flaw.warning] == []
    values = hostile_values(seed=len(state))
    printed = bash([shell.render({"x": value}) for value in values], tmp_path)
    for value, out in zip(values, printed, strict=True):
        expected = before if after is None else before + value + after
        assert out == f"<{expected}>\0".encode(), value
    assert sorted(path.name for path in tmp_path.iterdir()) == ["script"]


@pytest.mark.soak(tried=MIXED, row="user tool values")
@pytest.mark.parametrize("state", part([*DOCUMENTS], 4))
def test_a_document_holds_exactly_the_value(state: str, tmp_path: Path) -> None:
    template, before, after = DOCUMENTS[state]
    shell = ShellTemplate(template, TEXT)
    assert shell.flaws() == ()
    values = hostile_values(seed=len(state))
    printed = bash([shell.render({"x": value}) for value in values], tmp_path)
    assert printed == [(before + value + after).encode() for value in values]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["script"]


@pytest.mark.soak(tried=MIXED, row="user tool values")
@pytest.mark.parametrize("item", ["{{args.x}}", "--at={{inputs.x}}.end", "{{ args.x }}{{args.x}}"])
def test_the_program_gets_exactly_the_value_as_one_argument(item: str, tmp_path: Path) -> None:
    argv = ArgvTemplate(["printf", "<%s>\\0", item, "last"], TEXT)
    values = hostile_values(seed=len(item))
    printed = bash([f"(exec -- {argv.command_line({'x': value})})" for value in values], tmp_path)
    for value, out in zip(values, printed, strict=True):
        whole = item.replace("{{inputs.x}}", value).replace("{{ args.x }}{{args.x}}", value * 2)
        whole = value if item == "{{args.x}}" else whole
        assert out == f"<{whole}>\0<last>\0".encode(), value
    assert sorted(path.name for path in tmp_path.iterdir()) == ["script"]


def test_a_list_becomes_one_argument_for_each_item(tmp_path: Path) -> None:
    parameters = {"x": Parameter("x", "array", allow_dash=True)}
    lists = [hostile_values(seed)[:size] for seed, size in enumerate([0, 1, 2, 80])]
    shell = ShellTemplate(SHOW + "first {{args.x}}", parameters)
    argv = ArgvTemplate(["printf", "<%s>\\0", "first", "{{args.x}}"], parameters)
    for scripts in (
        [shell.render({"x": items}) for items in lists],
        [argv.command_line({"x": items}) for items in lists],
    ):
        expected = [
            "".join(f"<{item}>\0" for item in ["first", *items]).encode() for items in lists
        ]
        assert bash(scripts, tmp_path) == expected


@settings(max_examples=times(20), deadline=None)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
        min_size=20,
        max_size=60,
    )
)
def test_any_text_at_all_arrives(values: list[str]) -> None:
    single = ShellTemplate(SHOW + "\"{{args.x}}\" '{{args.x}}' $''{{args.x}} {{args.x}}", TEXT)
    script = "\n".join(single.render({"x": value}) for value in values)
    done = subprocess.run(
        ["bash"], input=script.encode(), capture_output=True, timeout=60, check=True
    )
    assert done.stdout == "".join(f"<{value}>\0" * 4 for value in values).encode()


@pytest.mark.soak(tried=len(PIECES))
def test_the_line_that_rules_see_says_the_same_as_the_line_that_runs(tmp_path: Path) -> None:
    states = [
        state for state in STATES if state not in ("in a comment",) and "backticks" not in state
    ]
    values = part(PIECES, 20)
    for state in states:
        template, before, after = STATES[state]
        shell = ShellTemplate(template, TEXT)
        printed = bash([shell.command_line({"x": value}) for value in values], tmp_path)
        assert printed == [f"<{before}{value}{after}>\0".encode() for value in values], state
