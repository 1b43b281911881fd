import re
from pathlib import Path
from types import SimpleNamespace

from tests.rows import AIMS, breaches, table


def report(failed: bool = False, **told: object) -> SimpleNamespace:
    return SimpleNamespace(failed=failed, user_properties=list(told.items()))


def test_a_row_says_what_was_tried_what_went_wrong_and_where_it_falls_short() -> None:
    egress = [report(row="egress", tried=150), report(row="egress", tried=50), report(tried=7)]
    floods = [report(failed=True, row="floods", tried=2, breaches=3)]
    first, *lines = table([*egress, *floods], seed=42)  # type: ignore[list-item]  # the part that is read
    said = {line[35:]: line[:35].split() for line in lines}
    assert "seed 42" in first
    assert len(lines) == len(AIMS)
    assert said["egress"] == ["200", "190", "0"]
    assert said["floods  BELOW ITS AIM"] == ["2", "12", "3"]
    assert said["orphans  NOT RUN"] == ["0", "20", "0"]


def test_each_case_of_a_table_is_a_breach_of_its_own() -> None:
    assert breaches(ExceptionGroup("2 of 9 cases fail", [ValueError(), KeyError()])) == 2
    assert breaches(AssertionError()) == 1


def test_the_document_lists_the_same_rows() -> None:
    document = Path(__file__).parents[1] / "docs/explanation/security.md"
    listed = re.findall(r"^\| `([^`]+)` \| ([0-9,]+) \|", document.read_text(), re.MULTILINE)
    assert {name: int(aim.replace(",", "")) for name, aim in listed} == AIMS
