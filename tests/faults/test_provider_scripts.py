"""A hundred scripts of provider failures on each wire: the run recovers or says why, and the history stays valid."""

import pytest

from codeagent.core.compaction import ContextCompacted, compacted_words
from codeagent.core.events import KnownEvent, MessageAdded, Notice, RunFinished, TextDelta, ToolResultAdded
from codeagent.core.messages import AssistantMessage, transcript_problems
from codeagent.core.notices import ModelRetried, TypedNotice
from tests.agent.doubles import Scene, of
from tests.effort import part
from tests.faults.provider_scripts import SCRIPTS, Script
from tests.faults.provider_wires import IDLE, WIRES, Slept, Wire, agent_on

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
    assert sorted(results) == sorted({*results, *(event.call_id for event in events if event.type == "tool.call")})
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
