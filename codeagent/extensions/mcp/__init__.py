"""Tools, resources and prompts of MCP servers."""

from codeagent.core.extension import (
    Extension,
    InConversations,
    InFolders,
    OnScreen,
    PageKey,
    PageKeys,
    SlashCommand,
    Subcommand,
)

USER_FILE = "mcp.json"
PROJECT_FILE = ".mcp.json"
EXTENSION = Extension(
    name="mcp",
    about="servers that bring tools of their own",
    in_conversations=InConversations(
        parts="codeagent.extensions.mcp.servers:conversation_parts",
        acts={
            "TrustServers": "codeagent.extensions.mcp.servers:change",
            "GiveVariables": "codeagent.extensions.mcp.servers:change",
            "RestartServer": "codeagent.extensions.mcp.servers:change",
            "AgreeToServer": "codeagent.extensions.mcp.servers:change",
        },
        remarks="codeagent.extensions.mcp.servers:remarks",
    ),
    sources="codeagent.extensions.mcp.servers:sources",
    in_folders=InFolders(own={USER_FILE: "servers"}, project=(PROJECT_FILE,), for_parts=True),
    screen=OnScreen(
        commands=(
            SlashCommand(
                name="mcp",
                about="servers that bring tools of their own (MCP): state, tools, trust",
                does="codeagent.extensions.mcp.page:mcp",
                after="tools",
                needs_conversation=True,
            ),
        ),
        keys=(
            PageKeys(
                scope="mcp",
                heading="MCP servers: /mcp",
                after="tools",
                keys=(
                    PageKey(
                        name="restart",
                        about="end the marked server and start it again",
                        keys=("r",),
                    ),
                    PageKey(
                        name="distrust", about="stop trusting the project's servers", keys=("d",)
                    ),
                ),
            ),
            PageKeys(
                scope="server",
                heading="MCP servers: a question about them",
                after="mcp",
                keys=(
                    PageKey(
                        name="yes",
                        about="do what the footer says: trust, agree or give",
                        keys=("y",),
                        approves=True,
                        replaces=("mcp.yes", "mcp.trust", "mcp.give", "mcp.agree"),
                    ),
                ),
            ),
        ),
    ),
    subcommands=(
        Subcommand(
            name="mcp",
            about="servers that bring tools of their own (MCP), and offering ours to other programs",
            module="codeagent.extensions.mcp.command",
        ),
    ),
    when_off=f"{USER_FILE} and {PROJECT_FILE} are ignored, and no server is started",
)
