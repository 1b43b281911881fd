"""A toolset that the user turns off on a real terminal stays off in the session that is
continued."""

from pathlib import Path

import pytest

from tests.e2e.product import Product, calls, results, say
from tests.e2e.screens import open_screen


@pytest.fixture
def product(tmp_path: Path) -> Product:
    workspace, home = tmp_path / "work", tmp_path / "home"
    workspace.mkdir()
    home.mkdir()
    settings = home / "config" / "codeagent" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[toolsets]\nuse = ["files"]\n')
    return Product(workspace, home)


def answers(product: Product, *more: str) -> str:
    """Return what a call of a tool of the set was answered."""
    script = product.script(calls(("tree", {})), say("done"))
    done = product.run(script, "--output", "jsonl", *more)
    return str(results(done.events)[-1]["content"])


def test_a_set_that_was_turned_off_stays_off_in_the_continued_session(product: Product) -> None:
    assert "Tool not in use" not in answers(product), "the allow test: the settings turn it on"
    with open_screen(
        product, "--model", product.script(say("hello")), sandbox="off", size=(90, 26)
    ) as screen:
        screen.send("go", "enter")
        screen.wait_for("hello")
        screen.send("/tools off files", "enter")
        screen.wait_for("turned off from the next request on: files")
        screen.send("ctrl+d")
        assert screen.exit_code() == 0
    assert "Tool not in use: tree is in the toolset files" in answers(
        product, "--resume", product.sessions[-1].name
    )
