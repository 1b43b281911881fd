"""Runs the user's own commands in the sandbox; they show as tool events that the model reads only
if shared."""

import asyncio
import time

from codeagent.agent.calls import result_of_error
from codeagent.agent.checkpoints import WorkspaceLock
from codeagent.agent.emitter import Emitter
from codeagent.agent.environment import ToolEnvironment
from codeagent.agent.jobs.work import OutputThrottle
from codeagent.agent.queue import MessageQueue
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import CodeagentError
from codeagent.core.events import (
    ToolFinished,
    ToolProgress,
    ToolResultAdded,
    ToolStarted,
    ToolUpdated,
)
from codeagent.core.messages import OutputStream
from codeagent.core.notes import SHELL, shell_note
from codeagent.core.sandbox import Command, Sandbox
from codeagent.core.tool import ToolResult
from codeagent.tools.shell.run import run_command


class Shell:
    """Runs a command at once while the agent is idle, otherwise once no call that may change
    something is running.

    Such calls wait for the command in turn; the model keeps answering.
    """

    def __init__(
        self,
        environment: ToolEnvironment,
        emitter: Emitter,
        lock: WorkspaceLock,
        queue: MessageQueue,
    ) -> None:
        """`queue` gets the notes for the model."""
        self._environment = environment
        self._emitter = emitter
        self._lock = lock
        self._queue = queue
        self._running: dict[str, CancelToken] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, command: str, *, shared: bool) -> asyncio.Task[None]:
        """Begin it; the task ends with the command. Raises CodeagentError if it cannot even be
        tried."""
        if self._environment.sandbox is None:
            raise CodeagentError(
                "without a sandbox, commands cannot run; /status says what is missing"
            )
        if not command.strip():
            raise CodeagentError("the command is empty")
        if "\0" in command:
            raise CodeagentError("a command cannot contain a NUL")
        call_id = f"shell-{self._emitter.next_seq}"
        token = self._running[call_id] = CancelToken()
        started = ToolStarted(
            call_id=call_id,
            name=SHELL,
            target=command,
            arguments={"command": command, "shared": shared},
        )
        self._emitter.emit(started)
        task = asyncio.create_task(
            self._work(self._environment.sandbox, call_id, command, shared, token)
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def cancel(self, call_id: str, reason: str) -> bool:
        """False if it is not running."""
        if (token := self._running.get(call_id)) is None:
            return False
        token.cancel(reason)
        return True

    def cancel_all(self, reason: str) -> bool:
        """False if none is running."""
        tokens = tuple(self._running.values())
        for token in tokens:
            token.cancel(reason)
        return bool(tokens)

    async def close(self) -> None:
        """Cancel every command, and return once none is running."""
        self.cancel_all("interrupted")
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _work(
        self, sandbox: Sandbox, call_id: str, command: str, shared: bool, token: CancelToken
    ) -> None:
        started_at, started = time.time(), time.monotonic()
        result = await self._result(sandbox, Command(command, call_id), token)
        del self._running[call_id]
        duration_ms = round((time.monotonic() - started) * 1000)
        self._emitter.emit(
            ToolFinished(
                call_id=call_id, name=SHELL, is_error=result.is_error, duration_ms=duration_ms
            )
        )
        added = ToolResultAdded(
            call_id=call_id,
            name=SHELL,
            content=result.content,
            is_error=result.is_error,
            executed=result.executed,
            error=result.error,
            blocks=result.blocks,
            details={**result.details, "command": command, "shared": shared},
            started_at=started_at,
            duration_ms=duration_ms,
            approval="user",
            sandbox=self._environment.sandbox_kind,
        )
        self._emitter.emit(added)
        if (note := shell_note(added)) is not None:
            self._queue.add_note(note)

    async def _result(self, sandbox: Sandbox, command: Command, token: CancelToken) -> ToolResult:
        if self._lock.taken:
            text = "waits for the agent's running call to end"
            self._emitter.emit(ToolProgress(call_id=command.call_id, name=SHELL, text=text))
        try:
            await token.guard(self._lock.enter(alone=True))
        except Exception as error:
            return result_of_error(error, executed=True)

        throttle = OutputThrottle()

        async def update(text: str, stream: OutputStream = "output") -> None:
            if shown := throttle.take(text):
                self._emitter.emit(
                    ToolUpdated(call_id=command.call_id, name=SHELL, text=shown, stream=stream)
                )

        try:
            await self._emitter.sync()
            run = await token.guard(
                run_command(sandbox, command, self._environment.outputs, update, timeout=None)
            )
            return run.answer({})
        except Exception as error:
            return result_of_error(error, executed=True, cancelled_because=token.reason)
        finally:
            self._lock.leave(alone=True)
