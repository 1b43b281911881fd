"""Asks the model for the summary of a compaction, and the user about it."""

import asyncio
from collections.abc import Awaitable

from codeagent.agent.compaction.plan import Asking, NotCompacted, TokenGauge, request_characters
from codeagent.agent.emitter import Emitter
from codeagent.agent.environment import ToolEnvironment
from codeagent.agent.limits import BudgetMeter
from codeagent.agent.model_request import (
    AnswerSoFar,
    close_stream,
    fell_back,
    retried,
    take_use,
    tools_left_out,
)
from codeagent.agent.permissions import Permissions
from codeagent.agent.work_time import user_waited_for
from codeagent.core.acts import AnswerSummary, Refused
from codeagent.core.cancel import CancelToken
from codeagent.core.errors import ModelError
from codeagent.core.messages import Usage
from codeagent.core.model import (
    Adapted,
    FellBack,
    ModelAnswer,
    ModelRequest,
    ProviderUse,
    Retrying,
    ToolsLeftOut,
)


class SummaryRequests:
    """Sends requests for summaries, and counts what they use."""

    def __init__(
        self,
        environment: ToolEnvironment,
        emitter: Emitter,
        permissions: Permissions,
        *,
        spending: BudgetMeter,
        gauge: TokenGauge,
    ) -> None:
        self._environment = environment
        self._emitter = emitter
        self._permissions = permissions
        self._spending = spending
        self._gauge = gauge

    def count(self, asking: Asking, usage: Usage) -> None:
        asking.meter.add_request(usage)
        self._spending.add_request(usage)

    async def answer(self, asking: Asking, request: ModelRequest) -> ModelAnswer:
        """Raises ModelError, also for a summary that repeats itself; what one that was stopped used
        counts."""
        answer: ModelAnswer | None = None
        so_far = AnswerSoFar(self._environment.limits.max_repeated_tokens)
        events = asking.model.stream(request)
        try:
            async for event in events:
                if repeats := so_far.take(event):
                    raise ModelError(repeats, kind="cut")
                match event:
                    case ModelAnswer():
                        answer = event
                    case Retrying():
                        self._emitter.emit(retried(event))
                    case FellBack():
                        self._emitter.emit(fell_back(event))
                    case ProviderUse():
                        await take_use(
                            event, self._emitter, self._environment.outputs, self._permissions
                        )
                    case ToolsLeftOut():
                        self._emitter.emit(tools_left_out(event))
                    case Adapted(text):
                        self._emitter.notice("model.adapted", text)
                    case _:
                        pass  # only the whole summary is shown
        finally:
            if answer is None:
                await close_stream(events)
                if (used := await so_far.usage()) != Usage():
                    self.count(asking, used)
        if answer is None:
            raise ModelError("the model's stream ended without an answer", kind="cut")
        self._gauge.learn(request_characters(request), answer.usage)
        return answer


class Review:
    """A summary that waits for the user."""

    def __init__(self, summary: str, emitter: Emitter) -> None:
        self._summary = summary
        self._emitter = emitter
        self._answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    def answer(self, act: AnswerSummary) -> Refused | None:
        """Take the user's answer, unless they were shown another summary."""
        if self._answer.done():
            return Refused("no summary waits for an answer; nothing was changed")
        if act.seen is not None and act.seen != self._summary:
            return Refused("another summary waits now; nothing was changed: look at it again")
        self._answer.set_result(act.summary)
        return None

    async def accepted(self, patience: float | None, token: CancelToken) -> str:
        """Wait for the answer, at most `patience` seconds; return the summary to use. Raises
        NotCompacted, RunCancelled."""
        try:
            with user_waited_for():
                async with asyncio.timeout(patience):
                    answer = await token.guard(_wait_for(self._answer))
        except TimeoutError:
            text = f"nobody answered for {patience:g} s, so the summary is used as it is; /rewind leads back"
            self._emitter.notice("compaction.unread", text)
            return self._summary
        if answer is None:
            raise NotCompacted("you declined the summary")
        if not answer.strip():
            raise NotCompacted("the summary was empty")
        return answer.strip()


async def _wait_for(answer: Awaitable[str | None]) -> str | None:
    return await answer
