"""`{{inputs.x}}` of the running recipe in YAML tools: exactly the value, chosen by the user and
never by the model."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.display import TerminalBlock
from codeagent.core.messages import text_of
from codeagent.core.tool import Denied, InvalidArgs, OpenArgs, Tool
from codeagent.extensions.user_tools.yaml_loader import YamlLoader
from codeagent.tools.catalog import ToolCatalog
from tests.extensions.user_tools.test_hostile_values import MIXED, bash, hostile_values
from tests.extensions.user_tools.test_yaml_tools import Box, key
from tests.fakes import put, tool_context
from tests.table import for_each

HEAD = "name: show\ndescription: Show it.\n"
SPECIFIED = """name: review-tools
version: 1.0
description: What a review may use.
inputs:
  - {name: project, type: string, required: true}
tools:
  - name: read
    builtin: true
    restrictions:
      paths: ["{{inputs.project}}/**"]
  - name: search
    builtin: true
    restrictions: ["{{inputs.project}}/**"]
  - name: run_tests
    description: Run the tests of one file.
    parameters: [{name: file, type: path, required: true}]
    argv: [pytest, "--rootdir={{inputs.project}}", --, "{{args.file}}"]
    restrictions:
      paths: ["{{inputs.project}}/tests/**"]
      commands: [pytest]
"""


class InputBox(Box):
    """A box whose tools are told the inputs of a recipe."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.inputs: dict[str, Any] = {}
        old = self.loader
        self.loader = YamlLoader(replace(old._needs, inputs=self.inputs))

    def errors(self, text: str) -> list[str]:
        return [str(problem) for problem in self.load(text).problems if problem.level == "error"]

    async def shown(self, tool: Tool[OpenArgs], **arguments: object) -> str:
        """The script as it would run."""
        preview = await tool.preview(
            OpenArgs(**arguments), tool_context(self.workspace, self.sandbox)
        )
        block = preview.blocks[0]
        assert isinstance(block, TerminalBlock)
        return block.command


@pytest.fixture
def box(tmp_path: Path) -> Iterator[InputBox]:
    (tmp_path / "project").mkdir()
    made = InputBox(tmp_path / "project")
    yield made
    made.workspace.close()


@pytest.mark.soak(tried=MIXED, row="user tool values")
@pytest.mark.parametrize(
    "does",
    [
        "argv: [printf, '<%s>\\0', '--at={{inputs.x}}.end', --, '{{inputs.x}}']",
        "command: |\n  printf '<%s>\\0' \"--at={{inputs.x}}.end\" -- '{{inputs.x}}'",
    ],
)
async def test_the_program_gets_exactly_the_input(does: str, box: InputBox, tmp_path: Path) -> None:
    tool = box.tool(f"{HEAD}inputs: [{{name: x}}]\n{does}\n")
    values = hostile_values(seed=len(does))
    scripts = []
    for value in values:
        box.inputs["x"] = value
        scripts.append(f"({await box.shown(tool)}\n)")
    (tmp_path / "bash").mkdir()
    printed = bash(scripts, tmp_path / "bash")
    for value, out in zip(values, printed, strict=True):
        assert out == f"<--at={value}.end>\0<-->\0<{value}>\0".encode(), value


async def test_the_file_of_the_specification_loads_as_it_is(box: InputBox) -> None:
    assert [
        problem.where for problem in box.load(SPECIFIED).problems if problem.where != "t.yaml:14"
    ] == []
    read, search, tests = box.load(SPECIFIED).tools
    put(box.root, "app/a.py", "x\n")
    put(box.root, "other/b.py", "y\n")
    box.inputs["project"] = "app"
    assert "x" in text_of((await box.call(read, path="app/a.py")).content)
    with pytest.raises(Denied, match=r"this tool may read only app/\*\*"):
        await box.call(read, path="other/b.py")
    with pytest.raises(Denied, match=r"this tool may read only app/\*\*"):
        await box.call(search, pattern="y", path="other")
    assert (
        await box.shown(tests, file="app/tests/test_a.py")
        == "exec -- pytest --rootdir=app -- app/tests/test_a.py"
    )
    with pytest.raises(Denied):
        await box.shown(tests, file="app/a.py")


