"""The one table of what a user can do with a key of the screen; bindings, the key sheet and the
check of a user's own keys use it."""

from codeagent.core.dataclass import dataclass
from codeagent.tui.keys.answering import ANSWERING
from codeagent.tui.keys.reading import READING
from codeagent.tui.keys.writing import WRITING


@dataclass(frozen=True)
class Scope:
    """Where on the screen the keys of some actions work."""

    heading: str
    writing: bool = False
    """The user types there: a key that types text cannot do anything else."""
    in_chat: bool = False
    """It is inside the chat screen, whose own keys work there as well."""


KEYS = (*WRITING, *ANSWERING, *READING)
"""Everything that a key does, but for the keys of extensions."""
SCOPES = {
    "chat": Scope("Anywhere", writing=True),
    "composer": Scope("Writing", writing=True, in_chat=True),
    "history": Scope("Searching what you sent", writing=True, in_chat=True),
    "card": Scope("Approval card: after Tab, or with Alt", in_chat=True),
    "boundary": Scope("A paused run: after Tab, or with Alt", in_chat=True),
    "plan": Scope("A plan that is ready: after Tab, or with Alt", in_chat=True),
    "summary": Scope("A summary to read: after Tab, or with Alt", in_chat=True),
    "find": Scope("Finding in the conversation"),
    "transcript": Scope("Conversation: after Tab in an empty line", in_chat=True),
    "picker": Scope("Lists", writing=True),
    "page": Scope("Pages and whole outputs"),
    "facts": Scope("Facts pages: /status, /context, /config and others"),
    "queue": Scope("Queued messages: /queue"),
    "hunks": Scope("Hunks: a change under review, and /diff"),
    "lines": Scope("Writing the lines of a hunk", writing=True),
    "rewind": Scope("Going back, if something would be lost"),
    "jobs": Scope("What runs in the background: /jobs"),
    "tools": Scope("Tools and tool files: /tools"),
    "permissions": Scope("Rules and decisions: /permissions"),
    "rule": Scope("Writing a rule", writing=True),
    "question": Scope("Questions before the start"),
}
"""Every scope of these keys, in the order of the key sheet."""
