"""Compares ignore rules, wildcards and searches with what git and ripgrep say.

    python -m benchmarks.corpora_search FOLDER [--tree TREE]

FOLDER holds `gitignore_cases.jsonl`, `wildmatch.jsonl`, `ripgrep_e2e.jsonl` and `queries.jsonl`.
With a TREE of files the patterns of `queries.jsonl` are searched in it, and the time is printed
beside ripgrep's own on the same tree.
"""

import argparse
import asyncio
import json
import posixpath
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from codeagent.core.cancel import CancelToken
from codeagent.core.patterns import wildmatch
from codeagent.core.tool import ToolContext, ToolResult
from codeagent.tools.builtin.search import Search
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.ripgrep import find_ripgrep
from codeagent.workspace.files import LocalWorkspace
from codeagent.workspace.ignore import IgnoreTree

_OPTIONS = {"-i": ("ignore_case", True), "-F": ("literal", True)}
_IGNORED_OPTIONS = {"-n", "-H", "--with-filename"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Compare searches and ignore rules with git and ripgrep."
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tree", type=Path)
    options = parser.parse_args()
    gitignore(rows(options.folder / "gitignore_cases.jsonl"))
    wildcards(rows(options.folder / "wildmatch.jsonl"))
    asyncio.run(end_to_end(rows(options.folder / "ripgrep_e2e.jsonl")))
    if options.tree is not None:
        asyncio.run(queries(rows(options.folder / "queries.jsonl"), options.tree))


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def gitignore(cases: list[dict[str, Any]]) -> None:
    agree = 0
    for case in cases:
        lines = "\n".join(case["patterns"]).encode()
        rules = IgnoreTree(lambda path, lines=lines: lines if path == ".gitignore" else None)  # type: ignore[misc]  # bound now
        parts = posixpath.normpath(case["path"]).split("/")
        ignored = any(
            rules.ignored("/".join(parts[:depth]), depth < len(parts) or case["is_dir"])
            for depth in range(1, len(parts) + 1)
        )
        agree += ignored == case["git_says"]
        if ignored != case["git_says"]:
            print(
                f"  differs: {case['name']} {case['patterns']} {case['path']}: git says {case['git_says']}"
            )
    print(f"gitignore cases   {agree}/{len(cases)} as git")


def wildcards(cases: list[dict[str, Any]]) -> None:
    agree = sum(
        (wildmatch(c["pattern"]).fullmatch(c["text"]) is not None) == c["wildmatch"] for c in cases
    )
    print(f"wildmatch         {agree}/{len(cases)} as git")


async def end_to_end(cases: list[dict[str, Any]]) -> None:
    agree = tried = 0
    for case in cases:
        arguments = arguments_of(case)
        if arguments is None:
            continue
        tried += 1
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in case["files"].items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            result, _ = await search(root, **arguments)
        ours = [
            line.split(":", 2)[2] for line in text_of(result).split("\n") if line.count(":") >= 2
        ]
        theirs = [plain(line) for line in case["steps"][0]["stdout"].splitlines()]
        agree += ours == theirs
        if ours != theirs:
            print(f"  differs: {case['name']}: {ours[:2]} instead of {theirs[:2]}")
    print(
        f"ripgrep cases     {agree}/{tried} same lines ({len(cases) - tried} use options that search does not have)"
    )


def arguments_of(case: dict[str, Any]) -> dict[str, Any] | None:
    """The tool's arguments for ripgrep's; None where there are none."""
    if len(case["steps"]) != 1 or ("hidden" in case["about"]):
        return None
    found: dict[str, Any] = {"limit": 1000}
    words = list(case["steps"][0]["args"])
    plain_words = []
    while words:
        word = words.pop(0)
        if word in _OPTIONS:
            name, value = _OPTIONS[word]
            found[name] = value
        elif word in ("-g", "--glob"):
            found["glob"] = words.pop(0)
        elif word not in _IGNORED_OPTIONS and word.startswith("-"):
            return None
        elif not word.startswith("-"):
            plain_words.append(word)
    return found | dict(zip(("pattern", "path"), plain_words, strict=False))


def plain(line: str) -> str:
    """A line of ripgrep's without `path:` and `number:`."""
    while True:
        head, colon, rest = line.partition(":")
        if not colon or not (
            head.isdigit() or head in ("sherlock", "file.rs", "file2.html", "file")
        ):
            return line
        line = rest


async def queries(cases: list[dict[str, Any]], tree: Path) -> None:
    """The tool against `rg --json` over the same tree, three times each, medians."""
    program = find_ripgrep(Path("/nonexistent"))
    if program is None:
        raise SystemExit("ripgrep is missing")
    ratios = []
    for pattern in dict.fromkeys(case["pattern"] for case in cases):
        ours, theirs = [], []
        for _ in range(3):
            started = time.perf_counter()
            command = [
                program,
                "--no-config",
                "--hidden",
                "--no-require-git",
                "--glob=!.git",
                "-m1",
                "-e",
                pattern,
                "./",
            ]
            await asyncio.to_thread(
                subprocess.run, command, cwd=tree, capture_output=True, check=False
            )
            theirs.append(time.perf_counter() - started)
            _, seconds = await search(tree, pattern=pattern, limit=1000)
            ours.append(seconds)
        ratios.append(statistics.median(ours) / statistics.median(theirs))
        print(
            f"  {statistics.median(ours):6.3f} s  rg {statistics.median(theirs):6.3f} s  x{ratios[-1]:4.2f}  {pattern}"
        )
    print(
        f"queries           median x{statistics.median(ratios):.2f} of ripgrep over {len(ratios)} patterns"
    )


async def search(root: Path, **arguments: Any) -> tuple[ToolResult, float]:
    """The result and the seconds it took."""
    workspace = LocalWorkspace(root)
    tool = Search(workspace, ReadTracker(workspace))
    started = time.perf_counter()
    try:
        result = await tool.run(
            tool.Args(**arguments), ToolContext("bench", "search", workspace, None, CancelToken())
        )
    finally:
        workspace.close()
    return result, time.perf_counter() - started


def text_of(result: ToolResult) -> str:
    return "\n".join(part.text for part in result.content if part.type == "text")


if __name__ == "__main__":
    main()
