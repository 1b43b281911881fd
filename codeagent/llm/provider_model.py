"""What the models of all providers have in common, whichever lane their requests take."""

import asyncio
import os
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from dataclasses import replace
from itertools import groupby

from codeagent.core.budget import Effort
from codeagent.core.errors import ModelError
from codeagent.core.messages import AssistantMessage, Usage
from codeagent.core.model import (
    Adapted,
    AnswerBegun,
    CallGrowing,
    Heartbeat,
    ModelAnswer,
    ModelEvent,
    ModelRequest,
    ReasoningPiece,
    TextPiece,
    ToolsLeftOut,
)
from codeagent.core.redact import Redactor
from codeagent.llm.answer_budget import AnswerBudget
from codeagent.llm.errors import FailedRequest, model_error, words_of
from codeagent.llm.per_message import PerMessage
from codeagent.llm.provider_tools import MakeProviderTools, ProviderTools, left_out, new_containers
from codeagent.llm.providers import DEFAULT_MAX_TOKENS, Target
from codeagent.llm.server_knowledge import ServerKnowledge
from codeagent.llm.stream import Accumulator, StreamPiece
from codeagent.llm.usage import Price, estimated_usage, usage_so_far, with_cost, with_tool_cost
from codeagent.llm.wire import in_words

_LONGEST_TURN = 0.002
_TURNS = 8
"""Of the event loop, between two of ours: a key goes through about as many before it is on the
screen."""


class ProviderModel(ABC):
    """One model of one provider: pieces of a stream become events, and every failure one line that
    helps."""

    def __init__(
        self,
        name: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        idle_timeout: float = 90.0,
        thinking: Effort | None = None,
        price: Price | None = None,
        provider_tools: MakeProviderTools = ProviderTools,
        learned: ServerKnowledge | None = None,
    ) -> None:
        """`idle_timeout` is silence in seconds; `thinking` None leaves it to the provider; `price`
        overrides what is known; `learned` is what its server has said."""
        self._learned = learned or ServerKnowledge()
        self._asked = self._learned.asked
        self._pacing = ServerKnowledge.pacing_of and ServerKnowledge.pacing_of(name)
        self.name = name
        self._api_base = api_base
        self._api_key = api_key
        self._idle = idle_timeout
        self._thinking = thinking
        self._price = price
        self._provider_tools = provider_tools
        self._passes_searches = False
        """What is between us and the server passes on the wish for a search in chat
        completions."""
        self._told: set[str] = set()
        """The provider tools of which it was said that they are left out."""
        self._redactor = Redactor(
            {**os.environ, "MODEL_API_KEY": api_key or "", "MODEL_API_BASE": api_base or ""}
        )
        self._target: Target | None = None
        self._room = AnswerBudget()
        self._in_words = PerMessage(in_words)

    @property
    def context_window(self) -> int | None:
        """Known from the first request on, if the data about models has it."""
        return (
            self._room.window
            or self._learned.window
            or (self._target.context_window if self._target else None)
        )

    @abstractmethod
    async def close(self) -> None:
        """Close the connections; idempotent."""

    @abstractmethod
    async def _find_target(self) -> Target:
        """Find out what the name stands for. Raises ModelError."""

    @abstractmethod
    def _arrivals(
        self, target: Target, request: ModelRequest
    ) -> AsyncGenerator[Iterable[StreamPiece], None]:
        """Send the request; yield nothing once the answer begins, then, each time something came,
        its pieces.

        Raises whatever went wrong, and so may the pieces. Closing it closes the socket.
        """

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        await self._learned.look()
        if self._asked != self._learned.asked:
            self._asked = self._learned.asked
            self._room = AnswerBudget()
        if self._target is None:
            self._target = await self._find_target()
        self._target = self._declaring(self._target, request)
        if not sees_images(self._target, self._learned.images):
            request = replace(request, messages=tuple(self._in_words(request.messages)))
        if self._pacing is not None:
            while not await self._pacing.may_begin(self._room.estimate(request), self._idle):
                yield Heartbeat()
        for attempt in (1, 2):
            target = await self._within_window(self._target, request)
            try:
                async for event in self._streamed(target, request):
                    yield event
                await self._learned.look()  # the server may have been restarted before this answer
                return
            except _Refused as refusal:
                less = (
                    self._room.refused(refusal.said, request, target.max_tokens)
                    if attempt == 1
                    else None
                )
                if less is None:
                    raise refusal.error from None
            yield Adapted(
                f"{self.name}: its server allows {less:,} tokens for this answer; asked again for no more"
            )

    def _declaring(self, target: Target, request: ModelRequest) -> Target:
        """Return the target with the tools that its provider runs, once a request has any."""
        if target.provider_tools or not any(tool.at_provider for tool in request.tools):
            return target
        known = self._provider_tools()
        searches = self._passes_searches
        return replace(target, provider_tools=known.declared(target, self.name, searches=searches))

    async def _within_window(self, target: Target, request: ModelRequest) -> Target:
        """Return the target with the limits of this request."""
        room = await self._room.left(self._learned.window or target.context_window, request)
        if room is None:
            return target
        most = DEFAULT_MAX_TOKENS if target.max_tokens is None else target.max_tokens
        return replace(target, max_tokens=min(most, room), room=room)

    async def _streamed(
        self, target: Target, request: ModelRequest
    ) -> AsyncGenerator[ModelEvent, None]:
        """Stream one attempt. Raises _Refused if nothing came but an error."""
        answers = (message for message in request.messages if isinstance(message, AssistantMessage))
        accumulator = Accumulator({call.id for message in answers for call in message.calls})
        figures: Usage | None = None
        untold: list[ModelEvent] = []

        def count(said: AssistantMessage) -> Usage:
            usage = usage_so_far(target, request, figures, said)
            return usage if self._price is None else self._price.priced(usage)

        begun, pace, missing = False, Pace(), left_out(request, target.provider_tools)
        try:
            async with aclosing(self._arrivals(target, request)) as arrivals:
                async for pieces in arrivals:
                    if not begun:
                        begun = True
                        yield AnswerBegun(count)
                    if missing := tuple(name for name in missing if name not in self._told):
                        self._told.update(missing)
                        yield ToolsLeftOut(self.name, missing)
                    for piece in pieces:
                        figures = piece.usage or figures
                        untold += accumulator.add(piece.delta)
                        if pace.is_over():
                            for event in _taken(untold):
                                yield event
                            await pace.keep()
                    for event in _taken(untold) or [Heartbeat()]:
                        yield event
                    await pace.keep()
        except Exception as error:
            for event in _taken(untold):
                yield event
            if isinstance(error, ModelError):
                raise
            failed = FailedRequest(
                self.name, target.address, target.owner, self._idle, target.key_variable
            )
            told = model_error(error, failed, streaming=begun, clean=self._redactor.clean)
            if told.kind in ("connection", "cut", "timeout"):
                self._learned.lost()
            if told.kind == "rate_limit" and self._pacing is not None:
                self._pacing.refused(told.retry_after)
            raise told if begun else _Refused(told, words_of(error)) from None
        last, message = accumulator.finish(self.name, target.owner)
        for event in last:
            yield event
        if figures is None:
            usage = await asyncio.to_thread(estimated_usage, target, request, message)
        else:
            usage = with_cost(target, figures)
        self._room.answered(request, usage)
        usage = usage if self._price is None else self._price.priced(usage)
        if figures is None or figures.cost_usd is None:
            usage = with_tool_cost(target, usage, new_containers(message, request.messages))
        yield ModelAnswer(message, usage)


