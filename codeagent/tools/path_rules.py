"""What rules and people are asked about a path."""

import posixpath

from codeagent.core.errors import WorkspaceError
from codeagent.core.paths import host_reason, in_git_layout, plain_name, secret_reason
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace


def path_key(workspace: Workspace, path: str, *, reading: bool) -> ApprovalKey:
    """The path without detours, and where its links lead: an allowing rule must match both.

    Sensitive is a file of secrets, and for a change also one that runs outside the sandbox, or decides what git runs.
    """
    try:
        asked = workspace.relative(path)
    except WorkspaceError:
        return ApprovalKey(kind="path", parts=(path,), opaque=True)
    parts = tuple(dict.fromkeys((asked, workspace.key(path))))
    changing = () if reading else (host_reason, lambda part: _git_reason(workspace, part))
    reasons = [reason for part in parts for why in (*changing, secret_reason) if (reason := why(part))]
    return ApprovalKey(kind="path", parts=parts, sensitive=next(iter(reasons), None))


def _git_reason(workspace: Workspace, path: str) -> str | None:
    """Why a change of the file may make a repository of a folder, or change what git runs in it; None where it cannot.

    No repository is without a HEAD: who writes that, or beside it, is asked about, whether or not all of it is there.
    """
    parts = path.split("/")
    for at, part in enumerate(parts):
        if not in_git_layout(part):
            continue
        folder = posixpath.join(*parts[:at]) if at else "."
        if (at == len(parts) - 1 and _is_head(part)) or _has_head(workspace, folder):
            return f"{path} makes a bare repository: a shell or an editor in its folder may run what it names"
    return None


def _has_head(workspace: Workspace, folder: str) -> bool:
    try:
        return any(_is_head(entry.name) for entry in workspace.entries(folder))
    except WorkspaceError:
        return False


def _is_head(name: str) -> bool:
    return plain_name(name) == "head"
