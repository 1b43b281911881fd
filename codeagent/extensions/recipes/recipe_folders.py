"""The recipes of a conversation: the user's own and, once they are trusted, the project's."""

import hashlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from codeagent.config.kept import TrustFile
from codeagent.config.local_environment import LocalEnvironment
from codeagent.core.errors import ConfigError
from codeagent.core.recipes import Recipe
from codeagent.core.toolbox import ToolProblem, TrustRecord
from codeagent.tools.folders import FolderState, ToolFile, ToolFolder
from codeagent.workspace.files import LocalWorkspace

_SUFFIXES = (".md", ".yaml", ".yml")
SHIPPED = "codeagent's own"
"""The origin of a recipe that ships; one of the user or the project replaces it."""


def recipe_folders(root: Path, own: Path | None) -> tuple[ToolFolder, ...]:
    """Return the folders of recipes: the user's own, if there is one, then the project's."""
    project = [
        ToolFolder(root, (".codeagent", "commands"), "project", _SUFFIXES),
        ToolFolder(root, (".claude", "commands"), "project", (".md",)),
    ]
    return (
        *(() if own is None else (ToolFolder(own / "commands", (), "user", _SUFFIXES),)),
        *project,
    )


def read_recipes(local: LocalEnvironment, shipped: Sequence[Path] = ()) -> "RecipeFolders":
    """Read the user's and the project's recipes, then those of the folders that ship. Blocks on
    small files; raises ConfigError."""
    with closing(LocalWorkspace(local.workspace)) as workspace:
        root = workspace.root
    trust = (
        None
        if local.config_dir is None
        else TrustFile(local.config_dir, root, Path.home(), "recipes.jsonl")
    )
    folders = recipe_folders(root, local.own_folder)
    own = [ToolFolder(folder, (), "user", _SUFFIXES) for folder in shipped]
    return RecipeFolders(folders, trust, accept=local.trust_project, root=str(root), shipped=own)


class RecipeFolders:
    """A `core.recipes.Recipes` over folders of files, which are read again only if they changed.

    The first recipe of a name keeps it: the user's own come before the project's, and those that
    ship come last.
    """

    def __init__(
        self,
        folders: Sequence[ToolFolder],
        trust: TrustRecord | None,
        *,
        accept: bool = False,
        root: str = "",
        shipped: Sequence[ToolFolder] = (),
    ) -> None:
        """If `trust` is None, a project is never trusted. `accept`: its recipes are trusted as they
        are first read, only in this conversation. `root` is the workspace, for inputs that are
        paths. Blocks on small files; never raises: errors are in `problems`."""
        self._root = root
        self._folders = tuple(folders)
        self._trust = trust
        self._shipped = tuple(shipped)
        self._accept = accept
        self._accepted = ""
        self._states: tuple[FolderState, ...] = ()
        self._listed: tuple[Recipe, ...] = ()
        self._problems: tuple[ToolProblem, ...] = ()
        self._untrusted: tuple[str, ...] = ()
        self.refresh()

    @property
    def listed(self) -> tuple[Recipe, ...]:
        return self._listed

    @property
    def problems(self) -> tuple[ToolProblem, ...]:
        return self._problems

    @property
    def untrusted(self) -> tuple[str, ...]:
        return self._untrusted

    def refresh(self) -> bool:
        """Read the folders again; True if anything changed. Blocks on small files; never raises."""
        before = self._listed, self._problems, self._untrusted
        self._states = tuple(folder.read() for folder in self._folders)
        problems = [problem for state in self._states for problem in state.problems]
        trusted = self._is_trusted(problems)
        found: dict[str, Recipe] = {}
        for file in (file for state in self._states for file in state.files):
            self._take(file, found, problems, trusted=trusted)
        for file in (file for folder in self._shipped for file in folder.read().files):
            self._take(replace(file, shown=SHIPPED), found, problems, trusted=True)
        self._listed = tuple(found.values())
        self._problems = tuple(problems)
        self._untrusted = () if trusted else tuple(file.shown for file in self._of_project)
        return (self._listed, self._problems, self._untrusted) != before

    def trust(self) -> None:
        if self._trust is None:
            raise ConfigError("trust cannot be stored here, so nothing of the project runs")
        if self._of_project:
            self._trust.trust(self._digest)
        self.refresh()

    def distrust(self) -> None:
        self._accept = False
        self._accepted = ""
        if self._trust is not None:
            self._trust.forget()
        self.refresh()

    @property
    def _of_project(self) -> tuple[ToolFile, ...]:
        return tuple(
            file for state in self._states for file in state.files if file.place == "project"
        )

    @property
    def _digest(self) -> str:
        """Return SHA-256 (hex) over the contents of the project's folders, which is what the user
        trusts."""
        total = hashlib.sha256(b"recipes")
        for folder, state in zip(self._folders, self._states, strict=True):
            if folder.place == "project":
                total.update(state.digest.encode())
        return total.hexdigest()

    def _is_trusted(self, problems: list[ToolProblem]) -> bool:
        if not self._of_project:
            return True
        digest = self._digest
        if self._accept:
            self._accept = False
            self._accepted = digest
        try:
            return digest == self._accepted or (
                self._trust is not None and self._trust.trusts(digest)
            )
        except ConfigError as error:
            problems.append(ToolProblem(self._of_project[0].shown, str(error)))
            return False

    def _take(
        self,
        file: ToolFile,
        found: dict[str, Recipe],
        problems: list[ToolProblem],
        *,
        trusted: bool,
    ) -> None:
        from codeagent.extensions.recipes.reading import (
            load_recipe,
        )  # needed only if there is such a file

        loaded = load_recipe(file)
        problems += loaded.problems
        if (recipe := loaded.recipe) is None:
            return
        inputs = tuple(replace(one, root=self._root) for one in recipe.inputs)
        usable = replace(recipe, trusted=recipe.trusted or trusted, inputs=inputs)
        there = found.setdefault(recipe.name, usable)
        if recipe.where not in (there.where, SHIPPED):
            text = f"the name {recipe.name} is taken by {there.where}, which is used"
            problems.append(ToolProblem(recipe.where, text))
