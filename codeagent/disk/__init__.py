"""Files opened, written and locked safely: written once, below every package that touches files."""
