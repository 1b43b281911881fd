"""Tools, resources and prompts of MCP servers."""

from codeagent.core.extension import Extension

EXTENSION = Extension(
    name="mcp", about="servers that bring tools of their own, and offering ours to other programs"
)