def test_a_tool_with_the_name_of_the_built_in_one_that_it_narrows_takes_its_place(
    box: InputBox,
) -> None:
    narrowed = box.load(SPECIFIED).tools[0]
    builtin = list(box.loader._builtins.values())
    catalog = ToolCatalog(builtin, packages=box.load(SPECIFIED))
    catalog._use()
    assert [tool.name for tool in catalog] == ["bash", "read", "write", "search", "run_tests"]
    assert narrowed.in_place_of is box.loader._builtins["read"]
    assert catalog.get("read").source == "yaml" and catalog.get("bash").source == "builtin"


def test_the_second_that_narrows_a_built_in_tool_is_refused(box: InputBox) -> None:
    text = "name: read\nbuiltin: true\nrestrictions: [a/**]\n"
    first, second = box.tool(text), box.tool(text)
    loaded = type(box.load(text))((first, second))
    catalog = ToolCatalog(list(box.loader._builtins.values()), packages=loaded)
    catalog._use()
    assert catalog.get("read") is first and "has one of that name" in catalog.now.problems[0].text


async def test_without_a_recipe_a_needed_input_denies_the_call_and_a_default_is_used(
    box: InputBox,
) -> None:
    tool = box.tool(
        HEAD
        + "inputs: [{name: x}, {name: y, default: two}]\nargv: [p, '{{inputs.x}}', '{{inputs.y}}']\n"
    )
    with pytest.raises(
        Denied, match="the input 'x' is missing: the user runs a recipe with it, as text"
    ):
        await box.call(tool)
    box.inputs["x"] = "one"
    assert await box.shown(tool) == "exec -- p one two"


async def test_an_input_of_another_type_is_refused(box: InputBox) -> None:
    tool = box.tool(
        HEAD + "inputs: [{name: n, type: integer}]\ncommand: echo $(({{inputs.n}} + 1))\n"
    )
    box.inputs["n"] = "1; touch P"
    with pytest.raises(
        Denied, match=r"the input 'n' is not valid for this tool: .* as a whole number"
    ):
        await box.call(tool)


async def test_an_input_that_would_be_an_option_is_refused_like_an_argument(box: InputBox) -> None:
    box.inputs["x"] = "-rf"
    with pytest.raises(InvalidArgs, match="begins with -"):
        await box.call(box.tool(HEAD + "inputs: [{name: x}]\nargv: [p, '{{inputs.x}}']\n"))


def test_the_model_neither_sees_nor_sets_an_input(box: InputBox) -> None:
    tool = box.tool(
        HEAD
        + "inputs: [{name: x}]\nparameters: [{name: a}]\nargv: [p, '{{inputs.x}}', '{{args.a}}']\n"
    )
    assert list(tool.schema["properties"]) == ["a"]
    box.inputs["x"] = "users own"
    assert key(tool, a="its").parts == ("its 'users own'",)


@for_each(
    "text, said",
    [
        (
            "parameters: [{name: p, type: path}]\nargv: [cat, --, '{{args.p}}']\nrestrictions: ['{{args.p}}/**']\n",
            "{{args.p}} is given by the model, which must not choose its own restriction; make it an input",
        ),
        (
            "parameters: [{name: p, type: path}]\nargv: [cat, --, '{{args.p}}']\nrestrictions: ['{{inputs.q}}/**']\n",
            "{{inputs.q}} does not name an input; there are none",
        ),
        (
            "inputs: [{name: x}]\nargv: [git, '{{inputs.x}}']\nrestrictions: {commands: ['git {{inputs.y}}']}\n",
            "restrictions.commands: {{inputs.y}} does not name an input; there are x",
        ),
        (
            "parameters: [{name: p}]\nargv: [git, '{{args.p}}']\nrestrictions: {commands: ['git {{args.p}}']}\n",
            "{{args.p}} is given by the model, which must not choose its own restriction; make it an input",
        ),
        (
            "inputs: [{name: x}]\nargv: [curl]\nnetwork: ['{{inputs.y}}.example.org']\n",
            "network: {{inputs.y}} does not name an input; there are x",
        ),
        (
            "inputs: [{name: x}]\nargv: [curl]\nnetwork: ['{{inputs.x}}.example.org']\nrestrictions: {hosts: [a.b]}\n",
            "{{inputs.x}}.example.org is not among restrictions.hosts",
        ),
        (
            "inputs: [{name: x}]\nparameters: [{name: x}]\nargv: [p, '{{args.x}}']\n",
            "there is an input of that name",
        ),
        (
            "inputs: [{name: x}]\nargv: [p, '{{inputs.y}}']\n",
            "{{inputs.y}} does not name a parameter; there are x",
        ),
        ("inputs: [{name: x}]\ncommand: 'bash -c \"{{inputs.x}}\"'\n", "is not allowed here"),
        ("builtin: 1\n", "write true, or the name of a built-in tool"),
        ("builtin: true\n", "unknown built-in tool show"),
    ],
)
def test_what_cannot_be_an_input_is_refused_when_the_file_is_loaded(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "project").mkdir(exist_ok=True)
    errors = InputBox(tmp_path / "project").errors(HEAD + text)
    assert errors and said in errors[0], errors


