"""More ways to change and list files: several at once, patches, JSON, wide listings."""

from codeagent.core.extension import Extension, OfferedSet

EXTENSION = Extension(
    name="file_tools",
    about="the set `files`: several files at once, patches, JSON, wide listings",
    sets=(
        OfferedSet(
            name="files",
            about="several files at once, patches, JSON, wide listings",
            tools=("multi_edit", "apply_patch", "glob", "tree", "json_read", "json_write"),
            make="codeagent.extensions.file_tools.tools:file_tools",
            by_reads=True,
        ),
    ),
)
