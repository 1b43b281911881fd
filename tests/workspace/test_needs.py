"""What the files of a repository say that it needs."""

from pathlib import Path

import pytest

from codeagent.workspace.needs import Need, needs_of
from tests.table import for_each


@for_each(
    "name, text, needs",
    [
        ("package.json", "{}", [Need("package.json", "node")]),
        ("Cargo.toml", "", [Need("Cargo.toml", "cargo")]),
        ("go.mod", "", [Need("go.mod", "go")]),
        (".python-version", "# ours\n3.12.4\n", [Need(".python-version", "python3", "==3.12.*")]),
        (".python-version", "pypy3.10-7.3\n", []),
        (".python-version", b"\xff", []),
        (
            "pyproject.toml",
            '[project]\nrequires-python = ">=3.11"',
            [Need("pyproject.toml", "python3", ">=3.11")],
        ),
        ("pyproject.toml", "[project", []),
        ("pyproject.toml", 'project = "x"', []),
        ("README.md", "", []),
    ],
)
def test_a_file_says_which_program_is_needed(
    tmp_path_factory: pytest.TempPathFactory, name: str, text: str | bytes, needs: list[Need]
) -> None:
    folder = tmp_path_factory.mktemp("repository")
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    assert list(needs_of(folder)) == needs


def test_a_link_out_of_the_repository_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("3.12\n")
    (tmp_path / "repository").mkdir()
    (tmp_path / "repository/.python-version").symlink_to("../outside")
    assert needs_of(tmp_path / "repository") == ()


@for_each(
    "wanted, version, met",
    [
        (">=3.12", "3.11.7", False),
        (">=3.12", "3.13.0rc1", True),
        ("==3.12.*", "3.12.4", True),
        ("what", "3.9", True),
    ],
)
def test_a_version_is_compared_as_package_tools_do(wanted: str, version: str, met: bool) -> None:
    assert Need("pyproject.toml", "python3", wanted).met_by(version) is met
