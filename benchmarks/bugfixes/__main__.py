"""`python -m benchmarks.bugfixes [NAME …]`: one row per fix; exit code 1 where a bug was not
fixed."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.bugfixes.releases import Fix, Trouble, test_tools, unpacked
from benchmarks.bugfixes.repair import repair_of, script_of
from benchmarks.bugfixes.verdict import (
    Case,
    Run,
    counts_in,
    git,
    host_tests,
    problems_of_repository,
    problems_of_run,
    problems_of_tests,
    test_command,
)
from benchmarks.measure import CODEAGENT

FIXES = Path(__file__).parent
TITLE = 32
"""Width of the first column."""
PATIENCE = 300
"""Seconds for one run; it takes a few."""


def main(names: list[str]) -> int:
    known = {path.stem: path for path in sorted(FIXES.glob("*.json"))}
    unknown = set(names) - known.keys()
    if unknown:
        print(
            f"no such fix: {', '.join(sorted(unknown))}; there are {', '.join(known)}",
            file=sys.stderr,
        )
        return 2
    print(
        f"{'package':{TITLE}} {'before':>9} {'after':>9} turns calls     time   suite passes  verdict"
    )
    chosen = names or list(known)
    failed = 0
    for name in chosen:
        fix = Fix.model_validate_json(known[name].read_bytes())
        folder = Path(tempfile.mkdtemp(prefix="codeagent-bugfix-"))
        problems = _try(fix, folder)
        if problems:
            failed += 1
            print(*(f"    {problem}" for problem in problems), f"    kept: {folder}", sep="\n")
        else:
            shutil.rmtree(folder)
    print(f"{len(chosen) - failed} of {len(chosen)} fixed")
    return 1 if failed else 0


def _try(fix: Fix, folder: Path) -> list[str]:
    """Print the row; return what is wrong, which is nothing where the bug is really fixed."""
    title = f"{fix.package} {fix.old.version} → {fix.new.version}"
    try:
        case = lay_out(fix, folder)
        before = host_tests(case.root, fix)
        run = run_codeagent(case, folder)
        after = host_tests(case.root, fix)
        problems = [
            *problems_of_run(case, run),
            *problems_of_repository(case),
            *problems_of_tests(fix, before, after),
        ]
    except Trouble as error:
        print(f"{title:{TITLE}} not tried", flush=True)
        return [str(error)]
    print(f"{title:{TITLE}} {_figures(run)} {len(before):>5} → {len(after):<5}", end=" ")
    print("FAILED" if problems else f"fixed: {fix.bug}", flush=True)
    return problems


def _figures(run: Run) -> str:
    """What the tests printed before and after, turns, calls, and the seconds of the whole
    process."""
    before, after = [*(counts_in(result) for result in run.results("bash")), "-", "-"][:2]
    end = run.end or {"turns": "-", "calls": "-"}
    return f"{before:>9} {after:>9} {end['turns']:>5} {end['calls']:>5} {run.seconds:>6.1f} s"


def lay_out(fix: Fix, folder: Path) -> Case:
    """Raises Trouble where the releases do not differ as recorded, or the newer one does not pass
    its tests."""
    old, new = (
        unpacked(fix.package, release, folder / name)
        for release, name in ((fix.old, "old"), (fix.new, "new"))
    )
    if (old / fix.tests).exists():
        shutil.rmtree(old / fix.tests)
    shutil.copytree(new / fix.tests, old / fix.tests)
    tools = test_tools()
    for root in (old, new):
        shutil.copytree(tools, root / ".deps")
    missing = set(fix.failing) - host_tests(new, fix)
    if missing:
        raise Trouble(f"the newer release does not pass {', '.join(sorted(missing))}")
    repairs = tuple(repair_of(path, old, new, kept) for path, kept in sorted(fix.hunks.items()))
    git(old, "init", "-q", "--template=")
    (old / ".git/info").mkdir(exist_ok=True)
    (old / ".git/info/exclude").write_text(".deps/\n")
    git(old, "add", "--all", "--force", "--", ".", ":!.deps")
    message = f"{fix.package} {fix.old.version} with the tests of {fix.new.version}"
    git(
        old,
        "-c",
        "user.name=bench",
        "-c",
        "user.email=bench@localhost",
        "commit",
        "-q",
        "-m",
        message,
    )
    return Case(fix, old, repairs)


def run_codeagent(case: Case, folder: Path) -> Run:
    """The product, from its command line, with settings and sessions of its own. Raises Trouble."""
    script = folder / "script.json"
    script.write_text(
        json.dumps(script_of(case.fix, case.repairs, test_command(case.fix)), indent=1)
    )
    command = [
        *CODEAGENT,
        "run",
        "--model",
        f"script:{script}",
        "--cwd",
        str(case.root),
        "--allow",
        "bash",
        "--allow",
        "edit",
        "--output",
        "jsonl",
        f"{', '.join(case.fix.failing)} fail. Fix the code, not the tests.",
    ]
    places = {
        f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("CONFIG", "STATE", "DATA")
    }
    started = time.monotonic()
    try:
        done = subprocess.run(
            command,
            env=os.environ | places,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        seconds = time.monotonic() - started
        (folder / "events.jsonl").write_text(done.stdout)
        events = [json.loads(line) for line in done.stdout.splitlines()]
    except subprocess.TimeoutExpired:
        raise Trouble(f"codeagent run did not end within {PATIENCE} s") from None
    except json.JSONDecodeError as error:
        raise Trouble(
            f"codeagent run printed a line that is no event: {error.doc[:200]!r}"
        ) from None
    return Run(done.returncode, events, seconds, done.stderr)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
