"""Jobs: calls that keep running in the background."""
