"""The product on a pty."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.e2e.product import Event, Product
from tests.pty_screen import PtyScreen

READY = "What would you like to do?"
"""The composer's placeholder: it is empty and reads keys."""


def open_screen(
    product: Product,
    *arguments: str,
    sandbox: str = "off",
    size: tuple[int, int] = (100, 30),
    before: tuple[str, ...] = (),
    shows: str = READY,
    env: Mapping[str, str] = MappingProxyType({}),
) -> PtyScreen:
    """`codeagent` with these arguments in a git repository, waited for until it shows this."""
    subprocess.run(["git", "init", "-q", product.workspace], check=True)
    command = [*before, sys.executable, "-m", "codeagent", "--sandbox", sandbox, *arguments]
    root = str(Path(__file__).parents[2])
    env = {**product.environment, "PYTHONPATH": root, **env}
    screen = PtyScreen(command, env=env, cwd=product.workspace, size=size)
    screen.wait_for(shows)
    return screen


def ask(screen: PtyScreen, prompt: str = "go") -> None:
    screen.send(prompt, "enter")


def long_answer(
    last: str = "the very last word", paragraphs: int = 400, delay_ms: float = 3
) -> dict[str, Any]:
    """A stream that goes on for a while."""
    text = "\n\n".join(
        f"paragraph {number} of a long answer with **bold** words" for number in range(paragraphs)
    )
    return {"text": f"{text}\n\n{last}", "delay_ms": delay_ms}


def prompts(events: list[Event]) -> list[str]:
    """What the log says the user said."""
    added = (event["message"] for event in events if event["type"] == "message.added")
    return [
        part["text"]
        for message in added
        if message["role"] == "user"
        for part in message["content"]
    ]
