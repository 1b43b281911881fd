"""One widget, one file."""
