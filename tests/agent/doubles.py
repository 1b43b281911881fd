"""Doubles for the agent's tests: a model of fixed turns, tools that do as told, a journal in
memory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from inspect import isawaitable
from pathlib import Path
from typing import Any, Literal

from codeagent.agent.agent import Agent
from codeagent.agent.approvals import UserQuestions
from codeagent.agent.batches import Strategy
from codeagent.agent.conversation import Conversation
from codeagent.agent.environment import AgentState, Preferences, ToolEnvironment
from codeagent.agent.hooks.hook import Hooks
from codeagent.agent.jobs.store import Jobs
from codeagent.agent.limits import ContextLimits, Limits
from codeagent.agent.parts import AgentServices, ConversationPart, Parts
from codeagent.agent.queue import Delivery
from codeagent.agent.todo import Todo
from codeagent.core.acts import Act, Answer
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.checkpoints import Checkpoints
from codeagent.core.display import DiffBlock
from codeagent.core.errors import MissingPath, ModelError, OutsideWorkspace, TranscriptError
from codeagent.core.events import KnownEvent
from codeagent.core.memory import OutputPage, OutputStore
from codeagent.core.messages import (
    AssistantMessage,
    ProviderContent,
    StopReason,
    ToolCall,
    Usage,
    transcript_problems,
)
from codeagent.core.model import (
    CallClosed,
    ModelAnswer,
    ModelEvent,
    ModelOpener,
    ModelRequest,
    ProviderUse,
    Retrying,
    TextPiece,
)
from codeagent.core.policy import ApprovalKey, Decision, Permission, Policy
from codeagent.core.sandbox import Sandbox
from codeagent.core.tool import (
    Access,
    BaseChanged,
    Cancelled,
    Denied,
    Failed,
    InvalidArgs,
    Preview,
    Tool,
    ToolArgs,
    ToolContext,
    ToolResult,
)
from codeagent.session.fold import History
from codeagent.tools.builtin.ask_user import AskUser
from codeagent.tools.catalog import ToolCatalog
from codeagent.tools.jobs import job_tools


@dataclass(frozen=True)
class Turn:
    """One answer of TurnsModel; `calls` are (name, raw JSON arguments)."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    stop: StopReason = "end"
    usage: Usage | None = None
    error: ModelError | None = None
    """Raised after everything was streamed, in place of the answer."""
    uses: tuple[ProviderUse, ...] = ()
    content: ProviderContent | None = None
    retry_first: bool = False
    """Stream it all once, announce a retry, and stream it again with the same call ids."""
    rest: int = 0
    """Passes of the event loop after each call, in which it may begin."""


class TurnsModel:
    """Answers from a list, in pieces, and refuses a transcript no provider would take."""

    name = "turns"
    context_window = 100_000

    def __init__(self, *turns: Turn) -> None:
        self.turns = list(turns)
        self.requests: list[ModelRequest] = []
        self._ids = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if problems := transcript_problems(request.messages):
            raise TranscriptError("; ".join(problems))
        turn = (
            self.turns[len(self.requests)]
            if len(self.requests) < len(self.turns)
            else Turn("that is all")
        )
        self.requests.append(request)
        if turn.retry_first:
            async for event in self._pieces(turn):
                yield event
            yield Retrying("the connection broke", 2, 0.0)
            self._ids -= len(turn.calls)
        calls = []
        async for event in self._pieces(turn):
            if isinstance(event, CallClosed):
                calls.append(event.call)
            yield event
        if turn.error is not None:
            raise turn.error
        message = AssistantMessage(
            text=turn.text,
            calls=tuple(calls),
            stop=turn.stop,
            model=self.name,
            provider_content=turn.content,
        )
        yield ModelAnswer(
            message, turn.usage or Usage(input_tokens=10, output_tokens=2, cost_usd=0.01)
        )

    async def _pieces(self, turn: Turn) -> AsyncIterator[ModelEvent]:
        for word in turn.text.split(" ") if turn.text else ():
            await asyncio.sleep(0)
            yield TextPiece(word + " ")
        for use in turn.uses:
            yield use
        for name, arguments in turn.calls:
            await asyncio.sleep(0)
            self._ids += 1
            yield CallClosed(ToolCall(id=f"call_{self._ids}", name=name, arguments=arguments))
            for _ in range(turn.rest):
                await asyncio.sleep(0)

    async def close(self) -> None:
        return None


