"""Sets of further tools, which the model lists and turns on."""

from codeagent.core.extension import Extension, InConversations, Subcommand

EXTENSION = Extension(
    name="toolsets",
    about="sets of further tools, which the model turns on",
    in_conversations=InConversations(switches="codeagent.extensions.toolsets.switches:switches"),
    subcommands=(
        Subcommand(
            name="sets",
            of="tools",
            about="the sets of further tools, and how each is doing",
            module="codeagent.extensions.toolsets.command",
            after="show",
        ),
        Subcommand(
            name="split",
            of="tools",
            about="have a model divide a large set into smaller ones, once",
            module="codeagent.extensions.toolsets.split_command",
            after="sets",
        ),
    ),
)
