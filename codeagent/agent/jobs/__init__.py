"""Jobs: calls that keep running in the background (FEATURES F6 and F7)."""
