"""Recipes: what their files may hold, how they are read, and which there are."""
