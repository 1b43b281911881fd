"""Shell commands: parses lines, finds what they run and whether they are read-only, matches rules,
and runs them."""
