"""The screen: the only package that knows textual and rich."""
