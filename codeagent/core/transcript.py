"""The transcript invariant (FEATURES F5): every call has exactly one result, in its place."""

from collections.abc import Sequence

from codeagent.core.messages import AssistantMessage, Message, ToolMessage


class TranscriptCheck:
    """Reads a transcript message by message, so that a growing one is read once."""

    def __init__(self) -> None:
        self._count = 0
        self._open: list[str] = []
        self.call_ids: set[str] = set()

    def read(self, message: Message) -> list[str]:
        """What is wrong with the next message, one sentence each."""
        self._count += 1
        if isinstance(message, ToolMessage):
            return self._read_result(message)
        problems = [f"call {call_id} has no result before message {self._count}" for call_id in self._open]
        self._open = []
        if self._count == 1 and message.role != "user":
            problems.append(f"message 1 is from the {message.role}; a transcript begins with the user")
        if isinstance(message, AssistantMessage):
            problems += self._read_answer(message)
        return problems

    def unanswered(self) -> list[str]:
        """What is wrong if no message follows."""
        return [f"call {call_id} has no result" for call_id in self._open]

    def _read_result(self, message: ToolMessage) -> list[str]:
        if message.call_id not in self._open:
            return [f"message {self._count} is a result for {message.call_id}, which no open call has"]
        expected = self._open[0]
        self._open.remove(message.call_id)
        if message.call_id != expected:
            return [f"message {self._count} answers {message.call_id} before {expected}: wrong order"]
        return []

    def _read_answer(self, message: AssistantMessage) -> list[str]:
        number, problems = self._count, []
        if not (message.text or message.calls or message.thinking):
            problems.append(f"message {number} from the assistant is empty")
        self._open = [call.id for call in message.calls]
        known = self.call_ids.intersection(self._open)
        problems += [f"message {number} uses the call id {call_id} again" for call_id in self._open if call_id in known]
        if len(set(self._open)) != len(self._open):
            problems.append(f"message {number} uses one call id twice")
        self.call_ids.update(self._open)
        return problems


def transcript_problems(messages: Sequence[Message]) -> list[str]:
    """What a provider would reject, one sentence each; empty where the transcript is valid.

    Used by the scripted model, by resume and by `codeagent sessions check`.
    """
    check = TranscriptCheck()
    problems = [problem for message in messages for problem in check.read(message)]
    return problems + check.unanswered()
