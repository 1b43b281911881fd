"""The demo's project, with a bug in it, and what is asked about it."""

from importlib.resources import files
from importlib.resources.abc import Traversable

DEMO_PROMPT = "The tests fail. Find out why, fix it, and show me that they pass."


def demo_files() -> dict[str, str]:
    """The project's files: path relative to its root → text."""
    return dict(sorted(_walk(files("codeagent.llm") / "demo_project", "")))


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, str]]:
    """Python files are stored as `*.py.txt`: they are the demo's data, not our modules."""
    found: list[tuple[str, str]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _walk(entry, f"{prefix}{entry.name}/")
        else:
            found.append((prefix + entry.name.removesuffix(".txt"), entry.read_text(encoding="utf-8")))
    return found
