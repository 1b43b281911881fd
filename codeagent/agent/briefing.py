"""What the model is told before the conversation, tools and prompt, and how that changes at a boundary."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from codeagent.agent.emitter import Emitter
from codeagent.core.events import Notice
from codeagent.core.json_types import JsonValue
from codeagent.core.policy import Rule
from codeagent.core.tool import Tool, ToolDefinition
from codeagent.tools.catalog import CatalogChange, ToolCatalog

Prompt = Callable[[Sequence[Tool[Any]]], str]
"""The system prompt that goes with these tools: the same text for the same tools."""
LookAgain = Callable[[], bool]
"""Looks at what else the prompt is made of; True where it is another than before. May block on small files."""
_RUNS_HERE = "their code runs on your machine"


class Briefing:
    """System prompt and tools as they are from one boundary to the next: byte-identical where no file changed."""

    def __init__(
        self, catalog: ToolCatalog, prompt: Prompt, look_again: LookAgain = lambda: False, rules: Sequence[Rule] = ()
    ) -> None:
        """`rules` are those of files and the command line: one that names no tool is told as soon as that is known."""
        self.catalog = catalog
        self._prompt = prompt
        self._look_again = look_again
        self._rules = tuple(rules)
        self._looking = asyncio.Lock()
        self._take()

    @property
    def system_prompt(self) -> str:
        return self._text

    @property
    def tools(self) -> tuple[ToolDefinition, ...]:
        return self._tools

    async def at_boundary(self, emitter: Emitter) -> None:
        """Take in tool files that changed, and say so."""
        async with self._looking:
            others = await asyncio.to_thread(self._look_again)
            change = await self.catalog.refresh()
            if change is not None or others:
                self._take()
        if change is not None:
            tell(change, emitter)
            if self.catalog.complete:
                for text in self.catalog.unknown(self._rules):
                    emitter.emit(Notice(level="warning", code="rule.unknown", text=text))

    async def trust(self, trusted: bool, emitter: Emitter, *, running: bool) -> None:
        """Load the project's tool files as they are now, or none; during a run from its next boundary on.

        Raises ConfigError.
        """
        await (self.catalog.trust() if trusted else self.catalog.distrust())
        if not running:
            await self.at_boundary(emitter)

    def _take(self) -> None:
        self._text = self._prompt(tuple(self.catalog))
        self._tools = self.catalog.definitions()


def tell(change: CatalogChange, emitter: Emitter) -> None:
    """Emit what a look at the tool files brought: `tools.changed`, `tools.problem`, `tools.untrusted`."""
    if words := _in_words(change):
        names = {"added": list(change.added), "changed": list(change.changed), "removed": list(change.removed)}
        emitter.notice("tools.changed", f"tools: {words}", **names)
    for problem in change.problems:
        if problem.level == "error":  # a warning is for whoever writes the tool: `codeagent tools check`, /tools
            where: dict[str, JsonValue] = {"where": problem.where}
            text = f"{problem}; its tools are not in use"
            emitter.emit(Notice(level="warning", code="tools.problem", text=text, data=where))
    if change.untrusted:
        files = ", ".join(change.untrusted)
        text = f"not loaded, because you have not said yes to it as it is now: {files}. /tools shows it"
        if any(name.endswith(".py") for name in change.untrusted):
            text = f"{text}; {_RUNS_HERE}"
        data: dict[str, JsonValue] = {"files": list(change.untrusted)}
        emitter.emit(Notice(level="warning", code="tools.untrusted", text=text, data=data))


def _in_words(change: CatalogChange) -> str:
    parts = (("new", change.added), ("changed", change.changed), ("gone", change.removed))
    return "; ".join(f"{word} {', '.join(names)}" for word, names in parts if names)
