"""Text that the project or the user wrote for the model: AGENTS.md, and skills, read without
leaving their folders."""

import asyncio
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import MissingPath, OutsideWorkspace, WorkspaceError
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.memory import Skill, SkillText
from codeagent.core.paths import secret_reason
from codeagent.core.ports import Workspace
from codeagent.core.sanitize import one_line, spelled, visible
from codeagent.core.toolbox import ToolProblem
from codeagent.disk.opens import may_exist
from codeagent.workspace.files import LocalWorkspace

_HIDDEN = "invisible characters; the model gets them as escapes"
INSTRUCTIONS = "AGENTS.md"
_LARGEST_INSTRUCTIONS = 32_768
PROJECT_FOLDER = ".codeagent/skills"
FILE = "SKILL.md"
_LARGEST = 256 * 1024
_LONGEST_DESCRIPTION = 1024
_MOST_SKILLS = 200
_MOST_FILES = 50
_DEEPEST = 4
_NAME = lazy_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_LONGEST = 16 * 1024
"""Characters of a front matter."""
_MARK = lazy_regex(r"^---[ \t]*$", re.MULTILINE)


def _first_hidden(text: str) -> int | None:
    """Return the first line (from 1) with a control or invisible character; None if there is
    none."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    return next(
        (number for number, line in enumerate(lines, start=1) if visible(line) != line), None
    )


@dataclass(frozen=True)
class Instructions:
    text: str = ""
    """At most 32 KiB of AGENTS.md, hidden characters as escapes; empty if there is none that may be
    read."""
    problems: tuple[ToolProblem, ...] = ()
    """A warning for the user: about hidden characters, or why it is not read."""


def load_instructions(workspace: Workspace) -> Instructions:
    try:
        with workspace.open(INSTRUCTIONS) as file:
            data = file.read(_LARGEST_INSTRUCTIONS + 1)
    except MissingPath:
        return Instructions()
    except WorkspaceError as error:
        text = f"it is not read, and the model gets no instructions: {error}"
        return Instructions(problems=(ToolProblem(INSTRUCTIONS, text, "warning"),))
    raw = data[:_LARGEST_INSTRUCTIONS].decode("utf-8", "replace").removeprefix("\ufeff")
    more = (
        f"\n[{INSTRUCTIONS} is longer; read it for the rest]"
        if len(data) > _LARGEST_INSTRUCTIONS
        else ""
    )
    hidden = _first_hidden(raw)
    problems = (
        () if hidden is None else (ToolProblem(f"{INSTRUCTIONS}:{hidden}", _HIDDEN, "warning"),)
    )
    return Instructions(visible(raw) + more, problems)


@dataclass(frozen=True)
class _SkillSource:
    """One folder of skills, the user's or the project's."""

    files: Workspace
    below: str
    """The path of the folder within `files`; `.` for its root."""
    place: Literal["user", "project"]

    def path(self, *parts: str) -> str:
        return "/".join(parts if self.below == "." else (self.below, *parts))

    @property
    def may_exist(self) -> bool:
        return may_exist(self.files.root / self.below)

    def shown(self, path: str) -> str:
        return visible(path if self.place == "project" else str(self.files.root / path))


@dataclass(frozen=True)
class _Found:
    skill: Skill
    source: _SkillSource
    folder: str
    """Name of the skill's folder in the source."""


class SkillFolders:
    """The `Skills` of one conversation; the list changes only in `refresh`.

    A skill is text that may come from a repository: it is treated like AGENTS.md, allows nothing,
    and a skill of the user's own takes precedence over one of the same name. No link leads out of a
    folder of skills.
    """

    def __init__(self, project: Workspace, user: Workspace | None = None) -> None:
        """`user` is the user's own folder of skills. Blocks; raises nothing: what is wrong is in
        `problems`."""
        self._sources = [_SkillSource(project, PROJECT_FOLDER, "project")]
        if user is not None:
            self._sources.insert(0, _SkillSource(user, ".", "user"))
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

    async def look(self) -> bool:
        """The same as `refresh`, in a thread; most often there is nothing to read, and no thread is
        needed."""
        if (
            not self._found
            and not self._problems
            and not any(source.may_exist for source in self._sources)
        ):
            return False
        return await asyncio.to_thread(self.refresh)

    def refresh(self) -> bool:
        """Read the folders again; True if the list or the problems have changed. Blocks on small
        files."""
        before = self.listed, self._problems
        found: dict[str, _Found] = {}
        problems: list[ToolProblem] = []
        for source in self._sources:
            here = sorted(
                _look_through(source, problems.append), key=lambda one: (one.skill.name, one.folder)
            )
            for one in here:
                if (other := found.setdefault(one.skill.name, one)) is not one:
                    text = (
                        f"the name {one.skill.name} is taken by {other.skill.where}, which is used"
                    )
                    problems.append(ToolProblem(one.skill.where, text))
        self._found = found
        self._problems = tuple(problems)
        return (self.listed, self._problems) != before

    def read(self, name: str, file: str | None = None) -> SkillText:
        found = self._found[name]
        source = found.source
        folder = found.folder
        if file is not None:
            return SkillText(visible(_text(source, f"{folder}/{file}", f"{folder}/")))
        try:
            _, body = _split_front_matter(_text(source, f"{folder}/{FILE}", f"{folder}/"))
        except _BadFrontMatter as bad:
            raise WorkspaceError(f"{found.skill.where}:{bad.line}: {bad}") from None
        files = islice(_files(source, folder, _DEEPEST), _MOST_FILES)
        inside = len(folder) + 1
        named = (
            source.path(path) if source.place == "project" else path[inside:] for path in files
        )
        return SkillText(visible(body), tuple(map(spelled, named)))


