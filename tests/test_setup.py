"""Setting up the environment that the tests run in."""

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the code, and beside it the environment of another one, which is ready."""
    folder = tmp_path / "copy"
    shutil.copytree(ROOT / ".ci", folder / ".ci")
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    other = tmp_path / "other"
    (other / "bin").mkdir(parents=True)
    for name in ("bin/python", ".ready"):
        (other / name).touch()
    monkeypatch.chdir(folder)
    return folder


def test_an_environment_that_is_a_link_is_left_alone_and_the_copy_gets_its_own(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copy / ".venv").symlink_to("../other")
    ran: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    assert runpy.run_path(".ci/setup.py")["main"]() == 0
    assert not (copy / ".venv").is_symlink() and (copy.parent / "other" / ".ready").exists()
    assert ran[0][1:] == ["-m", "venv", ".venv"], "pip installs into what is made here"


@pytest.mark.parametrize("linked", [True, False])
def test_make_sets_up_again_where_the_environment_is_a_link_and_not_where_it_is_its_own(
    copy: Path, linked: bool
) -> None:
    if linked:
        (copy / ".venv").symlink_to("../other")
    else:
        shutil.move(copy.parent / "other", copy / ".venv")
    said = subprocess.run(
        ["make", "-n", "setup"], check=True, capture_output=True, text=True
    ).stdout
    assert (".ci/setup.py" in said) == linked


def test_every_benchmark_can_be_imported() -> None:
    """None of them runs in `make test`."""
    code = (
        "import importlib, pkgutil, benchmarks\n"
        "for each in pkgutil.iter_modules(benchmarks.__path__, 'benchmarks.'):\n"
        "    each.name == 'benchmarks.__main__' or importlib.import_module(each.name)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
