"""The how-tos for contributors: what they add works at the first try, in the files that they name."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = {
    "add-a-slash-command.md": 3,
    "add-a-setting.md": 3,
    "add-a-tool.md": 3,
    "add-an-extension.md": 5,
}
"""How many files each adds or changes: those of an extension are three in a folder of its own."""
RULES = (
    "tests/test_architecture.py",
    "tests/tui/test_commands.py",
    "tests/core/test_recipes.py::test_no_recipe_can_have_the_name_of_a_command",
    "tests/config/test_extensions.py",
    "tests/tools/test_toolsets.py",
    "tests/e2e/test_first_request.py",
    "tests/test_cli.py::test_a_plain_run_imports_only_what_it_uses",
    "tests/tui/test_every_key.py::test_every_key_of_the_sheet_is_pressed",
)
"""What else has to hold: the sizes, the names that are derived, what a run imports, and the first
request."""
ADDED = re.compile(r"<!-- in: (\S+) -->\n```(?:python|diff)\n(.*?)```", re.DOTALL)
"""A file, and what it is, or the lines that are added to it with one that follows them."""


def test_what_the_pages_add_works_in_the_files_that_they_name(tmp_path: Path) -> None:
    for folder in ("codeagent", "tests", "docs"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / file, tmp_path)
    tests = []
    for page, files in PAGES.items():
        found = list(ADDED.finditer((ROOT / "docs/how-to" / page).read_text()))
        assert len({one[1] for one in found}) == files
        for one in found:
            add(tmp_path / one[1], one[2])
        tests.append(found[-1][1])
    run(tmp_path, "docs/generate.py")
    run(tmp_path, "-m", "ruff", "check", "--no-cache", "codeagent", *tests)
    run(tmp_path, "-m", "ruff", "format", "--no-cache", "--check", "codeagent", *tests)
    run(tmp_path, "-m", "pytest", "-q", *tests, *RULES)


def add(file: Path, text: str) -> None:
    """Write a file that is not there yet, or add lines to one in front of the line that follows."""
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return
    lines = text.splitlines(keepends=True)
    follows = "".join(line[1:] for line in lines if line.startswith(" "))
    whole = file.read_text()
    assert whole.count(follows) == 1
    file.write_text(whole.replace(follows, "".join(line[1:] for line in lines)))


def run(folder: Path, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
