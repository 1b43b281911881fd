"""What rules and people are asked about a path."""

from codeagent.core.errors import WorkspaceError
from codeagent.core.paths import host_reason, secret_reason
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace


def path_key(workspace: Workspace, path: str, *, reading: bool) -> ApprovalKey:
    """The path without detours, and where its links lead: an allowing rule must match both."""
    try:
        asked = workspace.relative(path)
    except WorkspaceError:
        return ApprovalKey(kind="path", parts=(path,), opaque=True)
    parts = tuple(dict.fromkeys((asked, workspace.key(path))))
    reasons = [secret_reason(part) if reading else host_reason(part) for part in parts]
    return ApprovalKey(kind="path", parts=parts, sensitive=next((reason for reason in reasons if reason), None))
