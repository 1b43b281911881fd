"""codeagent's tools for other programs, over MCP."""

from codeagent.core.extension import Extension, Subcommand

EXTENSION = Extension(
    name="mcp_serve",
    about="offering codeagent's tools to other programs, over MCP",
    subcommands=(
        Subcommand(
            name="serve",
            of="mcp",
            about="offer bash, read, write, edit, list, search and agent to the program that starts this",
            module="codeagent.extensions.mcp_serve.command",
        ),
    ),
)
