"""Decides about what commands did in a view of the workspace: by rules, by the mode, or by asking
the user."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from codeagent.agent.approvals import Approvals, in_words
from codeagent.agent.permissions import fingerprint
from codeagent.changes.change_set import ChangeSet, named
from codeagent.changes.diff import count
from codeagent.changes.keys import paths_key
from codeagent.core.approval_events import EffectsFound
from codeagent.core.cancel import CancelToken
from codeagent.core.dataclass import dataclass
from codeagent.core.display import DisplayBlock, TextBlock
from codeagent.core.effects import Effect
from codeagent.core.errors import ConfigError, ContentChanged, RunCancelled, WorkspaceError
from codeagent.core.paths import host_reason, protected_part, secret_reason
from codeagent.core.policy import EFFECTS, Decision, Verdict
from codeagent.core.ports import Workspace
from codeagent.core.sandbox import Command, CommandResult, OnOutput, Sandbox, Trial
from codeagent.core.sanitize import on_one_line, spelled
from codeagent.core.tool import Preview

_MOST_QUESTIONS = 3
"""How often the user is asked about the same command because the workspace keeps changing."""
_PLANNED = "plan mode: it was tried out, and nothing that it changed was taken"
_MOST_LISTED = 40
_MOST_PATHS = 2_000
"""So many paths are compared with rules; a command that changes more is always asked about."""


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
            return await _Review(self, command, trial).settle()
        finally:
            await asyncio.shield(trial.close())


@dataclass(frozen=True)
class _Parts:
    """What a command did, by how it is treated."""

    asked: tuple[Effect, ...] = ()
    """What is asked about."""
    unasked: tuple[Effect, ...] = ()
    """Files that the ignore rules leave out, and files of which only the times differ."""
    left: tuple[Effect, ...] = ()
    """What never lands: what is protected, or is neither file, folder nor link."""
    theirs: tuple[Effect, ...] = ()
    """What somebody else changed while the command ran."""

    @classmethod
    def of(cls, effects: Sequence[Effect], workspace: Workspace, began_ns: int) -> "_Parts":
        ignores = workspace.ignores()
        ignored: set[str] = set()
        parts: dict[str, list[Effect]] = {"asked": [], "unasked": [], "left": [], "theirs": []}
        for effect in effects:
            path, sides = effect.path, (effect.before, effect.after)
            folder = any(side is not None and side.kind == "folder" for side in sides)
            above = any(ignores.ignored(each, True) for each in _folders_of(path))
            if above or ignores.ignored(path, folder):
                ignored.add(path)
            if protected_part(path) or (effect.after is not None and effect.after.kind == "other"):
                parts["left"].append(effect)
            elif effect.before is not None and effect.before.changed_ns > began_ns:
                parts["theirs"].append(effect)
            elif effect.only_times or (path in ignored and not _matters(effect)):
                parts["unasked"].append(effect)
            else:
                parts["asked"].append(effect)
        return cls(**{name: tuple(found) for name, found in parts.items()})

    @property
    def shown(self) -> tuple[Effect, ...]:
        """Return what is asked about, without the folders that something in it says already."""
        said = {folder for effect in self.asked for folder in _folders_of(effect.path)}
        return tuple(
            effect for effect in self.asked if effect.path not in said or not _is_folder(effect)
        )


def _is_folder(effect: Effect) -> bool:
    return {side.kind for side in (effect.before, effect.after) if side is not None} == {"folder"}


def _folders_of(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def _matters(effect: Effect) -> bool:
    """Whether a program of the user's would run the file, or it may hold secrets."""
    path = effect.path
    return not _is_folder(effect) and bool(secret_reason(path) or host_reason(path))


