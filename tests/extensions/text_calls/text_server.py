"""A provider on loopback without native tool calls: as strict as the other one, but for the
tools."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tests.servers import FakeProvider, Json, Turn, openai_problems, openai_stream


@asynccontextmanager
async def text_server(turns: Sequence[Turn], *, chunk: int = 0) -> AsyncIterator[FakeProvider]:
    """`chunk` bytes per write, 0 for all at once."""
    fake = FakeProvider(turns, openai_stream, _problems, chunk=chunk, delay=0.0, repeat=False)
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0, limit=2**26)
    fake.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield fake
    finally:
        server.close()
        await fake.stop()


def _problems(body: Json) -> list[str]:
    return [problem for problem in openai_problems(body) if problem != "missing tools"]
