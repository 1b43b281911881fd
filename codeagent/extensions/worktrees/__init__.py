"""Worktrees for sessions: work in a copy of the folder, and merge back what is good."""

from codeagent.core.extension import Extension, OnScreen, ScreenOption, SlashCommand, Subcommand

EXTENSION = Extension(
    name="worktrees",
    about="sessions in a worktree of their own, merged back hunk by hunk",
    subcommands=(
        Subcommand(
            name="worktrees",
            about="list and remove the worktrees that sessions work in",
            module="codeagent.extensions.worktrees.command",
        ),
    ),
    screen=OnScreen(
        options=(
            ScreenOption(
                name="worktree",
                metavar="NAME",
                about="work in a copy of the folder as it is now, or return to the copy of that name",
                work="codeagent.extensions.worktrees.opening:in_worktree",
                value_optional=True,
            ),
        ),
        commands=(
            SlashCommand(
                name="merge",
                about="merge changes of this worktree into your folder",
                does="codeagent.extensions.worktrees.page:merge",
                group="conversation",
                while_running=False,
            ),
        ),
    ),
)