def test_a_recipe_among_the_tools_is_sent_to_its_place(box: InputBox) -> None:
    (error,) = box.errors("name: x\nsteps: [{prompt: y}]\n")
    assert error == "t.yaml:2: steps: a file with steps is a recipe: move it to .codeagent/commands"


@given(st.text(alphabet="ab./*?\\ ~\0[]{}-", max_size=12))
def test_no_input_at_all_widens_a_restriction_beyond_the_workspace(
    tmp_path_factory: Any, value: str
) -> None:
    root = tmp_path_factory.getbasetemp() / "widening"
    root.mkdir(exist_ok=True)
    box = InputBox(root)
    tool = box.tool(
        "name: look\nbuiltin: read\ninputs: [{name: x}]\nrestrictions: ['{{inputs.x}}/keep/**']\n"
    )
    box.inputs["x"] = value
    for outside in ("/etc/keep/passwd", "../keep/x", "a/../../keep/x", "other/x", "keepx"):
        with pytest.raises(Denied):
            tool._checked(OpenArgs(path=outside), box.workspace)  # type: ignore[attr-defined]  # of a BuiltinTool
    box.workspace.close()


async def test_an_input_decides_the_beginning_of_a_command_and_is_one_plain_word(
    box: InputBox,
) -> None:
    tool = box.tool(
        "name: bash\nbuiltin: true\ninputs: [{name: x}]\nrestrictions: {commands: ['make {{inputs.x}}']}\n"
    )
    box.inputs["x"] = "test"
    checked = tool._checked(OpenArgs(command="make test -j2"), box.workspace)  # type: ignore[attr-defined]  # as below
    assert checked.command == "make test -j2"
    for line in ("make deploy", "make", "make testing", "make test; make deploy"):
        with pytest.raises(Denied, match=r"this tool may not run .*, only make test"):
            tool._checked(OpenArgs(command=line), box.workspace)  # type: ignore[attr-defined]  # of a BuiltinTool
    for wide in ("*", "te?t", "test deploy", "", "a;b", "$(x)", "'"):
        box.inputs["x"] = wide
        with pytest.raises(Denied, match=r"the input 'x' is .* not a plain word"):
            tool._checked(OpenArgs(command="make deploy"), box.workspace)  # type: ignore[attr-defined]  # as above


async def test_an_input_decides_the_host_that_is_reached_and_is_a_plain_name(box: InputBox) -> None:
    tool = box.tool(
        HEAD + "inputs: [{name: Env}]\nargv: [curl]\nnetwork: ['{{inputs.Env}}.Example.org']\n"
        "restrictions: {hosts: ['{{inputs.Env}}.example.org', '*.example.com']}\n"
    )
    box.inputs["Env"] = "staging"
    assert "It may reach staging.example.org." in str(
        await tool.preview(OpenArgs(), tool_context(box.workspace, box.sandbox))
    )
    assert key(tool).sensitive == "with network access to staging.example.org"
    for wide in ("*", "*.evil", "evil.net/", "evil.net:80#", "a b", "-x", "a..b"):
        box.inputs["Env"] = wide
        with pytest.raises(Denied):
            await box.shown(tool)


def test_the_inputs_of_a_tool_that_is_broken_elsewhere_are_known(box: InputBox) -> None:
    shared = "inputs: [{name: x}]\ntools:\n- {name: t, description: D., inputs: [{name: y}], "
    loaded = box.load(
        shared + "argv: [p, '{{inputs.x}}', '{{inputs.y}}', '{{inputs.z}}'], timeout: soon}\n"
    )
    assert [problem.text.partition(",")[0] for problem in loaded.problems] == [
        "write seconds as a number",
        "{{inputs.z}} does not name a parameter; there are y",
    ]
