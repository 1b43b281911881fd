"""Tools that are off until turned on: more ways to change and list files, triggers and messages."""
