"""Permissions: the mode and the rules in force, and how the user changes them."""

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
"""Why an answer must not become this rule, as a phrase; None where it may."""


class Permissions:
    """The policy in force. The rules of a session end with it: nothing in a log allows anything (SECURITY.md T39)."""

    def __init__(self, policy: Policy, emitter: Emitter, book: RuleBook | None, objection: Objection) -> None:
        """`book` keeps rules beyond the session; None where they cannot be kept."""
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
        """Change the mode for every call that is not judged yet."""
        if mode == self.mode:
            return
        self._policy = replace(self._policy, mode=mode)
        self._emitter.emit(ModeChanged(text=f"the mode is {mode} from now on", mode=mode))

    def judge(self, tool: Tool[Any], args: Any, *, confined: bool) -> Verdict:
        """Judge a call; `confined`: the sandbox keeps it from changing the workspace."""
        effect = "nothing" if confined else tool.effect
        return self._policy.check(tool.name, tool.approval_key(args), tool.permission, effect)

    def withheld(self, tool: str, asked: Sequence[str], path: str) -> bool:
        """Whether a rule keeps the file from the tool, although its call for the paths `asked` was allowed."""
        for rule in self.rules:
            if rule.permission == "auto" or rule.pattern is None or not rule.covers(tool):
                continue
            agreed = rule.permission == "prompt" and any(rule.matches(part, "path") for part in asked)
            if rule.matches(path, "path") and not agreed:
                return True
        return False

    def judge_file(self, tool: str, key: ApprovalKey, reason: str) -> Verdict:
        """Judge a change to a file that has already happened by the rules of `tool`; `reason` is why it matters."""
        return self._policy.check(tool, replace(key, sensitive=key.sensitive or reason), "prompt", "files")

    def would_allow(self, rule: Rule, tool: Tool[Any], args: Any) -> bool:
        """Whether the call would run without a question if the rule were in force."""
        with_it = replace(self._policy, mode="ask", rules=(*self.rules, rule))
        return with_it.check(tool.name, tool.approval_key(args), "prompt", tool.effect).permission == "auto"

    def parse(self, text: str, *, keep: bool) -> Rule:
        """The allowing rule that the user wrote. Raises ConfigError where it is not a rule, or too broad."""
        rule = Rule.parse(text, "auto", "saved" if keep else "session")
        if rule.pattern is None:
            raise ConfigError(f"{rule} would allow every call of the tool; write {rule}(pattern)")
        if objection := self._objection(rule):
            raise ConfigError(f"{rule} is not taken: {objection}")
        return rule

    async def add(self, rule: Rule) -> None:
        """Put the rule in force. Raises ConfigError where it cannot be kept: then it is not in force."""
        if rule in self.rules:
            return
        where = "this session"
        if rule.origin == "saved":
            if self._book is None:
                raise ConfigError("rules cannot be saved here; allow it for this session instead")
            where = await asyncio.to_thread(self._book.keep, str(rule))
        self._policy = replace(self._policy, rules=(*self.rules, rule))
        self._emitter.notice("rule.added", f"allowed from now on: {rule} ({where})", rule=str(rule), origin=rule.origin)

    async def revoke(self, rule: Rule) -> None:
        """Remove the rule. Raises ConfigError where it is not in force, or comes from a file or the command line."""
        if rule not in self.rules:
            raise ConfigError(f"{rule} is not in force")
        if rule.origin not in ("session", "saved"):
            where = {"flag": "the command line", "user": "your configuration", "project": "the project's configuration"}
            raise ConfigError(f"{rule} comes from {where[rule.origin]}; remove it there")
        if rule.origin == "saved" and self._book is not None:
            await asyncio.to_thread(self._book.forget, str(rule))
        self._policy = replace(self._policy, rules=tuple(other for other in self.rules if other != rule))
        self._emitter.notice("rule.revoked", f"asked about again: {rule}", rule=str(rule), origin=rule.origin)
