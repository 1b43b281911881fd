"""Opens the patches of a batch in the hunk review, one repository of this machine after the other."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.commands.arguments import say
from codeagent.commands.chat import open_screen, require_terminal
from codeagent.config.local_environment import state_dir
from codeagent.disk.private import replace_private
from codeagent.extensions.batch.copies import Mirror
from codeagent.extensions.batch.results import Results, TaskRecord

if TYPE_CHECKING:
    from codeagent.commands.ports import App

_PROMPT = "Show me the patches of {results}, one after the other."
_OVER = (
    "These were the patches. `/undo` takes the last one back, and `/model` chooses a model to "
    "continue with."
)


def open_patches(
    results: Results, records: Sequence[TaskRecord], sandbox: str | None, app: "App"
) -> int:
    """Open the screen in each repository, with its patches as calls to approve. Raises ConfigError
    without a terminal."""
    require_terminal("`git apply` takes each RESULTS/KEY/patch.diff")
    found = defaultdict[str, list[TaskRecord]](list)
    for record in records:
        if record.changed[0]:
            found[record.repository].append(record)
    if not found:
        say("no patches to take; --only TEXT also opens those of tasks that did not pass")
    for number, (repository, own) in enumerate(found.items()):
        patches = f"{len(own)} patch{'es' * (len(own) > 1)}"
        if not Path(repository, ".git").exists():
            say(f"{repository} is not a repository on this machine; {patches} left")
            continue
        say(f"{repository}: {patches}")
        mirror = Mirror.of(repository, state_dir() / "mirrors")
        if not mirror.folder.exists():  # the tasks were worked on elsewhere
            asyncio.run(mirror.update(repository))
        if number:
            input("press Enter to open them, Ctrl+C to stop ")
        options: dict[str, Any] = {
            "model": f"script:{_script(results, own)}",
            "mode": "ask",
            "named": True,
            "flags": {"sandbox": sandbox, "toolset": ["patches"]},
        }
        prompt = _PROMPT.format(results=results.path)
        open_screen(Path(repository), app, prompt=prompt, **options)
    return 0


def _script(results: Results, records: Sequence[TaskRecord]) -> Path:
    """Write the turns of a scripted model that calls `take_patch` for each task. Raises OSError."""
    turns = [
        {
            "text": f"{record.title}: {record.state}",
            "calls": [["take_patch", {"results": str(results.path), "key": record.key}]],
        }
        for record in records
    ]
    path = results.path / "apply.json"
    replace_private(path, json.dumps([*turns, {"text": _OVER}]).encode())
    return path
