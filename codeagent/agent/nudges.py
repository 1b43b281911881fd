"""Answers that are no use: the model is told once what was wrong, and if that does not help, the user is."""

from codeagent.agent.emitter import Emitter
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ModelError, ModelErrorKind
from codeagent.core.events import MessageAdded, Notice
from codeagent.core.messages import AssistantMessage, UserMessage

_CUT_CALLS = 3
"""How many answers in a row may break off within their calls; the results of the calls tell the model."""


@dataclass(frozen=True)
class _Flaw:
    """What is wrong with an answer."""

    what: str
    """Follows `the answer`."""
    note: str
    """What the model is told."""
    advice: str
    """The user's next step, if it happens again."""
    kind: ModelErrorKind = "server"


_EMPTY = _Flaw(
    "was empty",
    "(Your answer was empty. Go on, or say in a sentence that you are done.)",
    "ask again, or choose another model",
)
_THOUGHTS = _Flaw(
    "was nothing but thinking",
    "(Your answer was nothing but thinking. Go on, or say in a sentence that you are done.)",
    "ask again, or choose another model",
)
_CUT_OFF = _Flaw(
    "was cut off by the output limit",
    "(Your answer was cut off by the output limit. Go on from there, in smaller pieces.)",
    "ask for the rest, or for less at once",
)
_REFUSED = _Flaw(
    "was stopped by the provider because of its content",
    "(Your answer was stopped because of its content. Go on without that, or say in a sentence what you cannot do.)",
    "ask for it in another way, or choose another model",
    "content_policy",
)


class Nudges:
    """Counts the answers of one run that were no use, one after the other."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._in_a_row = 0

    def after(self, answer: AssistantMessage) -> UserMessage | None:
        """Return what to tell the model, as it was emitted; None if the answer counts.

        Raises ModelError if it was told before and there is nothing to show.
        """
        if (flaw := _flaw_of(answer)) is None:
            self._in_a_row = 0
            return None
        self._in_a_row += 1
        if self._in_a_row > (_CUT_CALLS if answer.calls else 1):
            self._explain(answer, flaw)
            return None
        if answer.calls:
            return None
        self._warn("model.nudge", f"the answer {flaw.what}: the model was asked to go on")
        note = UserMessage.from_text(flaw.note, source="note")
        self._emitter.emit(MessageAdded(message=note))
        return note

    def _explain(self, answer: AssistantMessage, flaw: _Flaw) -> None:
        said = f"the answer {flaw.what}"
        if answer.calls or not answer.text.strip():
            raise ModelError(f"{said}, several times over; the session is kept: {flaw.advice}", kind=flaw.kind)
        self._in_a_row = 0
        self._warn("model.incomplete", f"{said} again, and is not complete: {flaw.advice}")

    def _warn(self, code: str, text: str) -> None:
        self._emitter.emit(Notice(level="warning", code=code, text=text))


def _flaw_of(answer: AssistantMessage) -> _Flaw | None:
    match answer.stop:
        case "length":
            return _CUT_OFF
        case "content_filter" if not answer.calls:
            return _REFUSED
    if answer.calls or answer.text.strip() or answer.provider_content:
        return None
    return _THOUGHTS if answer.thinking else _EMPTY
