"""Makes the context of each call: what it may touch, for its preview, the question about it, and
its run."""

from functools import partial
from typing import TYPE_CHECKING, Any

from codeagent.agent.approvals import Approvals
from codeagent.agent.calls import Permit, PreparedCall
from codeagent.agent.emitter import Emitter
from codeagent.agent.environment import ToolEnvironment
from codeagent.agent.limits import Limits
from codeagent.agent.reach import reaching
from codeagent.core.cancel import CancelToken
from codeagent.core.history import BranchingHistory
from codeagent.core.messages import Message, ToolMessage, text_of
from codeagent.core.model import Model
from codeagent.core.policy import ApprovalKey
from codeagent.core.sanitize import one_line
from codeagent.core.tool import NO_CHANNELS, Tool, ToolContext

if TYPE_CHECKING:  # most agents cannot write to others
    from codeagent.extensions.agents.channels import Inbox

_SENDS = "send_message"
"""The tool whose rules also apply to what other tools send."""


class CallContexts:
    """Makes the ToolContext of each call of one agent."""

    def __init__(
        self, environment: ToolEnvironment, emitter: Emitter, approvals: Approvals
    ) -> None:
        self._environment = environment
        self._emitter = emitter
        self._approvals = approvals
        self._permissions = approvals.permissions
        self._model: Model | None = None
        self._limits = environment.limits
        self._line: BranchingHistory[Message] = BranchingHistory()
        self._inbox: Inbox | None = None

    def begin_run(
        self, model: Model, limits: Limits, line: BranchingHistory[Message], inbox: "Inbox | None"
    ) -> None:
        """Use these from now on; `line` is the conversation, and `inbox` holds the messages for the
        agent."""
        self._model = model
        self._limits = limits
        self._line = line
        self._inbox = inbox

    def of(
        self, prepared: PreparedCall, token: CancelToken, permit: Permit | None = None
    ) -> ToolContext:
        environment = self._environment
        acts_as = prepared.acts_as
        return ToolContext(
            prepared.call.id,
            prepared.tool.name,
            environment.workspace,
            reaching(environment.sandbox, prepared.call.id, self._approvals, token, permit),
            token,
            withheld=partial(self._permissions.withheld, acts_as, prepared.paths),
            denied=partial(self._permissions.denies_path, acts_as),
            base=None if permit is None else permit.base,
            hunks=None if permit is None else permit.hunks,
            read_only=self._commands_only_read(prepared.tool),
            session_id=self._emitter.session_id,
            agent=self._emitter.agent,
            scratchpad=environment.state.scratchpad,
            model="" if self._model is None else self._model.name,
            mode=self._permissions.mode,
            limits=self._limits.in_force,
            channels=NO_CHANNELS
            if self._inbox is None
            else self._inbox.for_tools(partial(self._may_not_send, token)),
            recall=self._recall,
        )

    def _commands_only_read(self, tool: Tool[Any]) -> bool:
        """Whether commands of the tool get the workspace read-only; what it says of itself is made
        true that way."""
        reads = self._permissions.mode == "plan" or tool.effect == "nothing"
        return reads and self._environment.sandbox_kind == "docker"

    def _may_not_send(self, token: CancelToken, to: str) -> str:
        """Return why a call must not send a message to that name; empty if it may.

        Nobody is asked in the middle of a call, so a rule that asks also keeps it from sending.
        """
        if token.cancelled:
            return "the call was stopped"
        key = ApprovalKey(kind="text", parts=(to,))
        verdict = self._permissions.policy.check(_SENDS, key, "auto", "nothing")
        if verdict.permission == "auto":
            return ""
        return f"sending to {one_line(to, 100)} is not allowed: {verdict.reason}"

    def _recall(self, call_id: str) -> str:
        """Return the text of a call's result as the conversation has it; empty if it is not
        there."""
        if not self._environment.recall.certain:
            return ""
        results = (item for item in reversed(self._line.items) if isinstance(item, ToolMessage))
        return next(
            (text_of(result.content) for result in results if result.call_id == call_id), ""
        )
