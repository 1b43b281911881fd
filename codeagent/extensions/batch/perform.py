"""Works on one task: makes the working copy, runs the agent and the check, and writes the patch and
the record."""

import asyncio
import errno
import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.sessions import Task
from codeagent.core.acts import RunGroup, RunRecipe, RunShell, Stop
from codeagent.core.approval_events import ApprovalRequested, ApprovalResolved
from codeagent.core.audit import gather_stats
from codeagent.core.cancel import completed
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CodeagentError, SandboxError, SessionError, SessionNotFound
from codeagent.core.events import (
    KnownEvent,
    RunFinished,
    RunStarted,
    ToolResultAdded,
    TurnFinished,
    UnknownEvent,
)
from codeagent.core.json_types import MAIN
from codeagent.core.messages import Usage
from codeagent.core.notes import SHELL
from codeagent.core.pulse import duration
from codeagent.core.runtime import Session
from codeagent.core.sanitize import one_line
from codeagent.disk.private import make_private_folder
from codeagent.extensions.batch.copies import Mirror, alone, changed_lines
from codeagent.extensions.batch.report import diff_page
from codeagent.extensions.batch.results import State, TaskFolder, TaskRecord
from codeagent.extensions.batch.tasks import BatchTask, digest
from codeagent.headless import answer_of_nobody, end_of
from codeagent.session.export import write_down
from codeagent.session.store import SessionStore

if TYPE_CHECKING:
    from codeagent.commands.ports import App

_CONTINUE = "The work was cut off by a crash. Look at what is there, and finish it."
_Progress = Literal["new", "begun", "ended"]
_PAUSES = (1.0, 5.0, 15.0)
"""Seconds to wait before each further try of a task that got no sandbox."""
_LEAST_ROOM = 1 << 20
"""A disk with fewer free bytes counts as full."""
_LONGEST_END = 120.0
"""Seconds to wait until the process of a killed batch has ended its work on the same task."""
_LONGEST_COMMAND = 10.0
"""Seconds to wait until the commands of a killed process have ended: its watchdog ends them."""
_LONGEST_BUILD = 1800.0
"""Seconds to wait until another task has the image."""
Tell = Callable[[Mapping[str, Any]], None]
"""Receives what changed in a running task: its `state`, `turn` or `cost`."""


@dataclass(frozen=True)
class BatchContext:
    """What the tasks of a batch share on one machine."""

    state_dir: Path
    """Contains their sessions and checkpoints."""
    mirrors: Path
    """The folder of all mirrors."""
    settings: Mapping[str, Any]
    """The settings for all tasks, as in `config.toml`."""


async def perform(
    task: BatchTask, folder: TaskFolder, context: BatchContext, app: "App", tell: Tell
) -> TaskRecord:
    """Do a task, or continue where a killed process was, and return its record, which is also in the
    task's folder unless the task was interrupted. Raises OSError."""
    began = time.monotonic()
    async with alone(folder.path / "lock", _LONGEST_END) as lock:
        work = _Work(task, folder, context, tell, lock)
        tidy = partial(folder.tidy, context.state_dir)
        if (ended := folder.record()) is not None:  # its process was killed while it tidied up
            await completed(tidy)
            return ended
        folder.describe(task)
        await completed(folder.clear)  # a cancellation waits, so that the task stays locked
        record = await _performed(folder, work, app)
        record = replace(record, seconds=round(time.monotonic() - began, 3))
        if record.state != "interrupted":
            folder.finish(record)
            await completed(tidy)
        return record


def needs_engine(task: BatchTask, context: BatchContext) -> bool:
    """Whether the commands of a task run in a container."""
    sandbox: Mapping[str, Any] = task.settings_over(context.settings).get("sandbox", {})
    return sandbox.get("kind") != "off"


