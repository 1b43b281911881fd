"""Logs of an earlier version open, show the same, go on from the same, and are written byte for
byte as they were."""

from pathlib import Path

import pytest

from codeagent.core.event_json import event_json, parse_event_json
from codeagent.core.redact import Redactor
from codeagent.session.log import unseal
from codeagent.session.recording import read_recording
from codeagent.session.repair import check_recording
from tests.core.test_events import CONTRACT
from tests.session.recorded_logs import LOGS, PASSING, outcome

NOTHING = Redactor({})
each_log = pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)


def printed_lines() -> list[str]:
    """Every event as `--output jsonl` printed it; a log's line is that and its checksums."""
    logged = [unseal(line) for log in LOGS for line in log.read_bytes().splitlines()]
    return [
        *(line.decode() for line in logged if line is not None),
        *PASSING.read_text("utf-8").splitlines(),
    ]


def test_every_type_of_event_that_others_rely_on_was_recorded() -> None:
    assert {parse_event_json(line).type for line in printed_lines()} >= CONTRACT


def test_every_event_is_written_byte_for_byte_as_it_was() -> None:
    assert [
        event_json(parse_event_json(line), NOTHING) for line in printed_lines()
    ] == printed_lines()


@each_log
def test_a_recorded_log_is_sound(log: Path) -> None:
    recording = read_recording(log)
    assert check_recording(recording).problems == ()
    assert len(recording.events) == len(log.read_bytes().splitlines())


@each_log
def test_a_recorded_log_shows_and_goes_on_from_the_same(log: Path) -> None:
    assert outcome(log) == log.with_suffix(".txt").read_text("utf-8")
