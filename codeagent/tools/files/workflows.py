"""Recognizes a workflow of AWF, which is neither a tool file nor a recipe, and says what to do with
it."""

from typing import Any

_ONLY_THERE = frozenset({"type", "provider", "options", "tool_options"})
"""Keys that a step of a workflow has, and no step of a recipe."""


def is_workflow(value: Any) -> bool:
    """Whether a document is a workflow of AWF, and so neither a recipe nor a tool file."""
    if not isinstance(value, dict):
        return False
    states = value.get("states")
    steps = value.get("steps")
    tools = value.get("tools")
    if isinstance(states, dict):
        return "steps" not in value and (
            "initial" in states or any(map(_is_foreign, states.values()))
        )
    if not isinstance(steps, list):
        return False
    return any(map(_is_foreign, steps)) or (
        isinstance(tools, list) and any(isinstance(one, dict) for one in tools)
    )


def import_hint(shown: str) -> str:
    """Say what to do with a workflow."""
    return f"this is a workflow of AWF: codeagent recipes import {shown} converts it into a recipe and a tool file"


def _is_foreign(step: Any) -> bool:
    return isinstance(step, dict) and not _ONLY_THERE.isdisjoint(step)