_REFUSALS: dict[str, Exception] = {
    "deny": Denied("it may not be touched"),
    "misfit": InvalidArgs("the arguments make no sense together"),
    "outside": OutsideWorkspace("it leads out of the workspace"),
    "gone": MissingPath("nothing is there"),
    "changed": BaseChanged(),
}
"""What a tool may find out only once it was started."""


class Do(ToolArgs):
    what: str = ""
    key: str = ""
    amount: int = 0


class Doing(Tool[Do]):
    """Does what its argument says: ok, fail, crash, sleep, swallow, update, big, or a name of
    `_REFUSALS`."""

    name = "do"
    label = "Do"
    description = "Does something."
    permission: Permission = "auto"
    Args = Do

    def __init__(self) -> None:
        self.log: list[str] = []

    def access(self, args: Do, workspace: Any) -> Access:
        return Access("shared")

    def approval_key(self, args: Do) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=(args.what,))

    async def preview(self, args: Do, ctx: ToolContext) -> Preview:
        return Preview(args.what, (), base="base")

    async def run(self, args: Do, ctx: ToolContext) -> ToolResult:
        self.log.append(f"start {args.what} {args.key}".strip())
        try:
            return await self._do(args, ctx)
        finally:
            self.log.append(f"end {args.what} {args.key}".strip())

    async def _do(self, args: Do, ctx: ToolContext) -> ToolResult:
        match args.what:
            case "fail":
                raise Failed("it failed")
            case "crash":
                raise RuntimeError("boom")
            case "deny" | "misfit" | "outside" | "gone" | "changed":
                raise _REFUSALS[args.what]
            case "sleep":
                await asyncio.sleep(30)
            case "nap":
                await asyncio.sleep(0.02)
            case "partial":
                try:
                    await asyncio.sleep(30)
                except asyncio.CancelledError:
                    raise Cancelled(
                        "stopped",
                        details={"killed": 2},
                        content=ToolResult.from_text("half the output").content,
                    ) from None
            case "update":
                await ctx.on_update("piece 1")
                await ctx.on_update("piece 2")
            case "edit":
                block = DiffBlock(path="a.py", before="x", after="y")
                return ToolResult.from_text("edited", blocks=(block,))
            case "big":
                return ToolResult.from_text("x" * 100_000)
        return ToolResult.from_text(f"did {args.what}")


class Asking(Doing):
    name = "asking"
    permission = "prompt"


class Reading(Doing):
    name = "reading"
    effect = "nothing"


class Alone(Doing):
    name = "alone"

    def access(self, args: Do, workspace: Any) -> Access:
        return Access("exclusive")


class Keyed(Doing):
    name = "keyed"

    def access(self, args: Do, workspace: Any) -> Access:
        return Access("keyed", args.key)


class Using(Doing):
    """Keeps what `use` returns for the context of each call; what can be awaited is."""

    name = "using"
    effect = "nothing"

    def __init__(self, use: Callable[[ToolContext], object]) -> None:
        super().__init__()
        self._use = use
        self.found: list[Any] = []

    async def _do(self, args: Do, ctx: ToolContext) -> ToolResult:
        found = self._use(ctx)
        self.found.append(await found if isawaitable(found) else found)
        return ToolResult.from_text("used")


USE = ("using", "{}")


class MemoryJournal:
    """Keeps what is appended; `broken` makes every sync fail."""

    session_id = "s1"
    next_seq = 1

    def __init__(self, broken: Exception | None = None) -> None:
        self.events: list[KnownEvent] = []
        self.broken = broken

    def append(self, event: KnownEvent) -> None:
        self.events.append(event)

    async def sync(self) -> None:
        if self.broken is not None:
            raise self.broken

    def close(self) -> None:
        return None


@dataclass
class MemoryOutputs:
    texts: dict[str, str] = field(default_factory=dict)

    def create(self, call_id: str) -> "MemorySink":
        return MemorySink(self.texts, f"out_{len(self.texts) + 1}")

    def read(self, handle: str, offset: int, lines: int) -> OutputPage:
        every = self.texts[handle].splitlines()
        return OutputPage(tuple(every[offset - 1 : offset - 1 + lines]), offset, len(every), 0)

    def handles(self) -> tuple[str, ...]:
        return tuple(self.texts)

    def keep_image(self, suffix: str, data: bytes) -> str:
        raise OSError("nothing but text is kept here")


