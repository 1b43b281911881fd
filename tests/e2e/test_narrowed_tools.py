"""A tool file narrows every built-in tool, those of sets included, and nothing gets around the
narrower one."""

import json
from pathlib import Path
from typing import Any

import pytest

from codeagent.app.describe import describe_tools
from codeagent.config.local_environment import LocalEnvironment
from codeagent.core.tool import Denied, Tool, ToolError
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.folders import Loaded, ToolFile
from codeagent.workspace.files import LocalWorkspace
from tests.e2e.conftest import product as product
from tests.e2e.product import Product, calls, of, results, say
from tests.e2e.test_agents_run import child_log, describe
from tests.fakes import tool_context
from tests.table import for_each


def load(root: Path, text: str) -> Loaded:
    local = LocalEnvironment(root, root / "state", {})
    return describe_tools(local).files.load(
        ToolFile(root / "t.yaml", "t.yaml", text.encode(), "user")
    )


def narrow(root: Path, name: str, restrictions: str) -> Tool[Any]:
    loaded = load(root, f"name: mine\nbuiltin: {name}\nrestrictions: {restrictions}\n")
    assert [str(one) for one in loaded.problems if one.level == "error"] == []
    [tool] = loaded.tools
    return tool


def refuse(root: Path, tool: Tool[Any], **arguments: Any) -> None:
    tool.refuse(parse_arguments(tool, json.dumps(arguments)), tool_context(LocalWorkspace(root)))


PATCH = "*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\n"
EVERY = """
bash read write edit list search output_read ask_user todo git_commit python job_list job_read job_wait job_stop
job_send scratchpad search_memory info multi_edit apply_patch glob tree json_read json_write send_message watch_channel
channel_list toolset_list toolset_use add_timer add_schedule watch_file trigger_list trigger_stop http_request web_fetch
agent
"""


@for_each("name", EVERY.split())
def test_every_tool_can_be_narrowed(tmp_path: Path, name: str) -> None:
    loaded = load(tmp_path, f"name: {name}\nbuiltin: true\ndescription: D.\n")
    assert [str(one) for one in loaded.problems if one.level == "error"] == []
    assert [tool.narrows for tool in loaded.tools] == [name]
    other = load(tmp_path, f"name: mine\nbuiltin: {name}\ndescription: D.\n")
    assert bool(other.tools) is (name not in ("info", "toolset_use", "watch_channel"))


@for_each("name", ["web_search", "image_generation", "code_execution"])
def test_what_runs_at_the_provider_cannot_be_narrowed(tmp_path: Path, name: str) -> None:
    (problem,) = load(tmp_path, f"name: mine\nbuiltin: {name}\n").problems
    assert problem.text == f"{name} runs at the provider, so nothing here could narrow it"


@for_each(
    ("name", "inside", "outside"),
    [
        ("json_read", {"path": "docs/a.json"}, {"path": "b.json"}),
        ("tree", {"path": "docs"}, {"path": "."}),
        ("glob", {"patterns": ["*"], "path": "docs"}, {"patterns": ["*"], "path": "src"}),
        (
            "apply_patch",
            {"patch": PATCH.format(path="docs/a")},
            {"patch": PATCH.format(path="src/a")},
        ),
        (
            "git_commit",
            {"message": "m", "paths": ["docs/a"]},
            {"message": "m", "paths": ["docs/a", "src/a"]},
        ),
        ("read", {"path": "docs/a"}, {"path": "docs/../src/a"}),
        ("read", {"path": "docs/a"}, {"path": "docs/out"}),
    ],
)
def test_paths_hold_for_every_tool_whose_calls_name_them(
    tmp_path: Path, name: str, inside: dict[str, Any], outside: dict[str, Any]
) -> None:
    (tmp_path / "docs").mkdir(exist_ok=True)
    (tmp_path / "src").mkdir(exist_ok=True)
    if not (tmp_path / "docs/out").is_symlink():
        (tmp_path / "docs/out").symlink_to("../src")
    tool = narrow(
        tmp_path, name, "['docs', 'docs/**']" if name not in ("tree", "glob") else "[docs/**]"
    )
    with pytest.raises(Denied):
        refuse(tmp_path, tool, **outside)
    try:
        refuse(tmp_path, tool, **inside)
    except Denied:
        raise
    except ToolError:
        pass


