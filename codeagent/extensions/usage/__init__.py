"""What was spent, by day, model and repository."""

from codeagent.core.extension import Extension, OnScreen, SlashCommand, Subcommand

EXTENSION = Extension(
    name="usage",
    about="tokens and money over days: by day, model and repository",
    screen=OnScreen(
        commands=(
            SlashCommand(
                name="usage",
                about="tokens and money over days: by day, model or repository",
                does="codeagent.extensions.usage.page:usage",
                arguments="[day|model|repository] [days]",
                group="model and money",
                after="cost",
            ),
        )
    ),
    subcommands=(
        Subcommand(
            name="--by",
            about="tokens and money over days",
            module="codeagent.extensions.usage.command",
            of="stats",
        ),
    ),
)
