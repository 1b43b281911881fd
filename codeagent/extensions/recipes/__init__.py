"""Recipes: the keys of their files, how they are read, and the recipes of a conversation."""

from codeagent.core.extension import Extension, Subcommand

EXTENSION = Extension(
    name="recipes",
    about="prompts with inputs and steps, kept in files",
    subcommands=(
        Subcommand(
            name="recipes",
            about="prompts with inputs, kept in files: list, show, check and trust them",
            module="codeagent.extensions.recipes.command",
        ),
    ),
)
