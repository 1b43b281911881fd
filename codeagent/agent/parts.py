"""What extensions add to a conversation, and what a conversation offers to them."""

import asyncio
from collections.abc import Callable, Container, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import field, replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from codeagent.agent.approvals import Approvals, UserQuestions
from codeagent.agent.checkpoints import WorkspaceLock
from codeagent.agent.conversation import RunContext
from codeagent.agent.emitter import Emitter, Journal
from codeagent.agent.environment import ToolEnvironment
from codeagent.agent.hooks.hook import (
    AddContext,
    Allow,
    Deny,
    Hook,
    Hooks,
    SubmittedPrompt,
    TextAnswer,
)
from codeagent.agent.inspection import Inspection
from codeagent.agent.jobs.store import Jobs
from codeagent.agent.limits import BudgetMeter, RunMeter
from codeagent.agent.permissions import Permissions
from codeagent.agent.run import Runs
from codeagent.agent.session_model import SessionModel
from codeagent.config.local_environment import LocalEnvironment
from codeagent.core.acts import Act, Refused
from codeagent.core.cancel import CancelToken
from codeagent.core.dataclass import dataclass
from codeagent.core.extension import OfferedSet, Reference, resolved
from codeagent.core.messages import attached_to
from codeagent.core.model import Model, ModelInUse, ModelOpener
from codeagent.core.ports import Workspace
from codeagent.core.runtime import AgentHandle, Mentioned
from codeagent.core.sandbox import Sandbox
from codeagent.core.sanitize import first_few, one_line
from codeagent.core.tool import NO_CHANNELS, Tool
from codeagent.core.toolbox import ToolProblem
from codeagent.session.fold import History
from codeagent.tools.catalog import ToolCatalog
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.registry import ToolRegistry

if TYPE_CHECKING:  # few conversations run a group, or are offered texts
    from codeagent.core.channels import OwnChannels
    from codeagent.core.groups import Group
    from codeagent.core.runtime import OfferedText, TextKind
    from codeagent.workspace.checkpoints import GitCheckpoints

PartT = TypeVar("PartT")
_MOST_LEFT = 20
"""Names that stay text in one notice: pasted code may have thousands."""
OpenedModel = tuple[Model, ModelInUse]
Began = Refused | asyncio.Task[None] | Coroutine[Any, Any, None] | None
"""What became of what an extension was asked to do: refused, done, begun as a run, or a coroutine
that does it and may raise CodeagentError."""


@dataclass(frozen=True)
class Shared:
    """What an agent shares with those that work for it; some of it they get narrowed."""

    emitter: Emitter
    permissions: Permissions
    spending: BudgetMeter
    granted: set[str]
    """See `Approvals`."""
    lock: WorkspaceLock
    slots: asyncio.Semaphore
    """One slot for each call that may run at the same time."""
    submitted: Hooks
    """The hooks that judge what the user submits and are told when a run ends; only the user's own
    agent has any."""
    inspection: Inspection | None = None
    """Of the agent above; None if the agent has its own."""
    meter: RunMeter | None = None
    """Of the run whose call started the agent; None for the user's own agent."""
    stepping: bool = False
    """Whether the agent above pauses before every batch."""

    @classmethod
    def of_user(cls, environment: ToolEnvironment, journal: Journal) -> "Shared":
        """Make what the user's own agent shares."""
        emitter = Emitter(journal)
        permissions = Permissions(environment, emitter)
        return cls(
            emitter=emitter,
            permissions=permissions,
            spending=BudgetMeter(emitter),
            granted=set(),
            lock=WorkspaceLock(),
            slots=asyncio.Semaphore(environment.limits.max_concurrency),
            submitted=environment.hooks,
        )


@dataclass(frozen=True)
class Host:
    """One conversation, as the parts that extensions add to it see it.

    What can wake it is a note in `context.queue`, and then `runs.rouse`.
    """

    context: RunContext
    environment: ToolEnvironment
    history: History
    """What the session held when it was opened."""
    approvals: Approvals
    runs: Runs
    model: SessionModel
    shared: Shared
    parts: "Parts"

    def part(self, kind: type[PartT]) -> PartT | None:
        """Return the part of that kind; None if there is none."""
        return self.parts.part(kind)

    def lent(self) -> Shared:
        """What an agent gets that works for this one from now on."""
        return replace(
            self.shared,
            inspection=self.context.inspection,
            meter=self.runs.meter,
            stepping=self.context.gate.stepping,
        )

    @property
    def model_in_use(self) -> ModelInUse:
        """The model, and the server that the conversation's text goes to."""
        return replace(self.model.in_use, server=self.runs.server)


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What is known of a conversation before its tools are made."""

    history: History
    """What its session holds."""
    named: Callable[[OfferedSet], bool]
    """Whether the settings name a set, or the user's list of tools one of its tools."""
    waits: bool
    """Whether a run without a user ends only once nothing is left that could wake it."""
    group: "Group | None"
    """The group that it is opened for."""
    local: LocalEnvironment
    root: Path
    """The workspace that its tools work in."""
    sandbox: Sandbox | None
    """None if there is none, or if the tools are only looked at."""
    questions: UserQuestions
    """Asks the user, once the conversation has begun."""


