"""What hooks are told about beside calls and runs."""

from dataclasses import dataclass
from typing import Literal

PromptSource = Literal["prompt", "steer", "interrupt", "follow_up"]


@dataclass(frozen=True)
class Prompt:
    """Text of a person that is about to be sent to the model."""

    text: str
    source: PromptSource = "prompt"
    """`prompt` begins a run; the others were typed while one was going on."""


@dataclass(frozen=True)
class SessionFacts:
    id: str
    workspace: str
    resumed: bool


@dataclass(frozen=True)
class Compaction:
    """The conversation is about to be summed up."""

    messages: int
    """How many of them the summary would replace."""
    tokens: int
    """How many they take, about."""
