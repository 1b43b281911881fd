"""Makes the corpus of this folder with the product of a checkout, as its users would; see README.md.

It writes one folder for each case, with what that version makes of it in `known.json`.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("CODEAGENT_TESTS_RUN", str(os.getpid()))
from tests.old import file_cases, session_cases  # the variable is read at import
from tests.old.machines import put
from tests.old.reading import RECORDED, Machine, machine, own_look, placed, sent, shown, told

HERE = Path(__file__).parent
_LATER = re.compile(r'"expires":"[^"]*"')
_NOT_KEPT = (
    ".cache",
    "sandbox",
    "checkpoints",
    "lock",
    "*.lock",
    "script-*.json",
    ".git",
    "__pycache__",
)


def record_session(make: Callable[[Machine], None], into: Path) -> None:
    with machine(Path(RECORDED)) as made:
        for name in ("a.txt", "b.txt"):
            put(made, f"repo/{name}", f"this is {name}\nsecond line\n")
        make(made)
        store(made, into)
    with placed(into) as again:
        last = again.sessions[-1].name
    commands = [
        ("sessions", "list", "--json"),
        ("sessions", "check", last),
        ("sessions", "show", last, "--approvals"),
    ]
    if make in session_cases.EXPORTED:
        more = (
            ("sessions", "show", last, "--calls"),
            ("sessions", "export", last, "--format", "md"),
            ("stats", last, "--json"),
        )
        commands += more
    wire = "anthropic" if make is session_cases.thinking else "openai"
    write_known(
        into,
        commands,
        lambda made: {"shown": shown(made), "wire": [wire], "sent": sent(made, wire)},
    )


def record_files(case: file_cases.Case, into: Path) -> None:
    with machine(Path(RECORDED)) as made:
        shutil.copytree(
            into,
            made.root,
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("known.json", "state"),
        )
        for path in made.root.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)
        case.make(made)
        store(made, into)
    write_known(into, case.commands, lambda made: {"look": own_look(made)})


def store(made: Machine, into: Path) -> None:
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(made.root, into, ignore=shutil.ignore_patterns(*_NOT_KEPT))
    for path in sorted(into.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
        elif path.name == "rules.jsonl":
            path.write_text(_LATER.sub('"expires":"2999-01-01T00:00:00Z"', path.read_text()))


def write_known(
    into: Path, commands: Sequence[tuple[str, ...]], more: Callable[[Machine], dict[str, list[Any]]]
) -> None:
    """Write what is made of it, one item a line."""
    with placed(into) as made:
        known = {"told": [told(made, *command) for command in commands]}
        known |= more(made)
    lines = (f"{json.dumps(name)}: [\n{_items(found)}\n]" for name, found in known.items())
    (into / "known.json").write_text("{" + ",\n".join(lines) + "}\n")


def _items(found: list[Any]) -> str:
    return ",\n".join(json.dumps(one, ensure_ascii=False) for one in found)


def main() -> None:
    """With names of cases only these."""
    wanted = sys.argv[1:]
    for make in session_cases.SESSIONS:
        name = make.__name__.replace("_", "-")
        if not wanted or name in wanted:
            record_session(make, HERE / "sessions" / name)
    for name, case in file_cases.FILES.items():
        if not wanted or name in wanted:
            record_files(case, HERE / ("changed" if case.changed else "files") / name)


if __name__ == "__main__":
    main()
