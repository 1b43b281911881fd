"""Doubles for the tests of jobs: a tool that ends when the test says so, and one that talks."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from codeagent.agent.jobs.store import Jobs, PollingPace
from codeagent.agent.limits import Limits
from codeagent.agent.parts import ConversationPart
from codeagent.core.acts import Act
from codeagent.core.checkpoints import Checkpoints
from codeagent.core.events import JobFinished, KnownEvent, MessageAdded
from codeagent.core.memory import OutputStore
from codeagent.core.messages import UserMessage, text_of
from codeagent.core.policy import ApprovalKey, Policy
from codeagent.core.sandbox import Sandbox
from codeagent.core.tool import (
    SHARED,
    Access,
    Cancelled,
    Failed,
    Tool,
    ToolArgs,
    ToolContext,
    ToolResult,
)
from codeagent.session.fold import History
from tests.agent.doubles import Scene, Turn, scene


class LongArgs(ToolArgs):
    key: str = "a"
    background: bool = False
    timeout: float | None = None


class Long(Tool[LongArgs]):
    """Prints its key, then ends once `end(key)` was said: well, or badly."""

    name = "long"
    label = "Long"
    description = "Takes long."
    permission = "auto"
    effect = "nothing"
    source = "python"
    Args = LongArgs

    def __init__(self) -> None:
        self._ends: dict[str, asyncio.Event] = {}
        self._how: dict[str, str] = {}
        self.begun: dict[str, asyncio.Event] = {}
        self.stopped: list[str] = []
        self.contexts: dict[str, ToolContext] = {}

    def end(self, key: str = "a", how: str = "well") -> None:
        self._how[key] = how
        self._gate(self._ends, key).set()

    async def running(self, key: str = "a") -> None:
        await self._gate(self.begun, key).wait()

    def access(self, args: LongArgs, workspace: Any) -> Access:
        return SHARED

    def approval_key(self, args: LongArgs) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=(args.key,))

    def in_background(self, args: LongArgs) -> bool:
        return args.background

    def time_limit(self, args: LongArgs) -> float | None:
        return args.timeout

    async def run(self, args: LongArgs, ctx: ToolContext) -> ToolResult:
        self.contexts[args.key] = ctx
        await ctx.on_update(f"{args.key} prints\n")
        self._gate(self.begun, args.key).set()
        try:
            await self._gate(self._ends, args.key).wait()
        except asyncio.CancelledError:
            self.stopped.append(args.key)
            raise Cancelled("it was stopped") from None
        if self._how[args.key] == "badly":
            raise Failed("it broke", details={"exit_code": 3})
        text = (
            "\n".join(f"line {n}" for n in range(2_000))
            if self._how[args.key] == "at length"
            else f"{args.key} is done"
        )
        return ToolResult.from_text(text, details={"exit_code": 0})

    def _gate(self, gates: dict[str, asyncio.Event], key: str) -> asyncio.Event:
        return gates.setdefault(key, asyncio.Event())


class Asleep(Long):
    """As `Long`; only the user ends it."""

    name = "asleep"
    waits_for_user = True


class Chatting(Tool[ToolArgs]):
    """Echoes what it is sent, until that is `bye`."""

    name = "chat"
    label = "Chat"
    description = "Talks."
    permission = "auto"
    effect = "nothing"
    mode = "stateful"
    Args = ToolArgs

    async def run(self, args: ToolArgs, ctx: ToolContext) -> ToolResult:
        raise AssertionError("a stateful tool talks")

    async def talk(self, args: ToolArgs, ctx: ToolContext) -> AsyncGenerator[str, str | None]:
        said = yield "hello"
        while True:
            said = said or await ctx.receive()
            if said == "bye":
                return
            if said == "break":
                raise Failed("it broke")
            said = yield f"you said {said}"


class Backstage:
    """A scene with jobs in it, and all of its events."""

    def __init__(
        self,
        *turns: Turn,
        attended: bool = False,
        restored: History | None = None,
        sandbox: Sandbox | None = None,
        limits: Limits | None = None,
        checkpoints: Checkpoints | None = None,
        more: tuple[Tool[Any], ...] = (),
        outputs: OutputStore | None = None,
        parts: tuple[ConversationPart, ...] = (),
        acts: Mapping[str, str] | None = None,
        partial_results: float | None = None,
        policy: Policy | None = None,
    ) -> None:
        self.jobs = Jobs(PollingPace(0.01, 0.02))
        self.long = Long()
        self.scene: Scene = scene(
            *turns,
            attended=attended,
            restored=restored,
            sandbox=sandbox,
            limits=limits,
            checkpoints=checkpoints,
            more=(self.long, Asleep(), Chatting(), *more),
            jobs=self.jobs,
            outputs=outputs,
            parts=parts,
            acts=acts,
            partial_results=partial_results,
            policy=policy,
        )
        self.agent = self.scene.agent
        self.events: list[KnownEvent] = []
        self._happened = asyncio.Event()
        self._awaited = ("", 0)
        self.agent.observe(self._see)

    def act(self, act: Act) -> None:
        self.scene.act(act)

    async def run(self, prompt: str = "go") -> list[KnownEvent]:
        return await self.scene.run(prompt)

    def names(self) -> list[str]:
        """Of all events but deltas and what is of no interest here."""
        return [
            event.type
            for event in self.events
            if event.durable and event.type not in ("batch.planned", "tool.call")
        ]

    def notes(self) -> list[str]:
        """What the model was told beside the prompts."""
        added = [event.message for event in self.events if isinstance(event, MessageAdded)]
        return [
            text_of(m.content) for m in added if isinstance(m, UserMessage) and m.source == "note"
        ]

    def ends(self) -> list[JobFinished]:
        return [event for event in self.events if isinstance(event, JobFinished)]

    async def until(self, kind: str, count: int = 1) -> None:
        """Until so many events of the kind were emitted."""
        self._awaited = (kind, count)
        self._happened.clear()
        self._look()
        await self._happened.wait()

    def _look(self) -> None:
        kind, count = self._awaited
        if sum(event.type == kind for event in self.events) >= count:
            self._happened.set()

    def _see(self, event: KnownEvent) -> None:
        self.events.append(event)
        self._look()

    async def settled(self) -> None:
        """Some rounds of the event loop: what follows from what has happened has happened then."""
        for _ in range(50):
            await asyncio.sleep(0)


def long(key: str = "a", *, background: bool = False) -> tuple[str, str]:
    return "long", f'{{"key": "{key}", "background": {str(background).lower()}}}'
