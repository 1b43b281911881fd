"""Inspects what commands leave in the workspace that a program of the user's would run; asks, or
undoes it.

The user is asked when a command ends. What changes later, by processes that were left running, may
be the user's own work: with a user there it is reported, without one it is undone.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING

from codeagent.agent.approvals import Approvals
from codeagent.agent.environment import ToolEnvironment
from codeagent.agent.leftovers import Leftover, Leftovers, find_leftovers, leftover_blocks, named
from codeagent.agent.queue import MessageQueue
from codeagent.core.cancel import CancelToken
from codeagent.core.checkpoints import Checkpoints, Snapshot
from codeagent.core.errors import CheckpointError, CodeagentError
from codeagent.core.json_types import JsonValue
from codeagent.core.notes import LEFT, framed
from codeagent.core.policy import Decision
from codeagent.core.sanitize import on_one_line, spelled, unspelled

if TYPE_CHECKING:  # see `Inspection._rules`
    from codeagent.agent.leftover_rules import LeftoverRules

_MOST_QUESTIONS = 3
"""How often the user is asked about the same paths because they keep changing."""
_LOOK_SECONDS = 1.0
_SHARE = 20
"""After a look in the background, the next one waits this many times as long as that look took."""


class Inspection:
    """Compares the workspace before and after every call that runs commands which may change
    files."""

    def __init__(
        self,
        store: Checkpoints | None,
        environment: ToolEnvironment,
        approvals: Approvals,
        queue: MessageQueue,
        running: Callable[[], bool],
    ) -> None:
        """If `store` is None, nothing is compared."""
        self._store = store
        self._sandbox = environment.sandbox
        self._attended = environment.attended
        self._emitter = approvals.emitter
        self._permissions = approvals.permissions
        self._workspace = environment.workspace
        self._queue = queue
        self._running = running
        self._lock = asyncio.Lock()
        self._baseline: Snapshot | None = None
        """The workspace before the first command that is still running, or that was not inspected
        yet."""
        self._open = 0
        """The number of calls under way, jobs included."""
        self._alive = False
        """Whether something that a command started may still be running."""
        self._due = False
        """Whether something ended that was not inspected yet."""
        self._moment: object = None
        """What had run in the sandbox when it was swept last, see `SandboxSweep`."""
        self._compared: object = None
        """What had run when the baseline was taken."""
        self._written: dict[str, str] = {}
        """What allowed calls wrote since the baseline: SHA-256 by path, empty for a file that they
        removed."""
        self._jobs: set[asyncio.Task[None]] = set()
        self._watcher: asyncio.Task[None] | None = None
        self._own = approvals
        self._last: tuple[str, Approvals, str] = ("", approvals, "")
        """The call that was inspected last, the approvals where it is asked about, and whose
        program it was; empty if that is unknown."""
        self._ended = CancelToken()
        self._blind = False

    async def before(self) -> None:
        """Prepare for a call that runs commands."""
        async with self._lock:
            self._tell_model(await self._sweep())
            if self._baseline is None or not self._owed:
                await self._begin()
            self._open += 1

    async def after(
        self, call_id: str, token: CancelToken, approvals: Approvals
    ) -> tuple[str, ...]:
        """Inspect what such a call left and ask the user about it; return the sentences that the
        model is to read."""
        async with self._lock:
            self._open -= 1
            self._last = (call_id, approvals, "")
            notes = [*await self._sweep(), *await self._inspect(token)]
            self._settle()
            return tuple(notes)

    async def begun(self, owner: str) -> None:
        """Inspect what a program wrote as it started, which is about to be used and may write more;
        see `before`.

        If there is a user, they are asked about it.
        """
        self._open -= 1
        self._due = True
        self._settle()
        async with self._lock:
            call_id = f"program-{self._emitter.next_seq}"
            notes = await self._sweep()
            self._last = (call_id, self._own, owner)
            self._tell_model(
                [*notes, *await self._inspect(self._ended if self._attended else None)]
            )
            self._last = (call_id, self._own, "")
            self._settle()

    def later(self, over: asyncio.Event) -> None:
        """Inspect what such a call left once the job that it became is over."""
        job = asyncio.create_task(self._job(over))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        self._settle()

    def wrote(self, details: Mapping[str, JsonValue]) -> None:
        """Remember what an allowed call wrote, so that it is not mistaken for something a command
        left."""
        match details:
            case {"path": str(path), "sha256": str(sha256)} if self.needed:
                self._written[unspelled(path)] = sha256
            case {"landed": dict(landed)}:
                for path, sha256 in landed.items():
                    self.wrote({"path": path, "sha256": sha256})
            case {"changed_files": list(files)}:
                for one in files:
                    if isinstance(one, dict):
                        self.wrote(one)
            case _:
                pass

    async def sweep(self) -> None:
        """Remove what processes that were left running have planted; call it before git is used."""
        if self.needed:
            async with self._lock:
                self._tell_model(await self._sweep())

    async def at_rest(self, token: CancelToken) -> None:
        """Inspect before a run ends: the last chance to ask about what processes that were left
        running did."""
        if self.needed and not (token.cancelled and self._attended):
            async with self._lock:
                await self._look(token)

    async def close(self) -> None:
        """Inspect a last time, once nothing that commands started can be running."""
        self._ended.cancel("the conversation ended")
        tasks = {*self._jobs, *({self._watcher} if self._watcher is not None else ())}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._sandbox is None:
            return
        async with self._lock:
            await self._sweep()
            if not self.needed:
                return
            if not self._owed:
                await self._begin()
            await self._sandbox.close()
            await self._look(None)

    @property
    def needed(self) -> bool:
        """Whether the baseline is needed: something is running, or has not been inspected yet."""
        return bool(self._open) or self._alive or self._due

    @property
    def _owed(self) -> bool:
        """Whether something may have run since the baseline was taken; a living process may have
        slept all the time."""
        ran = self._moment is None or self._moment != self._compared
        return bool(self._open) or self._due or (self._alive and ran)

    async def _begin(self) -> None:
        """Take the baseline, unless something has run since the present one: then that one stays
        for comparison."""
        if self._store is None:
            return
        moment = self._moment
        try:
            baseline = await self._store.take()
            self._blind = False
        except CheckpointError as error:
            self._tell_blind(error)
            return
        if self._alive:
            self._tell_model(await self._sweep())
        if self._baseline is None or self._moment == moment:
            self._baseline = baseline
            self._compared = moment
            self._written.clear()

    async def _sweep(self) -> list[str]:
        """Have the sandbox move away what was planted, and tell the user; return a sentence for
        each thing it moved."""
        if self._sandbox is None:
            return []
        try:
            swept = await self._sandbox.sweep()
        except (CodeagentError, OSError) as error:
            self._warn(f"the workspace could not be searched for planted repositories: {error}")
            return []
        self._due = self._due or (self._alive and not swept.alive)
        self._alive = swept.alive
        self._moment = swept.moment
        for notice in swept.notices:
            self._warn(notice)
        return list(swept.notices)

    async def _look(self, token: CancelToken | None) -> None:
        """Sweep, inspect if something may have changed, and tell the model of both at the next
        boundary."""
        notes = await self._sweep()
        if self._owed:
            notes += await self._inspect(token)
        self._tell_model(notes)
        self._settle()

    async def _inspect(self, token: CancelToken | None) -> list[str]:
        """Judge what changed since the baseline, and undo what was not agreed to; return the
        sentences for the model.

        `token`: of the last call, which is asked about if no rule decides. None: processes left
        running did it, or the user. Then it is reported if there is a user, and otherwise undone.
        """
        if self._store is None or self._baseline is None:
            return []
        moment = self._moment
        try:
            now, look = await self._compare(self._store, self._baseline, freeze=token is not None)
            refused, open_ = self._judged(look.found)
            left, remarks, why = (*refused, *open_), list(look.remarks), ""
            if token is None and self._attended:
                refused = ()
                said = "changed while processes of the agent were running; look before you use it"
                remarks += [f"{said}: {named(left)}"] if left else []
            elif token is None:
                refused, why = left, "nobody was there to ask"
            elif open_:
                now, said_no, why = await self._answered(
                    self._store, self._baseline, now, open_, token
                )
                refused = (*refused, *said_no)
            for remark in remarks:
                self._warn(remark)
            notes = await self._undo(refused, why)
            self._baseline = await self._store.take() if refused else now
            self._due = False
            self._compared = moment
        except (CodeagentError, OSError) as error:
            self._tell_blind(error)
            return []
        return [*notes, *remarks]

    async def _compare(
        self, store: Checkpoints, before: Snapshot, *, freeze: bool
    ) -> tuple[Snapshot, Leftovers]:
        """Compare the workspace with a snapshot; only a look every second does not `freeze` the
        sandbox for it.

        Raises SandboxError, CheckpointError.
        """
        async with self._frozen() if freeze else nullcontext():
            now = await store.take()
            written = {**await store.written_by_others(before.at), **self._written}
            return now, await find_leftovers(store, before, now, self._rules.agreed, written)

    async def _answered(
        self,
        store: Checkpoints,
        before: Snapshot,
        now: Snapshot,
        found: tuple[Leftover, ...],
        token: CancelToken,
    ) -> tuple[Snapshot, tuple[Leftover, ...], str]:
        """Ask about all of it; if it has changed since it was shown, ask again.

        Returns the snapshot that was agreed to, or what the user did not agree to and why. Raises
        as `_compare`.
        """
        denied: tuple[Leftover, ...] = ()
        for _ in range(_MOST_QUESTIONS):
            decision = await self._ask(store, before, now, found, token)
            if decision.answer == "deny":
                return now, (*denied, *found), self._rules.why_not(decision)
            later, look = await self._compare(store, before, freeze=True)
            asked = [
                one.path
                for one in found
                if one.path not in self._rules.agreed
                and self._rules.verdict(one).permission == "prompt"
            ]
            if not [path for path in asked if await _differs(store, now, later, path)]:
                return now, denied, ""
            now, found = (
                later,
                tuple(one for one in look.found if self._rules.verdict(one).permission == "prompt"),
            )
            denied = tuple(
                one for one in look.found if self._rules.verdict(one).permission == "deny"
            )
            if not found:
                return now, denied, ""
        return now, (*denied, *found), "it kept changing while the question about it waited"

    async def _ask(
        self,
        store: Checkpoints,
        before: Snapshot,
        now: Snapshot,
        found: tuple[Leftover, ...],
        token: CancelToken,
    ) -> Decision:
        """Ask the user about all of it; no answer is a denial."""
        from codeagent.agent.leftover_rules import LeftoverQuestion  # as for `_rules`

        call_id, approvals, owner = self._last
        blocks = await leftover_blocks(store, before, now, found)
        unknown = "a command or a program that still runs" if self._alive else "a command"
        question = LeftoverQuestion(call_id, found, blocks, now.id, owner or unknown)
        return await self._rules.ask(question, approvals, token)

    @cached_property
    def _rules(self) -> "LeftoverRules":
        """Decides about what was found; most runs have no command that leaves anything."""
        from codeagent.agent.leftover_rules import LeftoverRules

        return LeftoverRules(self._permissions, self._workspace)

    async def _job(self, over: asyncio.Event) -> None:
        await over.wait()
        async with self._lock:
            self._open -= 1
            self._due = True
            if not self._running():
                await self._look(None)

    async def _while_alive(self) -> None:
        """Look now and then: always for planted repositories, and for the rest while no run would
        ask about it."""
        pause, clock = _LOOK_SECONDS, asyncio.get_running_loop().time
        while self.needed:
            await asyncio.sleep(pause)
            async with self._lock:
                began = clock()
                if self._running() or self._open:
                    self._tell_model(await self._sweep())
                else:
                    await self._look(None)
                pause = max(_LOOK_SECONDS, _SHARE * (clock() - began))

    def _judged(
        self, found: Sequence[Leftover]
    ) -> tuple[tuple[Leftover, ...], tuple[Leftover, ...]]:
        """Return what a rule denies, and what has to be asked about."""
        verdicts = [(one, self._rules.verdict(one)) for one in found]
        refused = tuple(one for one, verdict in verdicts if verdict.permission == "deny")
        allowed = [one for one, verdict in verdicts if verdict.permission == "auto"]
        if gone := [one for one in allowed if one.gone]:
            self._warn(f"deleted by a command, and would have run by itself: {named(gone)}")
        for one, verdict in verdicts:
            if verdict.permission == "auto" and not one.gone:
                text = f"changed by a command, {verdict.reason}: {spelled(one.path)}"
                self._emitter.notice("workspace.left", text)
        return refused, tuple(one for one, verdict in verdicts if verdict.permission == "prompt")

    async def _undo(self, found: Sequence[Leftover], why: str) -> list[str]:
        """Undo the changes and tell the user; return the sentences for the model. Raises
        SandboxError."""
        if not found or self._store is None or self._sandbox is None or self._baseline is None:
            return []
        aside: list[str] = []
        stuck: list[str] = []
        async with self._frozen():
            for one in found:
                if one.held:
                    continue
                try:
                    aside.append(f"{one.path} to {await self._sandbox.set_aside(one.path)}")
                except OSError as error:
                    stuck.append(
                        f"{spelled(one.path)} could not be moved away ({error.strerror}): look at it first"
                    )
            failed = await self._restore(self._store, self._baseline, [one.path for one in found])
        stuck += [
            f"{spelled(path)} could not be taken back ({reason}): look at it first"
            for path, reason in failed.items()
        ]
        because = f": {why}" if why else ""
        done = []
        back = [one for one in found if one.held and one.path not in failed]
        if held := [one for one in back if not one.gone]:
            done.append(f"taken back, as it may run outside the sandbox: {named(held)}{because}")
        if gone := [one for one in back if one.gone]:
            done.append(f"restored: {named(gone)}{because}")
        if aside:
            done.append(
                f"moved away, as it may run code outside the sandbox: {on_one_line(', '.join(aside))}{because}"
            )
        for text in (*done, *stuck):
            self._warn(text)
        return [*done, *stuck]

    async def _restore(
        self, store: Checkpoints, before: Snapshot, paths: Sequence[str]
    ) -> dict[str, str]:
        """Restore the files; return the reason, by path, for each one that could not be
        restored."""
        failed: dict[str, str] = {}
        present = (await store.take()).id
        try:
            await store.restore(before.id, present=present, paths=paths)
        except CheckpointError:
            for path in paths:
                try:
                    await store.restore(before.id, present=present, paths=(path,))
                except CheckpointError as error:
                    failed[path] = str(error)
        return failed

    @asynccontextmanager
    async def _frozen(self) -> AsyncIterator[None]:
        """Freeze the sandbox, so that no command changes the workspace during the block."""
        if self._sandbox is None:
            yield
            return
        async with self._sandbox.frozen():
            yield

    def _settle(self) -> None:
        """Keep looking while the baseline is needed; otherwise forget it."""
        if not self.needed:
            self._baseline = None
            self._written.clear()
        elif self._watcher is None or self._watcher.done():
            self._watcher = asyncio.create_task(self._while_alive())

    def _tell_model(self, notes: Sequence[str]) -> None:
        """Add the notes for the next boundary."""
        for note in notes:
            self._queue.add_note(framed(LEFT, note))

    def _warn(self, text: str) -> None:
        self._emitter.warn("workspace.left", text)

    def _tell_blind(self, error: Exception) -> None:
        """Warn, once until it works again, that nothing was inspected."""
        if not self._blind:
            self._warn(
                f"changes by commands to files that run outside the sandbox were not inspected: {error}"
            )
        self._blind = True


async def _differs(store: Checkpoints, one: Snapshot, other: Snapshot, path: str) -> bool:
    """Whether a file or repository is not the same in two snapshots. Raises CheckpointError."""
    if one.marks.get(path) != other.marks.get(path):
        return True
    return one.id != other.id and await store.node(one.id, path) != await store.node(other.id, path)
