"""`codeagent tools add openapi`: offers the operations of a document as tools."""

import argparse
import asyncio
import hashlib
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from codeagent.commands.arguments import (
    add_cwd,
    add_flag,
    add_list,
    read_named,
    say,
    settings_of,
    workspace_of,
)
from codeagent.config.local_environment import LocalEnvironment
from codeagent.core.errors import ConfigError
from codeagent.core.hosts import HostRule
from codeagent.core.sanitize import one_line
from codeagent.core.tool import ToolError
from codeagent.extensions.openapi.added import LARGEST_DOCUMENT, DocumentRecord, IndexEntry
from codeagent.extensions.openapi.bundling import joined
from codeagent.extensions.openapi.document import ApiDocument
from codeagent.extensions.openapi.documents_command import document_files
from codeagent.extensions.openapi.plan import security_of
from codeagent.extensions.openapi.reading import BadDocument, read_text
from codeagent.extensions.openapi.source import (
    DocumentOptions,
    about_of,
    chosen,
    listed_operations,
    longest_name,
    pinned_server,
)
from codeagent.net.web.client import WebClient, WebRequest
from codeagent.net.web.url import WebUrl

if TYPE_CHECKING:
    from codeagent.commands.ports import App

_LONGEST_NAME = 24
_SECONDS = 120.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kind", metavar="openapi", choices=("openapi",), help="the kind of document"
    )
    parser.add_argument(
        "document", metavar="DOCUMENT", help="an address or a file; - is standard input"
    )
    parser.add_argument("--name", metavar="NAME", help="its tools are called NAME__OPERATION")
    add_list(
        parser, "--only", "FILTER", "tag:T, path:P, method:M or id:I, each with * and ?; repeatable"
    )
    add_list(parser, "--host", "HOST", "where requests may go; the host of URL if left out")
    parser.add_argument(
        "--server", metavar="URL", help="where requests go, instead of what the document says"
    )
    add_list(
        parser,
        "--secret",
        "SCHEME=NAME",
        "the variable or kept key with the credentials of a security scheme",
    )
    add_flag(parser, "--private", "the hosts may be at addresses that are not public")
    add_flag(parser, "--project", "keep it in this project, for everyone who trusts it")
    add_cwd(parser)


async def main(args: argparse.Namespace, app: "App") -> int:
    """Add a document. Raises ConfigError without changing anything."""
    local = LocalEnvironment.of_user(workspace_of(args.cwd))
    data, base = await _fetched(args, local)
    path = None if base or args.document == "-" else local.workspace / args.document
    try:
        document = ApiDocument(read_text(data) if path is None else joined(read_text(data), path))
        kept = json.dumps(document.root, ensure_ascii=False, separators=(",", ":")).encode()
        read_text(
            kept
        )  # with aliases and other files it may be larger and deeper than what was read
        hosts = tuple(args.host) or ((WebUrl.parse(base).place,) if base else ())
        name = args.name or _name_of(document, args.document)
        options = DocumentOptions(
            name,
            hosts,
            base,
            server=args.server or "",
            only=tuple(args.only),
            credentials=_secrets(args, document),
        )
        _pinned(document, options)
        operations, problems = document.operations(longest_name(name))
        picked = chosen(operations, options.only)
    except (BadDocument, ValueError, OSError) as error:
        raise ConfigError(f"{args.document}: {error}; nothing was added") from error
    files = document_files(local)
    sets = await asyncio.to_thread(app.describe_tools, local, settings_of(args, local.workspace))
    if name in sets.toolsets.available.all() and not any(one.name == name for one in files.read()):
        raise ConfigError(
            f"there is another toolset named {name}; give this one a --name; nothing was added"
        )
    for problem in problems:
        say(f"warning: {problem}")
    record = DocumentRecord(
        origin=base
        or ("standard input" if args.document == "-" else str(local.workspace / args.document)),
        sha256=hashlib.sha256(kept).hexdigest(),
        about=about_of(document, len(picked)),
        base=base,
        server=options.server,
        hosts=hosts,
        private=args.private,
        only=options.only,
        secrets=dict(options.credentials),
        tools=tuple(
            IndexEntry(name=one.name, summary=one.summary, tags=one.tags, path=one.path)
            for one in listed_operations(name, picked, options.only)
        ),
    )
    folder = files.add(name, record, kept, project=args.project)
    print(f"added {name}: {record.about}; requests go to {', '.join(hosts)} only; kept in {folder}")
    if args.project:
        print("it is used once you trust it: codeagent tools trust")
    return 0


async def _fetched(args: argparse.Namespace, local: LocalEnvironment) -> tuple[bytes, str]:
    """Return the bytes of the document and their address, which is empty for a file. Raises
    ConfigError."""
    target = args.document
    if target == "-":
        return sys.stdin.buffer.read(LARGEST_DOCUMENT + 1), ""
    if not re.match(r"https?://", target, re.IGNORECASE):
        return read_named(local.workspace / target, target, LARGEST_DOCUMENT), ""
    try:
        url = WebUrl.parse(target)
        client = WebClient(
            os.environ, [url.place] if args.private else [], remedy="give --private if you mean it"
        )
        request = WebRequest("GET", url, {"accept": "application/json, application/yaml, */*"})
        response = await client.send(request, largest=LARGEST_DOCUMENT, seconds=_SECONDS)
    except (ToolError, ValueError) as error:
        raise ConfigError(f"{one_line(str(error), 400)}; nothing was added") from error
    if response.redirect is not None:
        raise ConfigError(
            f"{url} redirects to {response.redirect}; give that address if you mean it"
        )
    if response.status != 200 or not response.complete:
        said = (
            f"answered with status {response.status}"
            if response.complete
            else "is larger than a document may be"
        )
        raise ConfigError(f"{url} {said}; nothing was added")
    return response.body, str(response.url)


def _name_of(document: ApiDocument, target: str) -> str:
    """Return `swagger-petstore` for `Swagger Petstore`; without a title, the name of the file."""
    text = document.title or Path(target).stem
    name = re.sub(r"[^a-z0-9]+", "-", text.lower())[:_LONGEST_NAME].strip("-")
    return name or "api"


def _pinned(document: ApiDocument, options: DocumentOptions) -> None:
    """Return the pinned hosts. Raises BadDocument unless they include the server; ValueError for a
    bad host."""
    for host in options.hosts:
        HostRule.configured(host)
    if options.hosts:
        pinned_server(document, options)
        return
    server = WebUrl.parse(options.server) if options.server else document.server(base=options.base)
    raise BadDocument(
        f"its server is {server}; if requests may go there, add --host {server.place}"
    )


def _secrets(args: argparse.Namespace, document: ApiDocument) -> dict[str, str]:
    """Raises ConfigError."""
    known = {scheme.id: scheme for way in security_of(document, {}, every=True) for scheme in way}
    found: dict[str, str] = {}
    for text in args.secret:
        scheme, _, name = text.partition("=")
        if not name or scheme not in known or not known[scheme].kind:
            usable = ", ".join(one.id for one in known.values() if one.kind) or "none"
            raise ConfigError(
                f"--secret {text}: write SCHEME=NAME; the document's schemes are {usable}"
            )
        found[scheme] = name
    return found
