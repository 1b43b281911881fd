"""Tools from OpenAPI documents: one for each operation, made on demand, and limited to the pinned
hosts."""

from codeagent.core.extension import Extension, InFolders

EXTENSION = Extension(
    name="openapi",
    about="tools from OpenAPI documents",
    sources="codeagent.extensions.openapi.parts:sources",
    remarks="codeagent.extensions.openapi.parts:remarks",
    in_folders=InFolders(own=("openapi",), project=(".codeagent/openapi",)),
)
