"""Tools, resources and prompts of MCP servers."""

from codeagent.core.extension import Extension, Subcommand

USER_FILE = "mcp.json"
PROJECT_FILE = ".mcp.json"
EXTENSION = Extension(
    name="mcp",
    about="servers that bring tools of their own, and offering ours to other programs",
    parts="codeagent.extensions.mcp.part:conversation_parts",
    acts={
        "TrustServers": "codeagent.extensions.mcp.part:change",
        "GiveVariables": "codeagent.extensions.mcp.part:change",
        "RestartServer": "codeagent.extensions.mcp.part:change",
        "AgreeToServer": "codeagent.extensions.mcp.part:change",
    },
    sources="codeagent.extensions.mcp.part:sources",
    remarks="codeagent.extensions.mcp.part:remarks",
    own_files={USER_FILE: "servers"},
    project_files=(PROJECT_FILE,),
    subcommands=(
        Subcommand(
            name="mcp",
            about="servers that bring tools of their own (MCP), and offering ours to other programs",
            module="codeagent.extensions.mcp.command",
        ),
    ),
    when_off=f"{USER_FILE} and {PROJECT_FILE} are ignored, and no server is started",
)
