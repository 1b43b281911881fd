"""Which Python commands get."""

import subprocess
import sys
from pathlib import Path

import pytest

from codeagent.config.local_environment import active_environment
from codeagent.sandbox.user_python import host_python, python_links
from tests.conftest import MakeSandbox
from tests.sandboxes import run


@pytest.fixture
def environment(workspace_dir: Path) -> Path:
    """A virtual environment in the workspace, with a module and a command of its own."""
    folder = workspace_dir / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next((folder / "lib").glob("python3*")) / "site-packages"
    (site / "only_here.py").write_text("VALUE = 42\n")
    for name in ("pytest", "ls"):
        (folder / "bin" / name).write_text(
            f"#!{folder}/bin/python\nimport only_here\nprint('own', only_here.VALUE)\n"
        )
        (folder / "bin" / name).chmod(0o755)
    return folder


@pytest.mark.docker
async def test_an_activated_environment_of_the_workspace_is_used(
    make_sandbox: MakeSandbox, workspace_dir: Path, environment: Path
) -> None:
    plain = await make_sandbox(workspace_dir)
    assert b"No module named" in (await run(plain, "python3 -c 'import only_here'")).stderr, (
        "the positive control"
    )
    same = "import sys; print(sys.executable, sys.version)"
    one, other = (
        await run(plain, f"python -c '{same}'; echo =; python3 -c '{same}'")
    ).stdout.split(b"=\n")
    assert one == other != b"", "both names start the same Python"
    sandbox = await make_sandbox(workspace_dir, environment=environment)
    code = "import only_here, sys; print(only_here.VALUE, sys.prefix)"
    ran = await run(sandbox, f"python -c '{code}'; python3 -c '{code}'; pytest; echo $VIRTUAL_ENV")
    assert ran.stdout.decode().splitlines() == [f"42 {environment}"] * 2 + [
        "own 42",
        str(environment),
    ]
    assert b"hello.py" in (await run(sandbox, "ls")).stdout, (
        "only names of Python come before the image's own"
    )


def test_an_environment_counts_only_where_it_lies_in_the_workspace(
    workspace_dir: Path, environment: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(workspace_dir)
    (workspace_dir / "out").symlink_to(sys.prefix)
    for given, found in {
        str(environment): environment,
        str(tmp_path / "link/.venv"): environment,
        sys.prefix: None,
        str(workspace_dir / "out"): None,
        str(workspace_dir): None,
        ".venv": None,
        "": None,
    }.items():
        assert active_environment(workspace_dir, {"VIRTUAL_ENV": given}) == found, given


def test_the_users_own_python_is_taken_where_it_is_mounted(tmp_path: Path) -> None:
    prefix = tmp_path / "3.11"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/python3").touch()
    assert host_python(str(prefix), prefix / "bin/python3") == prefix / "bin/python3"
    assert host_python(str(prefix), Path("/usr/bin/python3")) == Path("/usr/bin/python3")
    assert set(python_links(None, prefix / "bin/python3")) == {"python", "python3"}
    assert python_links(None, None) == {}
