"""Permissions: the rules and the mode in force, what the model has read since they were made, and
what was allowed."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from codeagent.agent.calls import PreparedCall
from codeagent.agent.emitter import Emitter
from codeagent.agent.environment import ToolEnvironment
from codeagent.core.acts import SetMode, SetNetwork
from codeagent.core.errors import ConfigError
from codeagent.core.hosts import NETWORK_MEANS
from codeagent.core.notices import ModeChanged, NetworkChanged, TextRead
from codeagent.core.policy import (
    EFFECTS,
    ApprovalKey,
    Decision,
    Effect,
    Mode,
    NetworkLevel,
    Permission,
    Policy,
    Rule,
    Verdict,
    narrower,
    tighter,
)
from codeagent.core.tool import Tool
from codeagent.tools.changes import FileTool


def fingerprint(tool: str, arguments: dict[str, Any], *more: str) -> str:
    """SHA-256 (hex) over the tool, its arguments in canonical form, and anything else bound to
    it."""
    canonical = json.dumps([tool, arguments, *more], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


class WritingPrograms(Protocol):
    """Programs that run beside the calls and may write in the workspace, except in plan mode."""

    @property
    def writing(self) -> bool:
        """Whether one is running or starting that may write."""

    async def confine(self) -> None:
        """If the mode is plan, end every one that may write; return once none of them is left."""


class Permissions:
    """The policy in force. The rules of a session end with it: nothing in a log allows anything."""

    def __init__(self, environment: ToolEnvironment, emitter: Emitter) -> None:
        self._policy = environment.policy
        self._kept = environment.keeping.rules
        self._objection = environment.keeping.objection
        self._emitter = emitter
        self._inputs = environment.state.inputs
        self._unread: dict[str, None] = {}
        """Whose text the model reads with its next request."""
        self._own: tuple[Mode, NetworkLevel] | None = None
        """The session's own, while a run has others."""
        self._attended = environment.attended
        self._sandbox = environment.sandbox if environment.tries else None
        """Where commands can be tried out."""
        self._contained = environment.sandbox_kind == "docker"
        self._unconfined = environment.sandbox_kind == "host"
        self.programs: WritingPrograms | None = None

    @property
    def policy(self) -> Policy:
        return self._policy

    @property
    def mode(self) -> Mode:
        return self.policy.mode

    @property
    def known(self) -> int:
        """How many entries of `Policy.heard` a card shown now can tell the user about."""
        return len(self.policy.heard)

    def bound(self, call: PreparedCall, known: int) -> str:
        """Fingerprint a call with the inputs of the step that is running and, if others answer it,
        what was read."""
        inputs = (repr(sorted(self._inputs.items())),) if self._inputs else ()
        heard = (str(known),) if call.key.answered_by else ()
        return fingerprint(call.tool.name, call.arguments, *inputs, *heard)

    def hear(self, place: str) -> None:
        """Note who answered a call. From the next request on, rules from earlier answers of the
        user are suspended."""
        if place and place not in self._unread and place not in self.policy.heard:
            self._unread[place] = None
            self._emitter.emit(TextRead(text=f"the model reads text from {place}", place=place))

    def begin_request(self) -> None:
        """Take note that the model now reads all results so far."""
        if self._unread:
            self._policy = replace(self._policy, heard=(*self._policy.heard, *self._unread))
            self._unread.clear()

    @property
    def own_mode(self) -> Mode:
        """The session's mode, to which a run with a mode of its own returns."""
        return self.mode if self._own is None else self._own[0]

    def begin_step(self, mode: Mode, network: NetworkLevel | None = None) -> None:
        """Use these for the run that begins; they are not logged, so they cannot outlive the run.

        `network` can only tighten.
        """
        self._own = self.mode, self.policy.network
        self._policy = replace(
            self._policy, mode=mode, network=tighter(self._own[1], network or "open")
        )

    def end_step(self) -> None:
        """Return to the session's mode and network, or to what the user has chosen since."""
        if self._own is not None:
            mode, network = self._own
            self._own = None
            self._policy = replace(self._policy, mode=mode, network=network)

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self.policy.rules

    def set(self, act: SetMode | SetNetwork) -> Awaitable[None] | None:
        """Carry out the act, and return what is left of it. Raises ConfigError if nothing confines
        commands.

        Calls are judged by plan mode at once; it is announced when no program can write any longer.
        """
        if isinstance(act, SetNetwork):
            self.set_network(act.level)
        elif act.mode == "plan" and self.programs is not None and self.programs.writing:
            self._adopt("plan")
            return self._begin_plan()
        else:
            self.set_mode(act.mode)
        return None

    async def confined(self) -> None:
        """Return once the mode holds for programs, too: in plan mode none of them can write."""
        if self.programs is not None:
            await self.programs.confine()

    async def _begin_plan(self) -> None:
        await self.confined()
        if self.own_mode == "plan":
            self._tell_mode()

    def set_mode(self, mode: Mode) -> None:
        """Change the mode for every call that has not been judged yet."""
        if mode == self.mode == self.own_mode:
            return
        self._adopt(mode)
        self._tell_mode()

    def _adopt(self, mode: Mode) -> None:
        """Judge by this mode, without telling the user yet."""
        self._own = None if self._own is None else (mode, self._own[1])
        self._policy = replace(self._policy, mode=mode)

    def _tell_mode(self) -> None:
        mode = self.own_mode
        self._emitter.emit(ModeChanged(text=f"the mode is {mode} from now on", mode=mode))

    def set_network(self, level: NetworkLevel) -> None:
        """Change what commands may reach, also those that are running. Raises ConfigError if
        nothing confines them."""
        if self._unconfined:
            raise ConfigError(
                "without a sandbox every command has this machine's network; nothing was changed"
            )
        self._own = None if self._own is None else (self._own[0], level)
        self._policy = replace(self._policy, network=level)
        text = f"network {level} from now on: {NETWORK_MEANS[level]}"
        self._emitter.emit(NetworkChanged(text=text, network=level))

    def confines(self, tool: Tool[Any]) -> bool:
        """Whether the mode is plan and the sandbox keeps the tool from changing anything."""
        return self.mode == "plan" and tool.sandboxed and self._contained

    def judge(self, call: PreparedCall, *, edited: bool = False) -> Verdict:
        """Judge a call; `edited`: the user has just edited it, and plan mode refuses what changes
        something."""
        tool = call.tool
        confined = not edited and self.confines(tool)
        effect: Effect = "nothing" if confined or tool.says_it_reads else tool.effect
        judge = self.policy.asking_later if self._attended else self.policy.check
        verdict = judge(tool.name, call.key, tool.permission, effect)
        return self.policy.trying(call.key, verdict) if self._can_try(call) else verdict

    def judge_effects(self, key: ApprovalKey) -> Verdict:
        """Judge what a command that was tried out changed."""
        return self.policy.check(EFFECTS, key, "prompt", "files")

    def _can_try(self, call: PreparedCall) -> bool:
        """Whether the call's commands can be tried out."""
        sandbox = self._sandbox
        possible = sandbox is not None and not sandbox.untried
        return possible and call.tool.tries and not call.tool.in_background(call.args)

    def tries_for_plan(self, call: PreparedCall) -> bool:
        """Whether the call's commands may change a view of the workspace, which is thrown away."""
        may_change = call.tool.effect != "nothing" and call.key.reads != "freely"
        return self.mode == "plan" and may_change and self._can_try(call)

    def hosts_asked_with(self, key: ApprovalKey) -> tuple[str, ...]:
        """Return the hosts that the question about a call names: those it needs and would ask about
        by themselves."""
        if self._unconfined:
            return ()
        return tuple(host for host in key.needs if self.policy.reach(host).permission == "prompt")

    def asks_about_hosts(self, key: ApprovalKey) -> bool:
        """Whether the call may reach any host, as far as the user allows each."""
        return key.offline is not None and not self._unconfined and self.policy.network == "ask"

    def denies(self, tool: str) -> bool:
        """Whether a rule denies every call of the tool."""
        return any(
            rule.permission == "deny" and rule.pattern is None and rule.covers(tool)
            for rule in self.rules
        )

    def withheld(self, tools: Sequence[str], asked: Sequence[str], path: str) -> bool:
        """Whether a rule keeps the file from one of the tools, although the call for the paths
        `asked` was allowed."""
        for rule in self.rules:
            if (
                rule.permission == "auto"
                or rule.pattern is None
                or not any(map(rule.covers, tools))
            ):
                continue
            agreed = rule.permission == "prompt" and any(
                rule.matches(part, "path") for part in asked
            )
            if rule.matches(path, "path") and not agreed:
                return True
        return False

    def denies_path(self, tools: Sequence[str], path: str) -> bool:
        """Whether a rule keeps the file from one of the tools, whoever is asked."""
        return any(
            rule.permission == "deny"
            and rule.pattern
            and any(map(rule.covers, tools))
            and rule.matches(path, "path")
            for rule in self.rules
        )

    def judge_deletion(self, tool: str, key: ApprovalKey) -> Verdict:
        """Judge a file that was deleted as `tool` would be judged for a file that nothing runs."""
        return self.policy.check(tool, replace(key, sensitive=None), "prompt", "files")

    def judge_file(self, tool: str, key: ApprovalKey, reason: str) -> Verdict:
        """Judge a change that has already happened by the rules of `tool`; `reason` says why it
        matters."""
        return self.policy.check(
            tool, replace(key, sensitive=key.sensitive or reason), "prompt", "files"
        )

    async def learn(
        self,
        decision: Decision,
        tool: str,
        key: ApprovalKey,
        effect: Effect,
        known: int | None = None,
    ) -> str | None:
        """Add the rule of an answer; return why it cannot be added, or does not allow all of the
        call, as a phrase.

        `known`: how much the model had read when the card was shown; an agent beside this one may
        have read more since.
        """
        try:
            rule = self.parse(decision.rule, keep=decision.keep)
            with_it = replace(self.policy.adding(rule), mode="ask")
            if with_it.check(tool, key, "prompt", effect).permission != "auto":
                return (
                    f"{rule} does not allow all of this call; answer it once, or write another rule"
                )
            await self.add(rule, known)
        except ConfigError as error:
            return str(error)
        return None

    def parse(self, text: str, *, keep: bool) -> Rule:
        """The allowing rule that the user wrote. Raises ConfigError if it is not a rule, or too
        broad."""
        rule = Rule.parse(text, "auto", "saved" if keep else "session")
        if rule.pattern is None:
            raise ConfigError(f"{rule} would allow every call of the tool; write {rule}(pattern)")
        if objection := self._objection(rule):
            raise ConfigError(f"{rule} was not added: {objection}")
        return rule

    async def add(self, rule: Rule, known: int | None = None) -> None:
        """Put the rule in force, see `Policy.adding`. Raises ConfigError if it cannot be saved:
        then it is not used."""
        known = self.known if known is None else known
        if rule in self.rules:
            self._policy = self._policy.adding(rule, known)
            return
        where = "this session"
        if rule.origin == "saved":
            if self._kept is None:
                raise ConfigError("rules cannot be saved here; allow it for this session instead")
            where = await asyncio.to_thread(
                self._kept.keep, str(rule), denies=rule.permission == "deny"
            )
        self._policy = self._policy.adding(rule, known)
        does = "allowed" if rule.permission == "auto" else "denied"
        self._emitter.notice(
            "rule.added",
            f"{does} from now on: {rule} ({where})",
            rule=str(rule),
            origin=rule.origin,
        )

    async def revoke(self, rule: Rule) -> None:
        """Remove the rule. Raises ConfigError if it is not in force, or comes from a file or the
        command line."""
        if rule not in self.rules:
            raise ConfigError(f"{rule} is not in force")
        if rule.origin not in ("session", "saved"):
            where = {
                "flag": "the command line",
                "user": "your configuration",
                "project": "the project's configuration",
            }
            raise ConfigError(f"{rule} comes from {where[rule.origin]}; remove it there")
        if rule.origin == "saved" and self._kept is not None:
            await asyncio.to_thread(self._kept.forget, str(rule))
        self._policy = replace(
            self._policy, rules=tuple(other for other in self.rules if other != rule)
        )
        self._emitter.notice(
            "rule.revoked", f"asked about again: {rule}", rule=str(rule), origin=rule.origin
        )


