"""The toolset `provider`: tools that the model's provider runs on its machines."""

from typing import Any

from codeagent.core.model import PROVIDER_TOOLS
from codeagent.core.tool import Failed, Tool, ToolArgs, ToolContext, ToolResult
from codeagent.tools.extension import ExtensionContext

_ABOUT = {
    "web_search": "Search the web, on the provider's side.",
    "code_execution": "Run code in the provider's own sandbox, without the workspace.",
    "image_generation": "Make images, which are saved beside the session.",
}


class ProviderToolArgs(ToolArgs):
    """No arguments, as the provider defines its own."""


class ProviderTool(Tool[ProviderToolArgs]):
    """Never runs here: requests declare it to the provider, and answers say what it did."""

    Args = ProviderToolArgs
    source = "provider"
    permission = "auto"
    effect = "nothing"
    concurrency = "shared"
    at_provider = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.label = name.replace("_", " ").capitalize()
        self.description = _ABOUT[name]

    async def run(self, args: ProviderToolArgs, ctx: ToolContext) -> ToolResult:
        raise Failed(
            f"{self.name} runs at the provider, and only as its own tool: a function call cannot reach it"
        )


def provider_tools(context: ExtensionContext) -> tuple[Tool[Any], ...]:
    """Make the tools of the set."""
    return tuple(ProviderTool(name) for name in PROVIDER_TOOLS)
