"""codeagent: a terminal coding agent.

The names below are public; everything else may change. They are imported when first used, so that
`import codeagent` costs nothing.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
_HOMES = {
    "AddContext": "codeagent.agent.hooks.hook",
    "Allow": "codeagent.agent.hooks.hook",
    "Answer": "codeagent.core.acts",
    "ChatScreen": "codeagent.tui.pages.chat",
    "CodeagentError": "codeagent.core.errors",
    "Decision": "codeagent.core.policy",
    "Denied": "codeagent.core.tool",
    "Deny": "codeagent.agent.hooks.hook",
    "Event": "codeagent.core.events",
    "Extension": "codeagent.core.extension",
    "ExtensionContext": "codeagent.tools.extension",
    "Failed": "codeagent.core.tool",
    "FollowUp": "codeagent.core.acts",
    "Interrupt": "codeagent.core.acts",
    "InvalidArgs": "codeagent.core.tool",
    "LateSource": "codeagent.tools.source",
    "Modify": "codeagent.agent.hooks.hook",
    "NotFound": "codeagent.core.tool",
    "OfferedSet": "codeagent.core.extension",
    "OnScreen": "codeagent.core.extension",
    "Outcome": "codeagent.config.sessions",
    "Section": "codeagent.config.settings",
    "Session": "codeagent.core.runtime",
    "SessionStore": "codeagent.session.store",
    "SlashCommand": "codeagent.core.extension",
    "Steer": "codeagent.core.acts",
    "Stop": "codeagent.core.acts",
    "Subcommand": "codeagent.core.extension",
    "Task": "codeagent.config.sessions",
    "TextScreen": "codeagent.tui.pages.info",
    "Tool": "codeagent.core.tool",
    "ToolArgs": "codeagent.core.tool",
    "ToolContext": "codeagent.core.tool",
    "ToolError": "codeagent.core.tool",
    "ToolResult": "codeagent.core.tool",
    "hook": "codeagent.agent.hooks.python",
    "open_session": "codeagent.app.runtime",
    "register_tool": "codeagent.extensions.user_tools.decorator",
    "work": "codeagent.app.work",
}
__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'codeagent' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
