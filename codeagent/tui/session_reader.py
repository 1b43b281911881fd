"""What the screen reads of a session, and of what surrounds it: other sessions, models, files."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

from codeagent.config.choices import Choices
from codeagent.config.settings import Settings
from codeagent.core.attention import Follower, Terminal
from codeagent.core.audit import LedgerRow, decisions, gather_stats
from codeagent.core.budget import Effort
from codeagent.core.checkpoints import Rewind
from codeagent.core.compaction import preview
from codeagent.core.errors import CheckpointError, CodeagentError, ConfigError
from codeagent.core.events import ToolResultAdded
from codeagent.core.extension import Reference, resolved
from codeagent.core.memory import OutputPage, OutputStore
from codeagent.core.messages import text_of
from codeagent.core.model import ModelInUse, ModelRequest
from codeagent.core.runtime import AgentHandle, Session, SessionSummary
from codeagent.core.toolbox import Toolbox
from codeagent.tui.launcher import (
    ExtensionsInUse,
    Launcher,
    LaunchOptions,
    Missing,
    ModelOffer,
    ModelRow,
)
from codeagent.tui.state import UiState

if TYPE_CHECKING:  # as in `facts`, and not before a model is marked
    from codeagent.config.model_marks import ModelMarksFile
    from codeagent.tui.facts import Facts
    from codeagent.tui.info_pages import About

STARTING = "codeagent is still starting; nothing was changed"


class SessionReader:
    """One session, once it is open, and the launcher that opens it."""

    def __init__(self, launcher: Launcher, state: UiState) -> None:
        self.launcher = launcher
        self._state = state
        self._runtime: Session | None = None
        self._settings: Settings | None = None
        self._extensions: ExtensionsInUse | None = None

    def _cards(self) -> tuple[Reference, ...]:
        extensions = () if self._extensions is None else self._extensions.on
        return tuple(extension.screen.cards for extension in extensions if extension.screen.cards)

    async def extensions(self) -> ExtensionsInUse:
        """Return the extensions that are on, and those that are off. Raises ConfigError."""
        if self._extensions is None:
            settings = await self._present_settings()
            self._extensions = await asyncio.to_thread(self.launcher.extensions, settings)
        return self._extensions

    async def followers(self, terminal: Terminal) -> tuple[Follower, ...]:
        """Return the followers of extensions that are told what the agent is doing. Raises
        ConfigError."""
        settings, extensions = await self._present_settings(), await self.extensions()
        return tuple(
            resolved(extension.screen.follower)(settings, self.launcher.workspace, terminal)
            for extension in extensions.on
            if extension.screen.follower
        )

    @property
    def agent(self) -> AgentHandle:
        """The agent, to read from; acts go through `do`. Raises CodeagentError while it is
        starting."""
        if self._runtime is None:
            raise CodeagentError(STARTING)
        return self._runtime.agent

    async def decisions(self) -> tuple[LedgerRow, ...]:
        """Return every decision of this session so far, the oldest first. Raises CodeagentError."""
        return decisions(await asyncio.to_thread(self.launcher.recorded, self.agent.session_id))

    @property
    def rewind(self) -> Rewind:
        """The way back to checkpoints. Raises CheckpointError if none are kept, or not yet."""
        rewind = None if self._runtime is None else self._runtime.agent.rewind
        if rewind is None:
            missing = (
                "codeagent is still starting"
                if self._runtime is None
                else "no checkpoints are kept here"
            )
            raise CheckpointError(f"{missing}; nothing was changed")
        return rewind

    @property
    def toolbox(self) -> Toolbox | None:
        """The tools in use, or None if they cannot change. Raises CodeagentError."""
        now, info = (
            self.agent.toolbox,
            None if self._runtime is None else self._runtime.sandbox_info,
        )
        if now is None or info is None or info.kind != "host":
            return now
        # Without a sandbox, commands run on this machine.
        return replace(now, tools=tuple(replace(tool, sandboxed=False) for tool in now.tools))

    def job_lines(self) -> Mapping[str, int]:
        """Return how many lines each running job printed so far, by its id, including those too
        fast to be shown."""
        jobs = () if self._runtime is None else self._runtime.agent.jobs.jobs()
        return {job.id: job.lines for job in jobs if job.status == "running"}

    async def job_output(self, job_id: str) -> str | None:
        """Return everything that a job printed so far, or None if it is gone. Raises
        CodeagentError."""
        try:
            return await asyncio.to_thread(_whole, partial(self.agent.jobs.read, job_id))
        except KeyError:
            return None

    async def missing(self, row: ModelRow) -> Missing | None:
        """Return what another model still needs, such as its key."""
        settings = await self._present_settings()
        settings = replace(settings, model=row.name, api_base=row.api_base)
        return await self.launcher.missing(settings, LaunchOptions(proceed=True))

    async def keep_key(self, variable: str, value: str) -> str:
        """Try a key and keep it; shows and returns how that went and where the key is. Raises
        CodeagentError."""
        said = await self.launcher.keep_key(variable, value)
        self._state.document.remark(said)
        return said

    async def keep(self, choices: Choices) -> str:
        """Keep what the user chose for the next start; return how that went, to be read behind what
        was chosen."""
        try:
            said = await asyncio.to_thread(self.launcher.keep, choices)
        except ConfigError as error:
            return f"; not kept for the next start: {error}"
        return said and f"; {said}"

    async def sessions(self) -> tuple[SessionSummary, ...]:
        """Return the sessions of this workspace, the latest first."""
        return await asyncio.to_thread(self.launcher.sessions)

    async def models(self) -> tuple[ModelRow, ...]:
        """Return the models worth offering."""
        return await self.launcher.models(await self._present_settings())

    async def offers(self) -> AsyncIterator[ModelOffer]:
        """Yield the models to choose from, as their servers and providers answer, with what the
        next request would cost."""
        last = self._state.status.now.usage.context_tokens
        first = None if last or self._runtime is None else self._runtime.next_request()
        settings = await self._present_settings()
        async for offer in self.launcher.offers(settings, first or last):
            yield offer

    async def efforts(self) -> tuple[tuple[Effort, str], ...]:
        """Return how much the model can be told to think, each with what that means to it."""
        return await self.launcher.efforts(await self._present_settings())

    @property
    def model_marks(self) -> "ModelMarksFile":
        """The user's favourites among the models, and those chosen last."""
        return self.launcher.model_marks

    @property
    def reads_kept_texts(self) -> bool:
        """Whether the model has the tool that reads what `keep_text` keeps."""
        return any(tool.name == "output_read" for tool in self._coming().tools)

    async def keep_text(self, text: str) -> str:
        """Keep a long text as a file of the session; return what is sent instead of it. Raises
        CodeagentError."""
        if self._runtime is None:
            raise CodeagentError(STARTING)
        return await asyncio.to_thread(_kept, self._runtime.outputs, text)

    async def full_output(self, call_id: str) -> str | None:
        """Return the whole text of a call's result, even if it was too long for the model; None if
        it is gone."""
        if self._runtime is None:
            return None
        session, outputs = self._runtime.agent.session_id, self._runtime.outputs
        if call_id in outputs.handles():
            return await asyncio.to_thread(_whole, partial(outputs.read, call_id))
        recorded = await asyncio.to_thread(self.launcher.recorded, session)
        results = (
            event
            for event in recorded
            if isinstance(event, ToolResultAdded) and event.call_id == call_id
        )
        return next((text_of(result.content) for result in results), None)

    async def facts(self, about: "About") -> "Facts":
        """Return what the slash command of that name shows. Raises CodeagentError."""
        from codeagent.tui import info_pages as pages  # not for the first frame
        from codeagent.tui.context_facts import context_facts  # likewise

        runtime, now, settings = self._runtime, self._state.status.now, self._settings
        match about:
            case "status":
                return pages.status_facts(self.launcher.workspace, now, settings, runtime)
            case "cost":
                return pages.cost_facts(now.usage)
            case "context":
                session = self.agent.session_id
                messages = await asyncio.to_thread(self.launcher.messages, session)
                share = (settings or Settings()).context.compact_at
                return context_facts(now.usage, share, self._coming(), messages)
            case "stats" | "agents":
                recorded = await asyncio.to_thread(self.launcher.recorded, self.agent.session_id)
                if about == "agents":
                    return pages.agent_facts(recorded)
                return pages.stats_facts(gather_stats(recorded))
            case "sandbox":
                info = None if runtime is None else runtime.sandbox_info
                return pages.sandbox_facts(now.conversation.network, info, self.agent.rules)
            case "tools":
                return pages.tool_facts(self._coming().tools)
            case "skills":
                return pages.skills_facts(None if runtime is None else runtime.skills)
            case "extensions":
                found = await self.extensions()
                return pages.extension_facts(found.on, found.off)
            case _:
                assert_never(about)

    def _coming(self) -> ModelRequest:
        return ModelRequest("", (), ()) if self._runtime is None else self._runtime.next_request()

    async def _present_settings(self) -> Settings:
        known = self._settings
        return (
            known
            if known is not None
            else await asyncio.to_thread(self.launcher.settings, LaunchOptions())
        )


def with_model(settings: Settings, model: ModelInUse) -> Settings:
    """Return the settings with the model that is in use now; what differs comes from the
    conversation."""
    now: dict[str, Any] = {
        "model": model.name,
        "api_base": model.api_base,
        "thinking": model.effort,
    }
    changes = {name: value for name, value in now.items() if value != getattr(settings, name)}
    origins = settings.origins | dict.fromkeys(changes, "this conversation")
    return replace(settings, **changes, origins=origins)


def _kept(outputs: OutputStore, text: str) -> str:
    """Keep a text, and return its beginning with its handle; blocks on a file. Raises
    CodeagentError."""
    sink = outputs.create("paste")
    sink.write(text)
    sink.close()
    try:
        lost = outputs.read(sink.handle, 1, 1).dropped_bytes
    except (KeyError, OSError):
        lost = len(text)
    if lost:
        raise CodeagentError(
            "the text could not be kept as a file: the disk has no room for it; nothing was sent"
        )
    return preview(text, sink.handle, unseen=True)


def _whole(read: Callable[[int, int], OutputPage]) -> str:
    """Read all of an output; blocks on a file."""
    return "\n".join(read(1, max(read(1, 1).total, 1)).lines)
