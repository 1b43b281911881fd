"""The page about extensions, followed to the letter: its package is built, installed and used."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.product import Done, Product, calls, results, say, text_of
from tests.e2e.screens import READY
from tests.pty_screen import PtyScreen

PAGE = Path(__file__).parents[2] / "docs/how-to/extensions.md"
_NAMED = re.compile(r"^`([\w./]+)`\n\n```(?:toml|python)\n(.*?)```", re.DOTALL | re.MULTILINE)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The folder that the package of the page is installed in."""
    source, site = tmp_path / "package", tmp_path / "site"
    for name, text in _NAMED.findall(PAGE.read_text().partition("## Bring one in a package")[2]):
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    options = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(site)]
    done = subprocess.run([*pip, *options, str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return site


def codeagent(product: Product, site: Path, *arguments: str) -> Done:
    done = subprocess.run(
        [sys.executable, "-m", "codeagent", *arguments],
        cwd=product.workspace,
        env={**product.environment, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def configure(product: Product, text: str) -> None:
    file = product.home / "config/codeagent/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    file.chmod(0o600)


def test_its_tool_goes_by_its_section_of_the_settings(product: Product, site: Path) -> None:
    *_, example = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    configure(product, example)
    model = product.script(
        calls(("toolset_use", {"name": "weather"})),
        calls(("weather", {"place": "Ulm"})),
        say("done"),
    )
    flags = ("--model", model, "--sandbox", "off", "--output", "jsonl")
    done = codeagent(product, site, "run", "go", *flags)
    assert text_of(results(done.events)[-1]) == "Ulm: 21 degrees fahrenheit"


def test_it_is_listed_shown_and_described_like_those_that_ship(
    product: Product, site: Path
) -> None:
    assert "weather " in codeagent(product, site, "extensions", "list").out
    shown = codeagent(product, site, "extensions", "show", "weather").out
    assert "[weather]" in shown and "weather: weather" in shown
    settings = json.loads(codeagent(product, site, "config", "show").out)
    assert settings["weather"] == {"unit": "celsius"}


def test_its_slash_command_opens_a_page(product: Product, site: Path) -> None:
    environment = {**product.environment, "PYTHONPATH": str(site)}
    subprocess.run(["git", "init", "-q", product.workspace], check=True)
    command = [sys.executable, "-m", "codeagent", "--sandbox", "off"]
    command += ["--model", product.script(say("done"))]
    screen = PtyScreen(command, env=environment, cwd=product.workspace, size=(100, 30))
    try:
        screen.wait_for(READY)
        screen.send("/weather", "enter")
        screen.wait_for("/weather needs a place, such as /weather Ulm")
        screen.send("/weather Ulm", "enter")
        screen.wait_for("Ulm: 21 degrees")
        screen.send("esc")
        screen.wait_for(READY)
    finally:
        screen.close()


def test_switched_off_it_is_not_there(product: Product, site: Path) -> None:
    configure(product, '[extensions]\noff = ["weather"]\n\n[toolsets]\noffer = ["weather"]\n')
    model = product.script(say("done"))
    done = codeagent(product, site, "run", "go", "--model", model, "--sandbox", "off")
    assert done.code == 0
    assert "set weather is not available, because the extension weather is switched off" in done.err
    done = codeagent(product, site, "tools", "list", "--toolset", "weather")
    assert done.code == 2
    assert "toolset weather is not available: the extension weather is switched off" in done.err
