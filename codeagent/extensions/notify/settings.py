"""The section `notify` of the settings."""

from typing import Literal

from codeagent.config.settings import Section
from codeagent.core.dataclass import dataclass

Channel = Literal["osc9", "osc99", "osc777", "bell", "off"]


@dataclass(frozen=True, kw_only=True)
class NotifySettings(Section):
    """How you are told about the agent while you look elsewhere; see
    docs/how-to/notifications.md."""

    by: Literal["auto"] | Channel = "auto"
    """How the terminal is asked for a notification; `auto` chooses by terminal."""
    command: tuple[str, ...] = ()
    """A program to run instead, with its arguments; an argument that is exactly `{title}` or
    `{text}` is replaced."""
    title: bool = True
    """Whether the window's title says what the agent is doing."""
