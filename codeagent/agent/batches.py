"""From the calls of one answer to batches, and a batch run so that order still means something."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from codeagent.core.errors import ConfigError
from codeagent.core.messages import ToolCall
from codeagent.core.tool import Access

T = TypeVar("T")


@dataclass(frozen=True)
class Strategy:
    """How many calls run before the next boundary (FEATURES F8)."""

    kind: Literal["sequential", "parallel", "batched"] = "parallel"
    size: int = 0
    """Calls in a batch, for `batched`."""

    @classmethod
    def parse(cls, text: str) -> "Strategy":
        """`sequential`, `parallel` or `batched:N` with N from 1. Raises ConfigError."""
        if text == "sequential":
            return cls("sequential")
        if text == "parallel":
            return cls("parallel")
        match = re.fullmatch(r"batched:([0-9]{1,6})", text)
        if match is None or int(match[1]) == 0:
            raise ConfigError(f"no such strategy: {text!r}; use sequential, parallel or batched:N with N from 1")
        return cls("batched", int(match[1]))

    def __str__(self) -> str:
        return f"batched:{self.size}" if self.kind == "batched" else self.kind

    def cut(self, calls: Sequence[ToolCall]) -> list[tuple[ToolCall, ...]]:
        """The calls in source order, cut at the boundaries."""
        size = {"sequential": 1, "parallel": len(calls), "batched": self.size}[self.kind]
        return [tuple(calls[start : start + size]) for start in range(0, len(calls), size or 1)]


async def run_ordered(items: Sequence[T], access: Callable[[T], Access], work: Callable[[T], Awaitable[None]]) -> None:
    """Run all items at once, except that an item waits for earlier ones it conflicts with.

    So the outcome is that of running them in order. `work` must not raise; when the caller is
    cancelled, every item is cancelled and awaited.
    """
    accesses = [access(item) for item in items]
    tasks: list[asyncio.Task[None]] = []
    for position, item in enumerate(items):
        blockers = [
            task for task, earlier in zip(tasks, accesses, strict=False) if accesses[position].conflicts(earlier)
        ]
        tasks.append(asyncio.create_task(_after(blockers, work, item)))
    try:
        await asyncio.gather(*tasks)
    except asyncio.CancelledError:
        await asyncio.wait(tasks)
        raise


async def _after(blockers: list["asyncio.Task[None]"], work: Callable[[T], Awaitable[None]], item: T) -> None:
    if blockers:
        await asyncio.wait(blockers)
    await work(item)
