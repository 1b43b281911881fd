import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.rows import AIMS, aims, breaches, shortfall, table


def report(failed: bool = False, **told: object) -> SimpleNamespace:
    return SimpleNamespace(failed=failed, user_properties=list(told.items()))


def test_a_row_says_what_was_tried_what_went_wrong_and_where_it_falls_short() -> None:
    egress = [report(row="egress", tried=150), report(row="egress", tried=50), report(tried=7)]
    floods = [report(failed=True, row="floods", tried=2, breaches=3)]
    first, *lines = table([*egress, *floods], 42, aims(20))  # type: ignore[list-item]  # the part that is read
    said = {line[35:]: line[:35].split() for line in lines}
    assert "seed 42" in first
    assert len(lines) == len(AIMS)
    assert said["egress"] == ["200", "190", "0"]
    assert said["floods  BELOW ITS AIM"] == ["2", "12", "3"]
    assert said["orphans  NOT RUN"] == ["0", "20", "0"]


def test_the_last_line_of_a_soak_names_the_rows_that_were_not_run_or_are_below_their_aim() -> None:
    ran = [
        report(row=row, tried=aim) for row, aim in AIMS.items() if row not in ("floods", "orphans")
    ]
    assert shortfall([*ran, report(row="floods", tried=11)], aims(20)) == (  # type: ignore[list-item]  # as above
        f"this soak falls short in 2 of {len(AIMS)} rows: orphans (not run), floods (below its aim)"
    )
    full = [*ran, report(row="floods", tried=12), report(row="orphans", tried=20)]
    assert shortfall(full, aims(20)) == ""  # type: ignore[arg-type]  # as above


def test_a_smaller_soak_aims_lower_and_a_row_that_was_picked_is_the_only_one() -> None:
    assert (aims(4)["floods"], aims(40)["floods"]) == (2, 12)
    assert aims(20, "egress") == {"egress": AIMS["egress"]}


@pytest.mark.parametrize(
    ("minutes", "row", "cases", "code", "last"),
    [
        ("60", "floods", 12, 0, "1 passed"),
        ("60", "floods", 11, 1, "this soak falls short in 1 of 1 rows: floods (below its aim)"),
        ("60", "orphans", 12, 1, "this soak falls short in 1 of 1 rows: orphans (not run)"),
        (
            "0",
            "floods",
            12,
            0,
            "this soak falls short in 1 of 1 rows: floods (not run); the time of this soak is up",
        ),
    ],
    ids=["reached", "below", "not run", "out of time"],
)
def test_a_soak_that_falls_short_fails_unless_its_time_was_up(
    tmp_path: Path, minutes: str, row: str, cases: int, code: int, last: str
) -> None:
    mark = f'@pytest.mark.soak(tried={cases}, row="floods")'
    (tmp_path / "test_one.py").write_text(
        f"import pytest\n\n{mark}\ndef test_one() -> None:\n    pass\n"
    )
    soak = {"CODEAGENT_SOAK": "20", "CODEAGENT_SOAK_MINUTES": minutes, "CODEAGENT_ROW": row}
    repository = Path(__file__).parents[1]
    pytest_here = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    where = ["--rootdir", str(tmp_path), "-c", str(repository / "pyproject.toml"), str(tmp_path)]
    done = subprocess.run(
        [*pytest_here, *where],
        cwd=repository,
        env=os.environ | soak,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout.splitlines()
    assert (done.returncode, last in said[-1]) == (code, True), done.stdout + done.stderr


def test_each_case_of_a_table_is_a_breach_of_its_own() -> None:
    assert breaches(ExceptionGroup("2 of 9 cases fail", [ValueError(), KeyError()])) == 2
    assert breaches(AssertionError()) == 1


def test_the_document_lists_the_same_rows() -> None:
    document = Path(__file__).parents[1] / "docs/explanation/security.md"
    listed = re.findall(r"^\| `([^`]+)` \| ([0-9,]+) \|", document.read_text(), re.MULTILINE)
    assert {name: int(aim.replace(",", "")) for name, aim in listed} == AIMS
