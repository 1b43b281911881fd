"""`codeagent tools remove`, and what other actions of `codeagent tools` do about documents: their
trust, and the check of one, its operations and where requests go."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from codeagent.commands.arguments import add_cwd, read_named, say, workspace_of
from codeagent.config.local_environment import LocalEnvironment
from codeagent.core.sanitize import one_line
from codeagent.disk.opens import read_regular
from codeagent.extensions.openapi.added import LARGEST_DOCUMENT, DocumentFiles
from codeagent.extensions.openapi.bundling import joined
from codeagent.extensions.openapi.document import ApiDocument, Operation
from codeagent.extensions.openapi.plan import plan_of
from codeagent.extensions.openapi.reading import BadDocument, read_text
from codeagent.extensions.openapi.source import about_of
from codeagent.tools.schema_check import problems_of

_MOST_WARNINGS = 10
_DOCUMENT = re.compile(rb"""^\s*\{?\s*["']?(?:openapi|swagger)["']?\s*:""", re.MULTILINE)
_BEGINNING = 64 << 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    add_cwd(parser)


def document_files(local: LocalEnvironment) -> DocumentFiles:
    return DocumentFiles(local.own_folder, local.workspace, accept=local.trust_project)


def main(args: argparse.Namespace, app: object) -> int:
    local = LocalEnvironment.of_user(workspace_of(args.cwd))
    folder = document_files(local).remove(args.name)
    print(f"removed {args.name} from {folder}")
    return 0


def _is_document(path: Path) -> bool:
    """Return whether a file looks like an OpenAPI document rather than a tool file. Blocks."""
    if path.suffix not in (".json", ".yaml", ".yml"):
        return False
    try:
        beginning = read_regular(path, follow=True, most=_BEGINNING)
    except OSError:
        return False
    return path.suffix == ".json" or _DOCUMENT.search(beginning) is not None


def check_if_document(path: Path, shown: str) -> int | None:
    """Print every problem; return 0 if the document could be added, 2 if not, None for a file that
    does not look like one. Raises ConfigError."""
    if not _is_document(path):
        return None
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
