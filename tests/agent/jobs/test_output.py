"""What a job prints: any page of it is right while it runs, whatever is still in memory."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.agent.jobs.work import JobOutput
from codeagent.core.redact import Redactor
from codeagent.session.outputs import FileOutputs
from tests.effort import times

piece = st.one_of(
    st.text(alphabet="ab é\n", max_size=30),
    st.builds(
        lambda text, times: text * times,
        st.text(alphabet="xy\n", min_size=1, max_size=9),
        st.integers(1, 9_000),
    ),
)


@settings(deadline=None, max_examples=times(30))
@given(st.lists(piece, max_size=8), st.data())
def test_any_page_is_the_same_lines_of_what_was_printed(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], data: st.DataObject
) -> None:
    output = JobOutput()
    kept = data.draw(st.integers(0, len(pieces)), label="kept from")
    for number, text in enumerate(pieces):
        if number == kept:
            output.keep(
                FileOutputs(tmp_path_factory.mktemp("o") / "outputs", Redactor({})), "job-1"
            )
        output.add(text)
    lines = _lines("".join(pieces))
    if data.draw(st.booleans(), label="ended"):
        output.end()
        output.forget()
    first = data.draw(st.integers(1, len(lines) + 2), label="first")
    count = data.draw(st.integers(0, 20), label="count")
    page = output.read(first, count)
    assert page.total == output.lines == len(lines)
    assert page.lines == tuple(lines[page.first - 1 :][:count])
    assert page.first == first or not output.whole or output.handle is None


def _lines(text: str) -> list[str]:
    """With those that are too long broken as they are."""
    whole = text.split("\n")
    whole = whole[:-1] if not whole[-1] else whole
    longest = 16 * 1024
    return [
        line[at : at + longest] for line in whole for at in range(0, max(1, len(line)), longest)
    ]


def test_streams_are_not_mixed_within_a_line() -> None:
    output = JobOutput()
    for text, stream in (("out ", "stdout"), ("err\n", "stderr"), ("put\n", "stdout")):
        output.add(text, stream)  # type: ignore[arg-type]  # the names of streams, from a list
    assert output.read(None, 9).lines == ("err", "out put")


def test_a_line_that_is_written_over_without_end_stays_in_bounds() -> None:
    output = JobOutput()
    for percent in range(20_000):
        output.add(f"\r{percent} of 20000")
    output.add("\nready\n")
    assert output.read(None, 2).lines[-1] == "ready"
    assert output.read(None, 2).lines[0] == "19999 of 20000"


def test_the_file_is_there_before_the_job_has_ended(tmp_path: Path) -> None:
    store = FileOutputs(tmp_path / "outputs", Redactor({}))
    output = JobOutput()
    output.keep(store, "job-1")
    output.add("one\ntwo\n")
    output.flush()
    assert FileOutputs(tmp_path / "outputs", Redactor({})).read("job-1", 1, 9).lines == (
        "one",
        "two",
    )
