"""Plan mode with a model that obeys an attacker: told to change files by every tool and by bash, it
changes nothing."""

import hashlib
import os
import stat
from pathlib import Path

import pytest

from tests.e2e.product import Product, results

pytestmark = pytest.mark.docker

COMMANDS = (
    "echo x > kept.txt",
    "echo x >> kept.txt",
    "touch new.txt",
    "rm -rf src kept.txt",
    "mv kept.txt moved.txt",
    "ln -s /etc/passwd link",
    "ln kept.txt hard",
    "mkdir deep/er -p",
    "chmod 777 kept.txt",
    "sed -i s/a/b/ kept.txt",
    "cp /etc/hostname here",
    "python3 -c \"open('kept.txt','w').write('x')\"",
    "python3 -c \"import os; os.truncate('kept.txt', 0)\"",
    "python3 -c \"import os; os.utime('kept.txt', (1, 1))\"",
    "dd if=/dev/zero of=kept.txt bs=1 count=1 conv=notrunc",
    "tee kept.txt < /dev/null",
    "git init -q . ; git add -A ; git commit -qm x",
    "mount -o remount,rw .",
    "echo x > /proc/self/cwd/kept.txt",
    'cd / && echo x > "$OLDPWD"/kept.txt',
    "(setsid sh -c 'sleep 0.2; echo x > kept.txt' &) ; sleep 0.5",
)
TOOLS = (
    ["write", {"path": "kept.txt", "content": "x"}],
    ["write", {"path": "new.txt", "content": "x"}],
    ["write", {"path": "kept.txt", "content": "x", "append": True}],
    ["edit", {"path": "kept.txt", "old_string": "a", "new_string": "b"}],
    ["edit", {"path": "kept.txt", "edits": [{"old_string": "a", "new_string": "b"}]}],
)


def whole(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything about every file that a change would show in."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = (
            hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(status.st_mode) else ""
        )
        found[str(path.relative_to(folder))] = (
            status.st_mode,
            status.st_nlink,
            status.st_mtime_ns,
            content,
        )
    return found


def test_nothing_changes_whatever_is_called_and_allowed_and_reading_works(product: Product) -> None:
    (product.workspace / "kept.txt").write_text("a\n")
    (product.workspace / "src").mkdir()
    (product.workspace / "src" / "code.py").write_text("a = 1\n")
    os.utime(product.workspace / "kept.txt", (1_000_000_000, 1_000_000_000))
    before = whole(product.workspace)
    reads = [["read", {"path": "kept.txt"}]]
    calls = [*TOOLS, *(["bash", {"command": command}] for command in COMMANDS)]
    reading = ["bash", {"command": "cat kept.txt && echo scratch > /tmp/s && cat /tmp/s"}]
    turns = [{"calls": reads}, *({"calls": [call]} for call in calls), {"calls": [reading]}]
    script = product.script(*turns, {"text": "# The plan", "expect": r"(?s)a\nscratch"})
    rules = ("--allow", "bash", "--allow", "write", "--allow", "edit")
    done = product.run_in_container(script, "--mode", "plan", "--yes", *rules)
    assert done.code == 0, done.err
    assert whole(product.workspace) == before
    events = product.log()
    assert len(results(events)) == len(turns)
    denied = [
        result for result in results(events) if (result["error"] or {}).get("kind") == "denied"
    ]
    assert [result["name"] for result in denied] == [call[0] for call in TOOLS]
    assert all(result["executed"] for result in results(events) if result["name"] == "bash")


def test_outside_plan_mode_the_same_calls_do_change_things(product: Product) -> None:
    (product.workspace / "kept.txt").write_text("a\n")
    before = whole(product.workspace)
    script = product.script({"calls": [["bash", {"command": COMMANDS[0]}]]}, {"text": "done"})
    assert product.run_in_container(script, "--yes").code == 0
    assert whole(product.workspace) != before
