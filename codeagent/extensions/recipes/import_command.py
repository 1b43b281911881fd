"""`codeagent recipes import`: converts a workflow of AWF into a recipe and a tool file, shows them
and writes them."""

import argparse
import os
import posixpath
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from codeagent.commands.arguments import read_named, say
from codeagent.config.local_environment import LocalEnvironment
from codeagent.core.errors import ConfigError
from codeagent.core.recipes import leads_inside
from codeagent.core.sanitize import visible
from codeagent.core.yaml_text import Unreadable
from codeagent.disk.opens import create_file, open_folder
from codeagent.extensions.recipes.reading import load_recipe
from codeagent.extensions.recipes.workflows.conversion import Conversion, convert
from codeagent.tools.catalog import ToolCatalog
from codeagent.tools.folders import LARGEST_FILE, ToolFile

if TYPE_CHECKING:
    from codeagent.commands.ports import App

_PROJECT = ".codeagent"


def import_workflow(args: argparse.Namespace, local: LocalEnvironment, app: "App") -> int:
    """Return 0 if it was converted, 2 if that is impossible or something has no counterpart. Raises
    ConfigError."""
    shown = str(args.file)
    folder = posixpath.normpath(args.to or _PROJECT)
    if not leads_inside(folder):
        raise ConfigError(
            "--to names a folder of the workspace, relative to it; nothing was written"
        )
    content = read_named(local.workspace / args.file, shown, LARGEST_FILE)
    catalog = app.describe_tools(local)
    builtin = [tool.name for tool in catalog if tool.source == "builtin"]
    try:
        made = convert(
            ToolFile(local.workspace / args.file, shown, content, "project"), builtin, args.name
        )
    except Unreadable as error:
        say(f"{shown}:{error.line}: {error}; nothing was written")
        return 2
    texts = {
        f"{folder}/commands/{made.name}.yaml": made.recipe,
        f"{folder}/tools/{made.name}.yaml": made.tools,
    }
    texts = {path: text for path, text in texts.items() if text}
    for path, text in texts.items():
        print(f"# {visible(path)}\n{visible(text)}")
    for remark in made.remarks:
        say(f"{shown}:{remark.line}: {f'{remark.key}: ' if remark.key else ''}{remark.text}")
    if made.weighs("wrong"):
        say(f"{shown} cannot be converted as it is; nothing was written")
        return 2
    if wrong := _refused(made, catalog, local, folder):
        say(
            "\n".join(
                [*wrong, f"{shown}: the result could not be used as it is; nothing was written"]
            )
        )
        return 2
    if made.weighs("missing") and not args.partly:
        say(
            "the result would lack what has no counterpart; nothing was written: --partly writes it anyway"
        )
        return 2
    if args.to is None:
        say(f"nothing was written: --to {_PROJECT} writes this into the project")
        return 0
    _write(local.workspace, texts)
    trust = (
        "codeagent tools trust and codeagent recipes trust"
        if made.tools
        else "codeagent recipes trust"
    )
    say(f"written; none of it runs before you trust it: read it, then run {trust}")
    return 0


def _refused(
    made: Conversion, catalog: ToolCatalog, local: LocalEnvironment, folder: str
) -> list[str]:
    """Return the errors that `recipes check` and `tools check` would find in the files."""
    recipe_file = _file(local, f"{folder}/commands/{made.name}.yaml", made.recipe)
    loaded = load_recipe(recipe_file)
    wrong = [str(problem) for problem in loaded.problems if problem.level == "error"]
    own: set[str] = set()
    if made.tools:
        file = _file(local, f"{folder}/tools/{made.name}.yaml", made.tools)
        found = catalog.files.load(file)
        own = {tool.name for tool in found.tools}
        problems = (*found.problems, *catalog.refusals(file, found.tools))
        wrong += [str(problem) for problem in problems if problem.level == "error"]
    steps = () if wrong or loaded.recipe is None else loaded.recipe.steps
    listed = [(step.id, [name for name in step.tools or () if name not in own]) for step in steps]
    checked = ((step, catalog.names.surely_misnamed_in(names)) for step, names in listed)
    return wrong + [f"tools of step {step}: {said}" for step, said in checked if said]


def _file(local: LocalEnvironment, path: str, text: str) -> ToolFile:
    return ToolFile(local.workspace / path, path, text.encode(), "project")


def _write(root: Path, texts: dict[str, str]) -> None:
    """Write all files or none; never over an existing one, nor through a link. Raises
    ConfigError."""
    made: list[tuple[int, str]] = []
    with ExitStack() as stack:
        try:
            for path, text in texts.items():
                *parts, name = PurePosixPath(path).parts
                folder = _made_folder(root, parts)
                stack.callback(os.close, folder)
                fd = create_file(name, 0o644, within=folder)
                made.append((folder, name))
                with os.fdopen(fd, "w", encoding="utf-8") as file:
                    file.write(text)
        except OSError as error:
            for folder, name in made:
                os.unlink(name, dir_fd=folder)
            there = isinstance(error, FileExistsError)
            why = (
                "it is already there: remove it, or give another --name"
                if there
                else error.strerror
            )
            raise ConfigError(
                f"{visible(path)} cannot be written: {why}; nothing was written"
            ) from None


def _made_folder(root: Path, parts: Sequence[str]) -> int:
    """Return the descriptor of a folder below the workspace, made if it is missing. Raises
    OSError."""
    found = open_folder(root, follow=True)
    for part in parts:
        with suppress(FileExistsError):
            os.mkdir(part, dir_fd=found)
        try:
            inner = open_folder(part, within=found)
        finally:
            os.close(found)
        found = inner
    return found