@dataclass
class MemorySink:
    texts: dict[str, str]
    handle: str

    def write(self, text: str) -> None:
        self.texts[self.handle] = self.texts.get(self.handle, "") + text

    def flush(self) -> None:
        return None

    def close(self) -> None:
        return None


class Place:
    """A workspace that is only named."""

    root = Path("/somewhere")

    def check(self) -> None:
        return None

    def resolve(self, path: str, *, reading: bool = True) -> str:
        return path


@dataclass
class Scene:
    """An agent, its doubles, and the events of what it did."""

    agent: Agent
    model: TurnsModel
    journal: MemoryJournal
    outputs: MemoryOutputs
    tools: dict[str, Doing]
    events: list[KnownEvent] = field(default_factory=list)

    def act(self, act: Act) -> None:
        refused = self.agent.do(act)
        assert refused is None, refused

    def refusal(self, act: Act) -> str:
        refused = self.agent.do(act)
        assert refused is not None, f"{act} was not refused"
        return refused.reason

    async def run(
        self, prompt: str = "go", on_event: Callable[[KnownEvent], None] | None = None
    ) -> list[KnownEvent]:
        """Run to the end; every question is answered yes unless `on_event` answered it first."""
        events = []
        async for event in self.agent.run(prompt):
            events.append(event)
            if on_event is not None:
                on_event(event)
            if isinstance(event, ApprovalRequested):
                self.agent.do(Answer(event.approval_id, Decision("once")))
        self.events += events
        return events


def scene(
    *turns: Turn,
    policy: Policy | None = None,
    strategy: str = "parallel",
    limits: Limits | None = None,
    hooks: Hooks | None = None,
    restored: History | None = None,
    broken: Exception | None = None,
    sandbox: Sandbox | None = None,
    attended: bool = False,
    checkpoints: Checkpoints | None = None,
    more: tuple[Tool[Any], ...] = (),
    jobs: Jobs | None = None,
    outputs: OutputStore | None = None,
    open_model: ModelOpener | None = None,
    parts: tuple[ConversationPart, ...] = (),
    acts: Mapping[str, str] | None = None,
    model: TurnsModel | None = None,
    context: ContextLimits | None = None,
    partial_results: float | None = None,
    todo: Todo | None = None,
    server: str = "",
    delivery: Delivery | None = None,
    early_reads: bool = True,
    tries: bool = False,
) -> Scene:
    tools: dict[str, Doing] = {
        tool.name: tool for tool in (Doing(), Asking(), Reading(), Alone(), Keyed())
    }
    questions = UserQuestions()
    model, journal, kept = model or TurnsModel(*turns), MemoryJournal(broken), MemoryOutputs()
    limits = limits or Limits()
    registry = ToolCatalog(
        (*tools.values(), AskUser(questions), *(job_tools(jobs) if jobs else ()), *more)
    )
    place: Any = Place()
    kind: Literal["docker"] | None = None if sandbox is None else "docker"
    environment = ToolEnvironment(
        registry,
        place,
        sandbox,
        kind,
        outputs or kept,
        policy or Policy(),
        limits,
        hooks or Hooks(),
        attended,
        preferences=Preferences(
            context or ContextLimits(), delivery or Delivery(), partial_results
        ),
        state=AgentState(todo or Todo()),
        tries=tries,
    )
    conversation = Conversation(
        model,
        "system",
        registry.definitions(),
        Strategy.parse(strategy),
        limits,
        attended,
        server=server,
        early_reads=early_reads,
    )
    agent = Agent(
        conversation,
        environment,
        journal,
        restored,
        services=AgentServices(questions, jobs or Jobs(), Parts(parts, acts or {})),
        checkpoints=checkpoints,
        open_model=open_model,
    )
    return Scene(agent, model, journal, kept, tools)


def do(what: str, tool: str = "do", key: str = "") -> tuple[str, str]:
    return tool, f'{{"what": "{what}", "key": "{key}"}}'


def of(events: list[KnownEvent], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def names(events: list[KnownEvent]) -> list[str]:
    return [event.type for event in events]
