"""Numbers as words."""

from codeagent.tui.transcript.spelling import counted, duration, whole
from tests.table import for_each


@for_each(
    ("seconds", "words"),
    [
        (0, "0.0 s"),
        (0.44, "0.4 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.6, "1 min"),
        (125, "2 min 5 s"),
        (3_600, "1 h"),
        (3_780, "1 h 3 min"),
        (-1, "0.0 s"),
    ],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_duration_that_counts_on_has_no_tenths() -> None:
    assert (whole(0.2), whole(3.1), whole(61)) == ("0 s", "3 s", "1 min 1 s")


def test_counts() -> None:
    assert (counted(1, "line", "lines"), counted(1_234, "line", "lines")) == (
        "1 line",
        "1,234 lines",
    )
