"""MCP servers: those of a conversation, and one that is only looked at or logged in to."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain, starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from codeagent.agent.parts import ConversationPart, Host, Opening
from codeagent.agent.programs import SandboxPrograms
from codeagent.agent.reach import program_starter
from codeagent.config.keys import KeyStore
from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.settings import Settings
from codeagent.core.acts import AgreeToServer, GiveVariables, RestartServer, ServerAct, TrustServers
from codeagent.core.approval_events import Asker
from codeagent.core.errors import ConfigError, SandboxUnavailable
from codeagent.core.messages import Attachment
from codeagent.core.notes import ADDED, framed
from codeagent.core.redact import is_secret_name
from codeagent.core.runtime import Mentioned, OfferedText, TextKind
from codeagent.core.sandbox import StartProgram
from codeagent.core.sanitize import one_line, visible
from codeagent.core.tool import Failed
from codeagent.core.toolbox import ToolProblem
from codeagent.disk.private import UnsafeFile
from codeagent.extensions.mcp import PROJECT_FILE
from codeagent.extensions.mcp.browser import open_in_browser
from codeagent.extensions.mcp.config import ListedServers, ServerConfig, ServerPlace, ServerStatus
from codeagent.extensions.mcp.entry import ServerEntry
from codeagent.extensions.mcp.files import ServerFiles
from codeagent.extensions.mcp.host import ServerHost
from codeagent.extensions.mcp.mentions import offered_texts, read_mentions, resources_in
from codeagent.extensions.mcp.pins import Changed
from codeagent.extensions.mcp.program import AgreedProgram
from codeagent.extensions.mcp.source import McpSource
from codeagent.sandbox.programs import MachinePrograms
from codeagent.tools.catalog import ToolCatalog
from codeagent.tools.extension import ExtensionContext
from codeagent.tools.source import Listing, ToolSource
from codeagent.tools.toolsets import Toolsets

if TYPE_CHECKING:
    from codeagent.commands.ports import App

_LOGIN_SECONDS = 600.0
"""How long a user may take to log in."""
_SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie"})
_UNTRUSTED = "not trusted, so it is not started"


def server_files(local: LocalEnvironment) -> ServerFiles:
    return ServerFiles(local.config_dir, local.workspace, accept=local.trust_project)


def server_host(
    local: LocalEnvironment,
    root: Path,
    in_sandbox: StartProgram | None,
    asker: Asker | None,
    auth: Callable[[ServerConfig], Any],
) -> ServerHost:
    """Return what servers get from us. `in_sandbox` None: those for the sandbox do not start."""
    own = local.state_dir / "mcp"
    on_machine = MachinePrograms(root, local.environment, own / "folders")
    programs: dict[ServerPlace, StartProgram] = {"machine": on_machine.start}
    if in_sandbox is not None:
        programs["sandbox"] = in_sandbox
    return ServerHost(root, programs, own, asker=asker, auth=auth, clean=local.redactor.clean)


def conversation_parts(opening: Opening) -> tuple[ConversationPart, ...]:
    """Return the servers of a conversation that is being opened; blocks on small files.

    Those in its sandbox have its network and its mode.
    """
    local, programs = opening.local, SandboxPrograms()
    start = None
    if opening.sandbox is not None:
        start = program_starter(opening.sandbox, opening.questions, programs)
    auth = partial(kept_login, local)
    host = server_host(local, opening.root, start, opening.questions, auth)
    return (McpServers(local, host, programs),)


def kept_login(local: LocalEnvironment, config: ServerConfig) -> Any:
    """Return an `httpx2.Auth` that uses the login kept for the server; None if none can be kept."""
    if local.config_dir is None:
        return None
    from codeagent.extensions.mcp.login import KeptLogin  # only for a server over HTTP

    return KeptLogin(config, KeyStore(local.config_dir), local.redactor.learn)


def ready_config(local: LocalEnvironment, entry: ServerEntry) -> ServerConfig:
    """Fill in its variables; secrets among them are masked from now on. Raises ConfigError."""
    full = entry.filled_in(local.environment)
    given = [(name, value) for name, value in full.env.items() if is_secret_name(name)]
    given += [
        (name, value)
        for name, value in full.headers.items()
        if name.lower() in _SECRET_HEADERS or is_secret_name(name.replace("-", "_"))
    ]
    if full.client is not None and full.client.secret:
        given.append(("client secret", full.client.secret))
    for name, value in given:
        for secret in {value, value.rpartition(" ")[2]}:
            local.redactor.learn(f"{full.name} {name}", secret)
    return full


def accept_programs(local: LocalEnvironment, entries: Iterable[ServerEntry]) -> tuple[str, ...]:
    """Agree to the programs of trusted servers in the workspace as they are now; return their
    files, a line each.

    Blocks. What cannot be agreed to waits, and is said when the server is started.
    """
    found: list[str] = []
    for entry in entries:
        if (program := _program_of(local, entry)) is not None:
            with suppress(SandboxUnavailable, UnsafeFile, OSError):
                for change in program.accept()[:1]:
                    found += change.now.said.splitlines()
    return tuple(found)


def _program_of(local: LocalEnvironment, entry: ServerEntry) -> AgreedProgram | None:
    """Return a server's program; None if it has none, or variables that are missing."""
    try:
        config = ready_config(local, entry)
    except ConfigError:
        return None
    return (
        None
        if config.url
        else AgreedProgram(config, local.workspace.resolve(), local.state_dir / "mcp")
    )


