"""Sources of tools that do what a test tells them, and catalogs made with them."""

import asyncio
from collections.abc import Callable
from typing import Any

from codeagent.core.tool import NotFound, Tool
from codeagent.core.toolbox import ToolProblem
from codeagent.tools.catalog import ToolCatalog
from codeagent.tools.source import ListedTool, Listing
from codeagent.tools.toolsets import Toolsets
from tests.tools.catalog_setting import Plain


class Source:
    """A source whose state the test changes; `held` keeps `start` from returning."""

    def __init__(
        self, name: str, *tools: str, fails: int = 0, held: bool = False, waiting: bool = False
    ) -> None:
        """It fails the first `fails` times that it is started."""
        self.name = name
        self.fails = fails
        self.starts = 0
        self.closed = 0
        self.ready = asyncio.Event()
        self.release = asyncio.Event()
        if not held:
            self.release.set()
        self._names = tools
        self._tools: dict[str, Tool[Any]] = {}
        self._listing = Listing(state="waiting" if waiting else "starting", about=f"about {name}")
        self._changed: Callable[[], None] = lambda: None

    async def start(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.starts += 1
        await self.release.wait()
        if self.starts <= self.fails:
            self.fail()
        else:
            self.have(*self._names)

    def have(self, *names: str) -> None:
        """It is ready, with these tools."""
        self._tools = {
            name: self._tools.get(name) or Plain(name, self.name, "test") for name in names
        }
        tools = tuple(ListedTool(name, f"Does {name}.") for name in names)
        self._listing = Listing(tools, about=f"about {self.name}")
        self.ready.set()
        self._changed()

    def fail(self, why: str = "it is down") -> None:
        self._listing = Listing(
            problems=(ToolProblem(self.name, why),), state="failed", about=f"about {self.name}"
        )
        self._changed()

    def list(self) -> Listing:
        return self._listing

    def get(self, name: str) -> Tool[Any]:
        if name not in self._tools:
            raise NotFound(name)
        return self._tools[name]

    async def close(self) -> None:
        self.closed += 1


def catalog_of(toolsets: Toolsets, *builtin: str) -> ToolCatalog:
    """A catalog with these built-in tools, after its first look."""
    catalog = ToolCatalog([Plain(name) for name in builtin or ("read", "bash")], toolsets=toolsets)
    catalog.look()
    return catalog


def names(catalog: ToolCatalog) -> list[str]:
    return [tool.name for tool in catalog]
