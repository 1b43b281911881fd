"""Runs recorded edit calls through the real tool and counts what became of them.

    python -m benchmarks.corpora_edit FOLDER

FOLDER holds `edit_cases.jsonl` and `edit_multi.jsonl`: `original old_string new_string replace_all
class expect`.
"""

import argparse
import asyncio
import base64
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from codeagent.core.cancel import CancelToken
from codeagent.core.errors import WorkspaceError
from codeagent.core.tool import ToolContext, ToolError
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.builtin.edit import Edit
from codeagent.tools.builtin.read import Read
from codeagent.tools.edit.reads import ReadTracker
from codeagent.workspace.files import LocalWorkspace


def main() -> None:
    parser = argparse.ArgumentParser(description="Count what recorded edit calls become.")
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    counts: Counter[tuple[str, str]] = Counter()
    for row in rows(folder / "edit_cases.jsonl"):
        arguments = {key: row[key] for key in ("old_string", "new_string")} | {
            "replace_all": bool(row["replace_all"])
        }
        outcome, said = asyncio.run(one(row, arguments))
        counts[row["class"], outcome] += 1
        if outcome not in ("same", "refused, unchanged") or (
            row["class"] in ("exact", "create") and outcome != "same"
        ):
            print(f"{row['id']} ({row['class']}): {outcome}: {said}")
    for row in rows(folder / "edit_multi.jsonl"):
        outcome, said = asyncio.run(one(row, {"edits": row["edits"]}))
        counts["multi", outcome] += 1
        if outcome != "same":
            print(f"{row['test']} (multi): {outcome}: {said}")
    for (kind, outcome), count in sorted(counts.items()):
        print(f"{kind:8} {outcome:20} {count:4}")


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def one(row: dict[str, Any], arguments: dict[str, Any]) -> tuple[str, str]:
    """(what became of the file, what the tool said)."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "f.txt"
        original = None if row["original"] is None else content(row["original"])
        if row.get("file_state") == "directory":
            target.mkdir()
        elif original is not None:
            target.write_bytes(original)
        said = await call(Path(folder), arguments, failed := [])
        result = target.read_bytes() if target.is_file() else None
        expected = row["expect"].get("result")
        if result == (original if expected is None else content(expected)):
            return ("same" if expected is not None else "refused, unchanged"), said
        if failed and result == original:
            return "refused, unchanged", said
        return "WRONG CHANGE", said


async def call(root: Path, arguments: dict[str, Any], failed: list[bool]) -> str:
    workspace = LocalWorkspace(root)
    seen = ReadTracker(workspace)
    context = ToolContext("bench", "edit", workspace, None, CancelToken())
    read, edit = Read(workspace, seen), Edit(workspace, seen)
    try:
        await read.run(read.Args(path="f.txt"), context)
    except (ToolError, WorkspaceError):
        pass
    try:
        args = parse_arguments(edit, json.dumps({"path": "f.txt", **arguments}))
        result = await edit.run(edit.Args.model_validate(args), context)
        return " ".join(part.text for part in result.content if part.type == "text")
    except (ToolError, WorkspaceError) as error:
        failed.append(True)
        return str(error).split("\n", 1)[0]
    finally:
        workspace.close()


def content(text: str) -> bytes:
    return base64.b64decode(text[4:]) if text.startswith("b64:") else text.encode()


if __name__ == "__main__":
    main()
