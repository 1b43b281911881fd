"""The parts that extensions add to a conversation."""

from codeagent.agent.hooks.hook import Hooks
from codeagent.agent.parts import ConversationPart, Parts
from codeagent.core.events import Notice
from tests.agent.doubles import scene


def test_reading_mentions_delays_no_other_prompt_and_writes_no_file() -> None:
    hooks = Hooks(Parts(mentions="nowhere:read").hooks())
    assert [hooks.judges(text) for text in ("see @a.py", "go on")] == [True, False]
    assert not hooks.may_write


class Failing(ConversationPart):
    async def close(self) -> None:
        raise RuntimeError("its connection is gone")


class Closing(ConversationPart):
    closed = False

    async def close(self) -> None:
        self.closed = True


async def test_a_part_that_cannot_be_closed_is_reported_and_keeps_nothing_else_open() -> None:
    closing = Closing()
    s = scene(parts=(Failing(), closing))
    await s.agent.close()
    [notice] = [event for event in s.journal.events if isinstance(event, Notice)]
    assert notice.code == "extension.broken"
    assert notice.text.endswith("Failing: RuntimeError: its connection is gone")
    assert closing.closed
