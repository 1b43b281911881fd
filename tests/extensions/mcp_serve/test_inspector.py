"""The MCP inspector's command line, a client that others wrote, lists and calls what `codeagent mcp
serve` offers."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import Product
from tests.extensions.mcp.real_servers import servers_or_skip

pytestmark = pytest.mark.timeout(300)


def inspect(product: Product, *arguments: str) -> Any:
    server = [
        sys.executable,
        "-m",
        "codeagent",
        "mcp",
        "serve",
        "--sandbox",
        "off",
        "--cwd",
        str(product.workspace),
    ]
    program = servers_or_skip() / "node_modules/.bin/mcp-inspector"
    done = subprocess.run(
        [program, "--cli", *server, *arguments, "--connect-timeout", "200000"],
        cwd=product.workspace,
        env=product.environment
        | {"HOME": str(product.home)},  # the one variable of ours that it hands on
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_inspector_lists_the_tools_and_calls_one(tmp_path: Path) -> None:
    product = Product(tmp_path / "work", tmp_path / "home")
    product.workspace.mkdir()
    product.home.mkdir()
    (product.workspace / "a.txt").write_text("hello\n")
    tools = inspect(product, "--method", "tools/list")["tools"]
    assert {"bash", "read", "write", "edit", "list", "search"} <= {tool["name"] for tool in tools}
    called = inspect(
        product, "--method", "tools/call", "--tool-name", "read", "--tool-arg", "path=a.txt"
    )
    assert (called["isError"], called["content"][0]["text"]) == (False, "1\thello")
