"""The arguments of a call as a user edits them: a command as it is, anything else as JSON."""

import json
import re
from dataclasses import dataclass
from typing import Literal

from codeagent.core.sanitize import visible
from codeagent.tui.parts.card_line import Check
from codeagent.tui.rendering.marked import unseen

_COMMANDS = "bash"
"""The tool whose call may be nothing but a command."""
_AGAIN = ("you are asked again, about the call as you leave it",)


@dataclass(frozen=True)
class CallEdit:
    """A call's arguments as text."""

    kind: Literal["command", "json"]
    text: str

    @property
    def in_line(self) -> bool:
        """One line can show all of it; otherwise it is edited in the user's editor."""
        return self.kind == "command" and fits_line(self.text)

    @property
    def suffix(self) -> str:
        """Of the file the editor gets."""
        return ".sh" if self.kind == "command" else ".json"

    def arguments(self, text: str) -> str:
        """The edited text as JSON of the arguments. Raises ValueError, which says in a phrase what is wrong."""
        if self.kind == "command":
            if not text.strip():
                raise ValueError("the command is empty")
            return json.dumps({"command": text}, ensure_ascii=False)
        try:
            edited = json.loads(text, parse_constant=_refuse)
        except json.JSONDecodeError as error:
            raise ValueError(f"not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from error
        except RecursionError as error:
            raise ValueError("not readable as JSON: nested too deeply") from error
        if not isinstance(edited, dict):
            raise ValueError("not a JSON object of arguments")
        return json.dumps(edited, ensure_ascii=False)

    def check(self, text: str) -> Check:
        """What is thought of the text while it is written."""
        try:
            self.arguments(text)
        except ValueError as error:
            return Check(str(error))
        return Check("nothing is changed yet") if text == self.text else Check("", _AGAIN)


def call_edit(name: str, arguments: str) -> CallEdit | None:
    """How the call of that tool is edited; None where it cannot be. `arguments` are JSON."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    if not isinstance(given, dict):
        return None
    command = given.get("command")
    if name == _COMMANDS and set(given) == {"command"} and isinstance(command, str):
        return CallEdit("command", command)
    return CallEdit("json", _indented(given))


def fits_line(text: str) -> bool:
    """A line to write in shows all of the text, and gives it back as it was."""
    return "\n" not in text and "\t" not in text and visible(text) == text and not unseen(text)


def _indented(given: object) -> str:
    """What is not seen is written as its number, which JSON reads back."""
    text = json.dumps(given, indent=2, ensure_ascii=False)
    return re.sub(
        r"[^\x20-\x7e\n]", lambda found: found[0] if not unseen(found[0]) else json.dumps(found[0])[1:-1], text
    )


def _refuse(constant: str) -> object:
    raise ValueError(f"not JSON: {constant} is not a JSON number")
