"""Where further tools come from: one small interface for servers, documents, packages and built-in extra sets."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from codeagent.core.dataclass import dataclass
from codeagent.core.sanitize import one_line
from codeagent.core.tool import NotFound, Tool
from codeagent.core.toolbox import SourceState, ToolProblem

SOURCE_PACKAGES = "codeagent.sources"
"""The group of entry points with which an installed package adds a source: a function without parameters that returns
a ToolSource, or such a class; the entry point's name is the source's."""
_CLOSE_SECONDS = 10.0
_FIRST_DELAY, _LONGEST_DELAY = 5.0, 300.0
"""Seconds from a failure to the next attempt."""


@dataclass(frozen=True)
class ListedTool:
    """A tool as a list shows it, before it is made."""

    name: str
    summary: str
    """One line; empty if it is known only once the source was started."""
    tags: tuple[str, ...] = ()
    path: str = ""
    """Of the operation it stands for, such as `/users/{id}`; empty if it has none."""


@dataclass(frozen=True)
class Listing:
    """What a source has now."""

    tools: tuple[ListedTool, ...] = ()
    problems: tuple[ToolProblem, ...] = ()
    state: SourceState = "ready"
    about: str = ""
    """One line for the model: what these tools are good for."""
    instructions: Callable[[str], str] | None = None
    """Gives an agent of that name, once, what is to be read when the tools are used; see `tools.mcp.source`."""


@dataclass(frozen=True)
class Toolset:
    """A set as it is now."""

    name: str
    state: SourceState
    about: str
    tools: tuple[ListedTool, ...]
    source: str
    """The name of the source that its tools come from."""
    reason: str = ""
    """Why the source failed, in one line."""
    instructions: Callable[[str], str] | None = None
    """See `Listing`."""


class ToolSource(Protocol):
    """Tools of one origin. It never raises for what it cannot reach: that is a problem in its listing.

    `tools.toolsets` starts it beside the first request, or once it is asked for while its listing says `waiting`; it
    starts it again, at growing intervals, while the listing says `failed`; and it closes it with the conversation.
    While the listing does not say `ready`, tools of it that are in use stay, and their calls fail by themselves.
    """

    @property
    def name(self) -> str:
        """How the user and the model know it: `github`, `petstore`, `web`; unique in a conversation."""

    async def start(self, changed: Callable[[], None]) -> None:
        """Begin, and return when the first listing is there or has failed; called again after a failure.

        `changed` is called on the event loop whenever `list` would return something else than before.
        """

    def list(self) -> Listing:
        """What there is now; the same object as before if nothing changed. Does not block."""

    def get(self, name: str) -> Tool[Any]:
        """The tool of that name in the listing, the same object until it changes. Raises NotFound."""

    async def close(self) -> None:
        """End what was started; nothing of it is left running. Also called if it never was started."""


class BuiltInSet:
    """A source of built-in tools that are made, and whose modules are imported, on first use."""

    def __init__(self, name: str, about: str, names: Sequence[str], make: Callable[[], Sequence[Tool[Any]]]) -> None:
        """`make` returns the tools called `names`, in that order; it runs in a thread and imports what it needs.

        With `names` a rule or an allow list can be checked, and a call be answered, before anything is imported.
        """
        self.name = name
        self._make = make
        self._tools: dict[str, Tool[Any]] = {}
        self._listing = Listing(tuple(ListedTool(one, "") for one in names), state="waiting", about=about)

    async def start(self, changed: Callable[[], None]) -> None:
        """Raises whatever `make` raises."""
        about = self._listing.about
        tools = await asyncio.to_thread(self._make)
        self._tools = {tool.name: tool for tool in tools}
        self._listing = Listing(tuple(listed(tool) for tool in tools), about=about)
        changed()

    def list(self) -> Listing:
        return self._listing

    def get(self, name: str) -> Tool[Any]:
        if name not in self._tools:
            raise NotFound(f"the toolset {self.name} has no tool {name}")
        return self._tools[name]

    async def close(self) -> None:
        return None


_STARTING = Listing(state="starting")


class LateSource:
    """A source that is made, and whose modules are imported, in a thread once it is started."""

    def __init__(self, name: str, make: Callable[[], ToolSource], listing: Listing = _STARTING) -> None:
        """`listing` is what is known before; with the state `waiting` it is made only once it is asked for."""
        self.name = name
        self._make = make
        self._source: ToolSource | None = None
        self._started = False
        self._listing = listing

    async def start(self, changed: Callable[[], None]) -> None:
        """Raises whatever `make` raises."""
        if self._source is None:
            self._source = await asyncio.to_thread(self._make)
        await self._source.start(changed)
        self._started = True

    def list(self) -> Listing:
        return self._source.list() if self._source is not None and self._started else self._listing

    def get(self, name: str) -> Tool[Any]:
        if self._source is None or not self._started:
            raise NotFound(f"the toolset {self.name} is still starting")
        return self._source.get(name)

    async def close(self) -> None:
        if self._source is not None:
            await self._source.close()


class SourceRun:
    """Keeps one source going: starts it in the background, and again, at growing intervals, while it fails."""

    def __init__(self, source: ToolSource, changed: Callable[[], None]) -> None:
        self.source = source
        self._changed = changed
        self._broken: Listing | None = None
        self._task: asyncio.Task[None] | None = None
        self._started = asyncio.Event()
        self._moved = asyncio.Event()
        self._again = asyncio.Event()
        self._ending = asyncio.Lock()
        self._closed = False

    @property
    def listing(self) -> Listing:
        """The source's own; a failed one if `list` raises, and while a start that failed is tried again."""
        if self._broken is not None:
            return self._broken
        try:
            return self.source.list()
        except Exception as error:
            return self._failed(error)

    def begin(self) -> None:
        """Start it, unless it was started or closed before; an event loop is running."""
        if self._task is None and not self._closed:
            self._task = asyncio.create_task(self._keep_going(), name=f"tools of {self.source.name}")

    def try_again(self) -> None:
        """If it has failed, start it now instead of after the delay."""
        if self._started.is_set() and self.listing.state == "failed":
            self._started.clear()
            self._again.set()

    async def restart(self) -> None:
        """End it, and begin again."""
        async with self._ending:
            await self._end()
            self._task, self._broken = None, None
            self._started.clear()
            self.begin()

    async def settled(self, seconds: float) -> None:
        """Return once it has started or failed, or after that many seconds."""
        self.begin()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._started.wait()

    async def close(self) -> None:
        """End it for good."""
        self._closed = True
        async with self._ending:
            await self._end()

    async def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=_CLOSE_SECONDS)
        with suppress(Exception):  # a plug-in's; there is nobody left to tell
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.source.close()

    async def _keep_going(self) -> None:
        delay = _FIRST_DELAY
        while True:
            await self._start()
            while self.listing.state != "failed" or not await self._failed_for(delay):
                delay = _FIRST_DELAY
                self._moved.clear()
                await self._moved.wait()
            delay = min(2 * delay, _LONGEST_DELAY)

    async def _failed_for(self, seconds: float) -> bool:
        """Wait so long, or until it is to be tried at once; whether it is still failed then."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._again.wait()
        self._again.clear()
        if self.listing.state == "failed":
            return True
        self._started.set()  # it recovered by itself: nobody has to wait for another start
        return False

    async def _start(self) -> None:
        self._started.clear()
        if self.listing.state == "failed":
            self._broken = self.listing  # until it is known better, so that its problem is reported once
        broken: Listing | None = None
        try:
            await self.source.start(self._tell)
        except Exception as error:
            broken = self._failed(error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            broken = self._failed(RuntimeError("its start was cancelled from within"))
        self._broken = broken
        self._started.set()
        self._tell()

    def _failed(self, error: Exception) -> Listing:
        text = one_line(str(error), 400) or type(error).__name__
        return Listing(problems=(ToolProblem(self.source.name, text),), state="failed")

    def _tell(self) -> None:
        self._moved.set()
        self._changed()


def listed(tool: Tool[Any], *tags: str) -> ListedTool:
    """A tool that was made, as a list shows it."""
    return ListedTool(tool.name, tool.description.strip().partition("\n")[0], tags)
