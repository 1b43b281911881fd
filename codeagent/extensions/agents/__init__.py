"""Agents that work for a conversation: alone, in groups, and in worktrees of their own."""

from codeagent.core.extension import Extension, OnScreen

EXTENSION = Extension(
    name="agents",
    about="agents that work for a conversation, alone and in groups",
    screen=OnScreen(cards="codeagent.extensions.agents.cards:ChildCards"),
)