class McpServers(ConversationPart, ListedServers):
    """The servers of one conversation; a method that raises ConfigError has changed nothing."""

    def __init__(
        self, local: LocalEnvironment, host: ServerHost, programs: SandboxPrograms | None = None
    ) -> None:
        """Reads the files; blocks on them. `programs` are those that the host starts in the
        sandbox."""
        self._local = local
        self._host = host
        self._programs = programs or SandboxPrograms()
        self._files = server_files(local)
        self._toolsets = Toolsets()
        self._sources: dict[str, McpSource] = {}
        self._untrusted: dict[str, tuple[Changed, ...]] = {}
        """The programs of servers that are not trusted, as they were first listed since the files
        were read."""
        self._wrong: dict[str, str] = {}
        self._sizes: dict[str, str] = {}
        """How large resources are, by name, as they were read or as their server says."""
        self.hear: Callable[[str], None] = lambda name: None
        """Called with the name of each server that a prompt takes text from."""
        self._read()

    @property
    def sources(self) -> tuple[McpSource, ...]:
        return tuple(self._sources.values())

    @property
    def problems(self) -> tuple[ToolProblem, ...]:
        """What is wrong with the files."""
        return (*self._configured.problems, *starmap(ToolProblem, self._wrong.items()))

    @property
    def waiting(self) -> str:
        """Which servers wait for trust, as a sentence; empty if none does."""
        names = ", ".join(entry.config.name for entry in self._configured.untrusted)
        if not names:
            return ""
        return f"{PROJECT_FILE}: {_UNTRUSTED}: {names}; /mcp, or codeagent mcp list, shows what would run"

    def lacking(self, unknown: str) -> str:
        return self.waiting if "mcp__" in unknown else ""

    async def mentioned(self, text: str, *, sending: bool) -> Mentioned:
        said = ""
        try:
            names = resources_in(text, self.sources)
            if sending:
                said, sizes = await read_mentions(text, self.sources, self.hear)
                self._sizes |= sizes
        except Failed as error:
            return Mentioned(refusal=str(error))
        attached = tuple(
            Attachment(name=name, about=self._sizes.get(name, "read when sent")) for name in names
        )
        note = replace(framed(ADDED, said), attached=attached)
        return Mentioned(note if said or attached else None)

    def assembled(self, catalog: ToolCatalog, assembly: object) -> None:
        """Add servers that are trusted later to the sets of the conversation."""
        self._toolsets = catalog.toolsets

    def connect(self, host: Host) -> None:
        self.hear = host.shared.permissions.hear
        self._programs.connected(host.shared.permissions, host.context.inspection)

    async def close(self) -> None:
        """Let no server write from now on; they end with the sets of the conversation."""
        self._programs.close()

    def list(self) -> tuple[ServerStatus, ...]:
        return tuple(map(self._facts, self._configured.entries))

    async def texts(self, kind: TextKind) -> tuple[OfferedText, ...]:
        """Ask the servers that are ready; one that does not answer is left out."""

        async def of(source: McpSource) -> tuple[OfferedText, ...]:
            try:
                return await offered_texts(source, kind)
            except Failed:  # it has none, or does not answer: whoever names one reads why
                return ()

        ready = (source for source in self._sources.values() if source.list().state == "ready")
        texts = tuple(chain.from_iterable(await asyncio.gather(*map(of, ready))))
        self._sizes |= {text.name: text.size for text in texts if text.size}
        return texts

    async def trust(self, trusted: bool, seen: tuple[str, ...] = ()) -> None:
        """Trust the project's servers as they are now and start them, or stop trusting them; later
        sessions too. Raises ConfigError.

        One whose program in the workspace is not as the user has `seen` it is not started, and
        waits.
        """
        if trusted:
            await self._rewrite(partial(self._files.trust, self._configured.digest), seen)
        else:
            await self._rewrite(self._files.distrust)

    async def give(self, name: str, variables: tuple[str, ...], seen: tuple[str, ...]) -> None:
        """Give a trusted server of the project these variables of the user's, if it is as it was
        `seen`; later sessions too. It is started with them. Raises ConfigError."""
        entry = self._configured.get(name)
        if not entry.trusted:
            raise ConfigError(f"{name} is {_UNTRUSTED}; trust it first")
        if self._facts(entry).said != seen:
            raise ConfigError(
                f"{name} has changed since it was shown, so it was given nothing; look at it again"
            )
        give = tuple((name, variable) for variable in variables)
        await self._rewrite(partial(self._files.give, self._configured.digest, give))
        if (source := self._sources.get(name)) is not None:
            source.reconfigure(ready_config(self._local, self._configured.get(name)))
            await self._toolsets.sources.restart(name)

    async def _rewrite(self, change: Callable[[], object], programs: tuple[str, ...] = ()) -> None:
        """Change the files, read them again, and add the servers that can be started only now.
        Raises ConfigError.

        `programs`: the texts of their programs as the user has seen them.
        """
        before = set(self._sources)
        try:
            await asyncio.to_thread(change)
        finally:
            await asyncio.to_thread(self._read)
        for name in [name for name in self._sources if name not in before]:
            with suppress(SandboxUnavailable, UnsafeFile, OSError):  # it says so when it is started
                await self._sources[name].agree_to_program(programs)
            try:
                self._toolsets.sources.add(self._sources[name])
            except ConfigError as error:
                self._wrong[name] = str(error)
                del self._sources[name]

    async def restart(self, name: str) -> None:
        """Restart a server; returns before it is ready. Raises ConfigError if it is not one that
        can be started."""
        if name not in self._sources:
            raise ConfigError(f"{one_line(name, 40)} cannot be started: {self._why_not(name)}")
        await self._toolsets.sources.restart(name)

    async def agree(self, name: str, seen: tuple[str, ...]) -> None:
        """Accept the changed texts that are equal to those the user has `seen`. Raises ConfigError
        if none of them waits, or they cannot be kept."""
        source = self._sources.get(name)
        if source is None or not source.changed:
            raise ConfigError(f"nothing of {one_line(name, 40)} waits for your agreement")
        held = source.held
        try:
            agreed = await source.agree(seen)
        except (SandboxUnavailable, UnsafeFile, OSError) as error:
            raise ConfigError(f"what you agreed to could not be kept: {error}") from error
        if not agreed:
            raise ConfigError(
                f"{name} has changed again since it was shown, so nothing was agreed to; look at it again"
            )
        if held:
            await self._toolsets.sources.restart(name)

    def _read(self) -> None:
        self._configured = self._files.read()
        self._untrusted = {}
        self._wrong = {}
        for entry in self._configured.entries:
            if not entry.trusted or not entry.enabled or entry.config.name in self._sources:
                continue
            try:
                config = ready_config(self._local, entry)
            except ConfigError as error:
                self._wrong[entry.config.name] = str(error)
                continue
            self._sources[config.name] = McpSource(config, self._host)
            if self._local.trust_project and entry.place == "project":
                accept_programs(self._local, [entry])

    def _why_not(self, name: str) -> str:
        if name in self._wrong:
            return self._wrong[name]
        entry = self._configured.get(name)
        return "it is disabled" if entry.trusted else _UNTRUSTED

    def _facts(self, entry: ServerEntry) -> ServerStatus:
        name = entry.config.name
        facts = ServerStatus(
            name,
            entry.transport,
            entry.place,
            shown=entry.shown,
            details=entry.details,
            state="disabled",
            wants=entry.wants,
        )
        source = self._sources.get(name)
        if not entry.trusted:
            changed = tuple(one.diff for one in self._program(entry))
            return replace(facts, state="untrusted", changed=changed)
        if name in self._wrong:
            return replace(facts, state="failed", problems=(self._wrong[name],))
        if source is None:
            return facts
        listing = source.list()
        return replace(
            facts,
            state="waiting" if source.held else listing.state,
            tools=tuple(tool.name for tool in listing.tools),
            problems=tuple(problem.text for problem in listing.problems),
            wrote=source.record.lines,
            changed=tuple(change.diff for change in source.changed),
        )

    def _program(self, entry: ServerEntry) -> tuple[Changed, ...]:
        """Return what the user would agree to by trusting a server. Blocks, once."""
        name = entry.config.name
        if name not in self._untrusted:
            self._untrusted[name] = ()
            program = _program_of(self._local, entry)
            with suppress(SandboxUnavailable, UnsafeFile, OSError):  # it says so when it is started
                self._untrusted[name] = () if program is None else program.changes()
        return self._untrusted[name]


