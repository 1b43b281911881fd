"""Shell commands: how a line is parsed, what it runs, whether it only reads, which rules it matches, and running it."""
