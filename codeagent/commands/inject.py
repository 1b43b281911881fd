"""`--inject KIND@POINT:N=TEXT`: types something, or aborts, at an exact point of a run."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codeagent.core.acts import Act, FollowUp, Interrupt, Steer, Stop
from codeagent.core.errors import ConfigError
from codeagent.core.events import KnownEvent
from codeagent.core.runtime import AgentHandle

_FORM = re.compile(
    r"(?P<kind>steer|interrupt|follow-up|abort)@(?P<point>tool|batch|turn):(?P<n>[1-9][0-9]{0,5})"
    r"(?:=(?P<text>.*))?",
    re.DOTALL,
)
_ACTS: dict[str, Callable[[str], Act]] = {"steer": Steer, "interrupt": Interrupt, "follow-up": FollowUp, "abort": Stop}
_EVENTS = {"tool": "tool.started", "batch": "batch.planned", "turn": "turn.started"}


@dataclass(frozen=True)
class Injection:
    act: Act
    event: str
    """The type of the event it waits for."""
    number: int
    """Which one of them, from 1."""

    @classmethod
    def parse(cls, text: str) -> "Injection":
        """Raises ConfigError."""
        match = _FORM.fullmatch(text)
        if match is None or (match["kind"] != "abort" and not match["text"]):
            raise ConfigError(
                f"--inject {text!r}: write KIND@POINT:N=TEXT with steer, interrupt, follow-up or abort "
                "and tool, batch or turn, as in steer@tool:1=look at the docs first"
            )
        act = _ACTS[match["kind"]](match["text"] or "interrupted")
        return cls(act, _EVENTS[match["point"]], int(match["n"]))


def injector(agent: AgentHandle, injections: Sequence[Injection]) -> Callable[[KnownEvent], None]:
    """An observer that acts while the event is being emitted, before anything else happens."""
    seen: Counter[str] = Counter()

    def observe(event: KnownEvent) -> None:
        seen[event.type] += 1
        for injection in injections:
            if (injection.event, injection.number) == (event.type, seen[event.type]):
                agent.do(injection.act)

    return observe
