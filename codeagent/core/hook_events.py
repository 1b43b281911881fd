"""The points of a session at which hooks are called (FEATURES F11)."""

from typing import Literal

ToolHookEvent = Literal["before_tool", "after_tool", "before_update", "after_update"]
"""Around one call; a hook may name the tools it is for."""
HookEvent = Literal[
    "before_tool",
    "after_tool",
    "before_update",
    "after_update",
    "prompt_submit",
    "run_finished",
    "session_start",
    "session_end",
]
