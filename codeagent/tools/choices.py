"""What was turned on and off of the toolsets, by the user, the settings or the model."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from codeagent.core.dataclass import dataclass
from codeagent.core.json_types import JsonObject, JsonValue
from codeagent.tools.available import Toolset


@dataclass(frozen=True)
class Choice:
    """A toolset that was turned on or off, or some of its tools."""

    toolset: str
    tools: tuple[str, ...] = ()
    """The tools; empty means all, including those that it gets later."""
    on: bool = True
    """False: they are turned off."""

    @property
    def details(self) -> JsonObject:
        """Return what the log keeps of the choice, for `Toolsets.restore`."""
        names: list[JsonValue] = [*self.tools]
        return {"toolset": self.toolset, "tools": names} | ({} if self.on else {"on": False})

    def covers(self, toolset: Toolset, source: str, tool: str) -> bool:
        """Whether it is about this tool; `toolset` is its own."""
        if toolset.source != source:
            return False
        if self.tools:
            return tool in self.tools
        return toolset.name == source or any(one.name == tool for one in toolset.tools)


class Choices:
    """Choices in the order in which they were made: of those about a tool, the latest holds."""

    def __init__(self, made: Iterable[Choice] = ()) -> None:
        self._made = list(made)

    def add(self, choice: Choice) -> None:
        self._made.append(choice)

    def restore(self, details: Mapping[str, JsonValue]) -> bool:
        """Add the choice with these `Choice.details`; return False if they are not those of
        a choice."""
        match details:
            case {"toolset": str(name), "tools": list(tools)}:
                names = tuple(tool for tool in tools if isinstance(tool, str))
                self.add(Choice(name, names, on=details.get("on") is not False))
                return True
            case _:
                return False

    def turned_on(self, toolset: str) -> bool:
        """Whether the toolset, or any of its tools, was ever turned on."""
        return any(one.on and one.toolset == toolset for one in self._made)

    def toolsets_on(self) -> tuple[str, ...]:
        """Return the names of the toolsets that were turned on, wholly or in part, and not wholly
        off since."""
        on: dict[str, None] = {}
        for choice in self._made:
            if choice.on:
                on[choice.toolset] = None
            elif not choice.tools:
                on.pop(choice.toolset, None)
        return tuple(on)

    def beyond(self, toolsets: Collection[str]) -> tuple[str, ...]:
        """Return the names of chosen toolsets that are not among these, each once."""
        names = dict.fromkeys(choice.toolset for choice in self._made)
        return tuple(name for name in names if name not in toolsets)

    def chosen(
        self, found: Mapping[str, Toolset], *, all_on: bool = False
    ) -> dict[tuple[str, str], None]:
        """Return source and name of each tool of a ready toolset that was turned on, in that order,
        even if it was turned off later.

        `all_on`: the other tools of all toolsets follow.
        """
        choices = [one for one in self._made if one.on]
        choices += map(Choice, found) if all_on else ()
        return dict.fromkeys(each for choice in choices for each in _covered(choice, found))

    def is_off(self, found: Mapping[str, Toolset], source: str, tool: str) -> bool:
        """Whether the latest choice about the tool turned it off."""
        if all(choice.on for choice in self._made):
            return False
        about = (
            choice
            for choice in reversed(self._made)
            if choice.toolset in found and choice.covers(found[choice.toolset], source, tool)
        )
        latest = next(about, None)
        return latest is not None and not latest.on


def _covered(choice: Choice, found: Mapping[str, Toolset]) -> Iterator[tuple[str, str]]:
    """Yield source and name of the tools that the choice turns on, if its toolset is ready."""
    toolset = found.get(choice.toolset)
    if toolset is None or toolset.state != "ready":
        return
    for tool in toolset.tools:
        if not choice.tools or tool.name in choice.tools:
            yield toolset.source, tool.name
