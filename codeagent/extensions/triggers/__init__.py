"""Timers, schedules and watched files that wake an agent."""

from codeagent.core.extension import Extension

EXTENSION = Extension(name="triggers", about="the set `triggers`: timers, schedules, watched files")
