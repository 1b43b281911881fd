"""What rooms add to a conversation, and what a conversation offers to them."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from codeagent.agent.approvals import Approvals
from codeagent.agent.calls import ToolEnvironment
from codeagent.agent.conversation import RunContext
from codeagent.agent.run import Runs
from codeagent.agent.session_model import SessionModel
from codeagent.agent.shared import Shared
from codeagent.core.acts import Act, Refused
from codeagent.core.cancel import CancelToken
from codeagent.core.channels import OwnChannels
from codeagent.core.dataclass import dataclass
from codeagent.core.model import ModelInUse
from codeagent.core.tool import NO_CHANNELS, Tool
from codeagent.session.fold import History
from codeagent.tools.catalog import ToolCatalog

Began = Refused | asyncio.Task[None] | None
"""What became of what a part was asked to do: refused, done, or begun as a run."""


@dataclass(frozen=True)
class Host:
    """One conversation, as the parts that rooms add to it see it.

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


class Part:
    """What one room adds to one conversation; it leaves out what it does not need.

    It may be used by the room's tools before it is connected, and is connected only once.
    """

    acts: Collection[type[object]] = ()
    """What it carries out: acts of its own, and other work that `Agent.run` is given."""

    def assembled(self, assembly: Any) -> None:
        """Take an `app.parts.Assembly`: what another conversation can be opened with."""

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

    def do(self, act: object) -> Began:
        """Carry out one of its `acts`. Raises CodeagentError if that cannot be done now."""

    def pass_on(self, act: Act) -> bool:
        """Do it in every agent that works for this one; False if all of them refuse, or none is
        running."""
        return False

    def channels(self, objection: Callable[[str], str]) -> OwnChannels | None:
        """Return the channels for a call's tool; `objection` says why the call must not send to a
        name."""

    async def close(self) -> None:
        """End everything that it has begun; calls and runs have ended before."""


class Parts:
    """All that rooms add to one conversation, in the order in which they are asked."""

    def __init__(self, parts: Sequence[Part] = ()) -> None:
        self._parts = tuple(parts)

    def connect(self, host: Host) -> None:
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
        """Hand an act to the part that carries it out. Raises CodeagentError."""
        for part in self._parts:
            if type(act) in part.acts:
                return part.do(act)
        return Refused("no extension that is switched on can do that; nothing was changed")

    def pass_on(self, act: Act) -> bool:
        """Do it in every agent that works for this one; False if none does."""
        return sum(part.pass_on(act) for part in self._parts) > 0

    def channels(self, objection: Callable[[str], str]) -> OwnChannels:
        """Return the channels of a call's tool."""
        found = (part.channels(objection) for part in self._parts)
        return next(filter(None, found), NO_CHANNELS)

    async def close(self) -> None:
        for part in self._parts:
            await part.close()
