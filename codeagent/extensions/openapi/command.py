"""`codeagent tools add openapi`, `tools remove`, and the check of a document: its operations, and
where requests go."""

import argparse
import asyncio
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.commands.arguments import add_cwd, read_named, say, settings_of
from codeagent.config.local_environment import LocalEnvironment
from codeagent.core.errors import ConfigError
from codeagent.core.hosts import HostRule
from codeagent.core.sanitize import one_line
from codeagent.core.tool import ToolError
from codeagent.disk.opens import read_regular
from codeagent.extensions.openapi.added import (
    LARGEST_DOCUMENT,
    DocumentFiles,
    DocumentRecord,
    IndexEntry,
)
from codeagent.extensions.openapi.bundling import joined
from codeagent.extensions.openapi.document import ApiDocument, Operation
from codeagent.extensions.openapi.plan import plan_of, security_of
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
from codeagent.tools.schema import problems_of

if TYPE_CHECKING:
    from codeagent.commands.ports import App

_LONGEST_NAME = 24
_MOST_WARNINGS = 10
_SECONDS = 120.0
_DOCUMENT = re.compile(rb"""^\s*\{?\s*["']?(?:openapi|swagger)["']?\s*:""", re.MULTILINE)
_BEGINNING = 64 << 10


def add_document_arguments(actions: Any) -> None:
    """Add `add` and `remove` to the actions of `codeagent tools`."""
    adding = actions.add_parser(
        "add", help="offer every operation of an OpenAPI document as a tool"
    )
    adding.add_argument(
        "kind", metavar="openapi", choices=("openapi",), help="the kind of document"
    )
    adding.add_argument(
        "document", metavar="DOCUMENT", help="an address or a file; - is standard input"
    )
    adding.add_argument("--name", metavar="NAME", help="its tools are called NAME__OPERATION")
    adding.add_argument(
        "--only",
        metavar="FILTER",
        action="append",
        default=[],
        help="tag:T, path:P, method:M or id:I, each with * and ?; repeatable",
    )
    adding.add_argument(
        "--host",
        metavar="HOST",
        action="append",
        default=[],
        help="where requests may go; the host of URL if left out",
    )
    adding.add_argument(
        "--server", metavar="URL", help="where requests go, instead of what the document says"
    )
    adding.add_argument(
        "--secret",
        metavar="SCHEME=NAME",
        action="append",
        default=[],
        help="the variable or kept key with the credentials of a security scheme",
    )
    adding.add_argument(
        "--private", action="store_true", help="the hosts may be at addresses that are not public"
    )
    adding.add_argument(
        "--project", action="store_true", help="keep it in this project, for everyone who trusts it"
    )
    removing = actions.add_parser(
        "remove", help="remove a document of yours, else of this project, and its tools"
    )
    removing.add_argument("name", metavar="NAME")
    add_cwd(adding, removing)


def document_files(local: LocalEnvironment) -> DocumentFiles:
    return DocumentFiles(local.own_folder, local.workspace, accept=local.trust_project)


async def add_document(args: argparse.Namespace, local: LocalEnvironment, app: "App") -> int:
    """Add a document. Raises ConfigError without changing anything."""
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
            name, hosts, base, args.server or "", tuple(args.only), _secrets(args, document)
        )
        _pinned(document, options)
        operations, problems = document.operations(longest_name(name))
        picked = chosen(operations, options.only)
    except (BadDocument, ValueError, OSError) as error:
        raise ConfigError(f"{args.document}: {error}; nothing was added") from error
    files = document_files(local)
    sets = await asyncio.to_thread(app.describe_tools, local, settings_of(args, local.workspace))
    if name in sets.toolsets.all() and not any(one.name == name for one in files.read()):
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


def remove_document(args: argparse.Namespace, local: LocalEnvironment) -> int:
    folder = document_files(local).remove(args.name)
    print(f"removed {args.name} from {folder}")
    return 0


def is_document(path: Path) -> bool:
    """Return whether a file looks like an OpenAPI document rather than a tool file. Blocks."""
    if path.suffix not in (".json", ".yaml", ".yml"):
        return False
    try:
        beginning = read_regular(path, follow=True, most=_BEGINNING)
    except OSError:
        return False
    return path.suffix == ".json" or _DOCUMENT.search(beginning) is not None


def check_document(path: Path, shown: str) -> int:
    """Print every problem; return 0 if the document could be added, 2 if not. Raises
    ConfigError."""
    try:
        document = ApiDocument(joined(read_text(read_named(path, shown, LARGEST_DOCUMENT)), path))
        operations, problems = document.operations()
    except BadDocument as error:
        say(f"{shown}: {error}")
        return 2
    for problem in (*problems, *_problems(document, operations)):
        say(f"{shown}: {problem}")
    for warning in _warnings(document):
        say(f"warning: {shown}: {warning}")
    try:
        server = f"requests go to {document.server()}"
    except BadDocument as error:
        server = str(error)
    print(
        f"{shown}: OpenAPI {one_line(document.version, 20)}, {about_of(document, len(operations))}; {server}"
    )
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


def _problems(document: ApiDocument, operations: tuple[Operation, ...]) -> Iterator[str]:
    """Yield why operations cannot be offered."""
    for one in operations:
        try:
            faults = problems_of(plan_of(document, one).schema)
        except BadDocument as error:
            faults = (str(error),)
        if faults:
            yield f"{one.method} {one_line(one.path, 200)}: {faults[0]}"


def _warnings(document: ApiDocument) -> Iterator[str]:
    """Yield the faults that a strict reader finds; the tools are still offered as far as
    possible."""
    from openapi_pydantic.v3 import v3_0, v3_1  # takes 0.2 s to import, and only a check is strict
    from pydantic import ValidationError

    try:
        (v3_0 if document.version.startswith("3.0") else v3_1).OpenAPI.model_validate(document.root)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        for one in found[:_MOST_WARNINGS]:
            yield f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}"
        if len(found) > _MOST_WARNINGS:
            yield f"{len(found) - _MOST_WARNINGS} more"