def sources(context: ExtensionContext) -> Iterable[ToolSource]:
    """Return the servers that may be started."""
    servers = context.part(McpServers)
    return () if servers is None else servers.sources


def remarks(context: ExtensionContext) -> Iterator[tuple[str, str]]:
    servers = context.part(McpServers)
    if servers is not None and servers.waiting:
        yield "mcp.untrusted", visible(servers.waiting)


def change(host: Host, act: ServerAct) -> Coroutine[Any, Any, None]:
    """Return the coroutine that carries out the user's choice. Raises ConfigError if there are no
    servers."""
    servers = host.part(McpServers)
    if servers is None:
        raise ConfigError("no MCP server is configured; codeagent mcp add adds one")
    match act:
        case TrustServers(trusted, seen):
            return servers.trust(trusted, seen)
        case GiveVariables(name, variables, seen):
            return servers.give(name, variables, seen)
        case RestartServer(name):
            return servers.restart(name)
        case AgreeToServer(name, seen):
            return servers.agree(name, seen)
        case _:
            assert_never(act)


@asynccontextmanager
async def one_server(
    app: "App", settings: Settings, local: LocalEnvironment, entry: ServerEntry
) -> AsyncIterator[McpSource]:
    """Yield a server as a conversation would have it, not started yet; closed afterwards. Raises
    ConfigError."""
    config = ready_config(local, entry)
    async with AsyncExitStack() as stack:
        in_sandbox = None
        if not config.url and config.where == "sandbox" and settings.sandbox.kind == "docker":
            container = await asyncio.to_thread(
                app.docker_sandbox, settings, local, local.workspace, "mcp-test"
            )
            stack.push_async_callback(container.close)
            in_sandbox = partial(
                SandboxPrograms().start, container
            )  # no conversation would inspect what it writes
        host = server_host(
            local, local.workspace.resolve(), in_sandbox, None, partial(kept_login, local)
        )
        source = McpSource(config, host)
        stack.push_async_callback(source.close)
        yield source


async def log_in(
    local: LocalEnvironment, entry: ServerEntry, tell: Callable[[str], None], *, browser: bool
) -> tuple[str, Listing]:
    """Log in to a server over HTTP: `tell` gets the address to open, in the user's browser too if
    `browser`.

    Returns where the login is kept, empty if the server wanted none, and what the server then
    listed. Raises ConfigError.
    """
    from codeagent.extensions.mcp.login import Callback, begin_login  # only for a login

    if local.config_dir is None:
        raise ConfigError("without a configuration folder, no login can be kept")
    config = replace(ready_config(local, entry), start_timeout=_LOGIN_SECONDS)

    def show(url: str) -> None:
        tell(url)
        if browser:
            with suppress(OSError):  # the address was printed: it can be copied
                open_in_browser(url, os.environ, local.workspace)

    async with Callback(0 if config.client is None else config.client.port) as callback:
        auth, login = await begin_login(
            config, KeyStore(local.config_dir), local.redactor.learn, show, callback
        )
        host = server_host(local, local.workspace.resolve(), None, None, lambda config: auth)
        source = McpSource(config, host)
        try:
            await source.start(lambda: None)
            return login.where, source.list()
        finally:
            await source.close()
