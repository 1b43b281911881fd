"""Hooks: Python functions and programs of the user, called at points of a session."""
