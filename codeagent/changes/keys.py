"""What rules are matched against when files are read or changed."""

import posixpath
from collections.abc import Sequence

from codeagent.core.errors import WorkspaceError
from codeagent.core.paths import host_reason, in_git_layout, plain_name, secret_reason
from codeagent.core.policy import ApprovalKey, EquivalentCall
from codeagent.core.ports import Workspace


def path_key(workspace: Workspace, path: str, *, reading: bool) -> ApprovalKey:
    """The normalized path, and where its links lead: a rule that allows must match both.

    Files of secrets are sensitive; for a change also files that run outside the sandbox, or decide
    what git runs.
    """
    try:
        asked = workspace.relative(path)
    except WorkspaceError:
        return ApprovalKey(kind="path", parts=(path,), opaque=True)
    parts = tuple(dict.fromkeys((asked, workspace.key(path))))
    changing = () if reading else (lambda part: _git_reason(workspace, part), host_reason)
    reasons = [
        reason for why in (*changing, secret_reason) for part in parts if (reason := why(part))
    ]
    return ApprovalKey(kind="path", parts=parts, sensitive=next(iter(reasons), None))


def paths_key(workspace: Workspace, paths: Sequence[str]) -> ApprovalKey:
    """Return what rules are matched against: every path, as `edit` would be asked about it."""
    keys = [path_key(workspace, path, reading=False) for path in dict.fromkeys(paths)]
    parts = tuple(dict.fromkeys(part for key in keys for part in key.parts))
    sensitive = next((key.sensitive for key in keys if key.sensitive is not None), None)
    opaque = not keys or any(key.opaque for key in keys)
    whole = ApprovalKey(kind="path", parts=parts, opaque=opaque, sensitive=sensitive)
    return ApprovalKey("path", parts, opaque, sensitive, does=(EquivalentCall("edit", whole),))


def _git_reason(workspace: Workspace, path: str) -> str | None:
    """Return why a change of the file may make a folder a repository, or change what git runs in
    it; else None.

    Every repository has a HEAD: writing it, or a file beside one, needs approval, however
    incomplete the rest is.
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
