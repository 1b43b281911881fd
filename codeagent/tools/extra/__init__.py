"""Tools that are off until they are turned on: further ways to change and to look at files, triggers and messages."""
