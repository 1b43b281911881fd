"""Recipes: the keys of their files, how they are read, and the recipes of a conversation."""
