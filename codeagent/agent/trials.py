"""Decides about what commands did in a view of the workspace: by rules, by the mode, or by asking
the user."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from codeagent.agent.approvals import Approvals, in_words
from codeagent.agent.effects import (
    EffectGroups,
    ShownEffect,
    effects_proposal,
    shown_effects,
    taken_by_hunk,
)
from codeagent.agent.permissions import fingerprint
from codeagent.changes.change_set import ChangeSet
from codeagent.changes.diff import count
from codeagent.changes.keys import paths_key
from codeagent.changes.layers import TooMuch
from codeagent.core.approval_events import EffectsFound
from codeagent.core.cancel import CancelToken
from codeagent.core.changes import Change, digest
from codeagent.core.checkpoints import Node
from codeagent.core.dataclass import dataclass
from codeagent.core.display import DiffBlock, TerminalBlock, TextBlock
from codeagent.core.effects import Effect
from codeagent.core.errors import ContentChanged, PartlyChanged, RunCancelled, WorkspaceError
from codeagent.core.paths import watched
from codeagent.core.patterns import IgnoreRules
from codeagent.core.policy import EFFECTS, ApprovalKey, Decision, Verdict
from codeagent.core.ports import Workspace
from codeagent.core.sandbox import Command, CommandResult, OnOutput, Sandbox, Trial
from codeagent.core.sanitize import first_lines, on_one_line, one_line, spelled
from codeagent.core.tool import Failed, Preview
from codeagent.sandbox.git_view import tracked
from codeagent.sandbox.tasks import run_to_end

_MOST_QUESTIONS = 3
"""How often the user is asked about the same command because the workspace keeps changing."""
_NONE_TAKEN = "none of it was taken"
_PLANNED = "plan mode changes nothing"
_THROWN_AWAY = "Nothing that it changed was taken, the workspace is as before"
_BASH = "bash"
_MOST_LISTED = 40
_MOST_REVIEWED = 200
_MOST_PATHS = 2_000
"""So many paths are compared with rules that allow; a command that changes more is always asked
about."""
_TOO_MANY = "too many for a rule to allow, and to be shown one by one"
_IN_PLACE = "a rule that allows the command lets it run where its changes stay"
_LONGEST_COMMAND = 48


@dataclass(frozen=True)
class TryingSandbox:
    """The sandbox for one call (a RunsCommands): what its commands change lands only if it is
    taken."""

    sandbox: Sandbox
    workspace: Workspace
    call_id: str
    approvals: Approvals
    token: CancelToken
    only_shown: bool
    """Whether nothing is taken, as in plan mode: the model learns what the command would change."""

    async def run(self, command: Command, on_output: OnOutput) -> CommandResult:
        if command.hosts or command.read_only:
            return await self.sandbox.run(command, on_output)
        trial = await self.sandbox.try_out(command, on_output)
        try:
            if self.sandbox.tried_read_only:
                return await _tried_read_only(self, command, trial.result, on_output)
            return await _Review(self, command, trial).settle()
        finally:
            with suppress(OSError):  # the next session removes what is left
                await run_to_end(trial.close())


@dataclass(frozen=True)
class _Found:
    """What a command did, in words."""

    groups: EffectGroups
    shown: tuple[ShownEffect, ...]

    @property
    def paths(self) -> list[str]:
        return [path for each in self.shown for path in each.paths]

    @property
    def size(self) -> int:
        """How many files it changed that may land."""
        return len(self.shown) + sum(self.groups.ignored.values())

    @property
    def by_hunk(self) -> bool:
        """Whether each is taken or left out on its own."""
        several = len(self.shown) > 1 or any(each.by_hunk for each in self.shown)
        return several and len(self.shown) <= _MOST_REVIEWED

    @property
    def blocks(self) -> list[DiffBlock]:
        return [each.block for each in self.shown if self.by_hunk or each.by_hunk]

    @property
    def headline(self) -> str:
        added, removed = (
            sum(getattr(each.listed, side) or 0 for each in self.shown)
            for side in ("added", "removed")
        )
        lines = f" +{added} −{removed}" if added or removed else ""
        kind = "folder" if all(each.is_folder for each in self.shown) else "file"
        return f"changed {count(len(self.shown), kind)}{lines}"

    def lines(self, out: Sequence[ShownEffect] = ()) -> list[str]:
        """Return a line for each thing that it changed, but not for those in `out`."""
        kept = [str(each.listed) for each in self.shown if each not in out]
        ignored = self.groups.ignored.items()
        return first_lines(
            [*kept, *(f"{path} ({many:,} ignored)" for path, many in ignored)], _MOST_LISTED
        )

    @property
    def never(self) -> list[str]:
        """Return the sentences for the model about what is not taken, whatever is answered."""
        return [
            f"{why}: {', '.join(first_lines([spelled(effect.path) for effect in effects], _MOST_LISTED))}"
            for why, effects in (
                ("never taken, as it is protected or not a file", self.groups.left),
                (
                    "not taken, as it was changed by somebody else while the command ran",
                    self.groups.theirs,
                ),
            )
            if effects
        ]

    def taken(self, out: Sequence[ShownEffect]) -> list[str]:
        """Return the sentences for the model about what was taken; `out`: what the user left
        out."""
        if not self.size:
            return []
        said = ["taken into the workspace: " + (", ".join(self.lines(out)) or "nothing")]
        if out:
            names = first_lines([str(each.listed) for each in out], _MOST_LISTED)
            said.append(f"not taken, as the user left it out: {', '.join(names)}")
        return said


class _Review:
    """What becomes of one command's changes."""

    def __init__(self, asks: TryingSandbox, command: Command, trial: Trial) -> None:
        self._asks = asks
        self._command = command
        self._trial = trial
        self._permissions = asks.approvals.permissions
        self._stopping = [
            rule
            for rule in self._permissions.rules
            if rule.permission != "auto" and (rule.covers(EFFECTS) or rule.covers("edit"))
        ]
        """The rules that deny or ask about changes of files."""

    async def settle(self) -> CommandResult:
        """Land what is taken; return the command's result, with sentences about that."""
        result = self._trial.result
        if result.stopped:
            return _noted(result, "it was stopped; nothing that it changed was taken")
        reason = ""
        try:
            for _ in range(_MOST_QUESTIONS):
                try:
                    return await self._settle(await self._trial.effects(), reason)
                except ContentChanged as error:
                    reason = str(error)
            why = ": the workspace keeps changing meanwhile"
        except (RunCancelled, asyncio.CancelledError):
            result = replace(result, exit_code=None, stopped=True)
            why = ""
        except PartlyChanged as error:
            return _noted(result, on_one_line(str(error)))
        except TooMuch as error:
            why = f": {error}; {_IN_PLACE}"
        except (OSError, WorkspaceError, Failed) as error:
            why = f": {on_one_line(str(error))}"
        return _noted(result, f"nothing that it changed was taken{why}")

    async def _settle(self, effects: Sequence[Effect], reason: str) -> CommandResult:
        """Decide about the effects once. Raises ContentChanged if they have to be read again."""
        ask_ignored = self._permissions.policy.ask_ignored
        ignores = None if ask_ignored else self._asks.workspace.ignores()
        groups = await asyncio.to_thread(self._grouped, effects, ignores)
        shown = groups.shown
        changes = ChangeSet(await self._trial.changes(shown))
        found = _Found(groups, await asyncio.to_thread(shown_effects, shown, changes.changes))
        result = self._trial.result
        verdict = self._judge(found)
        if found.size or found.never:
            self._tell(found, verdict)
        elif self._asks.only_shown:
            return replace(result, changed=0)
        if verdict.permission == "prompt":
            decision = await self._ask(found, changes, reason or verdict.reason)
        else:
            allowed = verdict.permission == "auto"
            decision = Decision("once" if allowed else "deny", verdict.reason, verdict.source)
        left, parts = set[str](), list[Change[Node]]()
        if decision.hunks is not None:
            left, parts = taken_by_hunk(found.shown, decision.hunks)
        if left.issuperset(found.paths) and found.paths:
            decision = replace(decision, answer="deny", reason=_NONE_TAKEN, hunks=None)
        if decision.answer == "deny":
            why = in_words(decision)
            said = f"{why}. {_THROWN_AWAY}: {', '.join(found.lines())}"
            result = _noted(result, said, *found.never)
            return result if self._asks.only_shown else replace(result, denied=why)
        self._asks.token.raise_if_cancelled()
        never = {effect.path for effect in (*groups.left, *groups.theirs)}
        await self._trial.land(effects, never | left, parts)
        out = [each for each in found.shown if not left.isdisjoint(each.paths)]
        landed = {
            spelled(each.path): "" if each.after is None else digest(each.after.data)
            for each in (*changes.changes, *parts)
            if watched(each.path) and each.path not in left
        }
        result = replace(result, changed=found.size - len(out), landed=landed)
        return _noted(result, *found.taken(out), *found.never)

    def _grouped(self, effects: Sequence[Effect], rules: IgnoreRules | None) -> EffectGroups:
        """Group the effects; files that git tracks are asked about, whatever ignores them."""
        began_ns = self._trial.began_ns
        groups = EffectGroups.of(effects, began_ns, rules, self._is_named)
        if not groups.ignored:
            return groups
        paths = [each.path for each in groups.unasked if not each.only_times]
        if not (kept := tracked(self._asks.workspace.root, paths)):
            return groups

        def named(path: str) -> bool:
            return path in kept or self._is_named(path)

        return EffectGroups.of(effects, began_ns, rules, named)

    def _is_named(self, path: str) -> bool:
        """Whether a rule denies or asks about this path, and not about the tool `edit`."""
        return any(
            rule.matches(path, "path")
            for rule in self._stopping
            if rule.pattern is not None or rule.covers(EFFECTS)
        )

    def _judge(self, found: _Found) -> Verdict:
        if self._asks.only_shown:
            return Verdict("deny", "auto", _PLANNED)
        if not found.shown:
            return Verdict("auto", "auto", "it changed nothing that is asked about")
        paths = found.paths
        if len(paths) <= _MOST_PATHS:
            return self._permissions.judge_effects(self._key(paths))
        for rule in self._stopping:
            if rule.permission == "deny" and any(rule.matches(path, "path") for path in paths):
                return Verdict("deny", "rule", f"denied by the rule {rule}", str(rule))
        return Verdict("prompt", "auto", f"it changes {len(paths):,} files: {_TOO_MANY}")

    def _key(self, paths: Sequence[str]) -> ApprovalKey:
        return paths_key(self._asks.workspace, paths)

    async def _ask(self, found: _Found, changes: ChangeSet, reason: str) -> Decision:
        """Ask until the answer can be used. Raises RunCancelled."""
        asks, text = self._asks, self._command.text
        headline = one_line(text, _LONGEST_COMMAND)
        whole = () if headline == text else (TerminalBlock(command=text),)
        by_hunk = found.by_hunk
        preview = Preview(
            f"`{headline}` {found.headline}",
            (*whole, TextBlock(text="\n".join([*found.lines(), *found.never])), *found.blocks),
            by_hunk=by_hunk,
        )
        key = self._key(found.paths) if len(found.paths) <= _MOST_PATHS else None
        while True:
            decision = await asks.approvals.ask(
                asks.call_id,
                EFFECTS,
                preview,
                reason,
                asks.token,
                binding=fingerprint(EFFECTS, {"paths": found.paths}, text, changes.binding),
                proposal="" if key is None else effects_proposal(found.paths, key),
            )
            if decision.answer == "edit" or (decision.hunks is not None and not by_hunk):
                reason = "take or throw away the whole of it"
            elif decision.answer != "rule":
                return decision
            elif key is None:
                reason = _TOO_MANY
            elif problem := await self._permissions.learn(decision, EFFECTS, key, "files"):
                reason = problem
            else:
                return decision

    def _tell(self, found: _Found, verdict: Verdict) -> None:
        groups = found.groups
        left = [spelled(effect.path) for effect in (*groups.left, *groups.theirs)]
        lists = (found.shown, groups.ignored, left)
        self._asks.approvals.emitter.emit(
            EffectsFound(
                call_id=self._asks.call_id,
                changes=tuple(each.listed for each in found.shown[:_MOST_LISTED]),
                ignored=dict(list(groups.ignored.items())[:_MOST_LISTED]),
                truncated=any(len(each) > _MOST_LISTED for each in lists),
                left=tuple(left[:_MOST_LISTED]),
                permission=verdict.permission,
                source=verdict.source,
                reason=verdict.reason,
                rule=verdict.rule or "",
            )
        )


