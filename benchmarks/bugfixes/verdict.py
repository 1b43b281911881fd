"""Whether a bug is really fixed: what the run says, what git says, what the tests say outside the
container."""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bugfixes.releases import Fix, Trouble, output_of
from benchmarks.bugfixes.repair import Repair

PYTEST = (
    "-m",
    "pytest",
    "-q",
    "--rootdir=.",
    "-p",
    "no:cacheprovider",
    "-o",
    "addopts=",
    "-o",
    "filterwarnings=",
)
TEST_ENVIRONMENT = {"PYTHONPATH": "src:.:.deps", "PYTHONDONTWRITEBYTECODE": "1"}
Json = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A fix, laid out: a repository with the bug, the tests that show it, and the way out."""

    fix: Fix
    root: Path
    repairs: tuple[Repair, ...]


@dataclass(frozen=True)
class Run:
    code: int
    events: list[Json]
    seconds: float
    stderr: str

    @property
    def end(self) -> Json | None:
        return next((event for event in self.events if event["type"] == "run.finished"), None)

    def results(self, *names: str) -> list[Json]:
        return [
            event
            for event in self.events
            if event["type"] == "tool.result" and event["name"] in names
        ]


def host_tests(root: Path, fix: Fix) -> frozenset[str]:
    """Ids of the package's tests that pass with the code as it is now, outside the container.

    Without `site`, so that what is installed beside codeagent does not count.
    """
    with tempfile.TemporaryDirectory(prefix="codeagent-bugfix-") as folder:
        report = Path(folder, "report.xml")
        environment = TEST_ENVIRONMENT | {
            "PATH": os.defpath,
            "HOME": folder,
            "LANG": "C.UTF-8",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        options = (
            "--continue-on-collection-errors",
            "-o",
            "junit_family=xunit1",
            f"--junitxml={report}",
        )
        done = subprocess.run(
            [sys.executable, "-S", *PYTEST, *options, fix.tests],
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
        if not report.exists():
            raise Trouble(
                f"the tests of {root} do not run: {(done.stderr or done.stdout).strip()[-400:]}"
            )
        return frozenset(
            _test_id(case) for case in ET.parse(report).iter("testcase") if _passed(case)
        )


def _passed(case: ET.Element) -> bool:
    return not any(child.tag in ("failure", "error", "skipped") for child in case)


def _test_id(case: ET.Element) -> str:
    file = case.get("file", "")
    classes = case.get("classname", "").split(".")[len(Path(file).parts) :]
    return "::".join([file, *classes, case.get("name", "")])


def text_of(result: Json) -> str:
    return "\n".join(part.get("text", "") for part in result["content"])


def counts_in(result: Json) -> str:
    """What pytest printed last, as in `2 failed`."""
    return " ".join(re.findall(r"(?m)^\d+ \w+", text_of(result))[-1:]) or "-"


def problems_of_run(case: Case, run: Run) -> Iterator[str]:
    if run.code != 0 or run.end is None or run.end["reason"] != "done":
        said = run.stderr.strip() or (run.end or {}).get("error")
        yield f"codeagent run ended with exit code {run.code}: {said}"
    commands = run.results("bash")
    ends = [(result["sandbox"], result["details"].get("exit_code")) for result in commands]
    if ends != [("docker", 1), ("docker", 0)]:
        yield f"bash should fail and then pass in docker; it did: {[text_of(result)[-200:] for result in commands]}"
    others = run.results("read", "search", "edit")
    if any(result["is_error"] for result in others):
        yield f"these went wrong: {[text_of(result) for result in others if result['is_error']]}"
    if [result["name"] for result in others].count("edit") != len(case.repairs):
        yield f"{len(case.repairs)} files should be edited"
    if any(event["type"] == "approval.requested" for event in run.events):
        yield "something was asked about although the rules allow it"


def problems_of_repository(case: Case) -> Iterator[str]:
    changed = git(case.root, "status", "--porcelain", "--untracked-files=all").splitlines()
    if changed != [f" M {repair.path}" for repair in case.repairs]:
        yield f"git status says {changed}; only {[repair.path for repair in case.repairs]} should be modified"
    for repair in case.repairs:
        if (case.root / repair.path).read_bytes() != repair.result:
            yield f"{repair.path} is not what the edits should have made of it"


def problems_of_tests(fix: Fix, before: frozenset[str], after: frozenset[str]) -> Iterator[str]:
    wanted = set(fix.failing)
    if wanted & before:
        yield f"passed before the fix: {sorted(wanted & before)}"
    if wanted - after:
        yield f"fails after the fix: {sorted(wanted - after)}"
    if before - after:
        yield f"passed before and fails now: {sorted(before - after)}"


def test_command(fix: Fix) -> str:
    assignments = " ".join(f"{name}={value}" for name, value in TEST_ENVIRONMENT.items())
    return f"{assignments} python3 {shlex.join([*PYTEST, '-W', 'ignore', *fix.failing])}"


def git(root: Path, *arguments: str) -> str:
    """The user's own git settings and hooks have no say. Raises Trouble."""
    guarded = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    guarded |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    return output_of(["git", "-C", str(root), *arguments], guarded)
