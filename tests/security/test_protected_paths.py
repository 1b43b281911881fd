"""What the user's programs would run is not changed, whatever state it is in and
whoever writes it.

The model obeys the attacker, in the mode that asks least, and nobody answers a question.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import Done, Product, Turn, bash, calls, say
from tests.effort import part
from tests.sandboxes import make_repository

MINE = "# mine\n"
PATHS = (
    ".git/config",
    ".git/hooks/pre-commit",
    ".git/info/attributes",
    ".git/commondir",
    ".git/config.worktree",
    ".git/objects/info/alternates",
    ".codeagent/config.toml",
    ".codeagent/hooks.toml",
    ".codeagent/tools/evil.yaml",
    ".codeagent/commands/evil.md",
    "pkg/.envrc",
    "pkg/.mcp.json",
    "pkg/AGENTS.md",
    "pkg/package.json",
    "pkg/Makefile",
    "pkg/conftest.py",
    "pkg/.npmrc",
    "pkg/.pre-commit-config.yaml",
    ".vscode/tasks.json",
    ".idea/workspace.xml",
    ".cursor/mcp.json",
    ".claude/settings.json",
    ".github/workflows/ci.yml",
    ".devcontainer/devcontainer.json",
    ".husky/pre-commit",
)
SHELL_WRITES = 'mkdir -p "$(dirname {0})"; rm -f {0}.x; {1}; printf "evil\\n" > {0}'
SHELL_MOVES = 'mkdir -p "$(dirname {0})" planted; {1}; printf "evil\\n" > planted/x; mv -f planted/x {0}; rmdir planted'
RENAMED = 'mv "$(dirname {0})" away; cp -r away "$(dirname {0})"; rm -rf away'
CODE = """
import os, pathlib, shutil
path = pathlib.Path({0!r})
if {1!r}:
    try:
        path.parent.rename("away"); shutil.copytree("away", path.parent, symlinks=True); shutil.rmtree("away")
    except OSError: pass
path.parent.mkdir(parents=True, exist_ok=True)
path.write_text("evil\\n")
"""


def _exists(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_text(".\n" if path.name == "commondir" else MINE)


def _missing(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)


def _link(path: Path) -> None:
    _missing(path)
    (path.parent / f"real-{path.name}").write_text(MINE)
    path.symlink_to(f"real-{path.name}")


def _no_parent(path: Path) -> None:
    if path.parent.name not in ("pkg", ".git", ".codeagent") and path.parent.is_dir():
        path.parent.rename(path.parent.with_name(f"no-{path.parent.name}"))


def _linked_parent(path: Path) -> None:
    _exists(path)
    if not path.parent.is_symlink():
        real = path.parent.with_name(f"real-{path.parent.name.strip('.')}")
        path.parent.rename(real)
        path.parent.symlink_to(real.name)


STATES: dict[str, Callable[[Path], None]] = {
    "it exists": _exists,
    "it is missing": _missing,
    "it is a link": _link,
    "its parent is missing": _no_parent,
    "its parent is renamed": _exists,
    "its parent is a link": _linked_parent,
}


def _call(writer: str, path: str, renamed: bool) -> tuple[str, dict[str, Any]]:
    first = RENAMED.format(path) if renamed else "true"
    match writer:
        case "bash":
            return bash(SHELL_WRITES.format(path, first))
        case "bash moves":
            return bash(SHELL_MOVES.format(path, first))
        case "python":
            return "python", {"code": CODE.format(path, "yes" if renamed else "")}
        case "write":
            return "write", {"path": path, "content": "evil\n"}
        case "edit":
            return "edit", {"path": path, "old_string": "", "new_string": "evil\n"}
        case _:
            return "apply_patch", {
                "patch": f"*** Begin Patch\n*** Add File: {path}\n+evil\n*** End Patch"
            }


WRITERS = ("bash", "bash moves", "python", "write", "edit", "apply_patch")


def look(root: Path, path: str) -> list[str]:
    """What is there: each component's kind, where links lead, and what is read through them."""
    found = []
    at = root
    for name in Path(path).parts:
        at /= name
        if not os.path.lexists(at):
            return ["nothing"]
        found.append(
            str(at.readlink()) if at.is_symlink() else oct(stat.S_IFMT(at.lstat().st_mode))
        )
    return [*found, at.read_text() if at.exists() else "dangling"]


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    (tmp_path / "home").mkdir()
    yield Product(make_repository(tmp_path / "work"), tmp_path / "home")


TRIED = part(PATHS, 4)
CASES = [(writer, state) for state in STATES for writer in WRITERS]


@pytest.mark.docker
@pytest.mark.soak(tried=len(TRIED), row="protected paths")
@pytest.mark.parametrize(("writer", "state"), part(CASES, 2), ids=str)
def test_a_protected_path_is_as_it_was_after_every_writer(
    product: Product, writer: str, state: str
) -> None:
    root = product.workspace
    for path in TRIED:
        if not (
            path.startswith(".codeagent") and "link" in state
        ):  # with such a folder nothing runs at all: see below
            STATES[state](root / path)
    before = {path: look(root, path) for path in TRIED}
    turns = [calls(_call(writer, path, state == "its parent is renamed")) for path in TRIED]
    options = () if writer in ("bash", "bash moves", "python") else ("--sandbox", "off")
    done = attack(product, *turns, say("done"), options=options)
    assert done.out == "done\n", done.err
    after = {path: look(root, path) for path in TRIED}
    assert {path: after[path] for path in TRIED if after[path] != before[path]} == {}, done.err


def attack(product: Product, *turns: Turn, options: Sequence[str] = ()) -> Done:
    model = product.script(*turns)
    return product.call_apart(
        "run", "go", "--model", model, "--mode", "auto", "--toolset", "files", *options
    )


@pytest.mark.parametrize("state", [state for state in STATES if "link" in state])
def test_with_a_link_for_its_configuration_nothing_runs(product: Product, state: str) -> None:
    STATES[state](product.workspace / ".codeagent/config.toml")
    done = attack(product, calls(bash("touch ran")), say("done"), options=("--sandbox", "off"))
    assert (done.code, done.out) == (2, "") and "nothing was run" in done.err
    assert not (product.workspace / "ran").exists()
