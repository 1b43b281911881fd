"""A walk through the pages that slash commands open, at every size and colour depth: what is on
screen can be read, and the keys that it names do something."""

import re

import pytest

from codeagent.llm.demo import DEMO_PROMPT
from tests.e2e.product import Product
from tests.e2e.screens import open_screen
from tests.e2e.test_screen_tour import make_project
from tests.e2e.walking import DEPTHS, TERMINALS, Walk, at_rest
from tests.effort import part

PAGES = {
    "agents": "Agents",
    "board": "Sessions",
    "config": "Settings",
    "context": "Context",
    "cost": "Cost of this session",
    "diff": "What changed in this session",
    "effort": "How much",
    "extensions": "Extensions",
    "help": "Help",
    "keys": "Keys",
    "model": "Choose the model",
    "permissions": "Permissions",
    "recipes": "Recipes",
    "rewind": "Rewind to before",
    "sandbox": "Sandbox",
    "skills": "Skills",
    "stats": "Calls of this session",
    "status": "Status",
    "theme": "Themes",
    "tools": "Tools",
    "usage": "Usage",
}
"""What each page begins with, by the command that opens it."""
_KEY = re.compile(r"(?:^|· | {2,})(?P<key>Enter|Tab|Del|[a-zA-Z?/]) (?=[a-z])")
"""A key in the line of keys, which separates them with dots."""
SENT = {"Enter": "enter", "Tab": "tab", "Del": "\x1b[3~"}


def open_page(walk: Walk, command: str) -> None:
    walk.screen.send(f"/{command} ", "enter")
    walk.screen.wait_for(f"── {PAGES[command]}")
    at_rest(walk.screen)
    walk.look(f"/{command}")


def press_each_key(walk: Walk, command: str) -> None:
    """Press each key that a page names, and see that something happens."""
    open_page(walk, command)
    named = [found["key"] for found in _KEY.finditer(walk.screen.screen()[-1])]
    for key in dict.fromkeys(named):
        walk.press(f"/{command}, {key}", SENT.get(key, key))
        walk.close()
        open_page(walk, command)
    walk.close()


@pytest.mark.docker
@pytest.mark.soak(tried=1)
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("size", "depth"), part(TERMINALS, 1), ids=str)
def test_every_page_can_be_read_and_its_keys_do_something(
    product: Product, size: tuple[int, int], depth: str
) -> None:
    make_project(product)
    words = ("--model", "demo", "--mode", "auto")
    with open_screen(product, *words, sandbox="docker", size=size, env=DEPTHS[depth]) as screen:
        walk = Walk(screen)
        screen.send(DEMO_PROMPT, "enter")
        screen.wait_for("Nothing else uses the rule")
        screen.wait_for(lambda: " ready" in screen.screen()[-1])
        walk.look("the session")
        for command in PAGES:
            press_each_key(walk, command)
        screen.send("ctrl+d")
        assert screen.exit_code() == 0
        assert screen.modes_restored()
    assert "\n".join(walk.wrong) == ""
