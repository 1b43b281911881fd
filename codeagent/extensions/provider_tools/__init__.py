"""Tools that a model's provider runs itself."""

from codeagent.core.extension import Extension

EXTENSION = Extension(
    name="provider_tools",
    about="the set `provider`: tools that a model's provider runs itself",
    at_provider="codeagent.extensions.provider_tools.declared:known_tools",
)
