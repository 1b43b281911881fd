"""What is printed to be typed again works as it stands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import codeagent
from codeagent.core.programs import find_program, this_program, why_not_found

SOURCE = str(Path(codeagent.__file__).parents[1])


def program(folder: Path, name: str = "codeagent") -> Path:
    """A console script that prints what it says of itself."""
    folder.mkdir()
    path = folder / name
    text = f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {SOURCE!r})\n"
    path.write_text(
        text
        + "from codeagent.core.programs import find_program, this_program\nprint(this_program())\n"
    )
    path.chmod(0o755)
    return path


def shell(line: str, cwd: Path, *path: Path) -> str:
    found = os.pathsep.join([*map(str, path), os.defpath])
    done = subprocess.run(
        ["sh", "-c", line], cwd=cwd, env={"PATH": found}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_what_path_finds_is_called_by_its_name(tmp_path: Path) -> None:
    path = program(tmp_path / "bin")
    assert shell("codeagent", tmp_path, path.parent) == "codeagent"


def test_what_path_does_not_find_is_called_by_a_path_that_works_from_anywhere(
    tmp_path: Path,
) -> None:
    path = program(tmp_path / "my tools")
    again = shell("./codeagent", path.parent)
    assert "codeagent" != again == shell(again, Path("/"))


def test_another_program_of_that_name_on_path_is_not_meant(tmp_path: Path) -> None:
    other, path = program(tmp_path / "other"), program(tmp_path / "bin")
    assert shell(str(path), tmp_path, other.parent) == str(path)


def test_a_module_is_called_as_one_unless_path_finds_the_program_beside_its_interpreter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", [f"{SOURCE}/codeagent/__main__.py"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv/python"))
    own, linked = program(tmp_path / "venv"), tmp_path / "bin"
    linked.mkdir()
    (linked / "codeagent").symlink_to(own)
    as_module = f"{sys.executable} -P -m codeagent"
    for folder, said in (
        (tmp_path, as_module),
        (program(tmp_path / "other").parent, as_module),
        (own.parent, "codeagent"),
        (linked, "codeagent"),
    ):
        monkeypatch.setenv("PATH", str(folder))
        assert this_program() == said


@pytest.mark.parametrize("folder", ["{work}", "{link}", "tools", "", "{outside}"])
def test_no_program_of_the_workspace_is_found_whatever_path_says(
    folder: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    work, link, outside = tmp_path / "work", tmp_path / "link", tmp_path / "outside"
    for place in (work, work / "tools", outside):
        program(place, "prog") if not place.exists() else None
    link.symlink_to(work)
    (outside / "prog").unlink()
    (outside / "prog").symlink_to(work / "prog")
    monkeypatch.chdir(work)
    good = program(tmp_path / "good", "prog")
    monkeypatch.setenv(
        "PATH",
        os.pathsep.join([folder.format(work=work, link=link, outside=outside), str(good.parent)]),
    )
    for root in (work, link):
        assert find_program("prog", root) == str(good)


def test_why_a_program_was_not_found_names_the_one_that_lies_in_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prog").write_text("#!/bin/sh\n")
    (tmp_path / "prog").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert why_not_found("nothing", tmp_path) == ("nothing is not on PATH", "install nothing")
    why, remedy = why_not_found("prog", tmp_path)
    assert find_program("prog", tmp_path) is None
    assert (
        why.startswith(f"{tmp_path}/prog lies in the workspace")
        and remedy == "start codeagent in a project"
    )