def open_skills(project: Workspace, folder: Path | None) -> SkillFolders:
    """Open the skills of the workspace, and those in `folder` if it exists. Blocks; raises
    nothing."""
    try:
        user = LocalWorkspace(folder) if folder is not None and folder.is_dir() else None
    except (WorkspaceError, OSError):
        user = None
    return SkillFolders(project, user)


def _look_through(source: _SkillSource, report: Callable[[ToolProblem], None]) -> Iterator[_Found]:
    try:
        folders = [
            entry.name
            for entry in source.files.entries(source.below)
            if entry.kind in ("directory", "link")
        ]
    except MissingPath:
        return
    except WorkspaceError as error:
        report(ToolProblem(source.shown(source.below), f"{error}; none of its skills is used"))
        return
    visible_folders = [name for name in folders if not name.startswith(".")]
    if len(visible_folders) > _MOST_SKILLS:
        left = len(visible_folders) - _MOST_SKILLS
        report(
            ToolProblem(
                source.shown(source.below),
                f"{left} of its folders are left out: at most {_MOST_SKILLS}",
            )
        )
    for folder in visible_folders[:_MOST_SKILLS]:
        where = source.shown(source.path(folder, FILE))
        try:
            raw = _text(source, f"{folder}/{FILE}", f"{folder}/")
            head_text, _ = _split_front_matter(raw)
            name, about = _parse_front_matter(head_text)
        except MissingPath:
            report(ToolProblem(where, "the file is missing, so the folder is not a skill"))
        except WorkspaceError as error:
            report(ToolProblem(where, str(error)))
        except _BadFrontMatter as bad:
            report(ToolProblem(f"{where}:{bad.line}", str(bad)))
        else:
            if (line := _first_hidden(raw)) is not None:
                report(ToolProblem(f"{where}:{line}", _HIDDEN, "warning"))
            description = one_line(about, _LONGEST_DESCRIPTION)
            yield _Found(Skill(name, description, source.place, where), source, folder)


def _text(source: _SkillSource, path: str, inside: str) -> str:
    """Read a text file of the source; `inside` is the folder it may not lead out of. Raises
    WorkspaceError."""
    full = source.path(path)
    fence = source.path(inside)
    where = source.files.resolve(full, reading=False)
    if not where.startswith(fence):
        raise OutsideWorkspace(f"{source.shown(full)} leads out of its folder; it is not read")
    if (reason := secret_reason(where)) is not None:
        raise WorkspaceError(f"{reason}; it is not read")
    with source.files.open(where) as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise WorkspaceError(
            f"{source.shown(full)} is longer than {_LARGEST >> 10} KiB; it is not read"
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise WorkspaceError(f"{source.shown(full)}:{line}: not UTF-8 text") from None
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _files(source: _SkillSource, folder: str, depth: int) -> Iterator[str]:
    """List the files below a folder of the source, without hidden ones and links."""
    try:
        entries = list(source.files.entries(source.path(folder)))
    except WorkspaceError:
        return
    for entry in entries:
        path = f"{folder}/{entry.name}"
        if entry.name.startswith(".") or entry.name == FILE:
            continue
        if entry.kind == "file":
            yield path
        elif entry.kind == "directory" and depth > 1:
            yield from _files(source, path, depth - 1)


class _BadFrontMatter(Exception):
    """The front matter of a skill is not as it must be; `line` counts from 1 in the file."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


def _split_front_matter(text: str) -> tuple[str, str]:
    """Return the YAML between the two `---` lines, and the Markdown after them. Raises
    _BadFrontMatter."""
    opening = _MARK.match(text)
    if opening is None:
        raise _BadFrontMatter(
            1, "it must begin with a line of ---, then name: and description:, then --- again"
        )
    closing = _MARK.search(text, opening.end(), opening.end() + _LONGEST)
    if closing is None:
        raise _BadFrontMatter(1, "the front matter is not closed by a line of ---")
    return text[opening.end() + 1 : closing.start()], text[closing.end() :].lstrip("\n")


def _parse_front_matter(text: str) -> tuple[str, str]:
    """Return name and description; other keys belong to other programs. Raises _BadFrontMatter."""
    from codeagent.core.yaml_text import Unreadable, nodes  # most workspaces have no skill

    try:
        found_nodes = nodes(text)
    except Unreadable as problem:
        said = str(problem).removeprefix("it is not YAML: ")
        raise _BadFrontMatter(
            problem.line + 1, f"the front matter is not YAML: {said}"
        ) from problem
    if len(found_nodes) != 1 or found_nodes[0].id != "mapping":
        raise _BadFrontMatter(2, "the front matter must be lines of the form key: value")
    root: Any = found_nodes[0]
    found: dict[str, tuple[str, int]] = {}
    for key, value in root.value:
        if key.id == "scalar" and key.value in ("name", "description"):
            found[key.value] = _value(key.value, value, known=key.value in found)
    for key in ("name", "description"):
        if key not in found:
            raise _BadFrontMatter(2, f"the front matter has no {key}")
    name, line = found["name"]
    if _NAME.fullmatch(name) is None:
        raise _BadFrontMatter(
            line, "name: use 1 to 64 letters, digits, _ or -, beginning with a letter or digit"
        )
    return name, found["description"][0]


def _value(key: str, value: Any, *, known: bool) -> tuple[str, int]:
    line = value.start_mark.line + 2
    if known:
        raise _BadFrontMatter(line, f"{key} occurs twice")
    if value.id != "scalar" or not value.value.strip():
        raise _BadFrontMatter(line, f"{key} must be a text")
    return value.value.strip(), line