async def given_up(
    task: BatchTask, folder: TaskFolder, context: BatchContext, error: str
) -> TaskRecord:
    """Record that a task has failed with this error, unless it has ended; return its record. Raises
    OSError."""

    def record() -> TaskRecord:
        if (ended := folder.record()) is not None:
            return ended
        _check_room(folder)
        work = _Work(task, folder, context, lambda told: None, lock)
        folder.describe(task)
        folder.clear()
        folder.finish(record := work.record(error=error))
        return record

    async with alone(folder.path / "lock", _LONGEST_END) as lock:
        return await completed(record)


def _check_room(folder: TaskFolder) -> None:
    """Raise OSError if the disk is full: a failure may be due to that, and says nothing about the
    task."""
    if shutil.disk_usage(folder.path).free < _LEAST_ROOM:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def _performed(folder: TaskFolder, work: "_Work", app: "App") -> TaskRecord:
    try:
        await work.prepared()
        for pause in _PAUSES:
            with suppress(SandboxError):  # an engine that restarts answers again soon
                return await work.done(app)
            await asyncio.sleep(pause)
        return await work.done(app)
    except CodeagentError as error:
        _check_room(folder)
        record = work.record(error=str(error))
        if record.commit:
            with suppress(CodeagentError):  # the task has failed already
                _, changed = await work.patched()
                record = replace(record, changed=changed)
        return record


