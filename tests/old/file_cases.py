"""The other files of the corpus, and the commands that say what is made of them.

Most are written by hand, in `files/NAME`; the rest is made from them by the product.
"""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.e2e.product import bash, calls, read, say
from tests.e2e.screens import READY
from tests.old.machines import CONFIG, done, leave, screen
from tests.old.reading import RECORDED, Machine

Commands = tuple[tuple[str, ...], ...]
LISTED = ("tools", "list", "--json")
SHOW: Commands = (("config", "show"),)


@dataclass(frozen=True)
class Case:
    commands: Commands
    make: Callable[[Machine], None] = lambda made: None
    changed: bool = False
    """Later versions read it in another way, on purpose."""


def forget_sessions(made: Machine) -> None:
    shutil.rmtree(made.home / "state", ignore_errors=True)


def choose(made: Machine) -> None:
    """What is chosen on the screen comes beside comments of the user's own."""
    with screen(made, made.script(say("unused"))) as opened:
        for line in ("/theme paper", "/effort high", "/model demo"):
            opened.wait_for(READY)
            opened.send(line, "enter")
            time.sleep(1.5)
        leave(opened)
    forget_sessions(made)


def keep_rule(made: Machine) -> None:
    """What it allows runs without a question from then on."""
    with screen(made, made.script(calls(bash("make docs")), say("Made."))) as opened:
        opened.send("go", "enter")
        opened.wait_for("Run this command?")
        for key in ("\x1bp", "down", "enter"):
            time.sleep(1.2)
            opened.send(key)
        opened.wait_for("Made.", 10)
        leave(opened)
    forget_sessions(made)


def trust(made: Machine) -> None:
    for command in (
        ("tools", "trust"),
        ("recipes", "trust"),
        ("mcp", "trust", "--give", "theirs=TOKEN"),
    ):
        done(made.call(*command))


def agree(made: Machine) -> None:
    done(made.call("mcp", "test", "notes", "--agree"))


def add_documents(made: Machine) -> None:
    for folder in (made.root / CONFIG, made.workspace / ".codeagent"):
        shutil.rmtree(folder, ignore_errors=True)  # what an earlier recording added
    add = ("tools", "add", "openapi", "shop.json", "--host", "shop.example")
    for more in (("--name", "shop"), ("--name", "theirs", "--project", "--only", "method:get")):
        done(made.call(*add, *more))
    done(made.call("tools", "split", "shop", "--model", f"script:{made.home}/split.json"))
    shutil.rmtree(made.home / "state/codeagent/sessions")


def look(made: Machine) -> None:
    done(made.run(made.script(calls(read("a.txt")), say("Seen.")), prompt="look"))


FILES = {
    "users-settings": Case(SHOW),
    "spelled-settings": Case(SHOW),
    "both-settings": Case(SHOW),
    "wrong-settings": Case(SHOW),
    "widened-settings": Case(SHOW),
    "choices": Case(SHOW, choose),
    "rules": Case(
        (("run", "go", "--model", f"script:{RECORDED}/home/again.json", "--sandbox", "off"),),
        keep_rule,
    ),
    "tool-files": Case(
        (
            LISTED,
            (*LISTED, "--trust-project"),
            ("tools", "list", "--problems", "--trust-project"),
            ("tools", "check", ".codeagent/tools/many.yaml"),
            ("tools", "check", ".codeagent/tools/broken.yaml"),
            ("tools", "check", ".claude/agents/other.md"),
            ("tools", "check", ".codeagent/agents/maker.md"),
            ("tools", "sets"),
        )
    ),
    "trust": Case(
        (LISTED, ("recipes", "list", "--json"), ("mcp", "list", "--json"), ("mcp", "list")), trust
    ),
    "recipes": Case(
        (
            ("recipes", "list", "--json"),
            *(("recipes", "show", name, "--json") for name in ("review", "release", "fix", "bare")),
            ("recipes", "check", ".codeagent/commands/release.yaml"),
            ("recipes", "check", ".codeagent/commands/broken.md"),
            ("recipes", "check", ".claude/commands/fix.md"),
        )
    ),
    "servers": Case((("mcp", "list", "--json"), ("mcp", "list"))),
    "pins": Case((("mcp", "test", "notes"),), agree),
    "documents": Case(
        (
            ("tools", "sets"),
            ("tools", "sets", "shop-orders"),
            (*LISTED, "--toolset", "shop"),
            (*LISTED, "--toolset", "theirs", "--trust-project"),
            ("tools", "check", "shop.json"),
        ),
        add_documents,
    ),
    "screen-files": Case(
        (("replay", "--last", "--theme", "dawn", "--speed", "1000", "--svg", "-"),), look
    ),
    "here-document": Case(((*LISTED, "--trust-project"),), changed=True),
}
