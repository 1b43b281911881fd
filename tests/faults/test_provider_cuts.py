"""A stream that ends too early, anywhere: never half a call, never half a message, and nothing
twice."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.core.errors import ModelError
from codeagent.core.events import MessageAdded, RunFinished, TextDelta, ToolResultAdded
from codeagent.core.messages import AssistantMessage, transcript_problems
from codeagent.core.notices import ModelRetried
from codeagent.llm.native.model import NativeModel
from codeagent.llm.provider_model import ProviderModel
from tests.agent.doubles import do, of
from tests.effort import FACTOR, part, times
from tests.faults.provider_wires import WIRES, Slept, Wire, agent_on
from tests.llm.asking import LANES, Heard, ask
from tests.servers import Turn
from tests.table import for_each

EVERY = 7 if FACTOR else 101
"""Bytes from one cut to the next, but for the last fifty; odd, so that both ways to cut take
turns."""
TURN = Turn(
    text="größe 😀 and then some more words, so that the stream is long enough for five hundred cuts in every format",
    thinking=(("Hm?", "signature=="),),
    calls=(("read", {"p": "ü"}), ("bash", {"c": '"}" \\]'})),
    ids=("call_first_one", "call_second_one"),
)
ON_EACH_WIRE = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)


def places(wire: Wire) -> list[int]:
    size = len(wire.render(TURN))
    return sorted({*range(0, size + 1, EVERY), *range(0, size + 1, 7)[-8:], size})


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize(
    "wire",
    [
        pytest.param(
            wire, id=wire.name, marks=pytest.mark.soak(tried=len(places(wire)), row="stream cuts")
        )
        for wire in WIRES
    ],
)
async def test_a_stream_cut_anywhere_is_whole_or_an_error(
    wire: Wire, lane: type[ProviderModel]
) -> None:
    """Cuts that look like the end of the response and cuts that break the connection take turns."""
    data, tried = wire.render(TURN), places(wire)
    cuts = [
        Turn(raw=data, cut_after=place, clean_cut=place % 2 == 0 or place == len(data))
        for place in tried
    ]
    cut = whole = 0
    async with wire.server([Turn(raw=data), *cuts]) as fake:
        model = lane(wire.model, api_base=fake.base_url, api_key="k")
        full = await ask(model)
        for place in tried:
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
    assert cut > len(tried) * 0.8
    assert whole > 0


class Recorded:
    """A client whose responses are parts of recordings, in pieces of `size` bytes; then each ends,
    or breaks."""

    def __init__(
        self,
        *responses: tuple[bytes, bool],
        size: int = 4096,
        after: tuple[bytes, bytes] | None = None,
    ) -> None:
        """`responses`: bytes, and whether the connection breaks after them; `after`: a request that
        has the first of these is answered with the second."""
        self._after = after
        self.status, self.headers = 200, {"content-type": "text/event-stream"}
        self._responses, self._size = list(responses), size
        self.on_new_connection = False
        self._pieces: list[bytes] = []
        self._breaks = False

    @asynccontextmanager
    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator["Recorded"]:
        if self._after is not None and self._after[0] in body:
            self._responses = [(self._after[1], False)]
        data, self._breaks = self._responses.pop(0)
        self._pieces = [
            data[start : start + self._size] for start in range(0, len(data), self._size)
        ][::-1]
        yield self

    async def read(self) -> bytes:
        if not self._pieces and self._breaks:
            raise ConnectionResetError("transfer closed")
        return self._pieces.pop() if self._pieces else b""

    async def close(self) -> None:
        pass


@ON_EACH_WIRE
@given(data=st.data(), breaks=st.booleans(), size=st.sampled_from([1, 7, 4096]))
@settings(max_examples=times(40))
async def test_any_part_of_a_stream_is_whole_or_an_error(
    wire: Wire, data: st.DataObject, breaks: bool, size: int
) -> None:
    """Without sockets, so that every byte has its turn."""
    stream = wire.render(TURN)
    place = data.draw(st.integers(0, len(stream)))

    async def hear(part: bytes, size: int, *, breaks: bool = False) -> Heard:
        model = NativeModel(wire.model, api_base="http://127.0.0.1:9", api_key="k")
        model._client = Recorded((part, breaks), size=size)  # type: ignore[assignment]  # its interface
        heard = Heard()
        with suppress(ModelError):
            await ask(model, heard=heard)
        return heard

    full, heard = await hear(stream, 4096), await hear(stream[:place], size, breaks=breaks)
    assert full.text.startswith(heard.text)
    assert heard.closed == full.closed[: len(heard.closed)]
    assert not heard.answers or heard.message == full.message
    assert heard.answers or place < len(stream) or breaks


WORKING = Turn(
    text="I look at both of them at once, größe 😀, and then I go on with what is left of the work",
    calls=(("do", {"what": "ok", "key": 'a"}b'}), ("do", {"what": "ok", "key": "c"})),
    ids=("call_first_one", "call_second_one"),
)


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param(
            wire,
            id=wire.name,
            marks=pytest.mark.soak(tried=len(wire.render(WORKING)) // 7, row="stream cuts"),
        )
        for wire in WIRES
    ],
)
async def test_an_answer_cut_anywhere_is_replaced_and_its_calls_run_once(wire: Wire) -> None:
    """At every seventh byte in the soak, inside each token of a call's JSON, too."""
    data = wire.render(WORKING)
    for place in part(range(7, len(data), 7), 40):
        await run_over_cut(wire, data, place)


