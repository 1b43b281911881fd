"""Whether a rule that a person writes on the card can be given: checked while it is typed, in words."""

import re

from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.display import DiffBlock, TerminalBlock
from codeagent.core.errors import ConfigError
from codeagent.core.policy import NETWORK, Rule
from codeagent.core.sanitize import one_line
from codeagent.tui.rendering.marked import odd_letters, unseen
from codeagent.tui.widgets.card_check import Check

SESSION = "for this session"
ALWAYS = "always, in this folder"
_FITS = "no questions for what it matches"
_LATER = "checked again when sent"
_SAID = 60
"""Characters of anybody's text in a problem."""
_WILD = re.compile(r"[*?./\s]*")
"""A pattern that names nothing."""
_PLAIN = re.compile(r"[A-Za-z0-9_.+-]+(?: +[A-Za-z0-9_@%+=:,./-]+)*")
"""A command line of one simple command, of which rules see exactly what is written."""


def check_rule(text: str, waiting: ApprovalRequested, *, keep: bool) -> Check:
    """Judge a rule for the question; the engine judges it again, for it alone knows all parts of the call.

    `keep`: it shall hold in later sessions, too.
    """
    if not text.strip():
        return Check("write what shall be allowed, as in bash(git status*)")
    if hidden := unseen(text):
        return Check(f"it holds what cannot be seen, {', '.join(hidden)}: take it out")
    try:
        rule = Rule.parse(text, "auto", "session")
    except ConfigError as error:
        return Check(one_line(str(error), 2 * _SAID))
    if rule.tool != waiting.name:
        return Check(f"it must be about {one_line(waiting.name, _SAID)}, not {one_line(rule.tool, _SAID)}")
    if rule.pattern is None:
        return Check(f"never all of a tool: say which, {rule.tool}(…)")
    if _WILD.fullmatch(rule.pattern):
        return Check("that would allow everything: name the command or the path it begins with")
    odd = odd_letters(text)
    parts, kind = _parts(waiting)
    fitting = [part for part in parts if rule.matches(part, kind)]
    if parts and not fitting:
        return Check(f"it does not fit this call: {one_line(parts[0], _SAID)}", odd=odd)
    sure = bool(parts) and len(fitting) == len(parts)
    says = (ALWAYS if keep else SESSION, _FITS, *(() if sure else (_LATER,)))
    return Check("", says, odd)


def _parts(waiting: ApprovalRequested) -> tuple[tuple[str, ...], str]:
    """What of the call rules are surely matched against, and its kind; nothing where only the engine knows."""
    paths = [block.path for block in waiting.blocks if isinstance(block, DiffBlock)]
    if paths and all(path.isascii() and path.isprintable() for path in paths):
        return tuple(paths), "path"
    commands = [block.command for block in waiting.blocks if isinstance(block, TerminalBlock)]
    if waiting.name == "bash" and len(commands) == 1 and _PLAIN.fullmatch(commands[0].strip(" ")):
        network = NETWORK if waiting.target.startswith(NETWORK) else ""
        return (network + " ".join(commands[0].split()),), "command"
    return (), "text"
