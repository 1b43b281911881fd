"""What comes before a call runs: its tool and arguments are found, its context is made, and hooks,
rules and the user decide."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from codeagent.agent.approvals import Approvals
from codeagent.agent.calls import CallKind, CallRefused, Permit, PreparedCall, result_of_refusal
from codeagent.agent.environment import ToolEnvironment
from codeagent.agent.hooks.hook import Deny, Modify
from codeagent.agent.limits import TOO_OFTEN, Limits
from codeagent.agent.permissions import Permissions
from codeagent.agent.reach import reaching
from codeagent.core.approval_events import PlannedCall
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import OutsideWorkspace, WorkspaceError
from codeagent.core.history import BranchingHistory
from codeagent.core.messages import Message, ToolCall, ToolMessage, text_of
from codeagent.core.model import Model
from codeagent.core.paths import refuse_protected
from codeagent.core.policy import ApprovalKey
from codeagent.core.sandbox import RunsCommands
from codeagent.core.sanitize import one_line
from codeagent.core.tool import (
    EXCLUSIVE,
    Access,
    CallingAgent,
    Denied,
    Failed,
    Preview,
    ReadingRules,
    Skipped,
    Tool,
    ToolContext,
    ToolError,
    Unavailable,
)
from codeagent.core.toolbox import ToolsInUse
from codeagent.tools.arguments import parse_arguments, read_arguments

if TYPE_CHECKING:  # few agents write to others
    from codeagent.core.channels import OwnChannels

Channels = Callable[[Callable[[str], str]], "OwnChannels"]
_INFO = "info"
"""The tool that shows the documentation of other tools."""
_SENDS = "send_message"
"""The tool whose rules also apply to what other tools send."""
_MOST_PREPARED = 64
"""How many calls' arguments are kept as they were read."""


class CallPreparation:
    """Finds the tool of each call and reads its arguments, once for everything that is asked about
    it."""

    def __init__(self, environment: ToolEnvironment, permissions: Permissions) -> None:
        self.tools: ToolsInUse = environment.tools
        self._environment = environment
        self._permissions = permissions
        self._prepared: dict[ToolCall, PreparedCall] = {}

    def use_tools(self, only: ToolsInUse | None) -> None:
        """Use only these tools from now on; None: all that the conversation has."""
        self.tools = self._environment.tools if only is None else only
        self._prepared.clear()

    def plan(self, call: ToolCall) -> PlannedCall:
        """Return what the user sees of the call before its batch runs."""
        try:
            prepared = self._prepare_again(call)
        except ToolError as error:
            reason = str(error).partition("\n")[0]
            return PlannedCall(
                call_id=call.id, name=call.name, target="", permission="deny", reason=reason
            )
        verdict = self._permissions.judge(prepared)
        return PlannedCall(
            call_id=call.id,
            name=call.name,
            target=prepared.tool.target(prepared.args),
            permission=verdict.permission,
            reason=verdict.reason,
        )

    def check(self, call: ToolCall) -> None:
        """Check a call that the user edited. Raises ToolError if the tool is unknown or the
        arguments do not fit."""
        parse_arguments(self.tools.get(call.name), call.arguments)

    def only_writes_files(self, call: ToolCall) -> bool:
        """Whether the call changes nothing, or only files through the workspace, which records what
        it writes."""
        try:
            tool = self.prepare(call).tool
        except ToolError:
            return True
        if self._environment.hooks.may_write or tool.starts_agents:
            return False
        return tool.effect == "nothing" or (tool.effect == "files" and tool.source == "builtin")

    def change(self, call: ToolCall) -> str:
        """Return name and target of a call that may change files, as far as known before it runs;
        otherwise empty."""
        try:
            prepared = self._prepare_again(call)
        except ToolError:
            return ""
        tool = prepared.tool
        if tool.starts_agents and self._permissions.mode != "plan":
            return f"{tool.name} {tool.target(prepared.args)}"
        harmless = (
            tool.effect == "nothing" or not tool.may_write or self._permissions.confines(tool)
        )
        if harmless or self._permissions.judge(prepared).permission == "deny":
            return ""
        changes = self._environment.hooks.may_modify(tool.name) or prepared.may_change_files
        return f"{tool.name} {tool.target(prepared.args)}".strip() if changes else ""

    def kind(self, call: ToolCall) -> CallKind:
        """Whether the call, as the model wrote it, reads or changes.

        One whose tool has no place to run in counts as changing; any other that cannot run counts
        as reading.
        """
        try:
            return self.prepare(call).kind
        except ToolError as error:
            return "change" if error.kind == "unavailable" else "read"

    def most_calls(self, call: ToolCall) -> int | None:
        """Return how often the call's tool may be called in one run; None means any number of
        times."""
        return self.tools.get(call.name).max_calls if call.name in self.tools else None

    def repeatable(self, call: ToolCall) -> bool:
        """Whether the same call may give another result each time."""
        return call.name in self.tools and self.tools.get(call.name).repeatable

    def unread(self, call: ToolCall) -> bool:
        """Whether the call is refused until the model has read the documentation of its tool, and
        it can read it."""
        return _INFO in self.tools and self.held_back(call.name)

    def held_back(self, name: str) -> bool:
        """Whether the model may not use the tool, because it has not read its documentation."""
        return name in self.tools and self._environment.recall.unread(self.tools.get(name))

    def access(self, call: ToolCall) -> Access:
        """Return what the call may conflict with; a call that cannot run conflicts with nothing."""
        try:
            prepared = self.prepare(call)
        except ToolError:
            return Access("shared", "")
        if (
            self._environment.hooks.may_modify(prepared.tool.name)
            and prepared.tool.effect != "nothing"
        ):
            return EXCLUSIVE
        return prepared.tool.access(prepared.args, self._environment.workspace)

    def may_begin_early(self, call: ToolCall) -> bool:
        """Whether the call may run before its answer is complete: it changes nothing, and nobody is
        asked about it.

        False if that cannot be told: the call then fails, or not, in its turn.
        """
        try:
            return self._only_reads(call)
        except Exception:
            return False

    def _only_reads(self, call: ToolCall) -> bool:
        """Raises ToolError, and what a tool raises by mistake."""
        prepared = self.prepare(call)
        if not prepared.reads_here or self._environment.hooks.may_modify(prepared.tool.name):
            return False
        access = self.access(call)
        verdict = self._permissions.judge(prepared)
        reads = access.mode == "shared" and access.key != ""
        return reads and verdict.permission == "auto" and not verdict.later

    def prepare(self, call: ToolCall) -> PreparedCall:
        """Find the tool and read the arguments, once for everything that is asked about a call.

        Raises ToolError: not_found, invalid_args; skipped if the tool's documentation must be read
        first, and unavailable if it cannot be.
        """
        tool = self.tools.get(call.name)
        known = self._prepared.get(call)
        if known is not None and known.tool is tool:
            return known
        if self._environment.recall.unread(tool):
            if _INFO not in self.tools:
                raise Unavailable(
                    f"Not executed: the documentation of {tool.name} must be read before its first call, but {_INFO}, "
                    "which shows it, may not be used here. Only the user can change that"
                )
            raise Skipped(
                f'Not executed: read the documentation of this tool first, with info(name="{tool.name}")'
            )
        read = read_arguments(tool, call.arguments)
        if len(self._prepared) == _MOST_PREPARED:
            self._prepared.clear()
        prepared = PreparedCall(call, tool, read.args, read_as=read.read_as, dropped=read.dropped)
        self._prepared[call] = prepared
        return prepared

    def _prepare_again(self, call: ToolCall) -> PreparedCall:
        """Like `prepare`, but what rules are matched against is made again: it may have changed
        since the answer came, or since the plan was shown."""
        prepared = self._prepared[call] = replace(self.prepare(call))
        return prepared

    def take(self, call: ToolCall) -> PreparedCall:
        """Like `prepare`, for the call that runs: its tool may change the arguments that it
        gets."""
        prepared = self.prepare(call)
        del self._prepared[call]
        return prepared


