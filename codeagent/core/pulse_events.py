"""Follows the events of a conversation with a pulse: what each says about the answer that is
awaited."""

from codeagent.core.compaction import ContextCompacted
from codeagent.core.events import (
    KnownEvent,
    MessageAdded,
    ReasoningDelta,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCallAdded,
    ToolCallDelta,
    TurnFinished,
    TurnStarted,
    UnknownEvent,
)
from codeagent.core.messages import AssistantMessage
from codeagent.core.notices import CompactionFailed, ModelChanged, ModelFellBack, ModelRetried
from codeagent.core.pulse import Pulse


def follow(pulse: Pulse, event: KnownEvent | UnknownEvent) -> None:
    """Change the pulse as the event says."""
    match event:
        case RunStarted() | ModelChanged():
            pulse.model = event.model
        case TurnStarted() | ContextCompacted() | CompactionFailed():
            pulse.ask(event.ts)
        case ReasoningDelta():
            pulse.hear("thinking", event.text, event.ts)
        case TextDelta():
            pulse.hear("answering", event.text, event.ts)
        case ToolCallDelta():
            pulse.write(event.call_id, event.name, event.text, event.ts)
        case ToolCallAdded() if pulse.state:
            pulse.hear("answering", "", event.ts)
        case ModelRetried():
            pulse.ask(event.ts)
            pulse.attempt = event.attempt
            pulse.attempts = event.attempts
            pulse.retry_at = event.ts + event.delay_s
            pulse.enter("retrying", event.ts)
        case ModelFellBack():
            pulse.model = event.model
            pulse.ask(event.ts)
        case MessageAdded(message=AssistantMessage()) | TurnFinished() | RunFinished():
            pulse.state = ""
        case _:
            pass
