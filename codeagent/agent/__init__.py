"""The loop and what it needs to run a conversation."""
