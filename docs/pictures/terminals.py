"""Pictures of what commands print on a terminal, and of the screen below the shell's lines."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count, repeat
from pathlib import Path

from tests.e2e.product import Product, say
from tests.e2e.screens import READY
from tests.pty_screen import PtyScreen
from tests.tui.test_inline import open_inline

ROOT = Path(__file__).parents[2]
ANSWER = """\
The bug is in `days()`: every fourth year was a leap year, also **1900**.

```python
def is_leap(y):
    return y % 4 == 0 and (y % 100 != 0 or y % 400 == 0)
```

- one line changed in `src/dates.py`
- a test for 1900 and 2000 added

All tests pass.
"""
SCRIPT = [
    {
        "text": "I'll look at the parser and its tests first.",
        "calls": [["read", {"path": "dates.py"}]],
    },
    {
        "calls": [
            ["search", {"pattern": "leap"}],
            ["bash", {"command": "sleep 4 && python3 -c 'import dates'"}],
        ]
    },
    {"text": ANSWER},
]
FINDINGS = """
from codeagent.commands.doctor import _COLUMNS
from codeagent.console.table import print_table
print_table(_COLUMNS, [
    ("✓", "codeagent", "0.1.0, Python 3.13.1, Linux 6.12 x86_64"),
    ("✓", "config", "~/.config/codeagent/config.toml (read), ~/acme-api/.codeagent/config.toml (none)"),
    ("✓", "model", "anthropic/claude-sonnet-4-5, asked directly"),
    ("✓", "keys", "present: ANTHROPIC_API_KEY"),
    ("✓", "sessions", "12 in ~/.local/state/codeagent/sessions"),
    ("✓", "ripgrep", "ripgrep 15.2.0"),
    ("–", "python", ".venv is not activated: activate it before you start codeagent (. .venv/bin/activate), "
     "so that commands use it"),
    ("✗", "engine", "no Docker engine answers at /var/run/docker.sock; bash is disabled, the other tools work: "
     "start it with systemctl start docker"),
], [])
"""


@contextmanager
def _product() -> Iterator[Product]:
    with tempfile.TemporaryDirectory() as folder:
        product = Product(Path(folder) / "acme-api", Path(folder))
        product.workspace.mkdir()
        subprocess.run(["git", "init", "-q", product.workspace], check=True)
        (product.workspace / "dates.py").write_text("def is_leap(y):\n    return y % 4 == 0\n")
        yield product


def still() -> dict[str, Iterator[str]]:
    """Return what the pictures show in place of ids and durations, so that they are the same each
    time they are drawn."""
    ids = (f"20261124-09{50 - number}03-5e741c{number}" for number in count(10, 7))
    return {
        r"\d{8}-\d{6}-[0-9a-f]{8}": ids,
        r"\b\d+ ms\b": repeat("12 ms"),
        r"\b\d+\.\d s\b": repeat("4.2 s"),
    }


def printed(title: str, *arguments: str, until: str = "") -> str:
    """Draw what `python *arguments` prints in the end, or once this is on the screen."""
    with _product() as product:
        model = product.script(*SCRIPT)
        for prompt in ("fix the date parser", "why is the build slow?"):
            product.run(product.script(say("Done.")), prompt=prompt)
        arguments = tuple(model if each == "MODEL" else each for each in arguments)
        environment = product.environment | {"PYTHONPATH": str(ROOT)}
        command = (sys.executable, "-P", *arguments)
        with PtyScreen(command, environment, product.workspace, (80, 200)) as screen:
            if until:
                screen.wait_for(until)
            else:
                screen.exit_code()
            return screen.picture(title, still())


def inline() -> str:
    """Draw a turn that was printed, and the screen below it."""
    with _product() as product:
        answer = say("1900 is covered by `test_leap`, 2000 by `test_century`.")
        with open_inline(product, answer, size=(90, 18)) as screen:
            screen.send("which tests cover full centuries?", "enter")
            screen.wait_for(lambda: "test_century" in screen.text() and READY in screen.text())
            screen.send("/di")
            screen.wait_for("/diff")
            screen.wait_until_silent()
            same_length = "/home/ada/github"
            return screen.picture("codeagent --inline").replace(str(product.home), same_length)


_CODEAGENT = ("-m", "codeagent")
_RUN = (*_CODEAGENT, "run", "fix the date parser", "--model", "MODEL", "--sandbox", "off", "--yes")
PICTURES: dict[str, Callable[[], str]] = {
    "run": partial(printed, "codeagent run", *_RUN),
    "run-live": partial(printed, "codeagent run", *_RUN, until="2 s ·"),
    "sessions-list": partial(printed, "codeagent sessions list", *_CODEAGENT, "sessions", "list"),
    "help": partial(printed, "codeagent --help", *_CODEAGENT, "--help"),
    "doctor": partial(printed, "codeagent doctor", "-c", FINDINGS),
    "inline": inline,
}
