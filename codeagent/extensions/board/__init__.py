"""Several sessions at once: a board of them, and detached sessions, which run without a
terminal."""

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
    about="a board of all sessions, and detached sessions, which run without a terminal",
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
            about="show a detached session on this terminal",
            module="codeagent.extensions.board.attach_command",
        ),
    ),
    screen=OnScreen(
        options=(
            ScreenOption(
                name="detach",
                metavar="PROMPT",
                about="work on a prompt in a detached session; codeagent attach shows it",
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
                about="leave this session working without a terminal",
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
                    PageKey(name="down", about="next session", keys=("down", "j")),
                    PageKey(name="up", about="previous session", keys=("up", "k")),
                    PageKey(name="stop", about="end its process, after a question", keys=("x",)),
                    PageKey(name="yes", about="yes, end it", keys=("y",)),
                ),
            ),
        ),
    ),
)
