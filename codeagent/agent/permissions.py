"""What holds now: the mode and the rules, and how a person adds to them or takes from them."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from codeagent.agent.emitter import Emitter
from codeagent.core.errors import ConfigError
from codeagent.core.notices import ModeChanged
from codeagent.core.policy import ApprovalKey, Mode, Policy, Rule, Verdict
from codeagent.core.ports import RuleBook
from codeagent.core.tool import Tool

Objection = Callable[[Rule], str | None]
"""Why a person's answer must not become this rule, as a phrase; None where it may."""


class Permissions:
    """The policy in force. Rules of a session end with it: nothing of a log allows anything (SECURITY.md T39)."""

    def __init__(self, policy: Policy, emitter: Emitter, book: RuleBook | None, objection: Objection) -> None:
        """`book` keeps rules beyond the session; None: there is nowhere to keep them."""
        self._policy = policy
        self._emitter = emitter
        self._book = book
        self._objection = objection

    @property
    def mode(self) -> Mode:
        return self._policy.mode

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self._policy.rules

    def set_mode(self, mode: Mode) -> None:
        """Holds for every call that is not judged yet."""
        if mode == self.mode:
            return
        self._policy = replace(self._policy, mode=mode)
        self._emitter.emit(ModeChanged(text=f"the mode is {mode} from now on", mode=mode))

    def judge(self, tool: Tool[Any], args: Any, *, confined: bool) -> Verdict:
        """`confined`: whatever the call does, the workspace cannot change by it."""
        effect = "nothing" if confined else tool.effect
        return self._policy.check(tool.name, tool.approval_key(args), tool.permission, effect)

    def withheld(self, tool: str, asked: Sequence[str], path: str) -> bool:
        """Content of the file is not for the tool to show, though its call for `asked` was allowed."""
        for rule in self.rules:
            if rule.permission == "auto" or rule.pattern is None or not rule.covers(tool):
                continue
            agreed = rule.permission == "prompt" and any(rule.matches(part, "path") for part in asked)
            if rule.matches(path, "path") and not agreed:
                return True
        return False

    def judge_file(self, tool: str, key: ApprovalKey, reason: str) -> Verdict:
        """A change of a file that has happened, by the rules of the tool that would have asked; `reason` is why."""
        return self._policy.check(tool, replace(key, sensitive=key.sensitive or reason), "prompt", "files")

    def would_allow(self, rule: Rule, tool: Tool[Any], args: Any) -> bool:
        """With the rule this call would not be asked about."""
        with_it = replace(self._policy, mode="ask", rules=(*self.rules, rule))
        return with_it.check(tool.name, tool.approval_key(args), "prompt", tool.effect).permission == "auto"

    def parse(self, text: str, *, keep: bool) -> Rule:
        """The allowing rule a person wrote. Raises ConfigError where it is none, or too broad."""
        rule = Rule.parse(text, "auto", "saved" if keep else "session")
        if rule.pattern is None:
            raise ConfigError(f"{rule} would allow every call of the tool; write {rule}(pattern)")
        if objection := self._objection(rule):
            raise ConfigError(f"{rule} is not taken: {objection}")
        return rule

    async def add(self, rule: Rule) -> None:
        """In force from now on. Raises ConfigError where it cannot be kept: it is not in force then."""
        if rule in self.rules:
            return
        where = "this session"
        if rule.origin == "saved":
            if self._book is None:
                raise ConfigError("rules cannot be kept here; it can be allowed for this session")
            where = await asyncio.to_thread(self._book.keep, str(rule))
        self._policy = replace(self._policy, rules=(*self.rules, rule))
        self._emitter.notice("rule.added", f"allowed from now on: {rule} ({where})", rule=str(rule), origin=rule.origin)

    async def revoke(self, rule: Rule) -> None:
        """Raises ConfigError for a rule that is not in force, or that has to be taken out of a file of somebody's."""
        if rule not in self.rules:
            raise ConfigError(f"{rule} is not in force")
        if rule.origin not in ("session", "saved"):
            where = {"flag": "the command line", "user": "your configuration", "project": "the project's configuration"}
            raise ConfigError(f"{rule} comes from {where[rule.origin]}; take it out there")
        if rule.origin == "saved" and self._book is not None:
            await asyncio.to_thread(self._book.forget, str(rule))
        self._policy = replace(self._policy, rules=tuple(other for other in self.rules if other != rule))
        self._emitter.notice("rule.revoked", f"asked about again: {rule}", rule=str(rule), origin=rule.origin)
