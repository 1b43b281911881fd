"""Recipes: the keys of their files, how they are read, and the recipes of a conversation."""

from codeagent.core.extension import (
    Extension,
    InConversations,
    InFolders,
    OnScreen,
    RunOption,
    SlashCommand,
    Subcommand,
)

EXTENSION = Extension(
    name="recipes",
    about="prompts with inputs and steps, kept in files",
    in_conversations=InConversations(
        acts={"RunRecipe": "codeagent.extensions.recipes.steps:run_recipe"}
    ),
    in_folders=InFolders(prompts="codeagent.extensions.recipes.recipe_folders:read_recipes"),
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
    run_options=(
        RunOption(
            name="recipe",
            metavar="NAME",
            about="run a recipe in place of a prompt; codeagent recipes list shows them",
            work="codeagent.extensions.recipes.command:chosen_recipe",
            completes="codeagent.commands.completion:recipes",
        ),
        RunOption(
            name="input",
            metavar="NAME=VALUE",
            about="an input of the recipe; repeatable",
            many=True,
            idle="--input belongs to a recipe: give --recipe NAME; nothing was run",
        ),
    ),
)