class Assembled(Protocol):
    """What an agent was put together from (an `app.assembly.Assembly`): others that work for it are
    made with this."""

    @property
    def local(self) -> LocalEnvironment: ...

    @property
    def workspace(self) -> Workspace: ...

    @property
    def reads(self) -> ReadTracker:
        """What the agent has read."""

    @property
    def environment(self) -> ToolEnvironment: ...

    @property
    def open_model(self) -> ModelOpener: ...

    @property
    def catalog(self) -> ToolCatalog:
        """An agent that names its tools has them even if a recipe's step holds its parent to
        others, and those of a set, whether it is on or not."""

    @property
    def snapshots(self) -> "GitCheckpoints": ...

    def for_agent(self, parts: "Parts", session: tuple[str, Path]) -> "Assembled":
        """Return what another agent is put together from, which has read nothing; `session`: see
        `app.tools.ToolDependencies`."""

    async def in_copy(
        self, root: Path, git: str, session_id: str, stack: AsyncExitStack
    ) -> "Assembled":
        """Return the same for a copy of the workspace, whose git directory has the digest `git`,
        with a sandbox of its own, which the stack closes. Raises SandboxUnavailable."""

    def remade(
        self, names: Container[str], tools: Callable[[], Iterable[Tool[Any]]]
    ) -> Mapping[str, Tool[Any]]:
        """Make the agent's own built-in tools, and those of sets that go by what it has read, if
        one of `names` is among them; `info` is about `tools`."""

    def must_read(self, tool: Tool[Any]) -> bool:
        """Whether the agent may call the tool only once it has read its documentation."""

    def prompt(self, tools: ToolRegistry) -> str:
        """Return the system prompt of an agent with these tools. Blocks on small files."""

    def agent(
        self,
        opened: OpenedModel,
        tools: ToolRegistry,
        prompt: str,
        log: Journal,
        stack: AsyncExitStack,
        *,
        limits: Mapping[str, Any],
        shared: Callable[[ToolEnvironment, Journal], Shared],
    ) -> AgentHandle:
        """Make the agent, which the stack closes. `limits` are those of its own; `shared` makes
        what it shares with the one that it works for."""


class ConversationPart:
    """What one extension adds to one conversation; it leaves out what it does not need.

    It may be used by the tools of the extension before it is connected, and is connected only once.
    """

    def assembled(self, catalog: ToolCatalog, assembly: Callable[[], Assembled]) -> None:
        """Take the conversation's tools, and what other agents can be made with."""

    @property
    def problems(self) -> Sequence[ToolProblem]:
        """What is wrong with the files that it was made from."""
        return ()

    def lacking(self, unknown: str) -> str:
        """Return why a tool may be missing, if it brings such tools; `unknown` is the sentence that
        calls its name unknown."""
        return ""

    async def mentioned(self, text: str, *, sending: bool) -> Mentioned:
        """Return what the user's text mentions of it; it asks other programs for their content
        only if the text is being sent."""
        return Mentioned()

    async def texts(self, kind: "TextKind") -> "Sequence[OfferedText]":
        """Return the resources or prompts that it offers to the user now."""
        return ()

    def tools(self, catalog: ToolCatalog) -> Sequence[Tool[Any]]:
        """Return the tools that it adds to those that are always there, the same until something
        changes."""
        return ()

    def connect(self, host: Host) -> None:
        """Belong to this conversation from now on."""

    def begin(self) -> None:
        """Begin what goes on while the agent is idle; needs a running event loop."""

    def look(self) -> None:
        """Take note that a run has ended, or that one may begin."""

    async def at_rest(self, token: CancelToken) -> None:
        """Do what is due now that the agent would stop; a note in its queue makes it continue.
        Raises RunCancelled."""

    def pass_on(self, act: Act) -> bool:
        """Do it in every agent that works for this one; False if all of them refuse, or none is
        running."""
        return False

    def channels(self, objection: Callable[[str], str]) -> "OwnChannels | None":
        """Return the channels for a call's tool; `objection` says why the call must not send to a
        name."""

    async def close(self) -> None:
        """End everything that it has begun; calls and runs have ended before."""


class LatePart(ConversationPart):
    """A part that is made only when something, such as a page, asks for it."""


