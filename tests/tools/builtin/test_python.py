"""The python tool: any code arrives as it is, and runs as a command of bash does."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from codeagent.core.display import TerminalBlock
from codeagent.core.messages import text_of
from codeagent.core.policy import Policy, Rule
from codeagent.core.sandbox import CommandResult
from codeagent.core.tool import Failed
from codeagent.sandbox.host import HostSandbox
from codeagent.tools.builtin.python import Python, PythonArgs, command_for
from codeagent.tools.schema import arguments_schema
from tests.effort import times
from tests.fakes import FakeSandbox, tool_context
from tests.table import for_each
from tests.toolbox import Toolbox

CODE = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=300
)


def tool_of(box: Toolbox, always_ask: str | None = None) -> Python:
    return Python(box.outputs, box.reads, always_ask=always_ask)


def test_a_nul_in_the_code_is_refused_with_how_to_write_it() -> None:
    with pytest.raises(
        ValidationError, match=r"cannot contain a NUL character; write \\0 in a string"
    ):
        PythonArgs(code="print('a\0b')")


def delivered(folder: Path, command: str) -> bytes:
    """What a program called python3 gets on its standard input."""
    program = folder / "python3"
    if not program.exists():
        program.symlink_to("/bin/cat")
    text = command.replace("exec python3 -u -", f"exec {program}")
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    script = folder / "script"
    script.write_bytes(text.encode())
    return subprocess.run(
        ["bash", str(script)], env=environment, capture_output=True, check=True, timeout=60
    ).stdout


@settings(max_examples=times(20), deadline=None)
@given(
    CODE
    | st.lists(
        st.sampled_from(["END_OF_CODE", "_", "\n", "'", '"', "\\", "$x", "`", "\r", " ", "\t"])
    ).map("".join)
)
def test_any_code_arrives_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, code: str
) -> None:
    arrived = delivered(tmp_path_factory.getbasetemp(), command_for(code))
    assert arrived == code.encode() + (b"" if code.endswith("\n") else b"\n")


def test_long_code_arrives_byte_for_byte(tmp_path: Path) -> None:
    code = "x = '''\n" + "END_OF_CODE\n\\'\"$(x)`\u00e4\u4e16\r\n" * 20_000 + "'''\n"
    assert len(code) > 400_000
    assert delivered(tmp_path, command_for(code)) == code.encode()


async def test_it_runs_in_the_workspace_and_answers_as_bash_does(box: Toolbox) -> None:
    folder = str(Path(sys.executable).parent)
    sandbox = HostSandbox(box.root, {"PATH": f"{folder}:/usr/bin:/bin"}, box.root.parent / "state")
    (box.root / "mine.py").write_text("VALUE = 42\n")
    tool, context = tool_of(box), tool_context(box.workspace, sandbox, updates=box.updates)
    code = (
        "import sys, mine\nprint(mine.VALUE, sys.stdin.read() == '')\nprint('oh', file=sys.stderr)"
    )
    result = await tool.run(PythonArgs(code=code), context)
    assert "42 True" in text_of(result.content)
    assert isinstance(block := result.blocks[0], TerminalBlock)
    assert (block.command, block.exit_code) == (code, 0)
    assert sorted(
        "".join(text for stream, text in box.updates if stream == "output").splitlines()
    ) == ["42 True", "oh"]
    with pytest.raises(Failed) as caught:
        await tool.run(PythonArgs(code="print(1)\nraise SystemExit(3)"), context)
    assert text_of(caught.value.content) == "1\n[exit code 3]"


async def test_without_python_in_the_sandbox_it_says_so(box: Toolbox) -> None:
    (box.root / "bash").symlink_to("/bin/bash")
    sandbox = HostSandbox(box.root, {"PATH": str(box.root)}, box.root.parent / "state")
    with pytest.raises(Failed) as caught:
        await tool_of(box).run(PythonArgs(code="print(1)"), tool_context(box.workspace, sandbox))
    assert "python3 is missing in the sandbox" in text_of(caught.value.content)


async def test_plan_mode_gets_the_workspace_read_only_and_no_network(box: Toolbox) -> None:
    sandbox = FakeSandbox([], CommandResult(0))
    await tool_of(box).run(
        PythonArgs(code="1"), replace(tool_context(box.workspace, sandbox), read_only=True)
    )
    assert [(command.read_only, command.hosts) for command in sandbox.commands] == [(True, ())]


async def test_it_is_asked_about_and_matched_as_text(box: Toolbox) -> None:
    tool, args = tool_of(box), PythonArgs(code="print(open('x').read())")
    key = tool.approval_key(args)
    assert (key.kind, key.parts, key.reads == "freely") == ("text", (args.code,), False)
    assert Policy("ask").check("python", key, tool.permission, tool.effect).permission == "prompt"
    rules = (Rule.parse("python(print(*)", "auto"),)
    assert (
        Policy("ask", rules).check("python", key, tool.permission, tool.effect).permission == "auto"
    )
    on_host = tool_of(box, "it runs on your machine").approval_key(args)
    assert (
        Policy("auto").check("python", on_host, tool.permission, tool.effect).permission == "prompt"
    )


@for_each("code", ["", " \n", "a\0b", "'\ud800'"])
def test_code_that_is_none_is_refused(code: str) -> None:
    with pytest.raises(ValueError, match="code"):
        PythonArgs(code=code)


def test_time_is_cut_to_the_ceiling_and_the_definition_is_small(box: Toolbox) -> None:
    tool = Python(box.outputs, box.reads)
    assert [tool.time_limit(PythonArgs(code="1", timeout=given)) for given in (None, 5, 601)] == [
        120,
        5,
        600,
    ]
    assert tool.target(PythonArgs(code="\nimport os\nos.x")) == "import os …"
    assert len(tool.description) + len(str(arguments_schema(PythonArgs))) < 400
