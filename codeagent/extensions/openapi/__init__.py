"""Tools from OpenAPI documents: one for each operation, made on demand, and limited to the pinned
hosts."""

from codeagent.core.extension import Extension, InConversations, InFolders, Subcommand

EXTENSION = Extension(
    name="openapi",
    about="tools from OpenAPI documents",
    sources="codeagent.extensions.openapi.parts:sources",
    in_conversations=InConversations(remarks="codeagent.extensions.openapi.parts:remarks"),
    in_folders=InFolders(
        own={"openapi": "documents"},
        project=(".codeagent/openapi",),
        trust="codeagent.extensions.openapi.documents_command:document_files",
        check="codeagent.extensions.openapi.documents_command:check_if_document",
    ),
    subcommands=(
        Subcommand(
            name="add",
            of="tools",
            about="offer every operation of an OpenAPI document as a tool",
            module="codeagent.extensions.openapi.command",
            after="check",
        ),
        Subcommand(
            name="remove",
            of="tools",
            about="remove a document of yours, else of this project, and its tools",
            module="codeagent.extensions.openapi.documents_command",
            after="add",
        ),
    ),
)