class CallContexts:
    """Makes the ToolContext of each call of one agent."""

    def __init__(
        self, environment: ToolEnvironment, approvals: Approvals, channels: Channels
    ) -> None:
        """`channels` returns those of one call; it is given why the call must not send to a name,
        empty if it may."""
        self._environment = environment
        self._emitter = approvals.emitter
        self._approvals = approvals
        self._permissions = approvals.permissions
        self._model: Model | None = None
        self._limits = environment.limits
        self._line: BranchingHistory[Message] = BranchingHistory()
        self._channels = channels

    def begin_run(self, model: Model, limits: Limits, line: BranchingHistory[Message]) -> None:
        """Use these from now on; `line` is the conversation."""
        self._model = model
        self._limits = limits
        self._line = line

    def of(
        self, prepared: PreparedCall, token: CancelToken, permit: Permit | None = None
    ) -> ToolContext:
        environment = self._environment
        acts_as = prepared.acts_as
        paths = prepared.paths
        planned = self._permissions.tries_for_plan(prepared)
        reads = prepared.tool.effect == "nothing" or (
            self._permissions.mode == "plan" and not planned
        )
        return ToolContext(
            prepared.call.id,
            prepared.tool.name,
            environment.workspace,
            self._commands(prepared, token, permit, planned=planned),
            token,
            base=None if permit is None else permit.base,
            hunks=None if permit is None else permit.hunks,
            # What a tool says of itself is made true for its commands.
            read_only=reads and environment.sandbox_kind == "docker",
            reading=ReadingRules(
                partial(self._permissions.withheld, acts_as, paths),
                partial(self._permissions.denies_path, acts_as),
            ),
            caller=CallingAgent(
                session_id=self._emitter.session_id,
                agent=self._emitter.agent,
                model="" if self._model is None else self._model.name,
                mode=self._permissions.mode,
                limits=self._limits.in_force,
                scratchpad=environment.state.scratchpad,
                channels=self._channels(partial(self._may_not_send, token)),
                recall=self._recall,
            ),
        )

    def _commands(
        self, prepared: PreparedCall, token: CancelToken, permit: Permit | None, *, planned: bool
    ) -> RunsCommands | None:
        """Return where the commands of a call run; `planned`: in a view that is thrown away."""
        environment = self._environment
        if environment.sandbox is not None and (planned or (permit is not None and permit.tried)):
            from codeagent.agent.trials import TryingSandbox  # not before the first trial

            return TryingSandbox(
                environment.sandbox,
                environment.workspace,
                prepared.call.id,
                self._approvals,
                token,
                only_shown=planned,
            )
        return reaching(environment.sandbox, prepared.call.id, self._approvals, token, permit)

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


