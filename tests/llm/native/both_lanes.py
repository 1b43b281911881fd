"""One recorded or made-up stream, read by the native lane's readers and by the whole of litellm's
lane."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from codeagent.core.errors import ModelError
from codeagent.core.messages import AssistantMessage, StopReason, Usage
from codeagent.llm.litellm_model import LitellmModel
from codeagent.llm.native import format_of
from codeagent.llm.native.events import EventReader
from codeagent.llm.providers import WireFormat
from codeagent.llm.stream import Accumulator
from tests.llm.asking import ask
from tests.servers import FakeProvider, Turn, running

MODELS: dict[WireFormat, tuple[str, str]] = {
    "chat": ("fake", "/v1"),
    "responses": ("openai/responses/gpt-5", "/v1"),
    "anthropic": ("anthropic/claude-sonnet-4-5", ""),
}
"""The model that speaks the format, and the path of its address."""
COUNTED = attrgetter("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


@dataclass(frozen=True)
class Read:
    """What came of one stream; without ids: those that a server did not send are made up."""

    text: str = ""
    thinking: tuple[tuple[str, str | None, str | None], ...] = ()
    calls: tuple[tuple[str, str], ...] = ()
    stop: StopReason | None = None
    usage: tuple[int, int, int, int] | None = None
    """Input, output, read from and written to the cache; None if the provider sent none."""
    failed: str = ""
    """The kind of error, if it was one."""

    @classmethod
    def of(cls, message: AssistantMessage, usage: Usage | None) -> "Read":
        known = usage is not None and not usage.estimated
        return cls(
            message.text,
            tuple((block.text, block.signature, block.redacted) for block in message.thinking),
            tuple((call.name, call.arguments) for call in message.calls),
            message.stop,
            COUNTED(usage) if known else None,
        )


def read_stream(wire: WireFormat, raw: bytes) -> tuple[AssistantMessage, Usage | None]:
    """Read with our own readers. Raises ModelError for a cut, ProviderError for an error event."""
    events = EventReader(wire, "")
    reader = format_of(wire).reader()
    accumulator = Accumulator()
    usage = None
    decoded = [*events.feed(raw), *events.end()]
    for piece in [*(piece for event in decoded for piece in reader.read(event)), *reader.end()]:
        accumulator.add(piece.delta)
        usage = piece.usage or usage
    _, message = accumulator.finish("m")
    return message, usage


def natively(wire: WireFormat, raw: bytes) -> Read:
    try:
        return Read.of(*read_stream(wire, raw))
    except ModelError as error:
        return Read(failed=error.kind)


def through_litellm(wire: WireFormat, streams: Sequence[bytes]) -> list[Read]:
    """Ask litellm's lane once for each stream, over HTTP on loopback."""

    async def asked() -> list[Read]:
        name, path = MODELS[wire]
        turns = [Turn(raw=raw) for raw in streams]
        server = FakeProvider(turns, lambda _: b"", lambda _: [], chunk=0, delay=0, repeat=False)
        read = []
        async with running(server, path):
            model = LitellmModel(name, api_base=server.base_url, api_key="k", idle_timeout=20)
            for _ in streams:
                try:
                    heard = await ask(model)
                    read.append(Read.of(heard.message, heard.usage))
                except ModelError as error:
                    read.append(Read(failed=error.kind))
            await model.close()
        return read

    return asyncio.run(asked())