@for_each(
    ("name", "url", "allowed"),
    [
        ("web_fetch", "https://docs.example.org/a", True),
        ("web_fetch", "https://example.org/a", False),
        ("web_fetch", "https://docs.example.org:8443/a", False),
        ("web_fetch", "https://docs.example.org@evil.org/a", False),
        ("http_request", "https://api.example.net/x", True),
        ("http_request", "https://evil.net/api.example.net", False),
    ],
)
def test_hosts_hold_for_requests(tmp_path: Path, name: str, url: str, allowed: bool) -> None:
    tool = narrow(tmp_path, name, "{hosts: ['*.example.org', api.example.net]}")
    if allowed:
        refuse(tmp_path, tool, url=url)
        return
    with pytest.raises(ToolError):
        refuse(tmp_path, tool, url=url)


@for_each(
    ("name", "restrictions", "said"),
    [
        (
            "json_read",
            "{hosts: [a.org]}",
            "they do not apply to json_read, whose calls name no host",
        ),
        ("web_fetch", "[docs/**]", "it does not apply to web_fetch, which names no paths"),
        ("tree", "[docs/*]", "tree goes through whole folders: each glob must end in **"),
        (
            "json_write",
            "{paths: {read: [a]}}",
            "it does not apply to json_write, which does not read its path",
        ),
    ],
)
def test_a_restriction_that_would_restrict_nothing_is_an_error(
    tmp_path: Path, name: str, restrictions: str, said: str
) -> None:
    found = load(tmp_path, f"name: mine\nbuiltin: {name}\nrestrictions: {restrictions}\n").problems
    assert said in [problem.text for problem in found]


def own_tools(product: Product, text: str) -> None:
    folder = product.home / "config/codeagent/tools"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "narrow.yaml").write_text(text)


IN_PLACE = "name: json_read\nbuiltin: true\nrestrictions: [docs/**]\n"


def test_in_the_place_of_a_tool_of_a_set_there_is_no_other_way(product: Product) -> None:
    (product.workspace / "docs").mkdir()
    for path in ("docs/a.json", "b.json"):
        (product.workspace / path).write_text('{"k": 1}')
    own_tools(product, IN_PLACE)
    reads = [("json_read", {"path": path}) for path in ("docs/a.json", "b.json")]
    product.run(product.script(calls(*reads), say("done")), "--toolset", "files")
    first, second = sorted(results(product.log()), key=lambda event: event["call_id"])
    assert first["error"] is None and second["error"]["kind"] == "denied"
    told = of(product.log(), "tools.changed")
    assert not told or "is refused" not in json.dumps(told)


def test_the_tool_that_turns_sets_on_can_be_held_to_some(product: Product) -> None:
    own_tools(
        product,
        "name: toolset_use\nbuiltin: true\nparameters:\n- name: name\n  schema: {enum: [triggers]}\n- {name: do}\n",
    )
    config = product.home / "config/codeagent/config.toml"
    config.write_text('[toolsets]\noffer = ["files", "triggers"]\n')
    uses = [("toolset_use", {"name": name}) for name in ("files", "triggers")]
    product.run(product.script(calls(uses[0]), calls(uses[1]), say("done")))
    first, second = results(product.log())
    assert first["error"]["kind"] == "invalid_args" and second["error"] is None


def test_while_such_a_file_is_broken_the_tool_of_the_set_is_refused(product: Product) -> None:
    (product.workspace / "b.json").write_text('{"k": 1}')
    own_tools(product, IN_PLACE + "timeout: soon\n")
    product.run(
        product.script(calls(("json_read", {"path": "b.json"})), say("done")), "--toolset", "files"
    )
    (read,) = results(product.log())
    assert read["error"]["kind"] == "denied" and "is refused until" in read["error"]["message"]


def test_a_child_gets_the_narrowed_tool_and_no_agents(product: Product) -> None:
    own_tools(
        product,
        "tools:\n- {name: peek, builtin: json_read, restrictions: [docs/**]}\n- {name: helper, builtin: agent}\n",
    )
    (product.workspace / "b.json").write_text('{"k": 1}')
    task = ("helper", {"name": "looker", "task": "look"})
    describe(
        product, "looker", product.script(calls(("peek", {"path": "b.json"}), task), say("looked"))
    )
    product.run(product.script(calls(task), say("done")))
    found = {event["name"]: event["error"]["kind"] for event in results(child_log(product))}
    assert found == {"peek": "denied", "helper": "not_found"}
