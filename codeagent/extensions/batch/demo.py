"""`codeagent batch demo`: scripted models work on five tasks over two throwaway repositories."""

import json
import os
import tempfile
from pathlib import Path

from codeagent.commands.demo import commit_all


def make_demo() -> Path:
    """Make the repositories and the task file; return the path of that file. Raises CodeagentError,
    OSError."""
    folder = Path(tempfile.mkdtemp(prefix="codeagent-batch-"))
    given = json.loads(Path(__file__).with_name("demo.json").read_text(encoding="utf-8"))
    for name, files in given["repositories"].items():
        for path, text in files.items():
            (target := folder / name / path).parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        commit_all(folder / name, "first", os.environ)
    tasks = folder / "tasks.jsonl"
    with tasks.open("w", encoding="utf-8") as lines:
        for task in given["tasks"]:
            script = folder / f"{task['name']}.json"
            script.write_text(json.dumps(task.pop("turns")), encoding="utf-8")
            lines.write(json.dumps({**task, "model": f"script:{script}"}) + "\n")
    return tasks
