"""What an agent shares with the agents that work for it."""

import asyncio

from codeagent.agent.calls import ToolEnvironment
from codeagent.agent.checkpoints import WorkspaceLock
from codeagent.agent.emitter import Emitter, Journal
from codeagent.agent.hooks.hook import Hooks
from codeagent.agent.inspection import Inspection
from codeagent.agent.limits import BudgetMeter, RunMeter
from codeagent.agent.permissions import Permissions
from codeagent.core.dataclass import dataclass


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
        if environment.servers is not None:
            environment.servers.tell_reads(permissions.hear)
        return cls(
            emitter=emitter,
            permissions=permissions,
            spending=BudgetMeter(emitter),
            granted=set(),
            lock=WorkspaceLock(),
            slots=asyncio.Semaphore(environment.limits.max_concurrency),
            submitted=environment.hooks,
        )
