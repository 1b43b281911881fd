"""Tools, resources and prompts of MCP servers."""

from codeagent.core.extension import Extension, Subcommand

EXTENSION = Extension(
    name="mcp",
    about="servers that bring tools of their own, and offering ours to other programs",
    subcommands=(
        Subcommand(
            name="mcp",
            about="servers that bring tools of their own (MCP), and offering ours to other programs",
            module="codeagent.extensions.mcp.command",
        ),
    ),
)