async def run_over_cut(wire: Wire, data: bytes, place: int) -> None:
    slept, end = Slept(), (WORKING.ids[0].encode(), wire.render(Turn(text="all good")))
    cut = data[:place], place % 2 == 1
    client = Recorded(cut, (data, False), size=7 if place % 9 == 0 else 512, after=end)
    s = agent_on(wire, "http://127.0.0.1:9", slept, client=client)
    events = await s.run()
    assert of(events, RunFinished)[0].reason == "done", place
    assert transcript_problems(s.agent.history) == []
    retried = [number for number, event in enumerate(events) if isinstance(event, ModelRetried)]
    assert len(retried) == len(slept.seconds) <= 1, place
    after = events[retried[0] :] if retried else events
    shown = "".join(event.text for event in of(after, TextDelta))
    assert shown == WORKING.text + "all good", place
    answers = [
        event.message
        for event in of(events, MessageAdded)
        if isinstance(event.message, AssistantMessage)
    ]
    assert [answer.text for answer in answers] == [WORKING.text, "all good"], place
    assert s.tools["do"].log.count('start ok a"}b') == s.tools["do"].log.count("start ok c") == 1, (
        place
    )
    results = of(events, ToolResultAdded)
    assert sum(result.executed for result in results) == 2, place
    announced = [event.call_id for event in events if event.type == "tool.call"]
    assert sorted(result.call_id for result in results) == sorted(announced), place


ARGUMENTS = '{"what": "ok", "key": "a}b", "amount": 12}'


@for_each("wire", WIRES)
async def test_half_a_call_that_the_provider_calls_whole_is_not_run(wire: Wire) -> None:
    """Cut inside each token of its JSON, and the stream says that all is well."""
    for size in range(1, len(ARGUMENTS)):
        half, last = (
            Turn(calls=(("do", ARGUMENTS[:size]), do("ok", key="c"))),
            Turn(text="all good"),
        )
        client = Recorded(*((wire.render(turn), False) for turn in (half, last)))
        s = agent_on(wire, "http://127.0.0.1:9", Slept(), client=client)
        results = of(await s.run(), ToolResultAdded)
        kinds: Sequence[object] = sorted(
            (each.executed, each.error and each.error.kind) for each in results
        )
        assert kinds == [(False, "invalid_args"), (True, None)], size
        assert s.tools["do"].log == ["start ok c", "end ok c"], size
