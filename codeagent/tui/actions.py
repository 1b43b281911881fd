"""What a user can do with a key, a slash command, or both: the type of a row of the tables."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from codeagent.core.dataclass import dataclass
from codeagent.core.extension import CommandGroup


@dataclass(frozen=True)
class Action:
    """Something a user can do with a key, a slash command, or both: one row of the table."""

    id: str
    """`scope.name`, as in `keys.yaml` and in Textual's bindings; the name is also that of the slash
    command."""
    about: str
    """One line for a user, no full stop."""
    bound: str = ""
    """The default keys, as Textual spells them, with commas between."""
    does: str = ""
    """What it runs: an action of the class that binds it, or a `module:function`, whose module is
    one of `tui.pages` unless it has a dot. If empty, the action of the same name or, without keys,
    the function of that name in `pages.slash`."""
    on: str = ""
    """The class that binds it, if not every class of the scope does."""
    priority: bool = False
    """Its keys come before those of the focused widget."""
    approves: bool = False
    """It makes something run, so Enter or Space alone never triggers it."""
    while_writing: bool = False
    """It also works while the user types, although the scope is not one for typing."""
    group: CommandGroup | None = None
    """Its heading in /help; None if there is no slash command."""
    aliases: tuple[str, ...] = ()
    arguments: str = ""
    """What may follow the command, such as `[text]`."""
    inputs: tuple[tuple[str, str], ...] = ()
    """The inputs that may follow the command as `name=value`: name and description of each."""
    while_running: bool = True
    """The command can be used while the agent is working."""
    needs_conversation: bool = False
    """The command waits until there is a conversation."""
    same_as: str = ""
    """The command that does the same, if these keys mean more than one thing."""

    @property
    def scope(self) -> str:
        return self.id.partition(".")[0]

    @property
    def name(self) -> str:
        return self.id.partition(".")[2]

    @property
    def keys(self) -> tuple[str, ...]:
        """The default keys."""
        return tuple(self.bound.split(",")) if self.bound else ()

    @property
    def handler(self) -> str:
        """`does`, or the default for an empty one."""
        return self.does or (self.name if self.bound else f"slash:{self.name}")

    @property
    def pressed(self) -> str:
        """The Textual action that its keys run."""
        if ":" in self.handler:
            return f"command('{self.id}')"
        return self.handler


def with_same(rows: Iterable[Action], **fields: Any) -> tuple[Action, ...]:
    """Return the rows with these fields, in which all of them are the same."""
    return tuple(replace(row, **fields) for row in rows)
