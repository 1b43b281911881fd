"""The kernel without the folder `extensions`: the demo, the six tools, approvals, undo, resume and
the screen work."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.product import Done, Product, bash, calls, read, results, say, text_of
from tests.e2e.screens import READY
from tests.pty_screen import PtyScreen

ROOT = Path(__file__).parents[2]


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """A folder with the package, but for its extensions."""
    site = tmp_path / "kernel"
    leave = shutil.ignore_patterns("extensions", "__pycache__")
    shutil.copytree(ROOT / "codeagent", site / "codeagent", ignore=leave)
    shutil.copytree(ROOT / "themes", site / "themes")
    assert not (site / "codeagent/extensions").exists()
    return site


def environment(product: Product, kernel: Path) -> dict[str, str]:
    return {**product.environment, "PYTHONPATH": str(kernel), "PYTHONSAFEPATH": "1"}


def codeagent(product: Product, kernel: Path, *arguments: str) -> Done:
    done = subprocess.run(
        [sys.executable, "-m", "codeagent", *arguments],
        cwd=product.workspace,
        env=environment(product, kernel),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def test_it_has_no_extension_and_its_commands_work(product: Product, kernel: Path) -> None:
    assert codeagent(product, kernel, "extensions", "list").out == "\n"
    assert "sessions" in codeagent(product, kernel, "--help").out
    assert json.loads(codeagent(product, kernel, "config", "show").out)["mode"] == "ask"
    names = {
        tool["name"]
        for tool in json.loads(codeagent(product, kernel, "tools", "list", "--json").out)
    }
    assert {"bash", "read", "write", "edit", "list", "search"} <= names
    assert codeagent(product, kernel, "mcp", "list").code == 2


def test_the_demo_fixes_its_bug(product: Product, kernel: Path) -> None:
    done = codeagent(product, kernel, "demo", "--headless", "--sandbox", "off")
    assert done.code == 0, done.err


def test_the_six_tools_work_and_a_resumed_session_continues(product: Product, kernel: Path) -> None:
    model = product.script(
        calls(("list", {"path": "."}), read("a.txt"), ("search", {"pattern": "second"})),
        calls(("edit", {"path": "a.txt", "old_string": "second", "new_string": "2nd"})),
        calls(("write", {"path": "new.txt", "content": "new\n"}), bash("cat new.txt a.txt")),
        say("done"),
    )
    flags = ("--model", model, "--sandbox", "off", "--yes", "--output", "jsonl")
    done = codeagent(product, kernel, "run", "go", *flags)
    assert done.code == 0, done.err
    *_, last = map(text_of, results(done.events))
    assert "new" in last and "2nd" in last
    again = product.script(say("Again."))
    resumed = codeagent(product, kernel, "run", "on", "--model", again, "--continue")
    assert (resumed.code, resumed.out) == (0, "Again.\n")


def test_the_tests_of_the_built_in_tools_pass(kernel: Path) -> None:
    for name in ("tests", "pyproject.toml"):
        (kernel / name).symlink_to(ROOT / name)
    code = "import sys, pytest, codeagent; print(codeagent.__file__); sys.exit(pytest.main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "tests/tools/builtin", "-p", "no:cacheprovider"],
        cwd=kernel,
        env={**os.environ, "PYTHONPATH": str(kernel)},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith(f"{kernel / 'codeagent'}/__init__.py\n")


def approved(screen: PtyScreen) -> bool:
    """Press the key again until it counts: the card ignores what comes before it could be read."""
    if "Apply this edit?" in screen.text():
        screen.write(b"\x1by")
    return "All done." in screen.text()


def test_on_the_screen_an_edit_is_approved_and_undone(product: Product, kernel: Path) -> None:
    model = product.script(
        calls(read("a.txt")),
        calls(("edit", {"path": "a.txt", "old_string": "second", "new_string": "2nd"})),
        say("All done."),
    )
    before = (product.workspace / "a.txt").read_text()
    subprocess.run(["git", "init", "-q", product.workspace], check=True)
    screen = PtyScreen(
        [sys.executable, "-m", "codeagent", "--sandbox", "off", "--model", model],
        env=environment(product, kernel),
        cwd=product.workspace,
        size=(100, 30),
    )
    try:
        screen.wait_for(READY)
        screen.send("go", "enter")
        screen.wait_for("Apply this edit?")
        screen.wait_for(lambda: approved(screen))
        assert "2nd" in (product.workspace / "a.txt").read_text()
        screen.send("/undo", "enter")
        screen.wait_for(lambda: (product.workspace / "a.txt").read_text() == before)
    finally:
        screen.close()
