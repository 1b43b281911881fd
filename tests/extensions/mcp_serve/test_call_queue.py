"""Whatever becomes of the conversation behind them, calls of another program have an outcome."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from codeagent.config.sessions import RunReader
from codeagent.core.errors import CodeagentError
from codeagent.core.events import KnownEvent, RunFinished, ToolResultAdded
from codeagent.core.messages import TextPart, Usage
from codeagent.extensions.mcp_serve.calls import CallingModel, CallOutcome, CallQueue
from codeagent.extensions.mcp_serve.server import _Service
from tests.tui.fake_launcher import FakeAgent


class EndingAgent(FakeAgent):
    """Takes the calls that wait, and ends its run without a result for them."""

    def __init__(self, model: CallingModel, error: Exception | None = None) -> None:
        super().__init__()
        self._model = model
        self._error = error

    def run(self, prompt: str) -> AsyncIterator[KnownEvent]:
        return self._run()

    async def _run(self) -> AsyncIterator[KnownEvent]:
        self._model.waiting.clear()
        if self._error is not None:
            raise self._error
        yield RunFinished(reason="limit", text="", usage=Usage(), turns=1, calls=1, duration_ms=0)


@pytest.mark.parametrize(
    "error, why",
    [
        (None, "the run ended before the call was made (limit)"),
        (CodeagentError("the log cannot be written"), "the log cannot be written"),
        (RuntimeError("a bug"), "the call was not made"),
    ],
)
async def test_a_run_that_ends_early_leaves_no_call_without_an_outcome(
    error: Exception | None, why: str
) -> None:
    model = CallingModel()
    queue = CallQueue(EndingAgent(model, error), model)
    pending = [queue.start("A program", "read", {"path": "a.txt"}) for _ in range(3)]
    async with asyncio.timeout(10):
        outcomes = [await call.next() for call in pending]
    assert all(
        isinstance(one, CallOutcome) and one.is_error and one.content[0].text == why
        for one in outcomes
    ), outcomes
    work = queue._work
    assert work is not None
    await asyncio.wait({work})
    assert (work.exception() is None) == (not isinstance(error, RuntimeError))


async def test_a_call_that_is_cancelled_before_it_was_made_is_not_made() -> None:
    model = CallingModel()
    queue = CallQueue(EndingAgent(model), model)
    pending = queue.start("A program", "bash", {"command": "true"})
    pending.cancel()
    assert model.waiting == []
    outcome = await pending.next()
    assert isinstance(outcome, CallOutcome) and outcome.is_error


class AnsweringAgent(EndingAgent):
    """Answers the call, and ends its run when the other side has heard so."""

    def __init__(self, model: CallingModel) -> None:
        super().__init__(model)
        self.heard = asyncio.Event()
        self.ended = False

    async def _run(self) -> AsyncIterator[KnownEvent]:
        [call] = self._model.waiting
        self._model.waiting.clear()
        yield ToolResultAdded(
            call_id=call.id,
            name=call.name,
            content=(TextPart(text="hello"),),
            is_error=False,
            executed=True,
        )
        await self.heard.wait()
        yield RunFinished(reason="done", text="", usage=Usage(), turns=1, calls=1, duration_ms=0)
        self.ended = True


async def test_a_run_whose_calls_were_answered_ends_by_itself_when_the_connection_closes() -> None:
    model = CallingModel()
    agent = AnsweringAgent(model)
    queue = CallQueue(agent, model)
    assert isinstance(await queue.start("A program", "read", {"path": "a.txt"}).next(), CallOutcome)
    closing = asyncio.create_task(queue.close())
    await asyncio.sleep(0)
    agent.heard.set()
    async with asyncio.timeout(10):
        await closing
    assert agent.ended and agent.told == []


async def test_only_so_many_agents_work_at_once() -> None:
    never = asyncio.Event()

    async def work(prompt: str, reader: RunReader) -> Any:
        await never.wait()

    session = SimpleNamespace(agent=None, next_request=lambda: SimpleNamespace(tools=()))
    offer: Any = SimpleNamespace(session=session, model=None, work=work)
    service = _Service(offer)
    for _ in range(8):
        service._start_agent({"prompt": "go"}, work)
    outcome = await service._start_agent({"prompt": "go"}, work).next()
    assert (
        isinstance(outcome, CallOutcome)
        and outcome.is_error
        and "8 agents are already at work" in str(outcome.content)
    )
    await service.close()
    assert service._agents == set()
