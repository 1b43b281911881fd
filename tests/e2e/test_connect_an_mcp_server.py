"""The tutorial about MCP servers is done, step by step, as it is written; the examples of the
how-to pages hold."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from codeagent.cli import build_parser
from codeagent.extensions.mcp.entries import parse_servers
from codeagent.extensions.mcp.entry import filled_in
from tests.e2e.product import Product
from tests.e2e.test_first_tool import commands

DOCS = Path(__file__).parents[2] / "docs"
STEP = re.compile(r"```(console|python|json)\n(.*?)```", re.DOTALL)
FILES = {"python": "shopping.py", "json": "model.json"}


def page(name: str) -> str:
    return (DOCS / name).read_text()


@pytest.mark.docker
def test_the_tutorial_about_mcp_servers_is_true(product: Product) -> None:
    done = 0
    for kind, text in STEP.findall(page("tutorials/mcp-server.md")):
        if kind != "console":
            (product.workspace / FILES[kind]).write_text(text)
            continue
        for command, printed in commands(text):
            if not command.startswith("codeagent "):
                subprocess.run(command, shell=True, cwd=product.workspace, check=True)
                continue
            result = product.call_apart(*shlex.split(command)[1:])
            out = result.out.replace(str(product.home / "config"), "~/.config")
            changed = printed.startswith("---")
            assert result.code == (1 if changed and "--agree" not in command else 0), (
                f"{command}\n{out}{result.err}"
            )
            assert out.startswith(printed) if changed else out == printed, (
                f"{command}\n{out}{result.err}"
            )
            done += 1
    assert done == 6
    assert (product.workspace / "shopping.txt").read_text() == "oat milk\n"


@pytest.mark.parametrize("name", ["how-to/mcp.md", "how-to/mcp-serve.md"])
def test_the_files_of_the_pages_are_read_without_a_problem(name: str) -> None:
    [example] = re.findall(r"```json\n(.*?)```", page(name), re.DOTALL)
    found = parse_servers(example.encode(), "mcp.json", "user")
    assert found.problems == () and list(json.loads(example)["mcpServers"]) == [
        filled_in(entry.config, {"LINEAR_TOKEN": "x", "workspaceFolder": "/w"}).name
        for entry in found.entries
    ]


def test_the_commands_of_the_pages_are_understood() -> None:
    text = page("how-to/mcp.md") + page("how-to/mcp-serve.md")
    lines = re.findall(r"^codeagent mcp (.*)$", text, re.MULTILINE)
    served = json.loads(re.findall(r"```json\n(.*?)```", page("how-to/mcp-serve.md"), re.DOTALL)[0])
    arguments = [shlex.split(line, comments=True) for line in lines]
    arguments.append(served["mcpServers"]["codeagent"]["args"][1:])
    actions = [build_parser("mcp").parse_args(each).action for each in arguments]
    assert len(actions) == 15 and {
        "add",
        "test",
        "list",
        "remove",
        "trust",
        "login",
        "serve",
    } <= set(actions)
