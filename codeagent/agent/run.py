"""One run: from a prompt to `run.finished`, whatever happens in between."""

import asyncio
import time

from codeagent import __version__
from codeagent.agent.hooks.hook import Deny
from codeagent.agent.limits import Deadline
from codeagent.agent.loop import Conversation, Loop
from codeagent.agent.mode_notes import mode_note
from codeagent.agent.parts import Parts
from codeagent.agent.steering import Steering
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import CodeagentError, RunCancelled
from codeagent.core.events import MessageAdded, RunFinished, RunReason, RunStarted
from codeagent.core.messages import UserMessage


class Run:
    def __init__(self, conversation: Conversation, parts: Parts, token: CancelToken) -> None:
        self._conversation = conversation
        self._parts = parts
        self.token = token
        self._notes: tuple[UserMessage, ...] = ()

    async def submit(self, prompt: str | None) -> str | None:
        """Ask the hooks about what it begins with; why it must not begin, in one line. Raises RunCancelled."""
        parts = self._parts
        if prompt is None:
            await parts.steering.admit(self.token, follow_up=True)
            begins = parts.steering.deliverable or parts.steering.wakes
            return None if begins else "nothing of what was queued was sent"
        answer = await parts.submission.ask(prompt, "prompt", self.token)
        if isinstance(answer, Deny):
            return f"a hook denied the prompt, so it was not sent: {answer.reason}"
        self._notes = answer
        return None

    def begin(self, prompt: str | None) -> None:
        """Say that it starts, and with what; None: with what is queued."""
        parts = self._parts
        parts.emitter.emit(
            RunStarted(
                model=self._conversation.model.name,
                workspace=str(parts.root),
                mode=parts.permissions.mode,
                strategy=str(self._conversation.strategy),
                codeagent=__version__,
                resumed=bool(parts.line.items),
            )
        )
        said = parts.line.items
        parts.checkpoints.before_prompt(prompt or _first_queued(parts.steering))
        said.extend(parts.steering.deliver_notes())
        if (note := mode_note(said, parts.permissions.mode)) is not None:
            said.append(note)
            parts.emitter.emit(MessageAdded(message=note))
        if prompt is None:
            said.extend(parts.steering.deliver_steering() or parts.steering.deliver_follow_up())
            return
        for message in (UserMessage.from_text(prompt), *self._notes):
            said.append(message)
            parts.emitter.emit(MessageAdded(message=message))

    async def work(self) -> RunFinished:
        """To the end; what is returned is still to be emitted. Raises nothing."""
        parts = self._parts
        started = time.monotonic()
        loop = Loop(self._conversation, parts)
        attended = self._conversation.attended
        deadline = Deadline(None if attended else self._conversation.limits.max_seconds, self.token, parts.emitter)
        reason: RunReason = "failed"
        error: str | None = None
        parts.spending.work()
        try:
            reason = await loop.run(self.token)
            await parts.emitter.sync()  # what cannot be kept is not done
        except (RunCancelled, asyncio.CancelledError):
            reason = "limit" if deadline.passed else "interrupted"
            parts.steering.take_back_all()
            loop.stop_report.tell(parts.emitter)
        except CodeagentError as failure:
            error = str(failure)
        except Exception as failure:
            error = f"internal error: {type(failure).__name__}: {failure}"
        deadline.close()
        await parts.inspection.at_rest(self.token)
        parts.spending.rest()
        if not attended:
            await parts.checkpoints.end()
        return RunFinished(
            reason=reason,
            text=loop.text,
            usage=loop.meter.usage,
            error=error,
            turns=loop.meter.turns,
            calls=loop.meter.calls,
            duration_ms=round((time.monotonic() - started) * 1000),
        )


def _first_queued(steering: Steering) -> str:
    if steering.waiting:
        return steering.waiting[0].text
    return "(a job ended)" if steering.wakes else ""
