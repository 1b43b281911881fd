"""What rules and people are asked about a path."""

from codeagent.core.errors import WorkspaceError
from codeagent.core.paths import host_reason, secret_reason
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace


def path_key(workspace: Workspace, path: str, *, reading: bool) -> ApprovalKey:
    """The path without detours, and where its links lead: an allowing rule must match both.

    Sensitive is a file of secrets, and for a change also one that runs outside the sandbox.
    """
    try:
        asked = workspace.relative(path)
    except WorkspaceError:
        return ApprovalKey(kind="path", parts=(path,), opaque=True)
    parts = tuple(dict.fromkeys((asked, workspace.key(path))))
    reasons = [
        reason for part in parts for reason in (not reading and host_reason(part), secret_reason(part)) if reason
    ]
    return ApprovalKey(kind="path", parts=parts, sensitive=next(iter(reasons), None))
