"""Allow lists of tools: what is not listed is neither sent to the model nor run."""

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.lazy_regex import lazy_regex

_PATTERN = lazy_regex(r"[A-Za-z0-9_*?-]{1,128}")


@dataclass(frozen=True)
class AllowList:
    """Lists of tool names and of patterns such as `mcp__github__*`: a tool must be in each; without
    a list, all may.

    Each list comes from one place: the command line or the user's file, the project, a recipe, an
    agent. A place can only take away from what the others allow.
    """

    lists: tuple[tuple[str, ...], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lists)

    def allows(self, name: str) -> bool:
        return all(any(fnmatchcase(name, pattern) for pattern in one) for one in self.lists)

    def narrowed(self, names: Iterable[str] | None) -> "AllowList":
        """Return this list narrowed by another one; None changes nothing. Raises ConfigError for an
        impossible name."""
        return self if names is None else AllowList((*self.lists, checked_names(names)))

    def unknown(self, names: Collection[str]) -> tuple[str, ...]:
        """Return the names and patterns that match none of these tools."""
        every = dict.fromkeys(pattern for one in self.lists for pattern in one)
        return tuple(
            pattern for pattern in every if not any(fnmatchcase(name, pattern) for name in names)
        )


def checked_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names and patterns without repetitions. Raises ConfigError for an impossible
    name."""
    every = tuple(dict.fromkeys(names))
    if (
        wrong := next((name for name in every if _PATTERN.fullmatch(name) is None), None)
    ) is not None:
        raise ConfigError(
            f"{wrong[:100]!r} is not a tool's name; * and ? may stand for parts of one"
        )
    return every


def split_names(text: str) -> tuple[str, ...]:
    """Split a list such as `read, bash`. Raises ConfigError for an impossible name."""
    return checked_names(filter(None, map(str.strip, text.split(","))))
