"""The demo: a project with a bug, the prompt about it, and a scripted model that finds and fixes
the bug."""

import re
from collections.abc import Sequence
from pathlib import Path

from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.messages import Message, ToolMessage, text_of
from codeagent.core.policy import SAID_NO
from codeagent.llm.scripted import ScriptedModel, Turn, newest_input, newest_messages, parse_script

DEMO_PROMPT = "The tests fail. Find out why, fix it, and show me that they pass."
_OVER = Turn(
    text="That was the demo: its model only knows this one repository. `/model` chooses a real one; run "
    "`codeagent` in your own repository to start there."
)
_ELSEWHERE = Turn(
    text="The demo's model only knows the demo's own repository, and this is another one. `codeagent demo` shows it; "
    "`/model` chooses a real model for this repository."
)
_RAN = lazy_regex(r"(?m)^Ran \d+ tests?\b")
_HERE = Path(__file__).parent
_AGAIN = "Let me pick up where I left off."
_NO = lazy_regex(rf"(?m)^\[?{SAID_NO}(?:: (.*?))?(?:\. Nothing that it changed was taken.*)?$")
"""What the model is told if the user denied a call, or threw away what its command changed."""


def demo_files() -> dict[str, str]:
    """Map the path of each of the project's files, relative to its root, to its text."""
    root = _HERE / "demo_project"
    # Python ones are stored as `*.py.txt`, as they are the demo's data and not our modules.
    found = {
        str(path.relative_to(root)).removesuffix(".txt"): path.read_text(encoding="utf-8")
        for path in root.rglob("*")
        if path.is_file()
    }
    return dict(sorted(found.items()))


class DemoModel(ScriptedModel):
    """Follows its script, but asks again for what was denied or stopped, and says when the demo is
    over or this is not its repository."""

    def _next(self, messages: Sequence[Message]) -> tuple[int, Turn]:
        denied = _denial(messages)
        if self._played and denied is not None:
            quoted = f": “{denied}”" if denied else ""
            return self._again(
                f"You said no{quoted}. This is all the demo can offer; say yes to see it work."
            )
        if self._played == len(self._turns):
            return self._played, _OVER
        said = newest_input(messages)
        if self._played == 1 and _RAN.search(said) and "test_calendar" not in said:
            return self._played, _ELSEWHERE
        expect = self._turns[self._played].expect
        if self._played and expect is not None and not re.search(expect, said):
            return self._again(_AGAIN)
        return super()._next(messages)

    def _again(self, text: str) -> tuple[int, Turn]:
        turn = self._turns[self._played - 1]
        return self._played, turn.model_copy(update={"text": text, "reasoning": ""})


def demo_model() -> DemoModel:
    """Return the scripted model that fits `demo_files`."""
    script = (_HERE / "demo.json").read_text(encoding="utf-8")
    return DemoModel(parse_script(script, "demo"), name="demo")


def _denial(messages: Sequence[Message]) -> str | None:
    """Return what the user said when denying one of the newest calls; None if none was denied."""
    results = (message for message in newest_messages(messages) if isinstance(message, ToolMessage))
    texts = (text_of(result.content) for result in results if result.is_error)
    said = next(filter(None, map(_NO.search, texts)), None)
    return None if said is None else said[1] or ""
