"""How the answer of a model is coming, in words that change as time passes."""

import time
from math import ceil
from typing import Literal

from codeagent.core.dataclass import dataclass

Coming = Literal["", "asking", "thinking", "answering", "writing", "retrying"]
"""asking: the request was sent, and nothing of an answer has come. writing: the arguments of a call
are coming. retrying: the request failed and is sent again. Empty: no answer is awaited."""
SILENCE = 5.0
"""Seconds without a piece of an answer after which its stream is said to be silent."""
_CHARACTERS_PER_TOKEN = 4
_SHORTEST_RATE = 1.0
"""Seconds of streaming below which a rate would mean nothing."""


@dataclass
class Pulse:
    """What is known of the answer that is awaited. Times are in seconds since the epoch."""

    state: Coming = ""
    model: str = ""
    since: float = 0.0
    """When the state began."""
    heard: float = 0.0
    """When the last piece came."""
    first: float = 0.0
    """When the first piece of this attempt came; 0 before that."""
    characters: int = 0
    """How many this attempt has streamed, thinking and arguments included."""
    tool: str = ""
    """The tool whose arguments are coming."""
    size: int = 0
    """How many bytes of them have come."""
    call_id: str = ""
    """The call whose arguments are coming."""
    attempt: int = 1
    """The attempt that is made, or will be at `retry_at`."""
    attempts: int = 0
    """How many will be made at most; 0 if that is unknown."""
    retry_at: float = 0.0

    def words(self, now: float) -> str:
        """Return the state in plain words; empty if no answer is awaited."""
        match self.state:
            case "":
                return ""
            case "asking":
                return f"waiting for {self.model.rpartition('/')[2] or 'the model'} · {duration(now - self.since)}"
            case "retrying":
                tried = f"attempt {self.attempt}" + (
                    f" of {self.attempts}" if self.attempts else ""
                )
                left = ceil(self.retry_at - now)
                return (
                    f"{tried} in {duration(left)}"
                    if left > 0
                    else f"{tried} · {duration(now - self.retry_at)}"
                )
            case _ if now - self.heard >= SILENCE:
                return f"silent for {duration(now - self.heard)}"
            case "thinking":
                return f"thinking {duration(now - self.since)}"
            case "writing":
                return f"writing {_size(self.size)}" + (
                    f" for {self.tool}" if self.tool not in ("", "write") else ""
                )
            case "answering":
                return "answering"

    def rate(self, now: float) -> str:
        """Return about how many tokens a second come, in words; empty until it can be told."""
        seconds = now - self.first
        if (
            self.state not in ("thinking", "answering", "writing")
            or not self.first
            or seconds < _SHORTEST_RATE
        ):
            return ""
        return f"~{round(self.characters / _CHARACTERS_PER_TOKEN / seconds)} tokens/s"

    def ask(self, now: float) -> None:
        """The request was sent."""
        self.first = 0.0
        self.characters = self.size = 0
        self.attempt = 1
        self.attempts = 0
        self.call_id = self.tool = ""
        self.enter("asking", now)

    def write(self, call_id: str, tool: str, text: str, now: float) -> None:
        """A piece of the arguments of a call came."""
        if call_id != self.call_id:
            self.call_id = call_id
            self.size = 0
        self.tool = tool
        self.size += len(text.encode())
        self.hear("writing", text, now)

    def hear(self, state: Coming, text: str, now: float) -> None:
        """A piece of the answer came."""
        self.first = self.first or now
        self.characters += len(text)
        self.heard = now
        self.enter(state, now)

    def enter(self, state: Coming, now: float) -> None:
        """The state is this one from now on, if it was another."""
        if state != self.state:
            self.state = state
            self.since = now


def duration(seconds: float) -> str:
    """Return a duration such as `14 s`, `2 min 5 s` or `1 h 3 min`; never negative."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def ago(then: float, now: float) -> str:
    """Return how long ago that was, or the day."""
    seconds = max(0.0, now - then)
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min ago"
    if seconds < 86_400:
        return f"{seconds // 3600:.0f} h ago"
    return time.strftime("%Y-%m-%d", time.localtime(then))


def tokens(count: int) -> str:
    """Return `950`, `18.2k`, `200k` or `1M`."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= size * 0.99995:
            return f"{count / size:.1f}".removesuffix(".0") + unit
    return str(count)


def dollars(cost: float) -> str:
    """Return `$0.041` or `$1.24`; amounts below a tenth of a cent are shown as less than that."""
    if 0 < cost < 0.001:
        return "<$0.001"
    return f"${cost:.3f}" if cost < 1 else f"${cost:.2f}"


def _size(count: int) -> str:
    return (
        f"{count} bytes"
        if count < 1024
        else f"{count // 1024} KB"
        if count < 1024**2
        else f"{count // 1024**2} MB"
    )