class _Work:
    """One attempt at one task."""

    def __init__(
        self, task: BatchTask, folder: TaskFolder, context: BatchContext, tell: Tell, lock: int
    ) -> None:
        """`lock` is the file of the folder's lock, which is held."""
        self._task = task
        self._folder = folder
        self._context = context
        self._tell = tell
        self.mirror = replace(Mirror.of(task.repository, context.mirrors), held=(lock,))
        self._local = LocalEnvironment.of_user(folder.copy, trust_project=task.trust_project)
        self._local = replace(self._local, state_dir=context.state_dir, copy_of=self.mirror.folder)
        self._store = SessionStore(context.state_dir, self._local.redactor)

    async def prepared(self) -> None:
        """Make the working copy, unless it is there already. Raises ConfigError, OSError."""
        if self._folder.attempt().commit:
            copy = self._folder.copy.resolve()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LONGEST_COMMAND):
                    while await asyncio.to_thread(_is_used, copy):  # noqa: ASYNC110  # nothing tells
                        await asyncio.sleep(0.05)
            return
        self._tell({"state": "copying"})
        if not self.mirror.folder.exists():
            await self.mirror.update(self._task.repository)
        await completed(self._copy)

    def _copy(self) -> None:
        commit = self.mirror.commit(self._task.commit)
        self.mirror.check_out(commit, self._folder.copy)
        self._folder.begin(replace(self._folder.attempt(), commit=commit))

    async def done(self, app: "App") -> TaskRecord:
        """Run the agent and the check; return what came of it. Raises CodeagentError, OSError."""
        attempt = self._folder.attempt()
        progress, fault, spent = await asyncio.to_thread(self._progress, attempt.session)
        settings = self._task.settings_over(self._context.settings)
        if budget := settings.get("limits", {}).get("budget"):  # it counts for each run separately
            settings["limits"] = settings["limits"] | {"budget": max(budget - spent, 1e-6)}
        reader = _Reader(self._task, self._folder, self._tell)
        reader.ended = progress == "ended"
        reader.fault = fault
        work = Task(
            _CONTINUE if progress == "begun" else self._task.prompt,
            self._local,
            settings,
            recipe=self._task.recipe,
            inputs=self._task.inputs,
            resume=None if progress == "new" else attempt.session,
            needs_sandbox=needs_engine(self._task, self._context),
            lists_changes=False,
        )
        async with reader.first:
            if work.needs_sandbox:
                await self._until_image(reader.first, settings.get("sandbox"), attempt.commit)
            await app.work(work, reader)
        left_out, changed = await self.patched()
        await completed(self._keep)
        record = self.record(error=left_out)
        if record.state == "done" and self._task.check:
            state: State = "failed" if reader.fault else "passed"
            record = replace(record, state=state, error=reader.fault or "")
        return replace(record, changed=changed)

    async def _until_image(self, first: AsyncExitStack, sandbox: Any, commit: str) -> None:
        """Wait while another task has the same image pulled or built; if no task does, make the
        others wait until `first` is closed. Raises OSError."""
        described = commit if self._task.trust_project else ""
        name = digest([sandbox, described, os.uname().nodename])
        made = self._context.state_dir / f"image-{name}"
        if made.exists():
            return
        self._tell({"state": "waiting for its image"})
        with suppress(TimeoutError):
            await first.enter_async_context(alone(made.with_suffix(".lock"), _LONGEST_BUILD))
        if made.exists():
            await first.aclose()
        first.push(lambda kind, *_: None if kind else made.touch())

    async def patched(self) -> tuple[str, tuple[int, int, int]]:
        """Write the patch; return what it leaves out, and its size. Raises ConfigError, OSError."""

        def made() -> tuple[str, tuple[int, int, int]]:
            to = self._folder.patch
            commit = self._folder.attempt().commit
            left_out = self.mirror.patch(commit, self._folder.copy, to)
            page = diff_page(self._task.title, to)
            self._folder.diff.write_text(page, encoding="utf-8")
            with to.open("rb") as lines:
                return left_out, changed_lines(lines)

        return await completed(made)

    def _progress(self, session: str) -> tuple[_Progress, str | None, float]:
        """Return how far the session of a killed process got, the `_fault` of its check, and its cost
        in US dollars. It may have been killed before it wrote the log. Raises SessionError."""
        events: list[KnownEvent | UnknownEvent] = []
        with suppress(SessionNotFound):
            events = list(self._store.with_children(self._store.read(session).events))
        spent = gather_stats(events).usage.cost_usd or 0.0
        progress: _Progress = "new"
        fault = None
        for each in events:
            if isinstance(each, ToolResultAdded) and each.name == SHELL:
                fault = _fault(each)
            elif isinstance(each, RunStarted | RunFinished) and each.agent == MAIN:
                ended = isinstance(each, RunFinished) and each.reason != "interrupted"
                progress, fault = "ended" if ended else "begun", None
        return progress, fault, spent

    def record(self, *, error: str = "") -> TaskRecord:
        """Return what the log of the session says of the task, which an error fails. Raises
        OSError."""
        attempt = self._folder.attempt()
        events: list[KnownEvent | UnknownEvent] = []
        with suppress(SessionError):
            events = list(self._store.with_children(self._store.read(attempt.session).events))
        ends = [end for each in events if (end := _main_end(each)) is not None]
        stats = gather_stats(events)
        models = [each.model for each in events if isinstance(each, RunStarted)]
        self._write_page(attempt.session)
        return TaskRecord(
            key=self._task.key,
            subject=self._task.subject,
            title=self._task.title,
            repository=self._task.address,
            commit=attempt.commit,
            model=models[-1] if models else "",
            state="failed" if error or not ends else ends[-1].reason,
            error=error or ((ends[-1].error or "") if ends else ""),
            denied=_unanswered(events),
            changed=(0, 0, 0),
            usage=stats.usage,
            turns=stats.turns,
            seconds=0.0,
            attempt=attempt.number,
            session=attempt.session,
        )

    def _write_page(self, session: str) -> None:
        if not session:
            return
        self._folder.page.unlink(missing_ok=True)
        with suppress(CodeagentError):
            write_down(self._store, session, self._folder.page, "html", self._local.redactor)

    def _keep(self) -> None:
        """Copy the files that `keep` names; links are not followed. Raises OSError."""
        for pattern in self._task.keep:
            for found in self._folder.copy.glob(pattern):
                inside = found.relative_to(self._folder.copy)
                straight = found.resolve() == self._folder.copy.resolve() / inside
                if not straight or not found.is_file() or inside.parts[0] == ".git":
                    continue
                target = self._folder.kept / inside
                make_private_folder(target.parent)
                shutil.copyfile(found, target, follow_symlinks=False)


