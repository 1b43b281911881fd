import os
import sys
from pathlib import Path

import pytest

from codeagent.tui.crash import record_crash
from tests.pty_screen import PtyScreen
from tests.tui.replay import ReplayApp, enter, settled, until

SAMPLE = [sys.executable, str(Path(__file__).with_name("sample_app.py"))]
SECRET = "sk-a-secret-of-some-length"


def failed(text: str) -> Exception:
    """An exception as it is caught: with a traceback."""
    try:
        hidden = "a value nobody is shown"
        raise ValueError(text + hidden[:0])
    except ValueError as error:
        return error


def reports(state: Path) -> list[Path]:
    return sorted((state / "crashes").iterdir())


@pytest.mark.parametrize("where", ["raise", "worker", "thread"])
def test_an_exception_nobody_caught_is_one_line_on_the_terminal(tmp_path: Path, where: str) -> None:
    with PtyScreen(
        [*SAMPLE, str(tmp_path)], env={"SAMPLE_API_KEY": SECRET}, size=(600, 24)
    ) as screen:
        screen.wait_for("ready")
        screen.send(where, "enter")
        assert screen.exit_code() == 1
        [line] = [row for row in screen.screen() if row]
    [report] = reports(tmp_path)
    assert line == (
        "codeagent: crashed (internal error) (ValueError: the key is [secret SAMPLE_API_KEY] and not 18 letters); "
        f"the session is kept: {SAMPLE[1]} --resume 20260102-abcdef; report: {report}"
    )
    written = report.read_text()
    assert "in fail" in written
    assert SECRET not in written
    assert "hunter2" not in written


def test_the_report_is_for_its_owner_only_and_says_what_is_needed_to_find_the_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-kitty")
    monkeypatch.setenv("SOME_VARIABLE", "not for a report")
    record_crash(failed("it broke"), tmp_path, session="s1", redact=str)
    [report] = reports(tmp_path)
    assert report.stat().st_mode & 0o777 == 0o600
    assert report.parent.stat().st_mode & 0o777 == 0o700
    text = report.read_text()
    for needed in (
        "codeagent: ",
        "textual: 8",
        "python: 3",
        "TERM: xterm-kitty",
        "size: ",
        "session: s1",
        "it broke",
    ):
        assert needed in text
    assert "not for a report" not in text
    assert "a value nobody is shown" not in text


def test_a_message_cannot_act_on_the_terminal_or_fill_it(tmp_path: Path) -> None:
    line = record_crash(
        failed("\x1b]52;c;x\x07\n" + "long " * 500), tmp_path, session="", redact=str
    )
    assert line.isprintable()
    assert len(line) < 500
    assert "no session had begun" in line
    assert "\x1b" not in reports(tmp_path)[0].read_text()


def test_a_report_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "crashes").write_text("a file where the folder should be")
    line = record_crash(failed("it broke"), tmp_path, session="s1", redact=str)
    assert "the report could not be written (File exists)" in line
    assert " --resume s1;" in line


def test_the_oldest_reports_go(tmp_path: Path) -> None:
    folder = tmp_path / "crashes"
    folder.mkdir()
    for number in range(30):
        (folder / f"20200101-0000{number:02}-1.txt").touch()
    record_crash(failed("it broke"), tmp_path, session="s1", redact=str)
    names = [path.name for path in reports(tmp_path)]
    assert len(names) == 20
    assert names[-1].endswith(f"-{os.getpid()}.txt")
    assert names[0] == "20200101-000011-1.txt"


async def test_feedback_is_kept_in_a_report_that_nobody_is_sent(tmp_path: Path) -> None:
    app = ReplayApp([], tmp_path, now=0.0)
    async with app.run_test() as pilot:
        await settled(pilot)
        await enter(pilot, "/feedback")
        await until(pilot, lambda: "takes what you saw" in app.chat.state.status.now.screen.notice)
        await enter(pilot, "/feedback the list\x1b[31m jumps")
        await until(
            pilot, lambda: "nothing was sent" in " ".join(app.chat.view.plain_text().split())
        )
    [report] = (app.folders.state / "feedback").iterdir()
    assert report.stat().st_mode & 0o777 == 0o600
    text = report.read_text()
    assert text.startswith("codeagent: ") and "the list" in text and "\x1b" not in text
    assert report.name in app.chat.view.plain_text().replace("\n", "").replace(" ", "")
