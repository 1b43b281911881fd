"""Skills: how-tos of a user or a project, listed by name and read when they are needed (FEATURES F27)."""

from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True)
class Skill:
    """One folder with a `SKILL.md`, as it is listed; hidden characters are escapes."""

    name: str
    """`[A-Za-z0-9][A-Za-z0-9_-]{0,63}`, unique."""
    description: str
    """One line: what it is about and when to use it."""
    place: Literal["user", "project"]
    where: str
    """Its SKILL.md as people write it: relative to the workspace, or absolute."""


@dataclass(frozen=True)
class SkillText:
    """What is read on demand."""

    text: str
    """Markdown without its front matter, or the text of one of the files; hidden characters are escapes."""
    files: tuple[str, ...] = ()
    """The other files: for a project's skill relative to the workspace, for a user's relative to its folder."""


class Skills(Protocol):
    """The skills there are; a user's come before a project's, each by name."""

    @property
    def listed(self) -> tuple[Skill, ...]: ...

    def read(self, name: str, file: str | None = None) -> SkillText:
        """The body of a skill, or a text file of a user's skill, as it is on disk now; blocks.

        Raises KeyError for an unknown skill, WorkspaceError where there is no such file, it leads elsewhere, or is
        no text.
        """


class NoSkills:
    """Where there are none."""

    @property
    def listed(self) -> tuple[Skill, ...]:
        return ()

    def read(self, name: str, file: str | None = None) -> SkillText:
        raise KeyError(name)
