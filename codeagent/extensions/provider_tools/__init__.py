"""Tools that a model's provider runs itself."""
