"""Loaders of tool files, and tools of packages, as extensions bring them."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from codeagent.core.extension import Extension, Reference, resolved
from codeagent.core.memory import OutputStore
from codeagent.tools.folders import FirstFileLoader, Loaded, LoaderNeeds, ToolLoader


def file_loaders(extensions: Sequence[Extension], needs: LoaderNeeds) -> tuple[ToolLoader, ...]:
    """Make the loaders of tool files; the modules of each are imported at its first file."""
    return tuple(
        FirstFileLoader(kind.suffixes, partial(_made, kind.make, needs))
        for extension in extensions
        for kind in extension.in_folders.loaders
    )


def packaged_tools(
    extensions: Sequence[Extension], outputs: OutputStore, points: Sequence[Any]
) -> Loaded:
    """Load the tools of installed packages, from their entry points."""
    kinds = (kind for extension in extensions for kind in extension.in_folders.loaders)
    loads = [kind.packages for kind in kinds if kind.packages]
    found = [resolved(load)(outputs, points) for load in loads]
    tools = tuple(tool for loaded in found for tool in loaded.tools)
    return Loaded(tools, tuple(problem for loaded in found for problem in loaded.problems))


def _made(make: Reference, needs: LoaderNeeds) -> ToolLoader:
    loader: ToolLoader = resolved(make)(needs)
    return loader
