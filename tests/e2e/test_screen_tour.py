"""A user's first session, with keys on a terminal: yes, no because, steering, a stop, a crash, and
back again."""

import asyncio
import itertools
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from codeagent.llm.demo import DEMO_PROMPT, demo_files
from tests.e2e.product import Event, Product, of, results, running
from tests.e2e.screens import READY, open_screen, prompts
from tests.e2e.test_loopback import turns
from tests.effort import part
from tests.pty_screen import PtyScreen
from tests.servers import FakeProvider, anthropic_server, openai_server

pytestmark = pytest.mark.docker

SIZES = ((80, 24), (120, 40))
TOURS = list(itertools.product(["openai", "anthropic", "demo"], SIZES))
_TOO_SOON = "press again"
REASON = "say where the rule comes from"
EFFECTS = "throw away"
"""What only a card about effects offers, on each of its pages."""


def answer(screen: PtyScreen, key: str, about: str) -> None:
    """Answer the question that shows `about`, as often as its card says to press again or to read
    on.

    A card says so for a moment only, which a busy machine may miss: then the key is pressed again.
    """
    screen.wait_for(lambda: about in _card(screen))
    while about in (card := _card(screen)):
        screen.send(f"\x1b{key}")
        with suppress(AssertionError):
            screen.wait_for(partial(_heard, screen, about, _page(card)), timeout=5)
        screen.wait_for(lambda: _TOO_SOON not in _card(screen))


def _heard(screen: PtyScreen, about: str, page: str) -> bool:
    """Whether the card did something about the key that was pressed on that page."""
    card = _card(screen)
    return about not in card or _TOO_SOON in card or _page(card) != page


def _page(card: str) -> str:
    """Which page of several the card shows; empty on the last one."""
    found = re.search(r"page \d+ of \d+", card)
    return found[0] if found else ""


def _card(screen: PtyScreen) -> str:
    """What the card shows; empty where there is none."""
    card = re.search(r"^╭.*?^╰.*?$", screen.text(), re.DOTALL | re.MULTILINE)
    return card[0] if card else ""


def deny_because(screen: PtyScreen, about: str) -> None:
    screen.wait_for(lambda: about in _card(screen))
    screen.send("\x1br")
    screen.wait_for("deny, with this reason")
    screen.send(REASON, "enter")


def tour(screen: PtyScreen, prompt: str) -> None:
    screen.send(prompt, "enter")
    screen.wait_for(lambda: "library/calendar.py" in _card(screen))
    screen.send("also think of 1900", "enter")
    screen.wait_for("will be read after this batch")
    deny_because(screen, "library/calendar.py")
    screen.wait_for("you (while running)")
    answer(screen, "y", "library/calendar.py")
    answer(screen, "y", EFFECTS)
    screen.wait_for("All tests pass now.")
    screen.wait_for(lambda: " ready" in screen.screen()[-1])
    sleep = ("sleep", f"600.{screen.pid}")
    screen.send(f"!{' '.join(sleep)}", "enter")
    screen.wait_for("Esc stops it")
    command = "\0".join(sleep).encode()
    screen.wait_for(lambda: any(command in each for each in running()))
    screen.send("esc")
    screen.wait_for("cancelled")
    assert not any(command in each for each in running())


def come_back(product: Product, size: tuple[int, int], *arguments: str) -> None:
    with open_screen(product, *arguments, sandbox="docker", size=size) as screen:
        screen.send("/resume", "enter")
        screen.wait_for("Resume a session")
        screen.send("enter")
        screen.wait_for("What I changed: one line.")
        screen.wait_for(READY)
        screen.send("ctrl+d")
        assert screen.exit_code() == 0
        assert screen.modes_restored()


def make_project(product: Product) -> None:
    for name, text in demo_files().items():
        path = product.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def check(product: Product, events: list[Event]) -> None:
    """The log says what the user did, and the project is mended."""
    assert product.call_in(product.workspace, "python3", "-m", "unittest").code == 0
    denied = [
        result for result in results(events) if (result["error"] or {}).get("kind") == "denied"
    ]
    assert [REASON in result["error"]["message"] for result in denied] == [True]
    assert "also think of 1900" in prompts(events)
    answers = [event["answer"] for event in of(events, "approval.resolved")]
    assert answers == ["deny", "once", "once"]
    assert (product.workspace / "library/__init__.py").read_text().startswith('"""')
    assert product.call("sessions", "check", "--last").code == 0


@asynccontextmanager
async def model(name: str) -> AsyncIterator[tuple[list[str], FakeProvider | None]]:
    """The arguments that choose the model, and its server."""
    if name == "demo":
        yield ["--model", "demo"], None
        return
    server_of: Callable[..., object] = openai_server if name == "openai" else anthropic_server
    script = turns(signed=name == "anthropic")
    edit = next(turn for turn in script if any(call[0] == "edit" for call in turn.calls))
    again = replace(edit, text="Then like this.", thinking=())
    at = script.index(edit) + 1
    async with server_of([*script[:at], again, *script[at:]], chunk=5) as server:  # type: ignore[attr-defined]  # both are context managers
        chosen = "openai/local" if name == "openai" else "anthropic/claude-sonnet-4-5"
        yield ["--model", chosen, "--api-base", server.base_url], server


@pytest.mark.soak(tried=1)
@pytest.mark.parametrize(("name", "size"), part(TOURS, 2), ids=str)
async def test_a_first_session(product: Product, name: str, size: tuple[int, int]) -> None:
    make_project(product)
    async with model(name) as (arguments, server):
        await asyncio.to_thread(_session, product, size, arguments)
        assert server is None or server.rejected == []
    check(product, product.log())
    await asyncio.to_thread(come_back, product, size, "--model", "demo")


def _session(product: Product, size: tuple[int, int], arguments: list[str]) -> None:
    with open_screen(product, *arguments, sandbox="docker", size=size) as screen:
        tour(screen, DEMO_PROMPT)
        os.kill(screen.pid, signal.SIGKILL)
        screen.exit_code()


def test_the_demo_opens_with_its_prompt_and_goes_from_red_to_green(product: Product) -> None:
    command = [sys.executable, "-m", "codeagent", "demo"]
    root = str(Path(__file__).parents[2])
    environment = product.environment | {"PYTHONPATH": root, "TMPDIR": str(product.home)}
    with PtyScreen(command, env=environment, cwd=product.workspace, size=(80, 24)) as screen:
        screen.wait_for(DEMO_PROMPT)
        screen.send("enter")
        answer(screen, "y", "library/calendar.py")
        answer(screen, "n", EFFECTS)
        screen.wait_for("You said no.")
        answer(screen, "y", EFFECTS)
        screen.wait_for("All tests pass now.")
        screen.wait_for(READY)
        screen.send("ctrl+d")
        assert screen.exit_code() == 0
        assert screen.modes_restored()
        assert "resume with:" in screen.text()
    (repository,) = product.home.glob("codeagent-demo-*")
    assert product.call_in(repository, "python3", "-m", "unittest").code == 0
