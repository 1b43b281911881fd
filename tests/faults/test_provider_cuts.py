"""A stream that ends too early, anywhere: never half a call, never half a message."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from codeagent.core.errors import ModelError
from codeagent.llm.provider_model import ProviderModel
from tests.effort import FACTOR
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
    places = sorted({*range(0, len(data) + 1, EVERY), *range(0, len(data) + 1, 7)[-8:]})
    cuts = [Turn(raw=data, cut_after=place, clean_cut=place % 2 == 0) for place in places]
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
