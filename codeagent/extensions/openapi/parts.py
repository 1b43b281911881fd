"""What the extension brings to a conversation: its documents as sources, and a word about those
that are not trusted."""

from collections.abc import Iterator
from functools import partial

from codeagent.config.settings import WebHosts
from codeagent.core.errors import ConfigError
from codeagent.core.toolbox import SourceState, ToolProblem
from codeagent.extensions.openapi.added import AddedDocument, DocumentFiles
from codeagent.tools.extension import ExtensionContext
from codeagent.tools.source import LateSource, ListedTool, Listing, ToolSource


def sources(context: ExtensionContext) -> Iterator[ToolSource]:
    """Yield the documents that may be used; each is read once it is asked for. Blocks on small
    files. Raises ConfigError."""
    for added in _documents(context):
        if added.trusted:
            problems = (ToolProblem(added.name, added.problem),) if added.problem else ()
            index = tuple(
                ListedTool(one.name, one.summary, one.tags, one.path) for one in added.record.tools
            )
            state: SourceState = "failed" if problems else "waiting"
            about = added.record.about
            listing = Listing(index, problems, state, about=about, prefix=f"{added.name}__")
            yield LateSource(added.name, partial(_source, added, context), listing=listing)


def remarks(context: ExtensionContext) -> Iterator[tuple[str, str]]:
    if waiting := ", ".join(one.name for one in _documents(context) if not one.trusted):
        yield (
            "documents.untrusted",
            f"OpenAPI documents of this project are not trusted as they are now: {waiting}; read "
            "them, then run codeagent tools trust",
        )


def _documents(context: ExtensionContext) -> tuple[AddedDocument, ...]:
    root = context.workspace.root
    return DocumentFiles(context.own_folder, root, accept=context.trust_project).read()


def _source(added: AddedDocument, context: ExtensionContext) -> ToolSource:
    if added.problem:
        raise ConfigError(added.problem)
    from codeagent.extensions.openapi.document import ApiDocument  # only once it is asked for
    from codeagent.extensions.openapi.source import DocumentOptions, OpenApiSource  # as above
    from codeagent.net.web.client import WebClient  # as above
    from codeagent.net.web.secrets import BoundSecrets  # as above

    record, web = added.record, context.settings.section("web", WebHosts)
    options = DocumentOptions(
        added.name,
        record.hosts,
        record.base,
        record.server,
        record.only,
        credentials=record.secrets,
    )
    hosts = record.hosts if record.private else web.private_hosts
    client = WebClient(context.environment, hosts)
    own = dict.fromkeys(record.secrets.values(), record.hosts)
    if added.place != "user":
        own = {name: web.secrets.get(name, ()) for name in own}
    secrets = BoundSecrets(own, context.secret, context.redactor)
    return OpenApiSource(options, lambda: ApiDocument.read(added.read()), client, secrets)
