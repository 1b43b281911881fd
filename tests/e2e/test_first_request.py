"""How large the first request of a session is: its system prompt and its tools, in bytes.

Every turn pays for it. What may grow it is only what is in use: the instructions of the workspace,
skills and agents, tools of the user, of the project and of sets that are on. Whatever else can be
configured is described once it is turned on. A text that matters only after a failure is in the
error, or in what `info` tells.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.config.extensions import all_extensions
from tests.e2e.product import LONG_PATH, Product, calls, results, say, text_of

DEFAULT = 7_000
CONFIGURED = 9_000
NOT_ON_THIS_MACHINE = {"git_commit"}
"""Tools that only a container needs."""
MANY = """\
from codeagent.core.tool import NotFound
from codeagent.tools.source import ListedTool, Listing


class Many:
    def __init__(self, name):
        self.name = name

    async def start(self, changed):
        changed()

    def list(self):
        tools = tuple(ListedTool(f"{self.name}__tool_{n}", "Does one of a hundred things. " * 3) for n in range(100))
        return Listing(tools, about="a hundred things, " * 10)

    def get(self, name):
        raise NotFound(name)

    async def close(self):
        pass


from codeagent import Extension

EXTENSION = Extension(name="many", about="twenty sources", sources="many_sources:sources")


def sources(context):
    return [Many(f"many{n}") for n in range(20)]
"""
IN_USE = {
    "config/codeagent/tools/deploy.yaml": (
        "name: deploy\ndescription: Deploys a version to the place that is named.\nparameters:\n"
        "- {name: version, description: of the release}\n- {name: target, description: the place}\n"
        'argv: [echo, "{{args.version}}", "{{args.target}}"]\n'
    ),
    "config/codeagent/agents/reviewer.md": (
        "---\nname: reviewer\ndescription: Reviews a change.\n---\nYou review.\n"
    ),
    "config/codeagent/skills/release/SKILL.md": (
        "---\nname: release\ndescription: How we release.\n---\nTag it.\n"
    ),
}
"""Files below the user's home."""
OFFERED = """\
[toolsets]
offer = ["web", "files", "triggers", "messages", "provider"]
[web]
search = "brave"
"""


@pytest.fixture
def many_sources(tmp_path: Path) -> Iterator[None]:
    """An installed package with twenty sources of a hundred tools each."""
    folder = tmp_path / "site"
    info = folder / "many_sources-1.2.dist-info"
    info.mkdir(parents=True)
    (folder / "many_sources.py").write_text(MANY)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: many-sources\nVersion: 1.2\n")
    points = "[codeagent.extensions]\nmany = many_sources:EXTENSION\n"
    (info / "entry_points.txt").write_text(points)
    sys.path.insert(0, str(folder))
    all_extensions.cache_clear()
    yield
    sys.path.remove(str(folder))
    all_extensions.cache_clear()
    sys.modules.pop("many_sources", None)


def sent(product: Product, sandbox: str) -> tuple[int, set[str]]:
    """Return the bytes of the system prompt and the tools, and the names of the tools."""
    prompt = product.call("prompt", "--sandbox", sandbox).out
    listed = json.loads(product.call("tools", "list", "--json").out)
    absent = NOT_ON_THIS_MACHINE if sandbox == "off" else ()
    tools = [
        {name: tool[name] for name in ("name", "description", "parameters")}
        for tool in listed
        if tool["name"] not in absent
    ]
    size = len(prompt.replace(str(product.workspace), LONG_PATH).encode())
    return size + len(json.dumps(tools).encode()), {tool["name"] for tool in tools}


@pytest.mark.parametrize("sandbox", ["docker", "off"])
def test_the_first_request_is_small(product: Product, sandbox: str) -> None:
    size, _ = sent(product, sandbox)
    assert size <= DEFAULT


@pytest.mark.parametrize("sandbox", ["docker", "off"])
def test_it_stays_small_with_twenty_sources_and_everything_else_configured(
    product: Product, many_sources: None, sandbox: str
) -> None:
    for file, text in {**IN_USE, "config/codeagent/config.toml": OFFERED}.items():
        (product.home / file).parent.mkdir(parents=True, exist_ok=True)
        (product.home / file).write_text(text)
    size, names = sent(product, sandbox)
    assert {"toolset_list", "toolset_use", "deploy", "info"} < names and "web_fetch" not in names
    assert size <= CONFIGURED
    model = product.script(
        calls(("toolset_list", {}), ("toolset_list", {"search": "many7__tool_42"})), say("done")
    )
    first, second = (
        text_of(one) for one in results(product.run(model, "--output", "jsonl").events)
    )
    assert "many19 (off, 100 tools)" in first and "many7: - many7__tool_42" in second
