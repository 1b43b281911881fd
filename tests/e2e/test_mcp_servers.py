"""MCP servers through the product: configured in a file, turned on and called by the model, judged
like any other."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import Product, calls, of, results, say
from tests.extensions.mcp.real_servers import servers_or_skip
from tests.extensions.mcp.setting import HOSTILE
from tests.fakes import put

ECHO = "mcp__echo__echo"


def configure(product: Product, **servers: dict[str, Any]) -> None:
    put(product.home, "config/codeagent/mcp.json", json.dumps({"mcpServers": servers}))


def server(behaviour: str, folder: Path, **fields: Any) -> dict[str, Any]:
    """One that is told of the workspace, and runs in the sandbox unless the fields say
    otherwise."""
    (folder / "server.py").write_text(HOSTILE.read_text())
    script = (
        f"{folder}/server.py"
        if fields.get("where") == "machine"
        else "${workspaceFolder}/server.py"
    )
    return {"command": "python3", "args": [script, behaviour, "${workspaceFolder}"], **fields}


def agree(product: Product, name: str) -> None:
    done = product.call_apart("mcp", "test", name, "--agree")
    assert done.code == 0, done


def texts(product: Product, events: list[dict[str, Any]], name: str) -> list[str]:
    found = [result for result in results(events) if result["name"] == name]
    return ["\n".join(part.get("text", "") for part in result["content"]) for result in found]


@pytest.mark.docker
def test_a_server_in_the_sandbox_is_turned_on_and_called(product: Product) -> None:
    configure(product, echo=server("Server", product.workspace))
    agree(product, "echo")
    model = product.script(
        calls(("toolset_list", {}), ("toolset_use", {"name": "echo"})),
        calls((ECHO, {"text": "from the sandbox"}), (ECHO, {"text": 7})),
        say("done"),
    )
    done = product.run_in_container(model, "--output", "jsonl", "--allow", "mcp__echo__*")
    assert done.code == 0, done.err
    assert f"- {ECHO}: Say it back." in texts(product, done.events, "toolset_use")[0]
    assert texts(product, done.events, ECHO)[0] == "from the sandbox"
    assert "should be a valid string" in texts(product, done.events, ECHO)[1]


@pytest.mark.docker
def test_a_projects_server_with_a_variable_starts_beside_the_workspace_as_it_was_trusted(
    product: Product,
) -> None:
    tools = product.workspace / "tools"
    put(tools, "beside.py", "WORD = 'one'\n")
    put(tools, "srv.py", f"import beside, os\nassert os.listdir() == []\n{HOSTILE.read_text()}")
    put(product.workspace, "json.py", "raise SystemExit('of the workspace')\n")
    entry = {
        "command": "python3",
        "args": ["tools/srv.py", "Server", "/tmp"],
        "env": {"TOKEN": "x"},
    }
    put(product.workspace, ".mcp.json", json.dumps({"mcpServers": {"theirs": entry}}))
    assert "tools/beside.py  " in product.call_apart("mcp", "trust").out
    done = product.call_apart("mcp", "test", "theirs")
    assert done.code == 0 and "mcp__theirs__echo" in done.out, done
    put(tools, "beside.py", "WORD = 'two'\n")
    changed = product.call_apart("mcp", "test", "theirs")
    assert changed.code == 1 and "+WORD = 'two'" in changed.out


def test_a_call_is_denied_if_nobody_allows_it_whatever_the_server_says_of_itself(
    product: Product,
) -> None:
    liar = server("LiesAboutReading", product.home, command=sys.executable, where="machine")
    configure(product, echo=liar)
    model = product.script(
        calls(("toolset_use", {"name": "echo"})),
        calls(("mcp__echo__delete_all", {"text": "x"})),
        say("done"),
    )
    done = product.run(model, "--output", "jsonl")
    denied = [
        result for result in results(done.events) if result["name"] == "mcp__echo__delete_all"
    ]
    assert [result["error"]["kind"] for result in denied] == ["denied"]


def test_a_rule_about_the_arguments_of_a_servers_tool_holds(product: Product) -> None:
    configure(product, echo=server("Server", product.home, command=sys.executable, where="machine"))
    model = product.script(
        calls(("toolset_use", {"name": "echo"})),
        calls((ECHO, {"text": "yes"}), (ECHO, {"text": "no"})),
        say("done"),
    )
    done = product.run(
        model, "--output", "jsonl", "--allow", "mcp__echo__*", "--deny", f'{ECHO}(*"no"*)'
    )
    found = [result for result in results(done.events) if result["name"] == ECHO]
    assert [(result.get("error") or {}).get("kind") for result in found] == [None, "denied"]


def test_a_servers_instructions_are_in_no_request_before_its_set_is_used(product: Product) -> None:
    put(product.workspace, "instructions", "Shout everything.")
    configure(
        product, echo=server("Instructs", product.home, command=sys.executable, where="machine")
    )
    model = product.script(
        calls(("toolset_list", {})), calls(("toolset_use", {"name": "echo"})), say("done")
    )
    done = product.run(model, "--output", "jsonl")
    assert "Shout" not in json.dumps(
        [event for event in done.events if event.get("name") != "toolset_use"]
    )
    assert texts(product, done.events, "toolset_use")[0].endswith(":\n> Shout everything.")
    model = product.script(calls((ECHO, {"text": "hello"})), say("done"))
    done = product.run(model, "--output", "jsonl", "--toolset", "echo", "--allow", "mcp__echo__*")
    assert texts(product, done.events, ECHO)[0].endswith(":\n> Shout everything.")


def test_without_a_sandbox_a_server_that_wants_it_is_not_started_on_the_machine(
    product: Product,
) -> None:
    configure(
        product,
        echo=server("Server", product.home, args=[f"{product.home}/server.py", "Server", "."]),
    )
    model = product.script(calls(("toolset_use", {"name": "echo"})), say("done"))
    done = product.run(model, "--output", "jsonl")
    assert (
        "it runs in the sandbox, and there is none" in texts(product, done.events, "toolset_use")[0]
    )
    assert list(product.home.rglob("pid-*")) + list(product.workspace.glob("pid-*")) == []


@pytest.mark.docker
def test_a_real_server_works_in_the_sandbox(product: Product) -> None:
    servers = servers_or_skip()
    modules = product.workspace / "node_modules"
    shutil.copytree(servers / "node_modules", modules, symlinks=True)
    script = "${workspaceFolder}/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
    files = {"command": "node", "args": [script, "${workspaceFolder}"], "write": True}
    config = {"mcpServers": {"disk": files}}
    put(product.home, "config/codeagent/mcp.json", json.dumps(config))
    put(product.workspace, "a.txt", "from the workspace\n")
    agree(product, "disk")
    model = product.script(
        calls(("toolset_use", {"name": "disk"})),
        calls(
            ("mcp__disk__read_text_file", {"path": str(product.workspace / "a.txt")}),
            (
                "mcp__disk__write_file",
                {"path": str(product.workspace / "b.txt"), "content": "written inside"},
            ),
        ),
        say("done"),
    )
    done = product.run_in_container(model, "--output", "jsonl", "--allow", "mcp__disk__*")
    read, written = [
        result for result in results(done.events) if result["name"].startswith("mcp__disk__")
    ]
    assert "from the workspace" in read["content"][0]["text"]
    assert written.get("error") is None
    assert (product.workspace / "b.txt").read_text() == "written inside"


def test_a_run_waits_for_no_server_and_leaves_none_behind(product: Product) -> None:
    slow = server("NeverBegins", product.home, command=sys.executable, where="machine")
    configure(product, **{f"slow{number}": slow for number in range(5)})
    done = product.run(product.script(say("done")), "--output", "jsonl")
    assert done.code == 0
    assert [event["type"] for event in done.events if event["type"] == "run.finished"] == [
        "run.finished"
    ]
    for file in product.workspace.glob("pid-*"):
        assert not Path("/proc", file.name.removeprefix("pid-")).exists()


def test_a_prompt_takes_resources_from_a_server_and_is_not_sent_if_they_cannot_be_had(
    product: Product,
) -> None:
    script = (
        servers_or_skip() / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    )
    configure(
        product, all={"command": shutil.which("node"), "args": [str(script)], "where": "machine"}
    )
    model = product.script(say("done"))
    done = product.run(
        model,
        "--output",
        "jsonl",
        prompt="compare @all:demo://resource/dynamic/text/3 with ada@all:x",
    )
    assert done.code == 0, done.err
    messages = [event["message"] for event in of(product.log(), "message.added")]
    notes = [
        message["content"][0]["text"] for message in messages if message.get("source") == "note"
    ]
    assert ["Resource 3: This is a plaintext resource" in text for text in notes] == [True]
    refused = product.run(model, prompt="look at @all:demo://nothing")
    assert refused.code != 0
    assert "the prompt was not sent: all: " in refused.err
