"""Several sessions at once: a board of them, and sessions that run on without a terminal."""

from codeagent.core.extension import (
    Extension,
    OnScreen,
    PageKey,
    PageKeys,
    ScreenOption,
    SlashCommand,
    Subcommand,
)

EXTENSION = Extension(
    name="board",
    about="a board of all sessions, and sessions that run on without a terminal",
    subcommands=(
        Subcommand(
            name="board",
            about="which sessions are working, waiting for you or done; opens and ends them",
            module="codeagent.extensions.board.command",
            of="sessions",
            after="list",
        ),
        Subcommand(
            name="attach",
            about="show a session that runs without a terminal",
            module="codeagent.extensions.board.attach_command",
        ),
    ),
    screen=OnScreen(
        options=(
            ScreenOption(
                name="detach",
                metavar="PROMPT",
                about="work on a prompt without a terminal; codeagent attach shows it",
                work="codeagent.extensions.board.holder:detached",
            ),
        ),
        commands=(
            SlashCommand(
                name="board",
                about="what every session is doing",
                does="codeagent.extensions.board.page:board",
                group="conversation",
                after="resume",
            ),
            SlashCommand(
                name="detach",
                about="let this session work on its own",
                does="codeagent.extensions.board.page:detach",
                group="conversation",
                after="board",
                needs_conversation=True,
            ),
        ),
        keys=(
            PageKeys(
                scope="board",
                heading="Sessions: /board",
                after="hunks",
                keys=(
                    PageKey(name="close", about="back", keys=("escape", "q")),
                    PageKey(name="open", about="open the session", keys=("enter",)),
                    PageKey(name="down", about="the next session", keys=("down", "j")),
                    PageKey(name="up", about="the session before", keys=("up", "k")),
                    PageKey(name="stop", about="end its process; asks once", keys=("x",)),
                    PageKey(name="yes", about="yes, end it", keys=("y",)),
                ),
            ),
        ),
    ),
)
