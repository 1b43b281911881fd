"""Log lines: sealed with a checksum, and read back from files in any state."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.core.event_json import event_json, parse_event_json
from codeagent.core.events import KnownEvent, Notice, UnknownEvent
from codeagent.core.redact import Redactor
from codeagent.session import recording
from codeagent.session.log import FIRST, checksum_of, seal, unseal
from codeagent.session.recording import LogReader, read_end, read_head, read_kinds, read_recording
from tests.effort import times
from tests.session.eventlogs import SESSION, finished_run

NOTHING = Redactor({})


def lines_of(events: list[KnownEvent]) -> list[bytes]:
    return [seal(event_json(event, NOTHING)) for event in events]


def linked(events: list[KnownEvent]) -> list[bytes]:
    """As a log writes them now: each line carries the checksum of the one before."""
    lines, before = [], FIRST
    for event in events:
        lines.append(seal(event_json(event, NOTHING), before))
        before = checksum_of(lines[-1][:-1])
    return lines


def write(path: Path, data: bytes) -> Path:
    log = path / "events.jsonl"
    log.write_bytes(data)
    return log


@given(st.text())
def test_a_sealed_line_is_json_with_crc_as_its_last_key_and_unseals_to_what_went_in(
    text: str,
) -> None:
    body = json.dumps({"v": 1, "text": text})
    line = seal(body)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert list(json.loads(line))[-1] == "crc"
    assert unseal(line[:-1]) == body.encode()


@given(
    text=st.text(), before=st.binary(min_size=4, max_size=4).map(lambda value: value.hex().encode())
)
def test_a_line_may_carry_the_checksum_of_the_one_before_which_is_no_part_of_the_event(
    text: str, before: bytes
) -> None:
    body = json.dumps({"v": 1, "text": text})
    line = seal(body, before)[:-1]
    assert list(json.loads(line).items())[-2:] == [
        ("prev", before.decode()),
        ("crc", checksum_of(line).decode()),
    ]
    assert unseal(line) == body.encode()


@given(st.data())
def test_a_line_with_any_byte_changed_does_not_unseal(data: st.DataObject) -> None:
    line = bytearray(seal('{"v":1,"text":"hello"}')[:-1])
    at = data.draw(st.integers(0, len(line) - 1))
    line[at] ^= data.draw(st.integers(1, 255))
    assert unseal(bytes(line)) is None


def test_a_log_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    recording = read_recording(write(tmp_path, b"".join(lines_of(finished_run()))))
    assert list(recording.events) == finished_run()
    assert (recording.problems, recording.tail) == ((), b"")


@pytest.mark.parametrize("content", [b"", b"\0\0\0", b"{"], ids=["empty", "NULs", "a brace"])
def test_a_file_without_a_whole_record_holds_no_events(tmp_path: Path, content: bytes) -> None:
    recording = read_recording(write(tmp_path, content))
    assert recording.events == ()
    assert recording.tail == content


def test_a_torn_tail_is_told_apart_from_a_last_record_that_only_misses_its_line_break(
    tmp_path: Path,
) -> None:
    whole = b"".join(lines_of(finished_run()))
    torn = read_recording(write(tmp_path, whole[:-40]))
    assert (len(torn.events), torn.torn, torn.problems) == (len(finished_run()) - 1, True, ())
    unbroken = read_recording(write(tmp_path, whole[:-1]))
    assert (len(unbroken.events), unbroken.torn) == (len(finished_run()), False)


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (b"\0" * 4096 + b"\n", "NUL"),
        (b"garbage\n", "checksum"),
        (b"\n", "empty line"),
        (b"\xff\xfe{}\n", "checksum"),
        (b'{"v":1,"seq":3}\n', "checksum"),
        (seal('{"v":1,"seq":3}'), "not an event"),
    ],
)
def test_damage_in_the_middle_is_passed_over_and_reported_with_its_line(
    tmp_path: Path, damage: bytes, word: str
) -> None:
    lines = lines_of(finished_run())
    recording = read_recording(write(tmp_path, b"".join([*lines[:3], damage, *lines[3:]])))
    assert list(recording.events) == finished_run()
    [problem] = recording.problems
    assert problem.startswith("line 4: ") and word in problem


@pytest.mark.parametrize(
    "junk", [b"\0" * 512, b'{"v":1,"seq":3,"ts":10'], ids=["NULs", "half a record"]
)
def test_a_whole_record_behind_damaged_bytes_on_its_line_is_kept(
    tmp_path: Path, junk: bytes
) -> None:
    lines = lines_of(finished_run())
    recording = read_recording(write(tmp_path, b"".join([*lines[:3], junk, *lines[3:]])))
    assert list(recording.events) == finished_run()
    [problem] = recording.problems
    assert f"{len(junk)} damaged bytes" in problem


def test_a_repeated_block_is_read_once_and_reported(tmp_path: Path) -> None:
    lines = lines_of(finished_run())
    recording = read_recording(write(tmp_path, b"".join([*lines[:6], *lines[2:6], *lines[6:]])))
    assert list(recording.events) == finished_run()
    assert len(recording.problems) == 4


def test_blocks_that_changed_places_are_read_in_the_order_of_seq_and_reported(
    tmp_path: Path,
) -> None:
    lines = lines_of(finished_run())
    recording = read_recording(write(tmp_path, b"".join([*lines[4:], *lines[:4]])))
    assert list(recording.events) == finished_run()
    assert recording.problems


def test_an_event_of_a_newer_version_is_kept_whole(tmp_path: Path) -> None:
    line = seal(
        f'{{"v":2,"seq":1,"ts":1.0,"session":"{SESSION}","agent":"main","type":"moon.rose","phase":"full"}}'
    )
    [event] = read_recording(write(tmp_path, line)).events
    assert isinstance(event, UnknownEvent)
    assert (event.type, event.more["phase"]) == ("moon.rose", "full")


def test_a_known_event_with_a_field_of_a_newer_version_is_read_without_it(tmp_path: Path) -> None:
    body = event_json(Notice(seq=1, ts=1.0, session=SESSION, code="a.b", text="hi"), NOTHING)
    [event] = read_recording(write(tmp_path, seal(body[:-1] + ',"colour":"blue"}'))).events
    assert isinstance(event, Notice) and event.text == "hi"


def test_the_head_of_a_log_is_read_without_the_rest(tmp_path: Path) -> None:
    lines = lines_of(finished_run())
    log = write(tmp_path, b"".join(lines))
    assert read_head(log, len(lines[0]) + len(lines[1]) + 5) == finished_run()[:2]
    assert read_head(tmp_path / "none", 100) == []


def test_the_end_of_a_log_holds_its_last_whole_records(tmp_path: Path) -> None:
    lines = lines_of(finished_run())
    log = write(tmp_path, b"".join(lines))
    assert read_end(log, len(lines[-1]) + len(lines[-2]) + 5) == finished_run()[-2:]
    assert read_end(log, 1 << 20) == finished_run()
    torn = write(tmp_path, b"".join([*lines, lines[0][:20]]))
    assert read_end(torn, len(lines[-1]) + 25) == finished_run()[-1:]


@settings(max_examples=times(80))
@given(chance=st.randoms(use_true_random=False))
def test_a_mutated_log_is_always_read_without_an_error(
    tmp_path_factory: pytest.TempPathFactory, chance: random.Random
) -> None:
    data = bytearray(b"".join(lines_of(finished_run())))
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(data))
        match chance.randrange(4):
            case 0:
                data[at] ^= chance.randint(1, 255)
            case 1:
                del data[at : at + chance.randint(1, 300)]
            case 2:
                data[at:at] = bytes(chance.randint(1, 300))
            case _:
                data[at:at] = data[at : at + chance.randint(1, 600)]
        if not data:
            return
    recording = read_recording(write(tmp_path_factory.mktemp("mutated"), bytes(data)))
    originals = {event.seq: event for event in finished_run()}
    assert all(originals[event.seq] == event for event in recording.events)


def test_only_the_events_of_some_types_are_read_each_once_and_damage_is_passed_over(
    tmp_path: Path,
) -> None:
    events = finished_run()
    lines = lines_of(events)
    log = write(
        tmp_path, b"".join([*lines, lines[-1], b'{"v":1,"type":"turn.finished"}\n', lines[0][:40]])
    )
    found = list(read_kinds(log, frozenset({"turn.finished", "tool.result", "run.finished"})))
    assert found == [
        event for event in events if event.type in ("turn.finished", "tool.result", "run.finished")
    ]


@given(data=st.data())
def test_lines_that_are_gone_are_missed_wherever_they_stood_but_at_the_end(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    lines = linked(finished_run())
    gone = data.draw(st.sets(st.integers(0, len(lines) - 2), min_size=1, max_size=len(lines) - 1))
    left = [line for at, line in enumerate(lines) if at not in gone]
    recording = read_recording(write(tmp_path_factory.mktemp("log"), b"".join(left)))
    before = [
        f"event {finished_run()[at + 1].seq} is missing"
        for at in sorted(gone)
        if at + 1 not in gone
    ]
    assert [problem.partition("something before ")[2] for problem in recording.problems] == before


@pytest.mark.parametrize(
    "made", [lines_of, linked], ids=["an old log", "a log as it is written now"]
)
def test_a_log_that_lacks_nothing_has_no_problem(
    tmp_path: Path, made: Callable[[list[KnownEvent]], list[bytes]]
) -> None:
    assert read_recording(write(tmp_path, b"".join(made(finished_run())))).problems == ()


def test_an_old_log_that_went_on_is_sound_and_misses_what_was_lost_since(tmp_path: Path) -> None:
    events = finished_run()
    old = lines_of(events[:3])
    new, before = [], checksum_of(old[-1][:-1])
    for event in events[3:]:
        new.append(seal(event_json(event, NOTHING), before))
        before = checksum_of(new[-1][:-1])
    whole = read_recording(write(tmp_path, b"".join([*old, *new])))
    assert (whole.problems, whole.last) == ((), before)
    assert read_recording(write(tmp_path, b"".join([*old, *new[1:]]))).problems != ()


def test_a_damaged_line_is_reported_once_with_what_it_was(tmp_path: Path) -> None:
    lines = linked(finished_run())
    lines[4] = lines[4].replace(b'"seq":5', b'"seq":6')
    [problem] = read_recording(write(tmp_path, b"".join(lines))).problems
    assert (
        problem
        == f"line 5: a record ({finished_run()[4].type}) whose checksum does not match, left out"
    )


def test_a_log_that_grew_is_read_from_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = linked(finished_run())
    path = write(tmp_path, b"".join(lines[:2]))
    reader = LogReader(path)
    first = reader.read()
    assert reader.read() is first
    parsed: list[str | bytes] = []
    monkeypatch.setattr(
        recording, "parse_event_json", lambda line: parsed.append(line) or parse_event_json(line)
    )
    with path.open("ab") as file:
        file.write(b"".join(lines[2:]))
    assert list(reader.read().events) == finished_run()
    assert len(parsed) == len(lines) - 2
    assert reader.read() == LogReader(path).read()


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_log_that_was_rewritten_is_read_from_its_beginning(tmp_path: Path, kept: int) -> None:
    lines = linked(finished_run())
    path = write(tmp_path, b"".join(lines[:3]))
    reader = LogReader(path)
    reader.read()
    write(tmp_path, b"".join(lines[:kept]) + b"damage" * 1000 + b"\n" + b"".join(lines[3:]))
    assert reader.read() == LogReader(path).read()


def test_damage_of_a_log_that_was_read_is_reported_though_its_length_and_its_end_are_the_same(
    tmp_path: Path,
) -> None:
    lines = linked(finished_run())
    reader = LogReader(write(tmp_path, b"".join(lines)))
    assert reader.read().problems == ()
    path = write(tmp_path, b"".join([lines[0], b"x" * (len(lines[1]) - 1) + b"\n", *lines[2:]]))
    os.utime(path, ns=(0, 0))
    assert reader.read().problems[0].startswith("line 2: ")


def test_a_record_that_was_cut_short_is_read_when_it_is_whole(tmp_path: Path) -> None:
    lines = linked(finished_run())
    path = write(tmp_path, b"".join(lines)[:-20])
    reader = LogReader(path)
    assert (reader.read().torn, len(reader.read().events)) == (True, len(lines) - 1)
    write(tmp_path, b"".join(lines))
    assert (reader.read().torn, len(reader.read().events)) == (False, len(lines))
