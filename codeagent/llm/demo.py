"""The demo's model: a script that finds and fixes the bug in the demo's project, and bears with the person."""

import re
from collections.abc import Sequence
from importlib.resources import files

from codeagent.core.messages import Message, ToolMessage, text_of
from codeagent.core.policy import SAID_NO
from codeagent.llm.script import Turn, parse_script
from codeagent.llm.scripted import ScriptedModel, newest_input, newest_messages

_OVER = Turn(
    text="That was the demo: its model only knows this one repository. `/model` chooses a real one, and "
    "`codeagent` in a repository of yours begins there."
)
_AGAIN = "Let me go on where I was."


class DemoModel(ScriptedModel):
    """Follows its script, but asks again for what was denied or stopped, and says so when it is over."""

    def _next(self, messages: Sequence[Message]) -> tuple[int, Turn]:
        denied = _denial(messages)
        if self._played and denied is not None:
            quoted = f": “{denied}”" if denied else ""
            return self._again(f"You said no{quoted}. This is all the demo can offer; say yes to see it work.")
        if self._played == len(self._turns):
            return self._played, _OVER
        expect = self._turns[self._played].expect
        if self._played and expect is not None and not re.search(expect, newest_input(messages)):
            return self._again(_AGAIN)
        return super()._next(messages)

    def _again(self, text: str) -> tuple[int, Turn]:
        turn = self._turns[self._played - 1]
        return self._played, turn.model_copy(update={"text": text, "reasoning": ""})


def demo_model() -> DemoModel:
    """The scripted model that fits `llm.demo_files`."""
    script = (files("codeagent.llm") / "demo.json").read_text(encoding="utf-8")
    return DemoModel(parse_script(script, "demo"), name="demo")


def _denial(messages: Sequence[Message]) -> str | None:
    """What the person said when they denied one of the newest calls; None where they denied none."""
    results = (message for message in newest_messages(messages) if isinstance(message, ToolMessage))
    texts = (text_of(result.content) for result in results if result.is_error)
    said = next((text for text in texts if text.startswith(SAID_NO)), None)
    return None if said is None else said.removeprefix(SAID_NO).removeprefix(": ")
