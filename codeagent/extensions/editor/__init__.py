"""Selections that you send from your editor into the line you type in."""

from codeagent.core.extension import Extension, OnScreen, Subcommand

EXTENSION = Extension(
    name="editor",
    about="selections sent from your editor, with `codeagent send-selection`",
    doctor="codeagent.extensions.editor.command:findings",
    screen=OnScreen(beside="codeagent.extensions.editor.page:listen"),
    subcommands=(
        Subcommand(
            name="send-selection",
            about="send lines of a file to the codeagent that is open in its project",
            module="codeagent.extensions.editor.command",
        ),
    ),
)
