"""Agents that work for a conversation: alone, in groups, and in worktrees of their own."""
