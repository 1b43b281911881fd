"""More ways to change and list files: several at once, patches, JSON, wide listings."""

from codeagent.core.extension import Extension

EXTENSION = Extension(
    name="file_tools", about="the set `files`: several files at once, patches, JSON, wide listings"
)
