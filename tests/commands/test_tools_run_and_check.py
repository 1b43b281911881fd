"""`codeagent tools check` and `tools run`: what the author of a tool file gets to see."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.product import Product

TOOL = """\
name: count_words
description: Count the words of a text, as wc does.
parameters:
  - {name: text, description: what is counted}
  - {name: times, type: integer, default: 1, description: how often it is said}
argv: [bash, -c, 'for i in $(seq "$2"); do wc -w <<< "$1"; done', _, "{{args.text}}", "{{args.times}}"]
"""

PYTHON = """\
from codeagent import register_tool


@register_tool
def {}(text: str) -> str:
    \"\"\"Say a text again, as it was given.

    Args:
        text: what is said
    \"\"\"
    return text
"""


@pytest.fixture
def product(tmp_path: Path) -> Product:
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    (tmp_path / "work/.codeagent/tools").mkdir(parents=True)
    (tmp_path / "work/.codeagent/tools/words.yaml").write_text(TOOL)
    return Product(tmp_path / "work", tmp_path / "home")


def broken(product: Product) -> None:
    path = product.workspace / ".codeagent/tools/broken.yaml"
    path.write_text("name: x\ndescription: Does nothing at all yet.\nargvs: [ls]\n")


def test_a_good_file_is_named_with_its_tools(product: Product) -> None:
    done = product.call("tools", "check", ".codeagent/tools/words.yaml")
    assert (done.code, done.out, done.err) == (0, ".codeagent/tools/words.yaml: count_words\n", "")


def test_a_broken_file_says_file_line_and_key_and_ends_with_two(product: Product) -> None:
    broken(product)
    done = product.call("tools", "check", ".codeagent/tools/broken.yaml")
    assert (done.code, done.out) == (2, "")
    assert done.err == ".codeagent/tools/broken.yaml:3: argvs: no such key; did you mean argv?\n"


@pytest.mark.parametrize(
    ("file", "tool", "said"),
    [
        ("new.yaml", "read", "the tool read of yaml is refused: builtin has one of that name"),
        (
            "new.yaml",
            "info",
            "the tool info of new.yaml:1 is refused: a built-in tool has that name",
        ),
        ("new.yaml", "shell", "the tool name shell of yaml is taken by the user's own commands"),
        (
            "new.yaml",
            "count_words",
            "new.yaml:1 is refused: .codeagent/tools/words.yaml:1 has one of that name",
        ),
        ("new.py", "read", "the tool read of python is refused: builtin has one of that name"),
        ("new.py", "shell", "the tool name shell of python is taken by the user's own commands"),
    ],
)
def test_the_check_finds_a_name_that_loading_would_refuse(
    product: Product, file: str, tool: str, said: str
) -> None:
    text = TOOL.replace("count_words", tool) if file.endswith(".yaml") else PYTHON.format(tool)
    (product.workspace / file).write_text(text)
    done = product.call("tools", "check", file)
    assert (done.code, done.out) == (2, "") and said in done.err, done.err


def test_the_check_takes_a_file_that_narrows_a_built_in_tool_and_one_that_is_in_use(
    product: Product,
) -> None:
    (product.workspace / "narrow.yaml").write_text(
        "name: read\nbuiltin: true\nrestrictions: ['src/**']\n"
    )
    assert product.call("tools", "check", "narrow.yaml").code == 0
    words = ".codeagent/tools/words.yaml"
    assert product.call("tools", "check", words, "--trust-project").out == f"{words}: count_words\n"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gone.yaml", "gone.yaml cannot be read: No such file"),
        ("x.txt", "x.txt is not a tool file"),
        ("large.py", "large.py cannot be read: it is larger than 262144 bytes"),
    ],
)
def test_what_is_no_tool_file_is_said(product: Product, name: str, said: str) -> None:
    (product.workspace / "x.txt").write_text("")
    (product.workspace / "large.py").write_text("#" * 300_000)
    done = product.call("tools", "check", name)
    assert done.code == 2 and said in done.err and done.err.count("\n") == 1


def test_f1_the_list_names_every_tool_once_and_what_is_broken_elsewhere(product: Product) -> None:
    broken(product)
    done = product.call("tools", "list", "--json", "--trust-project")
    found = json.loads(done.out)
    names = [tool["name"] for tool in found]
    assert len(names) == len(set(names)) and "count_words" in names
    [mine] = [tool for tool in found if tool["name"] == "count_words"]
    assert (mine["source"], mine["origin"]) == ("yaml", ".codeagent/tools/words.yaml:1")
    assert "broken.yaml:3: argvs: no such key; did you mean argv?" in done.err
    problems = json.loads(
        product.call("tools", "list", "--problems", "--json", "--trust-project").out
    )
    assert [(one["level"], one["where"]) for one in problems] == [
        ("error", ".codeagent/tools/broken.yaml:3: argvs")
    ]


def test_a_file_that_nobody_trusts_is_not_loaded_and_it_is_said(product: Product) -> None:
    done = product.call("tools", "list")
    assert "count_words" not in done.out
    assert (
        ".codeagent/tools/words.yaml: not loaded: this project's tool files are not trusted"
        in done.err
    )
    done = product.call("tools", "run", "count_words", "text=x")
    assert done.code == 2 and "not trusted as it is now: .codeagent/tools/words.yaml" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["text"], "'text' is not ARG=VALUE"),
        (["text=a", "text=b"], "the argument text is given twice"),
        (["text=a", "times=x"], "times=x is not JSON"),
        (["text=a", "--json", "{}"], "give --json or ARG=VALUE, not both"),
    ],
)
def test_arguments_that_cannot_be_read_end_with_two(
    product: Product, arguments: list[str], said: str
) -> None:
    done = product.call("tools", "run", "--trust-project", "count_words", *arguments)
    assert done.code == 2 and said in done.err and done.out == ""


@pytest.mark.docker
def test_a_tool_is_run_as_a_model_would_run_it(product: Product) -> None:
    done = product.call(
        "tools", "run", "--trust-project", "--yes", "count_words", "text=one two = three", "times=2"
    )
    assert (done.code, done.out) == (0, "4\n4\n")
    assert (
        "$ exec -- bash -c" in done.err and "comes from .codeagent/tools/words.yaml:1" in done.err
    )


@pytest.mark.docker
def test_without_a_yes_it_is_not_run_and_ends_with_four(product: Product) -> None:
    done = product.call("tools", "run", "--trust-project", "count_words", "text=x")
    assert (done.code, done.out) == (4, "") and "denied: " in done.err and "--yes" in done.err


@pytest.mark.docker
def test_a_call_that_does_not_fit_ends_with_two_and_a_failure_with_one(product: Product) -> None:
    done = product.call(
        "tools", "run", "--trust-project", "--yes", "count_words", "--json", '{"txt": 1}'
    )
    assert done.code == 2 and "Missing required argument 'text' for tool 'count_words'" in done.err
    (product.workspace / ".codeagent/tools/bad.yaml").write_text(
        "name: fails\ndescription: It only ever fails, with three.\ncommand: echo out; exit 3\n"
    )
    done = product.call("tools", "run", "--trust-project", "--yes", "fails")
    assert (done.code, done.out) == (1, "out\n") and "failed: exit code 3" in done.err


PRINTING = """\
from codeagent import register_tool


