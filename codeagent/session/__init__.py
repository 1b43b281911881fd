"""The session log and what is made of it."""
