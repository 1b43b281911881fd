"""The set `files`."""

from typing import Any

from codeagent.core.tool import Tool
from codeagent.extensions.file_tools.apply_patch import ApplyPatch
from codeagent.extensions.file_tools.json_file import JsonRead, JsonWrite
from codeagent.extensions.file_tools.multi_edit import MultiEdit
from codeagent.extensions.file_tools.tree import Glob, Tree
from codeagent.tools.extension import ExtensionContext


def file_tools(context: ExtensionContext) -> tuple[Tool[Any], ...]:
    workspace, reads = context.workspace, context.reads
    return (
        MultiEdit(workspace, reads),
        ApplyPatch(workspace, reads),
        Glob(workspace),
        Tree(workspace),
        JsonRead(workspace, reads),
        JsonWrite(workspace, reads),
    )