@register_tool
def count_letters(text: str) -> int:
    '''Count the letters of a text.

    Args:
        text: What is counted.
    '''
    print("counting", text)
    return len(text)
"""


def test_what_a_function_prints_and_what_it_returns_come_out_once_each(product: Product) -> None:
    (product.workspace / ".codeagent/tools/letters.py").write_text(PRINTING)
    done = product.call("tools", "run", "count_letters", "text=abc", "--yes", "--trust-project")
    assert (done.code, done.out) == (0, "counting abc\n3\n")


HARMFUL = "import pathlib\npathlib.Path('P').touch()\n" + PRINTING


def test_the_check_of_a_python_file_that_nobody_trusts_runs_nothing_of_it(product: Product) -> None:
    path, mark = product.workspace / ".codeagent/tools/letters.py", product.workspace / "P"
    path.write_text(HARMFUL)
    done = product.call("tools", "check", ".codeagent/tools/letters.py")
    assert (done.code, done.out) == (0, ".codeagent/tools/letters.py: count_letters\n")
    assert "read and not imported" in done.err and not mark.exists()
    trusted = product.call("tools", "check", ".codeagent/tools/letters.py", "--trust-project")
    assert trusted.code == 0 and "read and not imported" not in trusted.err and mark.exists(), (
        "the control"
    )
    mark.unlink()
    product.call("tools", "trust")
    mark.unlink(missing_ok=True)
    path.write_text(HARMFUL + "# changed\n")
    product.call("tools", "check", ".codeagent/tools/letters.py")
    assert not mark.exists(), "trust was given to what it was before"


def test_the_check_of_an_untrusted_file_named_only_py_runs_nothing_of_it(product: Product) -> None:
    (product.workspace / ".codeagent/tools/.py").write_text(HARMFUL)
    done = product.call("tools", "check", ".codeagent/tools/.py")
    assert "read and not imported" in done.err
    assert not (product.workspace / "P").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(:\n", "letters.py:1: syntax error: "),
        ("x = '\0'\n", "letters.py:1: "),
        (
            PRINTING.replace("text: str", "text"),
            "letters.py:5: count_letters: the parameter 'text' has no type",
        ),
        (PRINTING + PRINTING, "there is another tool count_letters"),
        ("# coding: no-such\n", "letters.py:1: syntax error: unknown encoding: no-such"),
    ],
)
def test_what_can_be_read_from_an_untrusted_python_file_is_said(
    product: Product, text: str, said: str
) -> None:
    (product.workspace / ".codeagent/tools/letters.py").write_text(text)
    done = product.call("tools", "check", ".codeagent/tools/letters.py")
    assert done.code == 2 and said in done.err


@pytest.mark.parametrize("name", ["pipe.py", "pipe.yaml"])
def test_a_pipe_in_place_of_a_tool_file_is_not_waited_for(product: Product, name: str) -> None:
    os.mkfifo(product.workspace / ".codeagent/tools" / name)
    done = product.call("tools", "check", f".codeagent/tools/{name}")
    assert done.code == 2 and "is not a regular file" in done.err


def test_a_file_is_looked_for_in_the_workspace(product: Product, tmp_path: Path) -> None:
    arguments = ("tools", "check", ".codeagent/tools/words.yaml", "--cwd", str(product.workspace))
    done = replace(product, workspace=tmp_path).call(*arguments)
    assert (done.code, done.out, done.err) == (0, ".codeagent/tools/words.yaml: count_words\n", "")


def test_a_list_of_problems_ends_with_one_where_there_are_any(product: Product) -> None:
    done = product.call("tools", "list", "--problems")
    assert done.code == 1 and done.out.startswith("untrusted: ")
    done = product.call("tools", "list", "--problems", "--trust-project")
    assert (done.code, done.out) == (0, "")
    broken(product)
    for form in ((), ("--json",)):
        done = product.call("tools", "list", "--problems", "--trust-project", *form)
        assert done.code == 1 and "no such key" in done.out


def test_what_a_tool_is_restricted_to_is_shown(product: Product) -> None:
    path = product.workspace / ".codeagent/tools/words.yaml"
    restricted = "network: true\nrestrictions: {commands: [curl], hosts: [example.org]}\n"
    path.write_text(TOOL.partition("argv:")[0] + f"argv: [curl, '{{{{args.text}}}}']\n{restricted}")
    shown = product.call("tools", "show", "count_words", "--trust-project")
    assert shown.code == 0, shown.err
    assert shown.out.endswith(
        "restricted to\n  commands        curl\n  hosts           example.org\n"
    )
    facts = json.loads(
        product.call("tools", "show", "count_words", "--trust-project", "--json").out
    )
    assert facts["restrictions"] == {"commands": ["curl"], "hosts": ["example.org"]}
    assert "restricted to" not in product.call("tools", "show", "read").out


def test_a_worktree_is_committed_to_once_the_user_agreed_to_its_git_directory(
    product: Product,
) -> None:
    git = ("git", "-C", str(product.workspace))
    for words in (
        ["init", "-q"],
        ["config", "user.name", "T"],
        ["config", "user.email", "t@example.org"],
        ["commit", "-q", "--allow-empty", "-m", "x"],
        ["worktree", "add", "-q", "../tree"],
    ):
        subprocess.run([*git, *words], check=True, capture_output=True)
    tree = product.workspace.parent / "tree"
    (tree / "a.txt").write_text("a\n")
    commit = (
        "tools",
        "run",
        "git_commit",
        "message=Add a",
        'paths=["a.txt"]',
        "--yes",
        "--cwd",
        str(tree),
    )
    assert "ask the user to run codeagent sandbox git --allow" in product.call(*commit).err
    allowed = product.call("sandbox", "git", "--allow", "--cwd", str(tree)).out
    assert allowed.endswith(
        f"{product.workspace}/.git: commands may read it and commits may go to it\n"
    )
    assert product.call(*commit).code == 0
    product.call("sandbox", "git", "--refuse", "--cwd", str(tree))
    (tree / "a.txt").write_text("b\n")
    assert product.call(*commit).code != 0
    log = subprocess.run(
        [*git, "log", "--format=%s", "tree"], check=True, capture_output=True, text=True
    )
    assert log.stdout == "Add a\nx\n"


WITH_INPUTS = """\
inputs:
  - {name: folder, type: path, description: where it may look}
  - {name: word, default: this}
