"""Session logs that an earlier version wrote while a scripted model worked, and what is made of
each today.

`recorded/NAME.jsonl` stays as it is for ever. `recorded/NAME.txt` says what it is shown as, and
what a resumed session goes on from; after a change of wording `python -m
tests.session.recorded_logs` writes these texts.
"""

from collections.abc import Iterator
from pathlib import Path

from codeagent.core.event_json import event_json
from codeagent.core.messages import AssistantMessage, Message, text_of
from codeagent.core.redact import Redactor
from codeagent.session.fold import fold
from codeagent.session.recording import Recording, read_recording
from codeagent.session.repair import closing_events
from codeagent.tui.reduce import Reducer
from codeagent.tui.state import UiState
from codeagent.tui.transcript.render import printed

FOLDER = Path(__file__).parent / "recorded"
PASSING = FOLDER / "passing.jsonl"
"""The events of the same sessions that no log holds, as `--output jsonl` printed them."""
LOGS = tuple(path for path in sorted(FOLDER.glob("*.jsonl")) if path != PASSING)


def outcome(log: Path) -> str:
    """The transcript as the screen prints it, then what ends an open run, then what the model is
    sent."""
    recording = read_recording(log)
    events = recording.events
    closing = closing_events(events, events[0].session, events[-1].seq + 1, events[-1].ts)
    written = [event_json(event, Redactor({})) for event in closing]
    said = [line for message in fold((*events, *closing)).messages for line in _lines(message)]
    return "\n".join(
        [_shown(recording), "", "=== closed by", *written, "", "=== sent to the model", *said, ""]
    )


def _shown(recording: Recording) -> str:
    state = UiState()
    reducer = Reducer(state, live=False)
    for event in recording.events:
        reducer.apply(event)
    reducer.end_recording()
    return printed(state.document.blocks, 100, "full", recording.events[-1].ts)


def _lines(message: Message) -> Iterator[str]:
    if isinstance(message, AssistantMessage):
        yield f"assistant ({message.stop}): {message.text}"
        yield from (f"  thinks {thought.text} {thought.signature}" for thought in message.thinking)
        yield from (f"  calls {call.name} {call.id} {call.arguments}" for call in message.calls)
        return
    yield f"{message.role}: {text_of(message.content)}"


if __name__ == "__main__":
    for one in LOGS:
        one.with_suffix(".txt").write_text(outcome(one), encoding="utf-8")