class _Reader:
    """Reads the run of one task, denies what needs approval, and then runs the check (a RunReader)."""

    def __init__(self, task: BatchTask, folder: TaskFolder, tell: Tell) -> None:
        self._task = task
        self._folder = folder
        self._tell = tell
        self._turns = 0
        self._usage = Usage()
        self.ended = False
        """Whether the agent's work had ended before: the check alone is left to do."""
        self.first = AsyncExitStack()
        """Keeps tasks that need the same image waiting; closed when the sandbox is ready."""
        self.fault: str | None = None
        """Why the check did not pass; empty if it passed, None until it has ended."""

    def say(self, text: str) -> None:
        self._tell({"state": text})

    def show_outside(self, event: KnownEvent) -> None:
        """Do nothing: what is emitted before the run is in the log."""

    async def run(self, session: Session, prompt: str | RunRecipe | RunGroup) -> None:
        await self.first.aclose()
        self._folder.begin(replace(self._folder.attempt(), session=session.id))
        if not self.ended:
            self._tell({"state": "working"})
            await self._run(session, prompt)
        if self._task.check and self.fault is None:
            self._tell({"state": "checking"})
            self.fault = await self._checked(session)

    async def _run(self, session: Session, prompt: str | RunRecipe | RunGroup) -> None:
        async for event in session.agent.run(prompt):
            if isinstance(event, ApprovalRequested):
                session.do(answer_of_nobody(event, approve=False))
            elif isinstance(event, TurnFinished):
                self._turns += 1
                self._usage += event.usage
                cost = self._usage.cost_usd
                self._tell({"state": "working", "turn": self._turns, "cost": cost})

    async def _checked(self, session: Session) -> str:
        """Run the check in the session's sandbox; return why it did not pass, empty if it passed.
        Raises SandboxError if it was cut off."""
        events = session.events()
        if session.do(RunShell(self._task.check, shared=False)) is not None:
            return "the check could not be started"
        try:
            async with asyncio.timeout(self._task.check_seconds):
                async for event in events:
                    if isinstance(event, ToolResultAdded) and event.name == SHELL:
                        if (fault := _fault(event)) is None:
                            raise SandboxError(f"the check was cut off: {event.error}")
                        return fault
        except TimeoutError:
            fault = f"the check took longer than {duration(self._task.check_seconds)}"
            session.do(Stop(fault))
            await session.agent.settled()
            return fault
        return "the session ended before the check did"


def _is_used(folder: Path) -> bool:
    """Whether a process of this machine has its working directory in a folder."""
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if link.readlink().is_relative_to(folder):
                return True
    return False


def _fault(result: ToolResultAdded) -> str | None:
    """Return why a check with this result did not pass; empty if it passed, None if it was cut off."""
    if not result.is_error:
        return ""
    code = result.details.get("exit_code")
    return None if code is None else f"the check ended with exit code {code}"


def _main_end(event: KnownEvent | UnknownEvent) -> RunFinished | None:
    if isinstance(event, UnknownEvent) or event.agent != MAIN:
        return None
    return end_of(event)


def _unanswered(events: list[KnownEvent | UnknownEvent]) -> tuple[str, ...]:
    """Return, each once, the rules that would have allowed what was denied because nobody was there,
    or the denied calls if there is no such rule."""
    asked: dict[str, str] = {}
    denied: dict[str, None] = {}
    for event in events:
        match event:
            case ApprovalRequested():
                asked[event.approval_id] = (
                    event.proposal or f"{event.name}, for {one_line(event.target, 100)}"
                )
            case ApprovalResolved(answer="deny", source="auto"):
                denied[asked.get(event.approval_id, "")] = None
            case _:
                pass
    return tuple(rule for rule in denied if rule)
