"""What a tool must not go beyond, whatever its arguments say (FEATURES F14)."""

from dataclasses import dataclass
from typing import Literal

from codeagent.core.errors import WorkspaceError
from codeagent.core.hosts import HostRule
from codeagent.core.policy import ApprovalKey, Rule
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import one_line
from codeagent.core.tool import Denied

AccessWord = Literal["read", "write"]


@dataclass(frozen=True)
class Restrictions:
    """Each is None where it is not restricted. Globs and beginnings are read as rules read theirs."""

    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None
    commands: tuple[str, ...] | None = None
    """Beginnings of commands by whole words, as `git log`."""

    def told(self, hosts: tuple[str, ...] = ()) -> dict[str, tuple[str, ...]]:
        """Those there are, for people: `Tool.restricted`."""
        found = {"paths.read": self.read, "paths.write": self.write, "commands": self.commands, "hosts": hosts or None}
        return {name: values for name, values in found.items() if values is not None}

    def check_path(self, workspace: Workspace, name: str, path: str, access: AccessWord | None) -> None:
        """The path as it is written and where its links lead must both fit. Raises Denied.

        `access` None: every list that there is holds.
        """
        try:
            places = dict.fromkeys((workspace.relative(path), workspace.resolve(path)))
        except WorkspaceError as error:
            raise Denied(f"argument '{name}': {error}") from None
        lists = {"read": self.read, "write": self.write}
        for word, globs in lists.items():
            if globs is None or access not in (None, word):
                continue
            for place in places:
                if not any(Rule("auto", "x", glob).matches(place, "path") for glob in globs):
                    led = "" if place == path else f" (which is {one_line(place, 200)})"
                    only = f"this tool may {word} only {', '.join(globs)}"
                    raise Denied(f"argument '{name}' is {one_line(path, 200)!r}{led}; {only}")

    def check_commands(self, key: ApprovalKey, *, complete: bool) -> None:
        """Every command of the line begins as one of those allowed. Raises Denied.

        `complete`: it is refused also where the line may run more than can be seen.
        """
        if self.commands is None:
            return
        allowed = ", ".join(self.commands)
        if complete and key.opaque:
            raise Denied(f"it cannot be seen what all of the line runs; this tool may run only {allowed}")
        for part in key.parts:
            if not any(Rule("auto", "x", f"{begins} *").matches(part, "command") for begins in self.commands):
                raise Denied(f"{one_line(part, 200)!r} is not among what this tool may run: {allowed}")


def hosts_beyond(wanted: tuple[str, ...], allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `wanted` that are not all within `allowed`. Raises ValueError for what is no host."""
    rules = [HostRule.parse(text) for text in allowed]
    return tuple(text for text in wanted if not any(rule.covers(HostRule.parse(text)) for rule in rules))
