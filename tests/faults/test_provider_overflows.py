"""A request that is too long, in the five shapes in which providers say so: compacted once, and
nothing loops."""

import asyncio
import json
from collections.abc import Callable

from codeagent.core.compaction import ContextCompacted
from codeagent.core.events import RunFinished
from codeagent.core.messages import UserMessage, text_of, transcript_problems
from codeagent.core.notices import CompactionBegun
from tests.agent.doubles import Scene, of
from tests.faults.provider_scripts import BIG, LONG
from tests.faults.provider_wires import WIRES, Slept, Wire, agent_on, said, status
from tests.servers import Turn
from tests.table import for_each

LOOK, LAST = Turn(text="look", calls=BIG), Turn(text="all good")
TWO_MEGABYTES = 2_000_000
REFUSALS: tuple[tuple[str, Callable[[Wire], Turn]], ...] = (
    ("400", lambda wire: status(400, LONG)),
    (
        "400 with a code",
        lambda wire: status(400, "This is the 9001st token", code="context_length_exceeded"),
    ),
    (
        "413 with a page",
        lambda wire: Turn(status=413, body="<html><h1>413 Request Entity Too Large</h1></html>"),
    ),
    ("an event of the stream", lambda wire: wire.broken("context_length_exceeded", LONG)),
    (
        "200 with an error",
        lambda wire: Turn(page=("content-type: application/json", said(LONG).encode())),
    ),
)


def compactions(s: Scene) -> int:
    return len(of(s.events, ContextCompacted))


@for_each("name, refusal", REFUSALS)
async def test_each_shape_is_compacted_once_and_the_run_continues(
    name: str, refusal: Callable[[Wire], Turn]
) -> None:
    for wire in WIRES:
        async with wire.server([LOOK, refusal(wire), LAST]) as fake:
            s = agent_on(wire, fake.base_url, Slept())
            await s.run()
            await s.agent.close()
        (end,) = of(s.events, RunFinished)
        assert (end.reason, end.text, compactions(s)) == ("done", "all good", 1), (
            wire.name,
            end.error,
        )
        assert fake.rejected == [] and transcript_problems(s.agent.history) == []
        before, after = (len(json.dumps(request.body)) for request in fake.requests[1:])
        assert after < before, wire.name


@for_each("name, refusal", REFUSALS)
async def test_what_stays_too_long_ends_the_run_once_nothing_is_left_to_leave_out(
    name: str, refusal: Callable[[Wire], Turn]
) -> None:
    for wire in WIRES:
        async with wire.server([LOOK, *[refusal(wire)] * 9]) as fake:
            s = agent_on(wire, fake.base_url, Slept())
            await s.run()
            await s.agent.close()
        (end,) = of(s.events, RunFinished)
        assert end.reason == "failed" and 1 <= compactions(s) <= 5 and len(fake.requests) <= 9, (
            wire.name,
            end.error,
        )
        assert "the conversation is too long for the model" in end.error
        assert transcript_problems(s.agent.history) == []


class Impatient:
    """A server that refuses a body before it has read it, and hangs up."""

    def __init__(self) -> None:
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()


@for_each("wire", WIRES)
async def test_a_message_of_two_megabytes_is_refused_once_told_and_kept(wire: Wire) -> None:
    """The user's own words are never shortened."""
    impatient, slept = Impatient(), Slept()
    server = await asyncio.start_server(impatient.serve, "127.0.0.1", 0)
    s = agent_on(wire, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", slept)
    await s.run("w" * TWO_MEGABYTES)
    await s.agent.close()
    server.close()
    (end,) = of(s.events, RunFinished)
    assert end.reason == "failed" and "the conversation is too long for the model" in end.error, (
        end.error
    )
    assert (compactions(s), impatient.connections, slept.seconds) == (0, 1, [])
    kept = s.agent.history[0]
    assert isinstance(kept, UserMessage) and len(text_of(kept.content)) == TWO_MEGABYTES


@for_each("wire", WIRES)
async def test_a_result_of_two_megabytes_is_cut_and_sent(wire: Wire) -> None:
    big = (("show", {"what": "a line ", "amount": TWO_MEGABYTES}),)
    async with wire.server([Turn(text="look", calls=big), LAST]) as fake:
        s = agent_on(wire, fake.base_url, Slept())
        await s.run()
        await s.agent.close()
        assert of(s.events, RunFinished)[0].reason == "done"
        assert of(s.events, CompactionBegun) == []
        assert max(len(json.dumps(request.body)) for request in fake.requests) < 100_000
