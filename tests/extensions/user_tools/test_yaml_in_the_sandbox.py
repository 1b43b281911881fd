"""In a real container: the child gets each value byte for byte, and no
file P exists."""

import json
from pathlib import Path

import pytest

from codeagent.core.messages import text_of
from codeagent.core.tool import Failed
from codeagent.extensions.user_tools.yaml_loader import YamlLoader
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.folders import LoaderNeeds, ToolFile
from codeagent.workspace.files import LocalWorkspace
from tests.conftest import MakeSandbox
from tests.fakes import FakeOutputs, tool_context

pytestmark = pytest.mark.docker

VALUES = [
    "'; touch P #$(touch P)`touch P`\ntwo\nlines \u202eé\x1b[1m\n",
    "--pre=./x",
    "",
    "x" * 120_000,
]
"""The first runs something wherever quotes of either kind do not hold."""
HEX = "import sys; print(' '.join(one.encode().hex() or '-' for one in sys.argv[1:]))"
TOOLS = f"""
tools:
- name: by_argv
  description: Shows the bytes of its argument.
  parameters: [{{name: p, allow_dash: true}}]
  argv: [python3, -c, "{HEX}", "{{{{args.p}}}}"]
- name: by_command
  description: Shows the bytes of its argument, at four places.
  parameters: [{{name: p, allow_dash: true}}]
  command: |
    show() {{ python3 -c "{HEX}" "$@"; }}
    show {{{{args.p}}}} "{{{{args.p}}}}" '{{{{args.p}}}}' $''{{{{inputs.p}}}}
- name: surroundings
  description: Says where it is and what it sees.
  cwd: sub
  env: {{LEVEL: "a 'b' $c"}}
  command: pwd; echo "$LEVEL"; (echo > /dev/tcp/192.0.2.1/80) 2>/dev/null || echo no network; exit 3
"""


async def test_f16_values_arrive_byte_for_byte_and_nothing_of_them_runs(
    workspace_dir: Path, make_sandbox: MakeSandbox
) -> None:
    sandbox = await make_sandbox(workspace_dir)
    workspace = LocalWorkspace(workspace_dir)
    loader = YamlLoader(LoaderNeeds(FakeOutputs(), ReadTracker(workspace), dict))
    file = ToolFile(workspace_dir / "t.yaml", "t.yaml", TOOLS.encode(), "project")
    argv, command, surroundings = loader.load(file).tools
    context = tool_context(workspace, sandbox)
    for value in VALUES:
        expected = value.encode().hex() or "-"
        raw = json.dumps({"p": value})
        shown = text_of((await argv.run(parse_arguments(argv, raw), context)).content)
        if len(value) < 1000:
            assert shown == expected
            shown = text_of((await command.run(parse_arguments(command, raw), context)).content)
            assert shown == " ".join([expected] * 4)
        else:
            assert shown.startswith("7878") and shown.endswith("7878")
    assert not (workspace_dir / "P").exists()

    (workspace_dir / "sub").mkdir()
    with pytest.raises(Failed) as caught:
        await surroundings.run(parse_arguments(surroundings, "{}"), context)
    assert (
        text_of(caught.value.content) == f"{workspace_dir}/sub\na 'b' $c\nno network\n[exit code 3]"
    )
    workspace.close()
