"""Jobs: calls that go on in the background (FEATURES F6 and F7)."""
