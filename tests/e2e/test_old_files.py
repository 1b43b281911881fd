"""Files that an earlier version wrote, or read, are to this one what they were to that one.

`tests/old` has them, what that version made of each in `known.json`, and how both were made.
"""

import json
import re
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from codeagent.extensions.recipes.recipe_folders import SHIPPED
from tests.old.reading import RECORDED, Json, Machine, own_look, placed, sent, shown, told

OLD = Path(__file__).parents[1] / "old"
SESSIONS = sorted(path.parent for path in OLD.glob("sessions/*/known.json"))
FILES = sorted(path.parent for path in OLD.glob("files/*/known.json"))
BATCH = re.compile(
    r"(?P<mark> *[▸▾] )(?:calls|(?=batch))(?P<number>batch \d+)? · \d+ calls?(?P<rest>.*)"
)
"""How an earlier version named a batch."""
ONLY_CALL = re.compile(
    r"^(?P<mark> *[▸▾] )(?:calls|(?P<batch>batch \d+)) · 1 call[^\n]*\n +(?P<call>[○●&✓✗–] [^\n]+)$",
    re.MULTILINE,
)
"""A batch of one call, which an earlier version drew on the line below."""
TOOK = re.compile(r"\n\n  worked [^\n]+ · \d+ calls?$", re.MULTILINE)
"""How long the machine worked, at the end of a turn."""
each_session = pytest.mark.parametrize("case", SESSIONS, ids=lambda case: case.name)
each_file = pytest.mark.parametrize("case", FILES, ids=lambda case: case.name)


def known(case: Path) -> Json:
    found: Json = json.loads((case / "known.json").read_text("utf-8"))
    return found


@each_session
def test_an_old_session_shows_and_says_what_it_did(case: Path) -> None:
    before = known(case)
    with placed(case) as made:
        now = [without_what_it_took(text) for text in shown(made)]
        then = [with_only_calls_beside(without_what_it_took(text)) for text in before["shown"]]
        assert now == with_headers_of(now, then)
        assert_told(made, before)
        for form in ("md", "html", "jsonl"):
            assert made.call("sessions", "export", "--format", form).code == 0


@each_session
def test_an_old_session_is_continued_with_the_same_messages(case: Path) -> None:
    before = known(case)
    with placed(case) as made:
        [wire] = before["wire"]
        assert sent(made, wire) == before["sent"]
        assert made.call("sessions", "check").code == (case.name == "cut")


@each_file
def test_an_old_file_is_read_as_it_was(case: Path) -> None:
    before = known(case)
    with placed(case) as made:
        assert_told(made, before)
        assert own_look(made) == before["look"]


def without_what_it_took(text: str) -> str:
    """What was shown, without how long each turn took, which an earlier version did not say (ADR 39)."""
    return TOOK.sub("", text).rstrip()


def with_only_calls_beside(text: str) -> str:
    """What was shown, with the only call of a batch on the line of the batch (ADR 39)."""

    def on_one_line(found: re.Match[str]) -> str:
        return found["mark"] + found["call"] + (f" · {found['batch']}" if found["batch"] else "")

    return ONLY_CALL.sub(on_one_line, text)


def with_headers_of(now: list[str], before: list[str]) -> list[str]:
    """What was shown, but batches are named by what they did, as ADR 39 decides; their numbers and
    times are as they were."""
    return [
        "\n".join(
            with_header_of(*pair)
            for pair in zip_longest(text.split("\n"), old.split("\n"), fillvalue="")
        )
        for text, old in zip(now, before, strict=True)
    ]


def with_header_of(now: str, before: str) -> str:
    header = BATCH.fullmatch(before)
    if header is None or not now.startswith(header["mark"]):
        return before
    return now if now.endswith((header["number"] or "") + header["rest"]) else before


def assert_told(made: Machine, before: Json) -> None:
    for one in before["told"]:
        assert same(told(made, *one["arguments"]), one)


def same(now: Json, before: Json) -> bool:
    """Whether a command says the same; JSON may say more, and one of something is singular (ADR 37)."""
    before = {**before, "out": before["out"].replace(" 1 problems\n", " 1 problem\n")}
    try:
        now, before = ({**one, "out": json.loads(one["out"])} for one in (now, before))
    except ValueError:
        pass
    assert within(now, before) == before
    return True


def within(now: Any, before: Any) -> Any:
    """What is said, without the keys that nobody knew before, and without the recipes that ship."""
    if isinstance(now, dict) and isinstance(before, dict):
        return {key: within(now[key], before[key]) for key in before if key in now}
    if isinstance(now, list):
        now = [one for one in now if not (isinstance(one, dict) and one.get("where") == SHIPPED)]
    if isinstance(now, list) and isinstance(before, list) and len(now) == len(before):
        return [within(*pair) for pair in zip(now, before, strict=True)]
    return now


def test_a_placeholder_in_a_here_document_is_answered_with_the_line_to_write() -> None:
    """ADR 34: the one file that was a tool before."""
    [before] = known(OLD / "changed/here-document")["told"]
    assert [tool["name"] for tool in json.loads(before["out"])] == ["here"]
    with placed(OLD / "changed/here-document") as made:
        now = told(made, *before["arguments"])
    assert (now["code"], now["out"]) == (0, "[]")
    assert "write text={{args.text}} on a line before it, and here ${text}" in now["err"]


def test_the_corpus_is_small_and_names_no_path_of_the_machine_that_recorded_it() -> None:
    stored = {path: path.read_bytes() for path in OLD.glob("*/*/**/*") if path.is_file()}
    assert sum(map(len, stored.values())) < 400_000
    anywhere = re.compile(rb"(?<![\w./])/(?:root|home|tmp|work|usr/local|Users)/[^\s\"]*")
    found = {
        path.name: anywhere.findall(data.replace(RECORDED.encode(), b"ROOT"))
        for path, data in stored.items()
    }
    assert {name: paths for name, paths in found.items() if paths} == {}