class Parts:
    """All that extensions add to one conversation, in the order in which they are asked."""

    def __init__(
        self,
        parts: Sequence[ConversationPart] = (),
        acts: Mapping[str, Reference] = MappingProxyType({}),
        for_steps: Mapping[str, Reference] = MappingProxyType({}),
        mentions: Reference = "",
    ) -> None:
        """`acts`, `for_steps`, `mentions`: see `InConversations`."""
        self._parts = tuple(parts)
        self._acts = acts
        self._for_steps = for_steps
        self._mentions = mentions
        self._host: Host | None = None

    def __iter__(self) -> Iterator[ConversationPart]:
        return iter(self._parts)

    def part(self, kind: type[PartT]) -> PartT | None:
        """Return the part of that kind, made first if it is a LatePart; None if the conversation
        lacks it."""
        found = next((part for part in self._parts if isinstance(part, kind)), None)
        if found is None and issubclass(kind, LatePart) and self._host is not None:
            found = kind()
            found.connect(self._host)
            self._parts = (*self._parts, found)
        return found

    @property
    def problems(self) -> tuple[ToolProblem, ...]:
        return tuple(problem for part in self._parts for problem in part.problems)

    def lacking(self, unknown: str) -> str:
        """Return why a tool may be missing; empty if no part knows."""
        return next(filter(None, (part.lacking(unknown) for part in self._parts)), "")

    def hooks(self) -> tuple[Hook, ...]:
        """Return the hooks that come after the user's."""
        asked = self._mentions or self._parts
        own = Hook(
            "mentions", prompt_submit=self._read_mentions, concerns=_may_mention, may_write=False
        )
        return (own,) if asked else ()

    async def mentioned(self, text: str, *, sending: bool = False) -> Mentioned:
        found = [await part.mentioned(text, sending=sending) for part in self._parts]
        if "@" in text and self._mentions and self._host is not None:
            found.insert(0, await resolved(self._mentions)(self._host, text))
        notes = [one.note for one in found if one.note is not None]
        content = tuple(chain.from_iterable(note.content for note in notes))
        return Mentioned(
            replace(notes[0], content=content, attached=attached_to(notes)) if notes else None,
            tuple(chain.from_iterable(one.left for one in found)),
            next(filter(None, (one.refusal for one in found)), ""),
        )

    async def _read_mentions(self, prompt: SubmittedPrompt) -> TextAnswer:
        """Attach what a prompt mentions, and report the names that stay text."""
        found = await self.mentioned(prompt.text, sending=True)
        if found.refusal:
            return Deny(found.refusal, by_hook=False)
        if found.left and self._host is not None:
            self._host.context.emitter.notice(
                "mention.left", f"sent as text: {first_few(found.left, _MOST_LEFT)}"
            )
        return AddContext("", found.note) if found.note else Allow()

    async def texts(self, kind: "TextKind") -> "tuple[OfferedText, ...]":
        return tuple([text for part in self._parts for text in await part.texts(kind)])

    def assembled(self, catalog: ToolCatalog, assembly: Callable[[], Assembled]) -> None:
        for part in self._parts:
            part.assembled(catalog, assembly)

    def connect(self, host: Host) -> None:
        self._host = host
        for part in self._parts:
            part.connect(host)

    def begin(self) -> None:
        for part in self._parts:
            part.begin()

    def look(self) -> None:
        for part in self._parts:
            part.look()

    async def at_rest(self, token: CancelToken) -> None:
        for part in self._parts:
            await part.at_rest(token)

    def do(self, act: object) -> Began:
        """Carry out what an extension brings: one of its acts, or other work that a run is begun
        with. Raises CodeagentError if that cannot be done now."""
        reference = self._acts.get(type(act).__name__)
        if reference is None or self._host is None:
            return Refused("no extension that is switched on can do that; nothing was changed")
        begun: Began = resolved(reference)(self._host, act)
        return begun

    def for_step(self, names: Iterable[str]) -> tuple[Tool[Any], ...]:
        """Make the tools with these names that only steps of recipes can have."""
        made = (resolved(self._for_steps[name]) for name in names if name in self._for_steps)
        return tuple(make(self._host) for make in made)

    def pass_on(self, act: Act) -> bool:
        """Do it in every agent that works for this one; False if none does."""
        return sum(part.pass_on(act) for part in self._parts) > 0

    def channels(self, objection: Callable[[str], str]) -> "OwnChannels":
        """Return the channels of a call's tool."""
        found = (part.channels(objection) for part in self._parts)
        return next(filter(None, found), NO_CHANNELS)

    async def close(self) -> None:
        """Close each of them; one that fails is reported, and keeps nothing else open."""
        for part in self._parts:
            try:
                await part.close()
            except Exception as error:
                self._tell_failed(part, error)

    def _tell_failed(self, part: ConversationPart, error: Exception) -> None:
        if self._host is not None:
            why = one_line(f"{type(part).__name__}: {type(error).__name__}: {error}", 200)
            self._host.context.emitter.warn(
                "extension.broken", f"a part of an extension was not closed: {why}"
            )


def _may_mention(text: str) -> bool:
    """Whether a text may take something from files or servers: by `@`, or as a command of a
    server."""
    return "@" in text or text.lstrip().startswith("/")


@dataclass(frozen=True)
class AgentServices:
    """What tools ask of their agent: made with the tools, and connected once the agent is made."""

    questions: UserQuestions = field(default_factory=UserQuestions)
    jobs: Jobs = field(default_factory=Jobs)
    parts: Parts = field(default_factory=Parts)
    """What extensions add to the conversation."""
