"""A call that no answer could allow is refused before anybody is asked, and nothing of it runs."""

from typing import Any

import pytest

from tests.e2e.conftest import product as product
from tests.e2e.product import Event, Product, calls, of, results, say

RESTRICTED = """\
tools:
  - name: show_doc
    description: Shows a page of the documentation.
    parameters: [{name: page, type: path, description: which page}]
    argv: [cat, "{{args.page}}"]
    restrictions: {paths: {read: ["docs/**"]}}
  - {name: read, builtin: true, restrictions: ["docs/**"]}
  - {name: bash, builtin: true, restrictions: {commands: [git log]}}
"""


def settled(
    product: Product, name: str, arguments: dict[str, Any], *flags: str
) -> tuple[list[Event], Event]:
    """Return the events of a run with one call, and its result."""
    model = product.script(calls((name, arguments)), say("done"))
    product.call("run", "--sandbox", "off", "--model", model, *flags, "go")
    log = product.log()
    (result,) = results(log)
    return log, result


@pytest.fixture
def restricted(product: Product) -> Product:
    folder = product.home / "config/codeagent/tools"
    folder.mkdir(parents=True)
    (folder / "docs.yaml").write_text(RESTRICTED)
    (product.workspace / "docs").mkdir()
    (product.workspace / "docs/a.md").write_text("page\n")
    return product


@pytest.mark.parametrize("flags", [("--yes",), ("--mode", "auto"), ()])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("show_doc", {"page": "a.txt"}),
        ("read", {"path": "a.txt"}),
        ("bash", {"command": "rm a.txt"}),
        ("write", {"path": ".git/config", "content": "x"}),
        ("write", {"path": "../x", "content": "x"}),
        ("list", {"path": "/etc"}),
    ],
)
def test_what_is_always_refused_is_never_asked_about_and_not_executed(
    restricted: Product, name: str, arguments: dict[str, Any], flags: tuple[str, ...]
) -> None:
    log, result = settled(restricted, name, arguments, *flags)
    assert (result["error"]["kind"], result["executed"]) == ("denied", False)
    assert not of(log, "tool.started") and not of(log, "approval.requested")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("show_doc", {"page": "docs/a.md"}),
        ("read", {"path": "docs/a.md"}),
        ("write", {"path": "new.txt", "content": "x"}),
        ("list", {"path": "docs"}),
    ],
)
def test_what_is_inside_the_limits_runs(
    restricted: Product, name: str, arguments: dict[str, Any]
) -> None:
    _, result = settled(restricted, name, arguments, "--yes")
    assert (result["error"], result["executed"]) == (None, True)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("http_request", {"url": "http://127.0.0.1:9/x"}),
        ("web_fetch", {"url": "http://[::1]/x"}),
        ("http_request", {"url": "https://example.com/", "headers": {"x": "${secret:NOT_BOUND}"}}),
    ],
)
def test_a_request_that_can_never_be_sent_is_not_asked_about(
    product: Product, name: str, arguments: dict[str, Any]
) -> None:
    log, result = settled(product, name, arguments, "--toolset", "web", "--yes")
    assert (result["error"]["kind"], result["executed"]) == ("denied", False), result
    assert not of(log, "tool.started") and not of(log, "approval.requested")