class Admission:
    """Decides whether a call runs: its hooks, the rules, and the user if these ask for them."""

    def __init__(
        self,
        environment: ToolEnvironment,
        calls: CallPreparation,
        contexts: CallContexts,
        approvals: Approvals,
    ) -> None:
        self._environment = environment
        self._calls = calls
        self._contexts = contexts
        self._approvals = approvals
        self._permissions = approvals.permissions

    async def admit(
        self, call: ToolCall, token: CancelToken, *, edited: bool, repeated: int
    ) -> tuple[PreparedCall, Permit]:
        """Return the call to run and its permit; see `Executor.execute`. Raises CallRefused,
        RunCancelled, ToolError, and what a tool raises by mistake."""
        token.raise_if_cancelled()
        prepared = replace(self._calls.take(call), edited=edited)
        prepared = await self._after_hooks(prepared, token)
        return await self._permitted(prepared, token, repeated)

    async def _after_hooks(self, prepared: PreparedCall, token: CancelToken) -> PreparedCall:
        if not self._environment.hooks.may_modify(prepared.tool.name):
            return prepared
        match await token.guard(self._environment.hooks.before_tool(prepared.call)):
            case Deny(reason):
                raise CallRefused(result_of_refusal(Denied(reason)), "hook")
            case Modify(arguments):
                args = parse_arguments(prepared.tool, json.dumps(arguments))
                return replace(prepared, args=args, read_as=(), dropped=())
            case None:
                return prepared

    async def sandbox_ready(self, tool: Tool[Any], token: CancelToken) -> None:
        """Wait for the sandbox, if the call runs there. Raises SandboxUnavailable, RunCancelled."""
        sandbox = self._environment.sandbox
        if sandbox is not None and tool.sandboxed and not sandbox.is_ready:
            await token.guard(sandbox.ready())

    async def _trials_prepared(self, prepared: PreparedCall, token: CancelToken) -> None:
        """Wait until it is known whether the call's commands can be tried out, if they may be."""
        sandbox = self._environment.sandbox
        if sandbox is None or not (self._environment.tries and prepared.tool.tries):
            return
        planned = self._permissions.mode == "plan"
        undecided = planned or self._permissions.judge(prepared).permission == "prompt"
        if undecided and sandbox.untried:
            await token.guard(sandbox.prepare_trials())

    async def _permitted(
        self, prepared: PreparedCall, token: CancelToken, repeated: int
    ) -> tuple[PreparedCall, Permit]:
        """Return the call to run and its permit. Raises CallRefused, or ToolError if the preview
        shows a failure."""
        await self._trials_prepared(prepared, token)
        verdict = self._permissions.judge(prepared)
        if verdict.permission == "auto" and prepared.tool.sandboxed:
            await self.sandbox_ready(prepared.tool, token)
            prepared = replace(prepared)  # what commands may come across is known only now
            verdict = self._permissions.judge(prepared)
        too_often = repeated >= TOO_OFTEN
        if verdict.permission == "deny":
            raise CallRefused(
                result_of_refusal(Denied(verdict.reason)), verdict.source, verdict.rule
            )
        await self._refuse(prepared, token)
        if too_often and not self._environment.attended:
            raise Failed(
                f"Not executed: this is the same call {repeated} times in a row, and its result would be the "
                "same. Do something else, or say what keeps you from it."
            )
        if verdict.permission == "auto" and not too_often:
            return prepared, Permit(
                verdict.source, rule=verdict.rule, later=verdict.later, tried=verdict.tried
            )
        if too_often:
            verdict = replace(verdict, reason=f"the same call {repeated} times in a row")

        async def show(shown: PreparedCall, base: str | None) -> Preview:
            if shown is not prepared:  # the user edited it
                await self._refuse(shown, token)
            context = replace(self._contexts.of(shown, token), base=base)
            return await token.guard(shown.tool.preview(shown.args, context))

        return await self._approvals.permit(prepared, verdict, show, token, again=too_often)

    async def _refuse(self, prepared: PreparedCall, token: CancelToken) -> None:
        """Raise ToolError or WorkspaceError for a call that is denied whatever the user answers."""
        for path in prepared.paths:
            try:
                self._environment.workspace.resolve(path)
            except OutsideWorkspace:
                raise
            except WorkspaceError:
                pass  # the tool says it better
            if prepared.tool.effect == "files":
                refuse_protected(path)
        prepared.tool.refuse(prepared.args, self._contexts.of(prepared, token))
