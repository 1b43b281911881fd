"""Checks what a user writes on a card: a rule for a call, or new arguments."""

import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.dataclass import dataclass
from codeagent.core.display import DiffBlock, TerminalBlock
from codeagent.core.errors import ConfigError
from codeagent.core.policy import HOSTS, NETWORK, Rule
from codeagent.core.sanitize import one_line, visible
from codeagent.tui.parts.card_content import Check
from codeagent.tui.rendering.marked import odd_letters, unseen

_COMMANDS = "bash"
"""The tool whose calls may consist of a command only."""
_WITH_MESSAGE = ("git_commit", "open_pull_request")
"""The tools whose calls are edited as the message that they send."""
_AGAIN = ("you are asked again, about the edited call",)
SESSION = "for this session"
ALWAYS = "always, in this folder"
_FITS = "no questions for what it matches"
_LATER = "checked again when sent"
_SAID = 60
"""Characters of foreign text that a problem quotes."""
_WILD = re.compile(r"[*?./\s]*")
"""Patterns that match everything."""
_PLAIN = re.compile(r"[A-Za-z0-9_.+-]+(?: +[A-Za-z0-9_@%+=:,./-]+)*")
"""A command line with one simple command, which rules see exactly as it is written."""


@dataclass(frozen=True)
class CallEdit:
    """A call's arguments as text."""

    kind: Literal["command", "json", "message"]
    text: str
    others: Mapping[str, object] = field(default_factory=dict)
    """The arguments besides the message, which stay as they are."""

    @property
    def suffix(self) -> str:
        """The suffix of the editor's file."""
        return {"command": ".sh", "json": ".json", "message": ".md"}[self.kind]

    def arguments(self, text: str) -> str:
        """Return the edited text as JSON arguments. Raises ValueError, which says in a phrase what
        is wrong."""
        if self.kind != "json":
            if not text.strip():
                raise ValueError(f"the {self.kind} is empty")
            return json.dumps({**self.others, self.kind: text}, ensure_ascii=False)
        try:
            edited = json.loads(text, parse_constant=_refuse)
        except json.JSONDecodeError as error:
            raise ValueError(
                f"not JSON: {error.msg} on line {error.lineno}, column {error.colno}"
            ) from error
        except RecursionError as error:
            raise ValueError("not readable as JSON: nested too deeply") from error
        if not isinstance(edited, dict):
            raise ValueError("not a JSON object of arguments")
        return json.dumps(edited, ensure_ascii=False)

    def check(self, text: str) -> Check:
        """Check the text while it is being typed."""
        try:
            self.arguments(text)
        except ValueError as error:
            return Check(str(error))
        return Check("nothing was changed yet") if text == self.text else Check("", _AGAIN)


def call_edit(name: str, arguments: str) -> CallEdit | None:
    """Return the editable form of a call; None if it cannot be edited. `arguments` are JSON."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    if not isinstance(given, dict):
        return None
    command = given.get("command")
    if name == _COMMANDS and set(given) == {"command"} and isinstance(command, str):
        return CallEdit("command", command)
    message = given.get("message")
    if name in _WITH_MESSAGE and isinstance(message, str) and not unseen(message.replace("\n", "")):
        return CallEdit("message", message, given)
    return CallEdit("json", _indented(given))


def fits_line(text: str) -> bool:
    """Whether a text line can show all of the text and return it unchanged."""
    return "\n" not in text and "\t" not in text and visible(text) == text and not unseen(text)


def _indented(given: object) -> str:
    """Return indented JSON in which invisible characters are escaped."""
    text = json.dumps(given, indent=2, ensure_ascii=False)
    return re.sub(
        r"[^\x20-\x7e\n]",
        lambda found: found[0] if not unseen(found[0]) else json.dumps(found[0])[1:-1],
        text,
    )


def _refuse(constant: str) -> object:
    raise ValueError(f"not JSON: {constant} is not a JSON number")


def check_rule(text: str, waiting: ApprovalRequested, *, keep: bool) -> Check:
    """Check a rule for the question; the policy checks it again, as only it knows all parts of the
    call.

    `keep`: it will also hold in later sessions.
    """
    if not text.strip():
        return Check("write what to allow, such as bash(git status*)")
    if hidden := unseen(text):
        return Check(f"it contains invisible characters, {', '.join(hidden)}: remove them")
    try:
        rule = Rule.parse(text, "auto", "session")
    except ConfigError as error:
        return Check(one_line(str(error), 2 * _SAID))
    if rule.tool != waiting.name:
        return Check(
            f"it must be about {one_line(waiting.name, _SAID)}, not {one_line(rule.tool, _SAID)}"
        )
    if rule.pattern is None:
        return Check(f"a rule cannot allow every call of a tool: say which, {rule.tool}(…)")
    if _WILD.fullmatch(rule.pattern):
        return Check("that would allow everything: name a command, or the start of a path")
    odd = odd_letters(text)
    parts, kind = _parts(waiting)
    fitting = [
        part
        for part in parts
        if (rule.reaches(part) if kind == "host" else rule.matches(part, kind))
    ]
    if parts and not fitting:
        return Check(f"it does not match this call: {one_line(parts[0], _SAID)}", odd=odd)
    sure = bool(parts) and len(fitting) == len(parts)
    says = (ALWAYS if keep else SESSION, _FITS, *(() if sure else (_LATER,)))
    return Check("", says, odd)


def _parts(waiting: ApprovalRequested) -> tuple[tuple[str, ...], str]:
    """Return the parts of the call that rules are certain to see, and their kind; empty if only the
    policy knows."""
    if waiting.name == HOSTS:
        return tuple(waiting.target.split(", ")), "host"
    paths = [block.path for block in waiting.blocks if isinstance(block, DiffBlock)]
    if paths and all(path.isascii() and path.isprintable() and "\\" not in path for path in paths):
        return tuple(paths), "path"
    commands = [block.command for block in waiting.blocks if isinstance(block, TerminalBlock)]
    if waiting.name == "bash" and len(commands) == 1 and _PLAIN.fullmatch(commands[0].strip(" ")):
        network = NETWORK if waiting.target.startswith(NETWORK) else ""
        return (network + " ".join(commands[0].split()),), "command"
    return (), "text"