class NarrowedPermissions(Permissions):
    """A child's permissions: its parent's rules and the answers to its own questions, in a mode
    that is never wider."""

    def __init__(
        self,
        environment: ToolEnvironment,
        emitter: Emitter,
        above: Permissions,
        mode: Mode | None,
        network: NetworkLevel | None = None,
        *,
        apart: bool,
    ) -> None:
        """`mode` or `network` None: the parent's.

        `apart`: it has a worktree, so the user is asked about its files later.
        """
        super().__init__(environment, emitter)
        self._above = above
        self._mode: Mode = mode or "auto"
        self._network: NetworkLevel = network or "open"
        self._apart = apart

    @property
    def policy(self) -> Policy:
        above = self._above.policy
        return replace(
            above,
            mode=narrower(above.mode, self._mode),
            network=tighter(above.network, self._network),
        )

    def judge(self, call: PreparedCall, *, edited: bool = False) -> Verdict:
        # Only built-in tools, which keep to the child's workspace: a package's tool changes files
        # wherever it likes.
        tool = call.tool
        if self._apart and tool.source == "builtin" and isinstance(tool, FileTool):
            return self.policy.check(tool.name, call.key, "auto", tool.effect)
        return super().judge(call, edited=edited)

    def judge_effects(self, key: ApprovalKey) -> Verdict:
        permission: Permission = "auto" if self._apart else "prompt"
        return self.policy.check(EFFECTS, key, permission, "files")

    def set_mode(self, mode: Mode) -> None:
        self._mode = mode

    def set_network(self, level: NetworkLevel) -> None:
        self._network = level

    def hear(self, place: str) -> None:
        self._above.hear(place)

    def begin_request(self) -> None:
        self._above.begin_request()

    async def add(self, rule: Rule, known: int | None = None) -> None:
        await self._above.add(rule, known)

    async def revoke(self, rule: Rule) -> None:
        await self._above.revoke(rule)

    def parse(self, text: str, *, keep: bool) -> Rule:
        return self._above.parse(text, keep=keep)
