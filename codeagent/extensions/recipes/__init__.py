"""Recipes: the keys of their files, how they are read, and the recipes of a conversation."""

from codeagent.core.extension import Extension, OnScreen, SlashCommand, Subcommand

EXTENSION = Extension(
    name="recipes",
    about="prompts with inputs and steps, kept in files",
    screen=OnScreen(
        commands=(
            SlashCommand(
                name="recipes",
                about="prompts with inputs, kept in files and run by their name",
                does="codeagent.extensions.recipes.page:recipes",
                arguments="[trust|distrust]",
                after="skills",
            ),
        ),
        offers="codeagent.extensions.recipes.page:offered",
    ),
    subcommands=(
        Subcommand(
            name="recipes",
            about="prompts with inputs, kept in files: list, show, check and trust them",
            module="codeagent.extensions.recipes.command",
        ),
    ),
)