class _Review:
    """What becomes of one command's changes."""

    def __init__(self, asks: TryingSandbox, command: Command, trial: Trial) -> None:
        self._asks = asks
        self._command = command
        self._trial = trial
        self._permissions = asks.approvals.permissions

    async def settle(self) -> CommandResult:
        """Land what is taken; return the command's result, with a sentence about that."""
        result = self._trial.result
        if result.stopped:
            return _noted(result, "it was stopped; nothing that it changed was taken")
        reason = ""
        try:
            for _ in range(_MOST_QUESTIONS):
                effects = await self._trial.effects()
                if not effects:
                    return result
                try:
                    return await self._settle(effects, reason)
                except ContentChanged as error:
                    reason = str(error)
        except (RunCancelled, asyncio.CancelledError):
            return _noted(
                replace(result, exit_code=None, stopped=True), "nothing that it changed was taken"
            )
        except (OSError, WorkspaceError) as error:
            return _noted(result, f"nothing that it changed was taken: {on_one_line(str(error))}")
        return _noted(
            result, "nothing that it changed was taken: the workspace keeps changing meanwhile"
        )

    async def _settle(self, effects: Sequence[Effect], reason: str) -> CommandResult:
        """Decide about the effects once. Raises ContentChanged if they have to be read again."""
        parts = _Parts.of(effects, self._asks.workspace, self._trial.began_ns)
        if self._asks.only_shown:
            return _noted(self._trial.result, f"{_PLANNED}: {', '.join(_listed(parts.shown))}")
        never = {effect.path for effect in (*parts.left, *parts.theirs)}
        changes = ChangeSet(await self._trial.changes(parts.shown))
        self._tell(parts, changes)
        if not parts.asked:
            await self._trial.land(effects, never)
            return _noted(self._trial.result, *_about(parts, taken=parts.unasked, denied=""))
        verdict = self._judge(parts)
        if verdict.permission == "prompt":
            decision = await self._ask(parts, changes, reason or verdict.reason)
        else:
            allowed = verdict.permission == "auto"
            decision = Decision("once" if allowed else "deny", verdict.reason, verdict.source)
        if decision.answer == "deny":
            return self._thrown_away(parts, decision)
        left = never | await self._left_by_hunk(changes, decision)
        self._asks.token.raise_if_cancelled()
        await self._trial.land(effects, left)
        taken = [effect for effect in (*parts.asked, *parts.unasked) if effect.path not in left]
        return _noted(self._trial.result, *_about(parts, taken=taken, denied=""))

    def _judge(self, parts: _Parts) -> Verdict:
        paths = [effect.path for effect in parts.shown]
        if len(paths) > _MOST_PATHS:
            return Verdict("prompt", "auto", f"it changes {len(paths):,} files")
        key = paths_key(self._asks.workspace, paths)
        return self._permissions.policy.check(EFFECTS, key, "prompt", "files")

    async def _ask(self, parts: _Parts, changes: ChangeSet, reason: str) -> Decision:
        """Ask until the answer can be used. Raises RunCancelled."""
        asks = self._asks
        lines = _listed(parts.shown)
        more = _folded(parts)
        blocks: tuple[DisplayBlock, ...] = (
            TextBlock(text="\n".join([*lines, *more])),
            *changes.blocks,
        )
        whole = len(changes.changes) == len(parts.shown)
        by_hunk = whole and changes.preview().by_hunk
        target = f"{on_one_line(self._command.text)}: {named([each.path for each in parts.shown])}"
        while True:
            decision = await asks.approvals.ask(
                asks.call_id,
                EFFECTS,
                Preview(target, blocks, base=changes.binding, by_hunk=by_hunk),
                reason,
                asks.token,
                binding=fingerprint(EFFECTS, {"paths": lines}, self._command.text, changes.binding),
                proposal=_proposal(parts.shown),
            )
            if decision.answer != "rule":
                return decision
            try:
                await self._learn(decision, parts)
            except ConfigError as error:
                reason = str(error)
                continue
            return decision

    async def _learn(self, decision: Decision, parts: _Parts) -> None:
        """Put the rule of an answer in force. Raises ConfigError if it does not allow all of
        this."""
        rule = self._permissions.parse(decision.rule, keep=decision.keep)
        key = paths_key(self._asks.workspace, [effect.path for effect in parts.shown])
        with_it = replace(self._permissions.policy.adding(rule), mode="ask")
        if with_it.check(EFFECTS, key, "prompt", "files").permission != "auto":
            raise ConfigError(
                f"{rule} does not allow all of this; answer it once, or write another"
            )
        await self._permissions.add(rule)

    async def _left_by_hunk(self, changes: ChangeSet, decision: Decision) -> set[str]:
        """Let files get what was taken of them hunk by hunk; return the paths of which nothing
        was."""
        if decision.hunks is None:
            return set()
        left = set()
        for answered in changes.answered(decision.hunks):
            if answered.left_out:
                left.add(answered.change.path)
            elif not answered.whole:
                await self._trial.replace(answered.took)
        return left

    def _thrown_away(self, parts: _Parts, decision: Decision) -> CommandResult:
        why = in_words(decision)
        result = _noted(self._trial.result, *_about(parts, taken=(), denied=why))
        return replace(result, denied=why)

    def _tell(self, parts: _Parts, changes: ChangeSet) -> None:
        self._asks.approvals.emitter.emit(
            EffectsFound(
                call_id=self._asks.call_id,
                changed=tuple(_listed(parts.shown)),
                unasked=len(parts.unasked),
                left=tuple(spelled(effect.path) for effect in (*parts.left, *parts.theirs)),
            )
        )


