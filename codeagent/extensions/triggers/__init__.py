"""Timers, schedules and watched files that wake an agent."""
