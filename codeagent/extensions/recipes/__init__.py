"""Recipes: the keys of their files, how they are read, and the recipes of a conversation."""

from codeagent.core.extension import Extension

EXTENSION = Extension(name="recipes", about="prompts with inputs and steps, kept in files")
