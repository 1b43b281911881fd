"""Tool calls written as text, for models or providers without native ones."""

from codeagent.core.extension import Extension

EXTENSION = Extension(
    name="text_calls",
    about="tool calls written as text, for models without native ones",
    settings={"text_tools": "codeagent.extensions.text_calls.settings:TextToolSettings"},
    models="codeagent.extensions.text_calls.native_first:wrapped",
)
