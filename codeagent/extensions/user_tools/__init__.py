"""User-defined tools: a loader for each kind of file, and the machinery of functions and
templates."""

from codeagent.core.extension import Extension

EXTENSION = Extension(
    name="user_tools", about="tools in YAML and Python files of yours and of the project"
)
