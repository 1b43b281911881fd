"""An MCP server as a source of tools: started in the background, watched, restarted once, and
stopped at the end."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from codeagent.core.errors import SandboxUnavailable
from codeagent.core.sandbox import RunningProgram
from codeagent.core.sanitize import one_line
from codeagent.core.tool import REDEFINED, Denied, Failed, NotFound, Tool, ToolContext
from codeagent.core.toolbox import SourceState, ToolProblem
from codeagent.disk.private import UnsafeFile
from codeagent.extensions.mcp.config import ServerConfig
from codeagent.extensions.mcp.elicitation import Reaction
from codeagent.extensions.mcp.ending import ON_MACHINE, why_ended
from codeagent.extensions.mcp.host import ServerHost
from codeagent.extensions.mcp.offer import (
    OfferedTool,
    OwnInstructions,
    ServerOffer,
    offer_of,
    prefix_of,
)
from codeagent.extensions.mcp.pins import Changed, PinFile, Pinned, waiting_problems
from codeagent.extensions.mcp.program import AgreedProgram
from codeagent.extensions.mcp.record import ServerError, ServerRecord
from codeagent.extensions.mcp.running_calls import RunningCalls
from codeagent.extensions.mcp.server_tool import CallsServer, ServerProgress, ServerTool
from codeagent.tools.source import ListedTool, Listing

if TYPE_CHECKING:
    from codeagent.extensions.mcp.connection import Connection

T = TypeVar("T")
_RESTART_SECONDS = 0.5
_LIST_AGAIN_SECONDS = 0.5
"""Seconds between two listings, however often a server says that its tools have changed."""
_MOST_NAMED = 5
_ASKED_SECONDS = 8.0
"""Seconds that a prompt waits for the text it uses from a server."""
_NO_SANDBOX = "it runs in the sandbox, and there is none"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(one_line(name, 100) for name in names[:_MOST_NAMED])}{more}"


class McpSource(CallsServer):
    """Implements `tools.source.ToolSource`."""

    def __init__(self, config: ServerConfig, host: ServerHost) -> None:
        self._host = host
        self.reconfigure(config)
        self.record = ServerRecord(host.clean)
        self.changed: tuple[Changed, ...] = ()
        """Changes that wait until the user agrees to them, see `agree`."""
        self.held = False
        """Whether they are those of its program, without which it is not started."""
        self._instructions = OwnInstructions(config.name)
        self._listing = Listing(
            state="starting",
            about=f"tools of the MCP server {config.name}",
            instructions=self.instructions,
            prefix=prefix_of(config.name),
        )
        self._offer = ServerOffer()
        self._tools: dict[str, tuple[OfferedTool, ServerTool]] = {}
        self._connection: Connection | None = None
        self._program: RunningProgram | None = None
        self._task: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._list_again = asyncio.Event()
        self._told_changes = 0
        """How often the server has said that its tools changed."""
        self._listed_changes = 0
        """How often it had said so when it was asked for the tools in use."""
        self._relisting = asyncio.Lock()
        self._calls = RunningCalls(config.name, host.asker)
        self._taking = asyncio.Lock()
        self._fitting = asyncio.Lock()
        self._was_ready = False
        self._answered = False
        """Whether a call has succeeded since the last start, after which one more crash is
        tolerated."""
        self._on_change: Callable[[], None] = lambda: None

    def reconfigure(self, config: ServerConfig) -> None:
        """Use this from the next start on; another program or address is another server, and is
        remembered as such."""
        super().__init__(config)
        host = self._host
        self._pins = PinFile(host.pins, config)
        self._agreed = None if config.url else AgreedProgram(config, host.root, host.pins)

    async def start(self, changed: Callable[[], None]) -> None:
        """Start the server, again if it has failed; return once its tools are listed or it
        failed."""
        self._on_change = changed
        if self._task is None or self._task.done():
            self._settled.clear()
            self._show(state="starting")
            self._task = asyncio.create_task(self._keep_up())
        await self._settled.wait()

    def list(self) -> Listing:
        return self._listing

    def get(self, name: str) -> Tool[Any]:
        if name not in self._tools:
            raise NotFound(f"the MCP server {self.name} has no tool {one_line(name, 100)}")
        return self._tools[name][1]

    async def close(self) -> None:
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        self._connection = None
        self._settled.set()

    async def agree(self, seen: Collection[str]) -> bool:
        """Accept changes, as far as they still say what the user has seen; return False if none of
        them does.

        A server that waited for it can be started then. Raises UnsafeFile, OSError,
        SandboxUnavailable.
        """
        if self.held:
            self.changed = await self.agree_to_program(seen)
            return not self.changed
        if not any(one.now.said in seen for one in self.changed):
            return False
        async with self._taking:
            await asyncio.to_thread(
                self._pins.agree, [one.now for one in self.changed if one.now.said in seen]
            )
            await self._use(self._offer)
        self._show(self._listing.state)
        return True

    async def agree_to_program(self, seen: Collection[str]) -> tuple[Changed, ...]:
        """Accept its program, also before it was started, if it is as the user has `seen` it;
        return what waits then.

        Raises UnsafeFile, OSError, SandboxUnavailable.
        """
        return () if self._agreed is None else await asyncio.to_thread(self._agreed.agree, seen)

    async def _keep_up(self) -> None:
        """Keep a connection; a server that was ready and ended is restarted once, after a
        moment."""
        again = True
        while True:
            self._was_ready = False
            why = await self._live()
            self._connection = None
            if self._program is not None and self._program.unfit:
                self._settled.clear()  # calls wait for what the user's mode costs
                self._show(state="starting")
                continue
            again = again or self._answered
            self._answered = False
            if not (self._was_ready and again):
                self._show(state="failed", why=why)
                self._settled.set()
                return
            again = False
            self._show(state="starting", why=f"{why}; it is being restarted")
            await asyncio.sleep(_RESTART_SECONDS)

    async def _live(self) -> str:
        """Start the server and watch it until it ends; return why it ended, as a phrase."""
        config = self._config
        self.record.why = ""
        program: RunningProgram | None = None
        self._program = None
        try:
            if not config.url and config.where not in self._host.programs:
                raise SandboxUnavailable(_NO_SANDBOX, f"run it on this machine, with {ON_MACHINE}")
            if why := await self._waits():
                return why
            library = await asyncio.to_thread(import_module, "codeagent.extensions.mcp.connection")
            async with asyncio.timeout(config.start_timeout) as limit:
                if self._agreed is not None:
                    start = self._host.programs[config.where]
                    program = self._program = await start(self._agreed.start.program)
                auth = self._host.auth(config) if config.url else None
                opened = library.connected(
                    config, program, self.record, self, self._host.root, auth=auth
                )
                async with opened as connection:
                    offer = await self._offered(connection)
                    if why := await self._altered():
                        return why
                    limit.reschedule(None)
                    if program is not None:
                        await program.begun()
                    await self._take(offer)
                    self._connection = connection
                    self._was_ready = True
                    self._show(state="ready")
                    self._settled.set()
                    await self._follow(connection)
        except TimeoutError:
            return f"it did not list its tools within {config.start_timeout:g} s"
        except Exception as error:  # a fault of a server or a library must not end the conversation
            return await self._reason(error, program)
        finally:
            if program is not None:
                await program.close()
        return await self._reason(None, program)

    async def _waits(self) -> str:
        """Return why it is not started before the user agrees to its program; empty if it is.
        Raises UnsafeFile."""
        if self._agreed is None:
            return ""
        changes = await asyncio.to_thread(self._agreed.changes)
        if changes or self.held:
            self.changed = changes
        self.held = bool(changes)
        if not changes:
            return ""
        what = _few([one.now.name for one in changes[1:]] or ["files"])
        return (
            f"not started until you agree to its program in the workspace, which is new or has changed ({what}); "
            f"codeagent mcp test {self.name} shows it"
        )

    async def _altered(self) -> str:
        """Return why a running server must be stopped: its program has changed; empty if it has
        not."""
        if (
            self._agreed is None
            or not self._agreed.watched
            or not await asyncio.to_thread(self._agreed.altered)
        ):
            return ""
        return "its program in the workspace changed while it ran"

    async def _follow(self, connection: "Connection") -> None:
        """Watch the server until it ends; list its tools again when it says that they changed."""
        ended = asyncio.create_task(connection.ended.wait())
        told = asyncio.create_task(self._list_again.wait())
        try:
            while True:
                await asyncio.wait({ended, told}, return_when=asyncio.FIRST_COMPLETED)
                if ended.done():
                    return
                self._list_again.clear()
                told = asyncio.create_task(self._list_again.wait())
                await self._list(connection)
                await asyncio.wait({ended}, timeout=_LIST_AGAIN_SECONDS)
        finally:
            ended.cancel()
            told.cancel()

    async def _list(self, connection: "Connection") -> str:
        """List the server's tools again; return why that failed, as a phrase, empty if it did
        not."""
        async with self._relisting:
            told = self._told_changes
            try:
                async with asyncio.timeout(self._config.start_timeout):
                    offer = await self._offered(connection)
            except (ServerError, TimeoutError) as error:
                why = f"its tools could not be listed again: {error or 'no answer'}"
                self.record.add(why)
                return why
            await self._take(offer)
            self._listed_changes = told
            self._show(state="ready")
            return ""

    async def outdated(self, offered: OfferedTool, *, asked: bool) -> str:
        """What the server said that it changed is read first."""
        connection = self._connection
        stale = asked or self._listed_changes != self._told_changes
        if connection is not None and stale and (why := await self._list(connection)):
            return f"{self.name} was not called: {why}"
        there = self._tools.get(offered.name)
        if there is not None and there[0] == offered:
            return ""
        look = f"/mcp, or codeagent mcp test {self.name}, shows the difference"
        return f"{offered.name} was not called: {REDEFINED}; {look}"

    async def _offered(self, connection: "Connection") -> ServerOffer:
        """Return the server's offer. Raises ServerError."""
        return await asyncio.to_thread(
            offer_of, self.name, await connection.tools(), connection.instructions
        )

    async def _take(self, offer: ServerOffer) -> None:
        async with self._taking:
            await self._use(offer)

    async def _use(self, offer: ServerOffer) -> None:
        """Use the part of the offer that the user agreed to, and hold back the rest; one offer at a
        time."""
        try:
            pinned = await asyncio.to_thread(self._pins.check, (*offer.tools, *offer.instructions))
        except (UnsafeFile, OSError) as error:
            text = (
                f"none of its tools is used, because it is not known what they said before: {error}"
            )
            problem = ToolProblem(self.name, text, partial=True)
            pinned, offer = Pinned(), replace(offer, problems=(*offer.problems, problem))
        self._offer = offer
        self.changed = pinned.changed
        self._tools = {
            tool.name: self._made(tool) for tool in pinned.agreed if isinstance(tool, OfferedTool)
        }
        self._instructions.take(pinned.agreed)

    def _made(self, offered: OfferedTool) -> tuple[OfferedTool, ServerTool]:
        """Return the tool, reusing the existing one if its server still says the same."""
        there = self._tools.get(offered.name)
        return (
            there
            if there is not None and there[0] == offered
            else (offered, ServerTool(offered, self))
        )

    def _show(self, state: SourceState, why: str = "") -> None:
        tools = tuple(ListedTool(each.name, each.summary) for each, _ in self._tools.values())
        problems = [ToolProblem(self.name, f"unavailable: {why}")] if why else []
        problems += self._offer.problems
        if self.changed and not self.held:
            problems += waiting_problems(self.name, self.changed)
        now = replace(self._listing, tools=tools, problems=tuple(problems), state=state)
        if now != self._listing:
            self._listing = now
            self._on_change()

    async def _reason(self, error: Exception | None, program: RunningProgram | None) -> str:
        """Return why the server is not running, as a phrase."""
        hint = "" if self._agreed is None else self._agreed.start.hint
        return await why_ended(self._config, self.record, error, program, hint)

    def instructions(self, agent: str) -> str:
        return self._instructions.once(agent)

    def listing_changed(self) -> None:
        """Implement `connection.Listener`."""
        self._told_changes += 1
        self._list_again.set()

    async def call(
        self, tool: str, arguments: Mapping[str, Any], ctx: ToolContext, progress: ServerProgress
    ) -> Mapping[str, Any]:
        await self._fit(planning=ctx.read_only)
        connection = self._there()
        await self._refuse_outdated(connection)
        async with asyncio.timeout(self.seconds) as limit:
            program = self._program
            try:
                with self._calls.begun(ctx, limit):
                    answer = await connection.call(tool, arguments, progress)
            except ServerError as error:
                stopped = "" if program is None else program.unfit
                end = (
                    ServerError(f"it was stopped, because {stopped}", lost=True)
                    if stopped
                    else error
                )
                raise self._failed(end, connection) from error
        self._answered = True
        return answer

    async def _fit(self, *, planning: bool) -> None:
        """Restart the server if the mode has changed whether it may write; wait while it starts.

        One that may write again is restarted only for a caller that may write, and while nobody
        else calls it. `planning`: the caller is in plan mode, even if others are not. Raises Denied
        if the server could write then.
        """
        async with self._fitting:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._config.start_timeout):
                    await self._settled.wait()
                    while self._ended_as_unfit(planning):
                        await self._settled.wait()
            program = self._program
            writes = program is not None and program.writes and self._config.where == "sandbox"
            if planning and writes:
                raise Denied(
                    f"plan mode changes nothing, and {self.name} may write in the workspace"
                )

    def _ended_as_unfit(self, planning: bool) -> bool:
        program, connection = self._program, self._connection
        if program is None or connection is None or not program.unfit:
            return False
        if not program.writes and (planning or self._calls):
            return False
        self.record.why = program.unfit
        self._connection = None
        self._settled.clear()
        connection.ended.set()
        return True

    def _there(self) -> "Connection":
        """Return the connection that calls go to. Raises Failed."""
        if self._connection is not None:
            return self._connection
        why = (
            self._listing.problems[0].text
            if self._listing.problems
            else "starting; try again in a moment"
        )
        raise Failed(f"the MCP server {self.name} is {why}")

    async def _refuse_outdated(self, connection: "Connection") -> None:
        """End the server if its program, or what its sandbox hides, has changed, to be restarted;
        then raise Failed."""
        try:
            why = await self._altered() or (
                "" if self._program is None else await self._program.outdated()
            )
        except SandboxUnavailable as error:
            why = str(error)
        if not why:
            return
        self.record.why = why
        self._answered = True
        connection.ended.set()
        self._failed(ServerError(why, lost=True), connection)
        raise Failed(
            f"{self.name} was not called: {why}, so it was stopped, and is being restarted; try again in a moment"
        )

    def _failed(self, error: ServerError, connection: "Connection") -> Failed:
        if not error.lost:
            return Failed(f"{self.name}: {error}")
        if self._connection is connection:
            self._connection = None
            self._show(state="starting", why=f"{error}")
        return Failed(f"{self.name}: {error}; whether the call took effect is unknown")

    async def pages(self, kind: str) -> Sequence[Mapping[str, Any]]:
        """Return what the server lists of a kind, such as `prompts`. Raises Failed."""
        found = await self._asked(lambda connection: connection.pages(kind))
        return [each for each in found if isinstance(each, Mapping)]

    async def request(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the result of a request that reads something. Raises Failed."""
        return await self._asked(lambda connection: connection.request(method, params))

    async def _asked(self, ask: Callable[["Connection"], Awaitable[T]]) -> T:
        """Ask the server something while the user waits, even if it is still starting. Raises
        Failed."""
        try:
            async with asyncio.timeout(_ASKED_SECONDS):
                await self._settled.wait()
                connection = self._there()
                await self._refuse_outdated(connection)
                try:
                    return await ask(connection)
                except ServerError as error:
                    raise self._failed(error, connection) from error
        except TimeoutError:
            raise Failed(f"{self.name} did not answer within {_ASKED_SECONDS:g} s") from None

    async def elicit(self, params: Mapping[str, Any]) -> Reaction:
        """Implement `connection.Listener`."""
        return await self._calls.ask(params)