tools:
  - name: look
    builtin: read
    description: Read a file of one folder.
    restrictions: ["{{inputs.folder}}/**"]
  - name: find_word
    description: Find the word that was asked for.
    parameters: [{name: file, type: path, description: the file}]
    argv: [grep, -c, "{{inputs.word}}", --, "{{args.file}}"]
"""


@pytest.fixture
def with_inputs(product: Product) -> Product:
    (product.workspace / ".codeagent/tools/words.yaml").write_text(WITH_INPUTS)
    (product.workspace / "docs").mkdir()
    (product.workspace / "docs/a.txt").write_text("this and that\n")
    return product


def run_tool(product: Product, name: str, *arguments: str) -> tuple[int, str, str]:
    done = product.call(
        "tools", "run", "--trust-project", "--sandbox", "off", "--yes", name, *arguments
    )
    return done.code, done.out, done.err


def test_run_takes_the_inputs_of_a_tool(with_inputs: Product) -> None:
    code, out, _ = run_tool(with_inputs, "look", "path=docs/a.txt", "--input", "folder=docs")
    assert code == 0 and "this and that" in out
    code, _, err = run_tool(with_inputs, "look", "path=docs/a.txt", "--input", "folder=src")
    assert code == 4 and "this tool may read only src/**" in err
    arguments = ("file=docs/a.txt", "--input", "folder=docs")
    assert run_tool(with_inputs, "find_word", *arguments)[:2] == (0, "1\n")
    assert run_tool(with_inputs, "find_word", *arguments, "--input", "word=those")[1] == "0\n"


def test_an_absolute_path_inside_the_workspace_is_an_input_of_type_path(
    with_inputs: Product,
) -> None:
    inside, outside = with_inputs.workspace / "docs", with_inputs.workspace.parent / "other"
    code, out, _ = run_tool(with_inputs, "look", "path=docs/a.txt", "--input", f"folder={inside}")
    assert code == 0 and "this and that" in out
    code, _, err = run_tool(with_inputs, "look", "path=docs/a.txt", "--input", f"folder={outside}")
    assert code == 2 and "folder must be a path in the workspace" in err


def test_run_says_which_inputs_are_missing_or_wrong(with_inputs: Product) -> None:
    code, out, err = run_tool(with_inputs, "look", "path=docs/a.txt", "--input", "folde=docs")
    assert (code, out) == (2, "")
    assert "look was not run; see --input:\n  folde is not an input; did you mean folder?" in err
    assert "folder is missing (a path in the workspace: where it may look)" in err


def test_check_says_what_inputs_make_of_the_restrictions(with_inputs: Product) -> None:
    check = ("tools", "check", ".codeagent/tools/words.yaml", "--input")
    done = with_inputs.call(*check, f"folder={with_inputs.workspace}/docs")
    assert done.code == 0
    assert done.out.splitlines()[1:] == ["look: paths.read: docs/**", "look: paths.write: docs/**"]
    for given, said in (
        ("folder=*", "look: the input 'folder' is '*', not a plain path in the workspace"),
        ("folder=../x", "folder must be a path in the workspace, not '../x'"),
        ("other=x", "other is not an input; there are folder, word"),
    ):
        done = with_inputs.call(*check, given)
        assert done.code == 2 and said in done.err
