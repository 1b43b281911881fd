"""The files of the workspace that a call sends: finds them in its arguments, reads them, and tells
if they changed."""

import hashlib
import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from codeagent.core.paths import protected_part, secret_reason
from codeagent.core.ports import Workspace
from codeagent.core.tool import Denied, InvalidArgs
from codeagent.extensions.openapi.plan import BODY, Plan
from codeagent.extensions.openapi.writing import FilePart
from codeagent.net.web.client import LARGEST_REQUEST


def paths_in(plan: Plan, given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the paths of the files that the body of a call names."""
    body = given.get(BODY)
    if plan.body is None:
        return ()
    if plan.body.kind == "text":
        values = [body]
    else:
        values = (
            [body.get(name) for name in sorted(plan.body.files)] if isinstance(body, dict) else []
        )
    return tuple(path for value in values for path in _paths(value))


def read_files(
    plan: Plan, given: Mapping[str, Any], workspace: Workspace
) -> tuple[dict[str, Any], list[FilePart]]:
    """Return the arguments with the contents of the files that they name, and these files. Blocks.

    Raises ToolError, WorkspaceError.
    """
    files: list[FilePart] = []
    if plan.body is None or not paths_in(plan, given):
        return dict(given), files

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(one) for one in value]
        if _path_in(value) is None:
            return value
        extension = LARGEST_REQUEST - sum(len(one.content) for one in files)
        files.append(_read_file(value, workspace, extension))
        return files[-1]

    body, named = given[BODY], plan.body.files
    if plan.body.kind == "text":
        return {**given, BODY: filled(body)}, files
    return {
        **given,
        BODY: {name: filled(one) if name in named else one for name, one in body.items()},
    }, files


def digest_of(files: list[FilePart]) -> str | None:
    """Return SHA-256 (hex) over paths and contents, which an approval is bound to; None without
    files."""
    if not files:
        return None
    each = (f"{one.path}\0{hashlib.sha256(one.content).hexdigest()}\n" for one in files)
    return hashlib.sha256("".join(each).encode("utf-8", "surrogatepass")).hexdigest()


def _paths(value: Any) -> Iterator[str]:
    for one in value if isinstance(value, list) else [value]:
        if (path := _path_in(one)) is not None:
            yield path


def _path_in(value: Any) -> str | None:
    path = value.get("path") if isinstance(value, dict) else None
    return path if isinstance(path, str) else None


def _read_file(value: Mapping[str, Any], workspace: Workspace, extension: int) -> FilePart:
    """Read a file of at most `extension` bytes by its plain path, opened inside the workspace.
    Blocks.

    Rules and the user's answer are for this path, so no link may lead elsewhere. Raises ToolError,
    WorkspaceError.
    """
    given = str(value["path"])
    path = workspace.relative(given)
    if path != posixpath.normpath(given) or workspace.resolve(path, reading=False) != path:
        raise Denied(
            f"{given} is a link, or not relative to the workspace; give the file's own path. Nothing was sent"
        )
    if (reason := secret_reason(path)) is not None or protected_part(path) is not None:
        raise Denied(f"{reason or f'{path} is protected'}; nothing was sent")
    if "text" in value or "base64" in value:
        raise InvalidArgs("a file needs path, text or base64: give one of them")
    with workspace.open(path) as file:
        content = file.read(extension + 1)
    if len(content) > extension:
        raise InvalidArgs(
            f"the files are larger than {LARGEST_REQUEST >> 20} MiB; nothing was sent"
        )
    return FilePart(
        path,
        content,
        str(value.get("filename") or posixpath.basename(path)),
        str(value.get("type") or ""),
    )
