"""A recorded session again: on the screen, as a picture, and with another model."""

from codeagent.core.extension import Extension, OnScreen, SlashCommand, Subcommand

EXTENSION = Extension(
    name="replay",
    about="recorded sessions again: on the screen, as pictures, with another model",
    screen=OnScreen(
        commands=(
            SlashCommand(
                name="replay",
                about="this conversation again, as it happened",
                does="codeagent.extensions.replay.again:replay",
                while_running=False,
                needs_conversation=True,
            ),
        )
    ),
    subcommands=(
        Subcommand(
            name="replay",
            about="a recorded session on the real screen, as a picture, or again with another model",
            module="codeagent.extensions.replay.command",
        ),
    ),
)