def sees_images(target: Target, said: bool | None = None) -> bool:
    """Tell whether a model sees images: what its server `said`, or else the table; True if nobody
    says."""
    if said is not None:
        return said
    known = bool(target.facts) or target.provider == "deepseek"
    return not known or bool(target.facts.get("supports_vision"))


class _Refused(Exception):
    """A request that was answered by nothing but an error."""

    def __init__(self, error: ModelError, said: str) -> None:
        """`error` is for the user; `said` is all of what its server said."""
        super().__init__(said)
        self.error = error
        self.said = said


class Pace:
    """Gives way to the event loop every 2 ms while much has come at once: the screen has to stay
    alive."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def is_over(self) -> bool:
        return time.perf_counter() - self._since > _LONGEST_TURN

    async def keep(self) -> None:
        if self.is_over():
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            self._since = time.perf_counter()


def _grown(event: ModelEvent) -> tuple[type, str, str]:
    """Return what the event is a piece of."""
    return (
        (type(event), event.call_id, event.name)
        if isinstance(event, CallGrowing)
        else (type(event), "", "")
    )


def _taken(events: list[ModelEvent]) -> list[ModelEvent]:
    """Empty the list; return its events, with neighbouring pieces of a text as one: each has a long
    way to go."""
    taken: list[ModelEvent] = []
    for _, run in groupby(events, _grown):
        first, *others = run
        if isinstance(first, TextPiece | ReasoningPiece | CallGrowing):
            rest = (piece.text for piece in others if isinstance(piece, type(first)))
            taken.append(replace(first, text="".join((first.text, *rest))))
        else:
            taken += [first, *others]
    events.clear()
    return taken