def _about(parts: _Parts, *, taken: Sequence[Effect], denied: str) -> list[str]:
    """Return the sentences for the model about what was taken and what was not."""
    asked = {effect.path for effect in parts.shown}
    there = {effect.path for effect in taken}
    said = []
    if denied:
        said.append(
            f"{denied}. Nothing that it changed was taken, the workspace is as before: "
            + ", ".join(_listed(parts.shown))
        )
    elif asked:
        shown = [effect for effect in taken if effect.path in asked]
        said.append("taken into the workspace: " + (", ".join(_listed(shown)) or "nothing"))
        if rest := [effect for effect in parts.shown if effect.path not in there]:
            said.append("not taken, as the user left it out: " + ", ".join(_listed(rest)))
    if parts.left:
        names = ", ".join(spelled(effect.path) for effect in parts.left[:_MOST_LISTED])
        said.append(f"never taken, as it is protected or not a file: {names}")
    if parts.theirs:
        names = ", ".join(spelled(effect.path) for effect in parts.theirs[:_MOST_LISTED])
        said.append(f"not taken, as it was changed by somebody else while the command ran: {names}")
    return said


def _listed(effects: Sequence[Effect]) -> list[str]:
    """Return `A path`, `M path` or `D path` for each, as far as they fit."""
    lines = [_line(effect) for effect in effects[:_MOST_LISTED]]
    more = len(effects) - len(lines)
    return [*lines, f"and {more:,} more"] if more else lines


def _line(effect: Effect) -> str:
    sign = "A" if effect.before is None else "D" if effect.after is None else "M"
    folder = effect.after is not None and effect.after.kind == "folder"
    return f"{sign} {spelled(effect.path)}{'/' * folder}"


def _folded(parts: _Parts) -> list[str]:
    """Return what the card says in one line each."""
    ignored = sum(not effect.only_times for effect in parts.unasked)
    return [
        *([f"and {count(ignored, 'ignored file')}"] if ignored else []),
        *([f"left out, protected: {len(parts.left)}"] if parts.left else []),
        *([f"left out, changed by somebody else: {len(parts.theirs)}"] if parts.theirs else []),
    ]


def _proposal(effects: Sequence[Effect]) -> str:
    """Return a rule for everything below the folder that all of this is in; empty if there is
    none."""
    folders = {effect.path.rpartition("/")[0].partition("/")[0] for effect in effects}
    folder = folders.pop() if len(folders) == 1 else ""
    return f"{EFFECTS}({folder}/**)" if folder else ""


def _noted(result: CommandResult, *said: str) -> CommandResult:
    return replace(result, notices=(*result.notices, *said))
