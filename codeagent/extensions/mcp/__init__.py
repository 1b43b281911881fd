"""Tools, resources and prompts of MCP servers."""

from codeagent.core.extension import Extension, InConversations, InFolders, Subcommand

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
    ),
    sources="codeagent.extensions.mcp.servers:sources",
    remarks="codeagent.extensions.mcp.servers:remarks",
    in_folders=InFolders(own={USER_FILE: "servers"}, project=(PROJECT_FILE,), for_parts=True),
    subcommands=(
        Subcommand(
            name="mcp",
            about="servers that bring tools of their own (MCP), and offering ours to other programs",
            module="codeagent.extensions.mcp.command",
        ),
    ),
    when_off=f"{USER_FILE} and {PROJECT_FILE} are ignored, and no server is started",
)
