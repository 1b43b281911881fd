"""Draws the pictures of the command line again: `python docs/cli_pictures.py`."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
from io import StringIO
from pathlib import Path

import pyte
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs/images"
PROGRAM = [sys.executable, "-P", "-m", "codeagent"]
_HEIGHT = 200
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


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home, work = Path(folder) / "home", Path(folder) / "acme-api"
        home.mkdir()
        work.mkdir()
        (work / "dates.py").write_text("def is_leap(y):\n    return y % 4 == 0\n")
        script = home / "script.json"
        script.write_text(json.dumps(SCRIPT))
        run = [
            "run",
            "fix the date parser",
            "--model",
            f"script:{script}",
            "--sandbox",
            "off",
            "--yes",
        ]
        pictures = {
            "run": [*PROGRAM, *run],
            "run-live": [*PROGRAM, *run],
            "sessions-list": [*PROGRAM, "sessions", "list"],
            "help": [*PROGRAM, "--help"],
            "doctor": [sys.executable, "-P", "-c", FINDINGS],
        }
        for prompt in ("fix the date parser", "why is the build slow?"):
            shown([*PROGRAM, "run", prompt, *run[2:]], home, work)
        for name, command in pictures.items():
            title = f"codeagent {name.replace('-', ' ')}".replace(" help", " --help")
            until = "2 s ·" if name == "run-live" else ""
            picture = drawn(shown(command, home, work, until=until), title.removesuffix(" live"))
            (IMAGES / f"{name}.svg").write_text(picture, encoding="utf-8")
            print(f"wrote docs/images/{name}.svg")


def shown(
    command: list[str], home: Path, work: Path, *, until: str = "", columns: int = 80
) -> pyte.Screen:
    """Run a command on a terminal, and return what is on it in the end, or once this is on it."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", _HEIGHT, columns, 0, 0))
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "HOME": str(home),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
    }
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=work, env=environment
    )
    os.close(slave)
    screen = pyte.Screen(columns, _HEIGHT)
    stream = pyte.ByteStream(screen)
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        stream.feed(data)
        if until and any(until in row for row in screen.display):
            process.terminate()
            break
    process.wait()
    os.close(master)
    return screen


def drawn(screen: pyte.Screen, title: str) -> str:
    """Return the picture of a terminal, as far down as there is something on it."""
    rows = [_row(screen, number) for number in range(_HEIGHT)]
    while not rows[-1].plain.strip():
        rows.pop()
    console = Console(record=True, width=screen.columns, file=StringIO(), force_terminal=True)
    for row in rows:
        console.print(row, no_wrap=True, crop=True)
    return console.export_svg(title=title, unique_id=title.replace(" ", "-"))


def _row(screen: pyte.Screen, number: int) -> Text:
    row = Text()
    for column in range(screen.columns):
        cell = screen.buffer[number][column]
        styles = [
            style
            for style, on in (
                ("bold", cell.bold),
                ("italic", cell.italics),
                ("underline", cell.underscore),
            )
            if on
        ]
        if cell.fg != "default":
            colour = {"brown": "yellow", "brightbrown": "brightyellow"}.get(cell.fg, cell.fg)
            styles.append(colour.replace("bright", "bright_"))
        row.append(cell.data, " ".join(styles))
    return row


if __name__ == "__main__":
    main()
