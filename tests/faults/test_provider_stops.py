"""The user stops a run in each phase of a request: it ends at once, the server is left, and nothing
more is sent."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from codeagent.core.acts import Prompt, Stop
from codeagent.core.events import RunFinished, TextDelta
from codeagent.core.messages import AssistantMessage, transcript_problems
from codeagent.core.notices import ModelRetried
from tests.agent.doubles import Scene, of
from tests.agent.watching import to_the_end, until, watched
from tests.faults.provider_wires import WIRES, Wire, agent_on, status
from tests.servers import FakeProvider, Turn
from tests.table import for_each


@dataclass
class Pausing:
    """Pauses that never end by themselves."""

    seconds: list[float] = field(default_factory=list)
    left: int = 0

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)
        try:
            await asyncio.Event().wait()
        finally:
            self.left += 1


def shown(s: Scene) -> str:
    return "".join(event.text for event in of(s.events, TextDelta))


HALF = Turn(text="half of the answer and more")
Reached = Callable[[Scene, FakeProvider], object]
PHASES: dict[str, tuple[Callable[[Wire], Turn], Reached, str]] = {
    "before the head": (lambda wire: Turn(silent=True), lambda s, fake: fake.requests, ""),
    "before the first byte": (
        lambda wire: Turn(cut_after=0, stall=True),
        lambda s, fake: fake.streaming.is_set(),
        "",
    ),
    "in the answer": (
        lambda wire: Turn(
            raw=wire.render(HALF), cut_after=wire.render(HALF).index(b"answer"), stall=True
        ),
        lambda s, fake: shown(s) == "half of the ",
        "half of the ",
    ),
    "in a pause": (
        lambda wire: status(429, after="1e9"),
        lambda s, fake: of(s.events, ModelRetried),
        "",
    ),
    "in a pause after a cut": (
        lambda wire: Turn(raw=wire.render(HALF), cut_after=wire.render(HALF).index(b"answer")),
        lambda s, fake: of(s.events, ModelRetried),
        "half of the ",
    ),
}
"""What the provider does, when the phase is reached, and what is kept of the answer."""


@for_each("phase", PHASES)
async def test_a_stop_ends_each_phase_and_keeps_what_came(phase: str) -> None:
    for wire in WIRES:
        await stop_in(wire, *PHASES[phase])


async def stop_in(wire: Wire, turn: Callable[[Wire], Turn], reached: Reached, kept: str) -> None:
    pausing = Pausing()
    async with wire.server([turn(wire), Turn(text="never asked for")]) as fake:
        s = agent_on(wire, fake.base_url, pausing)  # type: ignore[arg-type]  # pauses, too
        watched(s)
        s.act(Prompt("go"))
        await until(lambda: reached(s, fake))
        s.act(Stop())
        await to_the_end(s)
        if not pausing.seconds:
            await asyncio.wait_for(fake.client_left.wait(), 5)
        await s.agent.close()
    assert of(s.events, RunFinished)[0].reason == "interrupted", wire.name
    assert (len(fake.requests), pausing.left) == (1, len(pausing.seconds)), wire.name
    assert transcript_problems(s.agent.history) == []
    texts = [message.text for message in s.agent.history if isinstance(message, AssistantMessage)]
    assert texts == ([kept] if kept else []), wire.name
