"""Looking through earlier sessions: of this workspace only, the newest first, without results,
within a bound."""

import itertools
from pathlib import Path

import pytest

from codeagent.core.event_json import event_json
from codeagent.core.events import KnownEvent, MessageAdded, RunStarted, ToolResultAdded, ToolStarted
from codeagent.core.memory import Found
from codeagent.core.messages import AssistantMessage, TextPart, UserMessage, UserSource
from codeagent.core.redact import Redactor
from codeagent.session.log import seal
from codeagent.session.memory import SessionMemory
from codeagent.session.store import SessionStore

NOTHING = Redactor({})


class Archive:
    """Sessions written as the product writes them, a second apart."""

    def __init__(self, state: Path) -> None:
        self.store = SessionStore(state, NOTHING)
        self._numbers = itertools.count()

    def add(self, *events: KnownEvent, workspace: str = "/acme") -> str:
        number = next(self._numbers)
        session_id = f"20260101-00{number // 60:02}{number % 60:02}-{number:08x}"
        folder = self.store.folder(session_id)
        folder.mkdir(parents=True)
        started = RunStarted(
            **head(), model="m", workspace=workspace, mode="ask", strategy="parallel", codeagent="0"
        )
        (folder / "events.jsonl").write_bytes(
            b"".join(seal(event_json(event, NOTHING)) for event in (started, *events))
        )
        return session_id

    def search(self, *words: str, limit: int = 10, **options: object) -> Found:
        options = {"redactor": NOTHING} | options
        return SessionMemory(self.store, Path("/acme"), **options).search(words, limit)  # type: ignore[arg-type]  # by name

    def snippets(self, *words: str) -> list[str]:
        return [hit.snippet for hit in self.search(*words).hits]


def head() -> dict[str, object]:
    return {"seq": 1, "ts": 1000.0, "session": "s"}


def asked(text: str, source: UserSource = "prompt") -> MessageAdded:
    return MessageAdded(**head(), message=UserMessage.from_text(text, source))


def answered(text: str) -> MessageAdded:
    return MessageAdded(**head(), message=AssistantMessage(text=text))


def ran(command: str) -> ToolStarted:
    return ToolStarted(
        **head(), call_id="c", name="bash", target=command, arguments={"command": command}
    )


def printed(text: str) -> ToolResultAdded:
    content = (TextPart(text=text),)
    return ToolResultAdded(
        **head(), call_id="c", name="bash", content=content, is_error=False, executed=True
    )


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path / "state")


def test_prompts_answers_and_commands_are_found_and_results_and_notes_are_not(
    archive: Archive,
) -> None:
    archive.add(
        asked("needle one"),
        answered("needle two"),
        ran("grep needle three"),
        printed("needle four"),
        asked("needle five", "note"),
        asked("needle six", "steer"),
    )
    found = archive.search("needle")
    assert [(hit.what, hit.snippet) for hit in found.hits] == [
        ("prompt", "needle six"),
        ("command", "grep needle three"),
        ("answer", "needle two"),
        ("prompt", "needle one"),
    ]
    assert (found.sessions, found.complete) == (1, True)


def test_the_newest_session_comes_first_and_the_present_one_is_left_out(archive: Archive) -> None:
    first, second, third = (archive.add(asked(f"needle {number}")) for number in range(3))
    found = archive.search("needle", without=third)
    assert [hit.session for hit in found.hits] == [second, first]


def test_sessions_of_other_folders_are_not_looked_through(archive: Archive) -> None:
    archive.add(asked("needle here"))
    archive.add(asked("needle there"), workspace="/acme/below")
    archive.add(asked("needle there"), workspace="/other")
    assert archive.search("needle").sessions == 1
    assert archive.snippets("needle") == ["needle here"]


@pytest.mark.parametrize(
    "words", [("STRASSE", "blau"), ("blau",), ('"quoted"',), ("c:\\temp",), ("ÜBER",)]
)
def test_all_words_in_any_case_and_with_any_character_must_be_there(
    archive: Archive, words: tuple[str, ...]
) -> None:
    archive.add(asked('Die Strasse ist BLAU, über "quoted" C:\\temp'))
    archive.add(asked("nothing of it"))
    assert len(archive.snippets(*words)) == 1
    assert archive.snippets(*words, "absent") == []


def test_a_snippet_is_one_short_line_around_the_match(archive: Archive) -> None:
    archive.add(asked("x" * 5000 + "\nthe needle\x1b[31m\n" + "y" * 5000))
    (snippet,) = archive.snippets("needle")
    assert snippet.startswith("…x") and "the needle\\x1b[31m yyy" in snippet and len(snippet) <= 240


def test_a_secret_that_is_known_by_now_is_masked(archive: Archive) -> None:
    archive.add(asked("needle sk-canary-0123456789"))
    (hit,) = archive.search("needle", redactor=Redactor({"MY_TOKEN": "sk-canary-0123456789"})).hits
    assert hit.snippet == "needle [secret MY_TOKEN]"


def test_it_stops_when_enough_is_found(archive: Archive) -> None:
    for number in range(5):
        archive.add(*(asked(f"needle {number}.{line}") for line in range(3)))
    found = archive.search("needle", limit=4)
    assert [hit.snippet for hit in found.hits] == [
        "needle 4.2",
        "needle 4.1",
        "needle 4.0",
        "needle 3.2",
    ]
    assert not found.complete


def test_it_stops_when_its_time_is_up_and_says_so(archive: Archive) -> None:
    for number in range(5):
        archive.add(asked(f"needle {number}"))
    ticks = itertools.count()
    found = archive.search("needle", seconds=4, clock=lambda: float(next(ticks)))
    assert not found.complete
    assert 0 < found.sessions < 5


def test_damaged_and_unknown_records_are_passed_over(archive: Archive) -> None:
    session = archive.add(asked("needle whole"))
    path = archive.store.folder(session) / "events.jsonl"
    forged = b'{"v":1,"seq":9,"type":"message.added","message":{"role":"user"},"needle":1,"crc":"00000000"}\n'
    path.write_bytes(
        path.read_bytes()
        + forged
        + b"needle \xff\0\n"
        + seal('{"v":1,"type":"message.added","n":"needle"}')
    )
    assert archive.snippets("needle") == ["needle whole"]


def test_no_session_at_all_is_nothing_found(archive: Archive) -> None:
    assert archive.search("needle") == Found((), 0, True)
