"""The tools with which the model lists sets and turns them on."""

from typing import Any

from codeagent.core.tool import Tool
from codeagent.extensions.toolsets.toolset_list import ToolsetList
from codeagent.extensions.toolsets.toolset_use import ToolsetUse
from codeagent.tools.toolsets import Toolsets


def switches(toolsets: Toolsets) -> tuple[Tool[Any], ...]:
    return ToolsetList(toolsets), ToolsetUse(toolsets)
