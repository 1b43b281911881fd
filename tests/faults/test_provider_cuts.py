"""A stream that ends too early, anywhere: never half a call, never half a message."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.core.errors import ModelError
from codeagent.llm.native.model import NativeModel
from codeagent.llm.provider_model import ProviderModel
from tests.effort import FACTOR, times
from tests.llm.asking import LANES, Heard, ask
from tests.servers import FakeProvider, Turn, anthropic_server, anthropic_stream, openai_server, openai_stream

EVERY = 7 if FACTOR else 61
"""Bytes from one cut to the next, but for the last fifty; odd, so that both ways to cut take turns."""
TURN = Turn(
    text="größe 😀",
    thinking=(("Hm?", "signature=="),),
    calls=(("read", {"p": "ü"}), ("bash", {"c": '"}" \\]'})),
    ids=("call_first_one", "call_second_one"),
)


@pytest.mark.soak(tried=1)
@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize(
    ("server", "name", "render"),
    [(openai_server, "fake", openai_stream), (anthropic_server, "anthropic/x", anthropic_stream)],
    ids=["openai", "anthropic"],
)
async def test_a_stream_cut_anywhere_is_whole_or_an_error(
    server: Callable[..., AbstractAsyncContextManager[FakeProvider]],
    name: str,
    render: Callable[[Turn], bytes],
    lane: type[ProviderModel],
) -> None:
    """Cuts that look like the end of the response and cuts that break the connection take turns."""
    data = render(TURN)
    places = sorted({*range(0, len(data) + 1, EVERY), *range(0, len(data) + 1, 7)[-8:], len(data)})
    cuts = [Turn(raw=data, cut_after=place, clean_cut=place % 2 == 0 or place == len(data)) for place in places]
    cut = whole = 0
    async with server([Turn(raw=data), *cuts]) as fake:
        model = lane(name, api_base=fake.base_url, api_key="k")
        full = await ask(model)
        for place in places:
            heard = Heard()
            try:
                await ask(model, heard=heard)
            except ModelError as error:
                assert (error.kind, error.retryable) == ("cut", True), (place, error)
                cut += 1
            else:
                assert heard.message == full.message, place
                whole += 1
            assert full.text.startswith(heard.text)
            assert heard.closed == full.closed[: len(heard.closed)]
        await model.close()
    assert cut > len(places) * 0.8
    assert whole > 0


class Recorded:
    """A client whose one response is a part of a recording, in pieces of `size` bytes; then it ends, or breaks."""

    def __init__(self, data: bytes, size: int, *, breaks: bool) -> None:
        self.status, self.headers = 200, {"content-type": "text/event-stream"}
        self._pieces = [data[start : start + size] for start in range(0, len(data), size)][::-1]
        self._breaks = breaks

    @asynccontextmanager
    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> AsyncIterator["Recorded"]:
        yield self

    async def read(self) -> bytes:
        if not self._pieces and self._breaks:
            raise ConnectionResetError("transfer closed")
        return self._pieces.pop() if self._pieces else b""

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(("name", "render"), [("fake", openai_stream), ("anthropic/x", anthropic_stream)])
@given(data=st.data(), breaks=st.booleans(), size=st.sampled_from([1, 7, 4096]))
@settings(max_examples=times(50))
async def test_any_part_of_a_stream_is_whole_or_an_error(
    name: str, render: Callable[[Turn], bytes], data: st.DataObject, breaks: bool, size: int
) -> None:
    """Without sockets, so that every byte has its turn."""
    stream = render(TURN)
    place = data.draw(st.integers(0, len(stream)))

    async def hear(part: bytes, size: int, *, breaks: bool = False) -> Heard:
        model = NativeModel(name, api_base="http://127.0.0.1:9", api_key="k")
        model._client = Recorded(part, size, breaks=breaks)  # type: ignore[assignment]  # its interface
        heard = Heard()
        with suppress(ModelError):
            await ask(model, heard=heard)
        return heard

    full, heard = await hear(stream, 4096), await hear(stream[:place], size, breaks=breaks)
    assert full.text.startswith(heard.text)
    assert heard.closed == full.closed[: len(heard.closed)]
    assert not heard.answers or heard.message == full.message
    assert heard.answers or place < len(stream) or breaks
