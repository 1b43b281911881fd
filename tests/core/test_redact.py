"""Secrets of the process are nowhere in what is written (SECURITY.md T34)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.redact import Redactor
from codeagent.core.sanitize import one_line


def test_a_secret_is_replaced_by_its_name() -> None:
    redactor = Redactor({"OPENAI_API_KEY": "sk-abcdefgh", "HOME": "/home/someone"})
    assert redactor.clean("key sk-abcdefgh at /home/someone") == "key [secret OPENAI_API_KEY] at /home/someone"


def test_short_values_and_ordinary_names_are_left_alone() -> None:
    redactor = Redactor({"API_KEY": "test", "MONKEY": "bananas-are-yellow", "KEYBOARD": "qwertz-layout"})
    assert redactor.clean("test bananas-are-yellow qwertz-layout") == "test bananas-are-yellow qwertz-layout"


@given(st.text(min_size=8), st.text(), st.text(), st.booleans())
def test_a_secret_never_survives_inside_json(secret: str, before: str, after: str, ascii_only: bool) -> None:
    line = json.dumps({"text": before + secret + after}, ensure_ascii=ascii_only)
    cleaned = Redactor({"MY_TOKEN": secret}).clean(line)
    assert json.dumps(secret, ensure_ascii=ascii_only)[1:-1] not in cleaned or secret in "[secret MY_TOKEN]"


@given(st.text(min_size=8), st.text(), st.text(), st.lists(st.booleans(), min_size=1, max_size=3))
def test_a_secret_never_survives_inside_json_within_json(
    secret: str, before: str, after: str, ascii_only: list[bool]
) -> None:
    text, spelled = before + secret + after, secret
    for level in ascii_only:
        text = json.dumps({"text": text}, ensure_ascii=level)
        spelled = json.dumps(spelled, ensure_ascii=level)[1:-1]
    assert spelled not in Redactor({"MY_TOKEN": secret}).clean(text) or secret in "[secret MY_TOKEN]"


@pytest.mark.parametrize(
    ("cut", "cleaned"),
    [
        ("echo sk-abcdef…", "echo [secret MY_TOKEN]…"),
        ("sk-abcdef\\n[… 9 left out …]\\nefghijkl on", "[secret MY_TOKEN]\\n[… 9 left out …]\\n[secret MY_TOKEN] on"),
        ('{"label":"echo sk-abcdef…"}', '{"label":"echo [secret MY_TOKEN]…"}'),
        ("…fghijkl and more", "…[secret MY_TOKEN] and more"),
        ("echo sk-abcdef", "echo sk-abcdef"),
        ("sk-ab… is a short part", "sk-ab… is a short part"),
    ],
)
def test_the_part_that_a_cut_leaves_of_a_secret_is_masked(cut: str, cleaned: str) -> None:
    assert Redactor({"MY_TOKEN": "sk-abcdefghijkl"}).clean(cut) == cleaned


@given(st.text("abcdefgh", min_size=10, max_size=30), st.text(max_size=50), st.integers(1, 80))
def test_however_short_a_line_is_cut_no_part_of_a_secret_is_left_at_its_end(
    secret: str, before: str, width: int
) -> None:
    cut = one_line(f"{before} {secret} after", width)
    cleaned = Redactor({"MY_TOKEN": secret}).clean(cut)
    ends = cleaned.removesuffix("…")
    assert not cut.endswith("…") or not any(ends.endswith(secret[:size]) for size in range(6, len(secret) + 1))
