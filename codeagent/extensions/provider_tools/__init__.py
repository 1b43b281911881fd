"""Tools that a model's provider runs itself."""

from codeagent.core.extension import Extension, OfferedSet

EXTENSION = Extension(
    name="provider_tools",
    about="the set `provider`: tools that a model's provider runs itself",
    settings={
        "provider_tools": "codeagent.extensions.provider_tools.settings:ProviderToolSettings"
    },
    sets=(
        OfferedSet(
            name="provider",
            about="tools that your provider runs itself",
            tools=("web_search", "code_execution", "image_generation"),
            make="codeagent.extensions.provider_tools.tool:provider_tools",
        ),
    ),
    at_provider="codeagent.extensions.provider_tools.declared:known_tools",
)
