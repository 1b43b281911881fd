"""Turns text, diffs and terminal output into lines that can be drawn, selected and copied."""