async def _tried_read_only(
    asks: TryingSandbox, command: Command, result: CommandResult, on_output: OnOutput
) -> CommandResult:
    """Return the result of a command for which the workspace was read-only; if it failed, ask
    whether it may run in the workspace."""
    if result.stopped or result.exit_code == 0 or asks.only_shown:
        return _noted(result, "it could not change the workspace, which was read-only for it")
    reason = f"it failed in a read-only view: exit code {result.exit_code}"
    target = on_one_line(command.text)
    shown = TerminalBlock(command=command.text, exit_code=result.exit_code)
    decision = Decision("edit")
    try:
        while decision.answer == "edit":  # what would run then was never tried out
            decision = await asks.approvals.ask(
                asks.call_id,
                _BASH,
                Preview(target, (shown,)),
                reason,
                asks.token,
                binding=fingerprint(_BASH, {}, command.text),
            )
        asks.token.raise_if_cancelled()
    except (RunCancelled, asyncio.CancelledError):
        return _noted(replace(result, exit_code=None, stopped=True), reason)
    if decision.answer == "deny":
        why = in_words(decision)
        return replace(_noted(result, f"{reason}; {why}"), denied=why)
    return await asks.sandbox.run(command, on_output)


def _noted(result: CommandResult, *said: str) -> CommandResult:
    return replace(result, notices=(*result.notices, *said))
