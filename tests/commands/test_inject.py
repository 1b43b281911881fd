"""`--inject`: what is accepted, and that it acts at exactly its point."""

from typing import Any

import pytest

from codeagent.commands.run import Injection, injector
from codeagent.core.acts import Act, FollowUp, Interrupt, Steer, Stop
from codeagent.core.errors import ConfigError
from codeagent.core.events import ToolStarted, TurnStarted
from tests.session.eventlogs import Log
from tests.table import for_each


class Recorder:
    """An agent that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[Act] = []

    def do(self, act: Act) -> None:
        self.told.append(act)


@for_each(
    ("text", "expected"),
    [
        ("steer@tool:1=look = here", Injection(Steer("look = here"), "tool.started", 1)),
        ("interrupt@batch:12=stop\nnow", Injection(Interrupt("stop\nnow"), "batch.planned", 12)),
        ("follow-up@turn:2=and then", Injection(FollowUp("and then"), "turn.started", 2)),
        ("abort@turn:1", Injection(Stop("interrupted"), "turn.started", 1)),
        ("abort@tool:3=enough", Injection(Stop("enough"), "tool.started", 3)),
    ],
)
def test_what_is_accepted(text: str, expected: Injection) -> None:
    assert Injection.parse(text) == expected


@for_each(
    "text",
    [
        "",
        "steer",
        "steer@tool:1",
        "steer@tool:1=",
        "steer@tool:0=x",
        "steer@tool=x",
        "steer@call:1=x",
        "x@tool:1=y",
    ],
)
def test_anything_else_is_a_configuration_error(text: str) -> None:
    with pytest.raises(ConfigError, match=r"KIND@POINT:N=TEXT"):
        Injection.parse(text)


def test_each_acts_once_at_its_own_point() -> None:
    agent: Any = Recorder()
    texts = ("steer@tool:2=a", "interrupt@tool:2=b", "follow-up@turn:1=c", "abort@tool:3")
    observe = injector(agent, [Injection.parse(text) for text in texts])
    log = Log()
    log.add(TurnStarted, turn=1)
    for number in range(5):
        log.start(f"c{number}")
    told_after = []
    for event in log.events:
        observe(event)
        told_after.append((event.type, len(agent.told)))
    assert agent.told == [FollowUp("c"), Steer("a"), Interrupt("b"), Stop()]
    assert [count for _, count in told_after] == [1, 1, 3, 4, 4, 4]
    assert isinstance(log.events[1], ToolStarted)
