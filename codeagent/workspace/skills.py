"""The skills of a project and of a person: folders with a `SKILL.md`, read without leaving them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from codeagent.core.errors import MissingPath, OutsideWorkspace, WorkspaceError
from codeagent.core.paths import secret_reason
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import one_line, visible
from codeagent.core.skills import Skill, SkillText
from codeagent.core.toolbox import ToolProblem
from codeagent.workspace.files import LocalWorkspace
from codeagent.workspace.front_matter import BadHead, parse_head, split_head
from codeagent.workspace.hidden import HIDDEN, first_hidden

PROJECT_FOLDER = ".codeagent/skills"
FILE = "SKILL.md"
_LARGEST = 256 * 1024
_LONGEST_DESCRIPTION = 1024
_MOST_SKILLS = 200
_MOST_FILES = 50
_DEEPEST = 4


@dataclass(frozen=True)
class _Shelf:
    """One folder of skills."""

    files: Workspace
    below: str
    """The folder within `files`; `.` for its root."""
    place: Literal["user", "project"]

    def path(self, *parts: str) -> str:
        return "/".join(parts if self.below == "." else (self.below, *parts))

    def shown(self, path: str) -> str:
        return visible(path if self.place == "project" else str(self.files.root / path))


@dataclass(frozen=True)
class _Found:
    skill: Skill
    shelf: _Shelf
    folder: str
    """Its name in the shelf."""


class SkillFolders:
    """The `Skills` of one conversation; what is listed changes only in `refresh`.

    A skill is text, and text from a repository: it is listed as AGENTS.md is read, allows nothing, and a person's own
    stands above one of the same name. No link leads out of a folder of skills.
    """

    def __init__(self, project: Workspace, user: Workspace | None = None) -> None:
        """`user` is the person's folder of skills itself. Blocks; raises nothing: what is wrong is in `problems`."""
        self._shelves = [_Shelf(project, PROJECT_FOLDER, "project")]
        if user is not None:
            self._shelves.insert(0, _Shelf(user, ".", "user"))
        self._found: dict[str, _Found] = {}
        self._problems: tuple[ToolProblem, ...] = ()
        self.refresh()

    @property
    def listed(self) -> tuple[Skill, ...]:
        return tuple(found.skill for found in self._found.values())

    @property
    def problems(self) -> tuple[ToolProblem, ...]:
        """An error keeps its skill out; a warning does not."""
        return self._problems

    def refresh(self) -> bool:
        """Look again; True where what is listed, or what is wrong, is another than before. Blocks on small files."""
        before = self.listed, self._problems
        found: dict[str, _Found] = {}
        problems: list[ToolProblem] = []
        for shelf in self._shelves:
            here = sorted(_look_through(shelf, problems.append), key=lambda one: (one.skill.name, one.folder))
            for one in here:
                if (other := found.setdefault(one.skill.name, one)) is not one:
                    text = f"the name {one.skill.name} is taken by {other.skill.where}, which is used"
                    problems.append(ToolProblem(one.skill.where, text))
        self._found, self._problems = found, tuple(problems)
        return (self.listed, self._problems) != before

    def read(self, name: str, file: str | None = None) -> SkillText:
        found = self._found[name]
        shelf, folder = found.shelf, found.folder
        if file is not None:
            return SkillText(visible(_text(shelf, f"{folder}/{file}", f"{folder}/")))
        try:
            _, body = split_head(_text(shelf, f"{folder}/{FILE}", f"{folder}/"))
        except BadHead as bad:
            raise WorkspaceError(f"{found.skill.where}:{bad.line}: {bad}") from None
        files = islice(_files(shelf, folder, _DEEPEST), _MOST_FILES)
        inside = len(folder) + 1
        named = (shelf.path(path) if shelf.place == "project" else path[inside:] for path in files)
        return SkillText(visible(body), tuple(visible(path) for path in named))


def open_skills(project: Workspace, folder: Path | None) -> SkillFolders:
    """The skills of the workspace, and those in `folder` where there is one. Blocks; raises nothing."""
    try:
        user = LocalWorkspace(folder) if folder is not None and folder.is_dir() else None
    except (WorkspaceError, OSError):
        user = None
    return SkillFolders(project, user)


def _look_through(shelf: _Shelf, report: Callable[[ToolProblem], None]) -> Iterator[_Found]:
    try:
        folders = [entry.name for entry in shelf.files.entries(shelf.below) if entry.kind in ("directory", "link")]
    except MissingPath:
        return
    except WorkspaceError as error:
        report(ToolProblem(shelf.shown(shelf.below), f"{error}; none of its skills is used"))
        return
    visible_folders = [name for name in folders if not name.startswith(".")]
    if len(visible_folders) > _MOST_SKILLS:
        left = len(visible_folders) - _MOST_SKILLS
        report(ToolProblem(shelf.shown(shelf.below), f"{left} of its folders are left out: at most {_MOST_SKILLS}"))
    for folder in visible_folders[:_MOST_SKILLS]:
        where = shelf.shown(shelf.path(folder, FILE))
        try:
            raw = _text(shelf, f"{folder}/{FILE}", f"{folder}/")
            head_text, _ = split_head(raw)
            head = parse_head(head_text)
        except MissingPath:
            report(ToolProblem(where, "there is no such file, so the folder is no skill"))
        except WorkspaceError as error:
            report(ToolProblem(where, str(error)))
        except BadHead as bad:
            report(ToolProblem(f"{where}:{bad.line}", str(bad)))
        else:
            if (line := first_hidden(raw)) is not None:
                report(ToolProblem(f"{where}:{line}", HIDDEN, "warning"))
            description = one_line(head.description, _LONGEST_DESCRIPTION)
            yield _Found(Skill(head.name, description, shelf.place, where), shelf, folder)


def _text(shelf: _Shelf, path: str, inside: str) -> str:
    """A text file of the shelf; `inside` is the folder it may not lead out of. Raises WorkspaceError."""
    full, fence = shelf.path(path), shelf.path(inside)
    where = shelf.files.resolve(full)
    if not where.startswith(fence):
        raise OutsideWorkspace(f"{shelf.shown(full)} leads out of its folder; it is not read")
    if (reason := secret_reason(where)) is not None:
        raise WorkspaceError(f"{reason}; it is not read")
    with shelf.files.open(where) as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise WorkspaceError(f"{shelf.shown(full)} is longer than {_LARGEST >> 10} KiB; it is not read")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise WorkspaceError(f"{shelf.shown(full)}:{line}: not UTF-8 text") from None
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _files(shelf: _Shelf, folder: str, depth: int) -> Iterator[str]:
    """The files below a folder of the shelf, hidden ones and links left out."""
    try:
        entries = list(shelf.files.entries(shelf.path(folder)))
    except WorkspaceError:
        return
    for entry in entries:
        path = f"{folder}/{entry.name}"
        if entry.name.startswith(".") or entry.name == FILE:
            continue
        if entry.kind == "file":
            yield path
        elif entry.kind == "directory" and depth > 1:
            yield from _files(shelf, path, depth - 1)
