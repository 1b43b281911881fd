"""What the runs of one agent share."""

from dataclasses import dataclass
from pathlib import Path

from codeagent.agent.boundary import Boundary
from codeagent.agent.checkpointing import Checkpointing
from codeagent.agent.emitter import Emitter
from codeagent.agent.executor import Executor
from codeagent.agent.inspection import Inspection
from codeagent.agent.jobs.store import Jobs
from codeagent.agent.limits import BudgetMeter
from codeagent.agent.permissions import Permissions
from codeagent.agent.steering import Steering
from codeagent.agent.submission import Submission
from codeagent.core.line import Line
from codeagent.core.messages import Message


@dataclass(frozen=True)
class Parts:
    root: Path
    """The workspace's."""
    line: Line[Message]
    """The conversation."""
    call_ids: set[str]
    """Of every call there ever was in the session."""
    permissions: Permissions
    executor: Executor
    emitter: Emitter
    steering: Steering
    submission: Submission
    boundary: Boundary
    spending: BudgetMeter
    checkpoints: Checkpointing
    inspection: Inspection
    jobs: Jobs
