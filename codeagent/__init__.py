"""codeagent: a terminal coding agent.

The names below are public; everything else may change. They are imported when first used, so that
`import codeagent` costs nothing.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
_HOMES = {
    "AddContext": "codeagent.agent.hooks.hook",
    "Agent": "codeagent.agent.agent",
    "Allow": "codeagent.agent.hooks.hook",
    "Deny": "codeagent.agent.hooks.hook",
    "Denied": "codeagent.core.tool",
    "Event": "codeagent.core.events",
    "Extension": "codeagent.core.extension",
    "ExtensionContext": "codeagent.tools.extension",
    "Failed": "codeagent.core.tool",
    "InvalidArgs": "codeagent.core.tool",
    "LateSource": "codeagent.tools.source",
    "Modify": "codeagent.agent.hooks.hook",
    "NotFound": "codeagent.core.tool",
    "OfferedSet": "codeagent.core.extension",
    "Section": "codeagent.config.settings",
    "SessionStore": "codeagent.session.store",
    "Subcommand": "codeagent.core.extension",
    "Tool": "codeagent.core.tool",
    "ToolArgs": "codeagent.core.tool",
    "ToolContext": "codeagent.core.tool",
    "ToolError": "codeagent.core.tool",
    "ToolResult": "codeagent.core.tool",
    "hook": "codeagent.agent.hooks.python",
    "register_tool": "codeagent.extensions.user_tools.decorator",
}
__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'codeagent' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
