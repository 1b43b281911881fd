"""A hundred scripts of provider failures on each wire: the run recovers or says why, and the
history stays valid."""

import asyncio
from contextlib import AsyncExitStack
from itertools import permutations, product
from pathlib import Path

import pytest

from codeagent.core.compaction import ContextCompacted, compacted_words
from codeagent.core.events import (
    KnownEvent,
    MessageAdded,
    Notice,
    RunFinished,
    TextDelta,
    ToolResultAdded,
)
from codeagent.core.messages import AssistantMessage, transcript_problems
from codeagent.core.notices import ModelFellBack, ModelRetried, TypedNotice
from codeagent.llm.retry import FallbackModel, RetryingModel
from tests.agent.doubles import Scene, of
from tests.effort import part
from tests.faults.provider_scripts import CALL, HALF, LAST, SCRIPTS, Script, cut
from tests.faults.provider_wires import IDLE, WIRES, Slept, Wire, agent_of, agent_on, model_on
from tests.servers import Turn, behind_tls, self_signed
from tests.table import for_each

PART = 24


@pytest.mark.soak(tried=len(SCRIPTS), row="provider scripts")
@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
async def test_every_script_ends_well_or_with_its_reason(wire: Wire) -> None:
    failed = []
    for script in part(SCRIPTS, PART):
        try:
            await play(wire, script)
        except AssertionError as error:
            error.add_note(f"script: {script.name}")
            failed.append(error)
    if failed:
        raise ExceptionGroup(f"{len(failed)} of {len(SCRIPTS)} scripts", failed)


async def play(wire: Wire, script: Script) -> None:
    slept, silent = Slept(), script.name.startswith("silence")
    async with wire.server(script.turns(wire)) as fake:
        s = agent_on(wire, fake.base_url, slept, idle=IDLE if silent else 90.0)
        events = await s.run()
        await s.agent.close()
    assert fake.rejected == []
    assert_sound(s, events)
    (end,) = of(events, RunFinished)
    assert (end.reason, end.text) == (script.reason, script.text), end.error
    if script.reason == "done" and not silent:
        assert len(fake.requests) == len(script.turns(wire))
    assert script.error in "\n".join([*told(events), end.error or ""])
    ran = [line.split()[-1] for line in s.tools["do"].log if line.startswith("start")]
    assert tuple(ran) == script.ran
    assert script.pauses is None or tuple(slept.seconds) == script.pauses
    assert [retry.delay_s for retry in of(events, ModelRetried)] == slept.seconds


def told(events: list[KnownEvent]) -> list[str]:
    said = [event.text for event in events if isinstance(event, Notice | TypedNotice)]
    return said + [compacted_words(event) for event in of(events, ContextCompacted)]


def assert_sound(s: Scene, events: list[KnownEvent]) -> None:
    """One result for each call that was announced or made, and no text twice."""
    assert transcript_problems(s.agent.history) == []
    results = [event.call_id for event in of(events, ToolResultAdded)]
    assert sorted(results) == sorted(
        {*results, *(event.call_id for event in events if event.type == "tool.call")}
    )
    shown = ""
    for event in events:
        match event:
            case TextDelta(text=text):
                shown += text
            case ModelRetried():
                shown = ""
            case MessageAdded(message=AssistantMessage() as message):
                assert message.text in (shown, shown.strip()) or message.stop == "cut"
                shown = ""


@for_each("wire, first", [*product(WIRES, (None, CALL))])
async def test_a_server_that_is_gone_is_tried_six_times_before_and_after_tools(
    wire: Wire, first: Turn | None
) -> None:
    slept, serving, ending = Slept(), AsyncExitStack(), list[asyncio.Task[None]]()
    fake = await serving.enter_async_context(wire.server([first or LAST]))
    s = agent_on(wire, fake.base_url, slept)

    def leave(event: KnownEvent) -> None:
        if event.type == "tool.started":
            ending.append(asyncio.create_task(serving.aclose()))

    s.agent.observe(leave)
    if first is None:
        await serving.aclose()
    (end,) = of(await s.run(), RunFinished)
    await s.agent.close()
    await asyncio.gather(*ending)
    assert (
        end.reason == "failed" and "nothing answers at" in end.error and "6 attempts" in end.error
    ), end.error
    assert (slept.seconds, s.tools["do"].log.count("start ok first")) == (
        [2, 4, 8, 16, 32],
        0 if first is None else 1,
    )


@for_each("wire", WIRES)
async def test_a_host_without_an_address_is_tried_again_and_a_bad_certificate_is_not(
    wire: Wire, tmp_path: Path
) -> None:
    slept = Slept()
    s = agent_on(wire, "http://no-such-host.invalid/v1", slept)
    (end,) = of(await s.run(), RunFinished)
    assert "are you offline? (gave up after 6 attempts)" in end.error and len(slept.seconds) == 5
    slept = Slept()
    async with (
        wire.server([LAST]) as fake,
        behind_tls(fake, self_signed(tmp_path, "IP:127.0.0.1")) as port,
    ):
        s = agent_on(wire, f"https://127.0.0.1:{port}", slept)
        (end,) = of(await s.run(), RunFinished)
        await s.agent.close()
    assert f"no secure connection to https://127.0.0.1:{port}" in end.error and slept.seconds == []


@for_each("wire, other", [*permutations(WIRES, 2)])
async def test_another_model_takes_over_on_any_wire_and_begins_the_answer_afresh(
    wire: Wire, other: Wire
) -> None:
    """After tools, so that it gets what the first one did."""
    slept = Slept()
    broken = [cut(wire, HALF, "all go")] * 6
    async with wire.server([CALL, *broken]) as first, other.server([LAST]) as second:

        async def open_second() -> RetryingModel:
            return model_on(other, second.base_url, slept)

        s = agent_of(FallbackModel(model_on(wire, first.base_url, slept), open_second))
        events = await s.run()
        await s.agent.close()
        assert (first.rejected, second.rejected, len(first.requests), len(second.requests)) == (
            [],
            [],
            7,
            1,
        )
    (end,) = of(events, RunFinished)
    assert (end.reason, end.text) == ("done", "all good"), end.error
    (fell,) = of(events, ModelFellBack)
    assert "(gave up after 6 attempts); continuing with" in fell.text and fell.model == other.model
    after = events[events.index(fell) :]
    assert "".join(event.text for event in of(after, TextDelta)) == "all good"
    texts = [message.text for message in s.agent.history if isinstance(message, AssistantMessage)]
    assert texts == ["look", "all good"] and transcript_problems(s.agent.history) == []
