"""`codeagent mcp`: servers are listed, added and removed without being started."""

import json
from pathlib import Path

import pytest

from tests.e2e.product import Product
from tests.table import for_each


@pytest.fixture
def product(tmp_path: Path) -> Product:
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    return Product(tmp_path / "work", tmp_path / "home")


def test_an_added_server_is_listed_with_what_it_starts_and_can_be_removed(product: Product) -> None:
    added = product.call(
        "mcp", "add", "git", "--env", "TOKEN=${GH}", "--host", "github.com", "--", "uvx", "x", "--", "-y"
    )
    assert (added.code, added.err) == (0, "")
    (server,) = json.loads(product.call("mcp", "list", "--json").out)["servers"]
    assert (server["name"], server["transport"], server["from"], server["trusted"]) == ("git", "stdio", "yours", True)
    assert (server["starts"], server["env"], server["hosts"]) == ("uvx x -- -y", ["TOKEN"], ["github.com"])
    assert "the variable GH is not set" in product.call("mcp", "list").out
    assert product.call("mcp", "remove", "git").code == 0
    assert product.call("mcp", "list").out.startswith("no server is configured")


def test_a_server_with_a_url_is_added_with_its_headers_and_no_value_of_one_is_printed(product: Product) -> None:
    done = product.call("mcp", "add", "web", "https://x.org/mcp", "--header", "Authorization=Bearer hush-hush")
    listed = product.call("mcp", "list")
    assert done.code == 0 and "sends Authorization" in listed.out and "https://x.org/mcp" in listed.out
    assert "hush" not in done.out + done.err + listed.out + product.call("mcp", "list", "--json").out


def test_a_server_for_this_machine_says_so(product: Product) -> None:
    product.call("mcp", "add", "git", "--machine", "--", "uvx", "x")
    assert "runs on this machine, outside the sandbox" in product.call("mcp", "list").out


@for_each(
    "line, why",
    [
        (("a b", "--", "x"), "a server's name is"),
        (("one", "https://x", "y"), "a URL takes no arguments"),
        (("one", "https://x", "--machine"), "--machine is for a command"),
        (("one", "--header", "A=b", "--", "x"), "--header is for a URL"),
        (("one", "--env", "A", "--", "x"), "--env is NAME=VALUE"),
        (("one", "--timeout", "-1", "--", "x"), "greater than 0"),
        (("one", "--", ""), "nothing was added"),
    ],
)
def test_what_cannot_be_a_server_is_refused_and_nothing_is_written(
    line: tuple[str, ...], why: str, product: Product
) -> None:
    done = product.call("mcp", "add", *line)
    assert (done.code, done.out) == (2, "") and why in done.err, done
    assert not list(product.home.rglob("mcp.json"))


def test_a_projects_servers_are_shown_before_they_are_trusted(product: Product) -> None:
    (product.workspace / ".mcp.json").write_text('{"mcpServers": {"theirs": {"command": "npx", "args": ["-y", "it"]}}}')
    before = product.call("mcp", "list").out
    assert "not trusted, so it is not started" in before and "npx -y it" in before
    trusted = product.call("mcp", "trust")
    assert trusted.code == 0 and "npx -y it" in trusted.out
    assert json.loads(product.call("mcp", "list", "--json").out)["servers"][0]["trusted"]
    product.call("mcp", "distrust")
    assert not json.loads(product.call("mcp", "list", "--json").out)["servers"][0]["trusted"]


def test_nothing_to_trust_is_said(product: Product) -> None:
    assert product.call("mcp", "trust").out.startswith("nothing to trust")


def test_problems_of_the_files_go_to_standard_error(product: Product) -> None:
    (product.workspace / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "x", "alwaysAllow": []}, "b": {}}}')
    done = product.call("mcp", "list")
    assert done.code == 0 and "alwaysAllow: not used by codeagent" in done.err and "error: .mcp.json:1: b" in done.err
