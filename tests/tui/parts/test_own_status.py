"""A user's own status line: a template of fields, and the first line of a program."""

import json
from pathlib import Path

import pytest
from textual.app import App, ComposeResult

from codeagent.config.checking import WrongValue, checked
from codeagent.config.settings import STATUS_FIELDS, Settings
from codeagent.tui.parts import own_status
from codeagent.tui.parts.own_status import OwnStatus, first_line
from codeagent.tui.parts.status import StatusLine
from codeagent.tui.state import UiState
from codeagent.tui.status import Status, fields_of
from tests.table import for_each
from tests.tui.pages.stand_in import MANNERS
from tests.tui.replay import ReplayApp, settled, until

SOME = dict.fromkeys(STATUS_FIELDS, "") | {"model": "demo", "mode": "ask", "cost": "$0.041"}


def test_a_template_may_name_what_the_status_line_knows_and_the_line_of_a_program() -> None:
    assert {*fields_of(Status()), "command"} == {*STATUS_FIELDS}


@for_each(
    ("template", "sections"),
    [
        ("{model} | {mode} | {cost}", ("demo", "ask", "$0.041")),
        ("{model}|{branch}|{cost}", ("demo", "$0.041")),
        ("{branch} | {jobs}", ()),
        ("{mode} on {branch}", ("ask on ",)),
        ("cost {cost} | cache: {cache}", ("cost $0.041",)),
        ("my machine | {jobs}", ("my machine",)),
        ("{{x}} {model}", ("{x} demo",)),
        ("|", ("", "")),
    ],
)
def test_a_section_whose_fields_are_empty_is_left_out(
    template: str, sections: tuple[str, ...]
) -> None:
    assert OwnStatus(template).sections(SOME) == sections


ALL = "the fields are {model}, {mode}, {branch}, {context}, {cost}, {cache}, {jobs}, {command}"


@for_each(
    ("given", "said"),
    [
        ({"status_line": "{modle}"}, f"no such field {{modle}}; {ALL}"),
        ({"status_line": "{model.__class__}"}, f"no such field {{model.__class__}}; {ALL}"),
        ({"status_line": "{}"}, f"no such field {{}}; {ALL}"),
        ({"status_line": "{model:>99999}"}, f"no such field {{model}}; {ALL}"),
        ({"status_line": "{model"}, f"not a template: expected '}}' before end of string; {ALL}"),
        ({"status_command": ["./status.sh"]}, "give the full path of the program"),
        ({"status_command": []}, "should not be empty"),
    ],
)
def test_a_template_or_program_that_cannot_be_used_is_refused(
    given: dict[str, object], said: str
) -> None:
    with pytest.raises(WrongValue) as refused:
        checked(Settings, given)
    assert said in str(refused.value)


def script(folder: Path, text: str) -> tuple[str]:
    path = folder / "status.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return (str(path),)


@for_each(
    ("text", "line"),
    [
        ("echo one; echo two", "one"),
        ("cat", json.dumps(SOME)),
        ("printf %0200d 0", "0" * 119 + "…"),
        ("printf '\\033[31mred\\033[0m \\033[2Jx\\n'", "red \\x1b[2Jx"),
        ("printf 'no newline'", "no newline"),
        ("true", ""),
        ("pwd", "/"),
    ],
)
def test_the_first_line_is_plain_text_and_the_program_reads_the_fields(
    tmp_path: Path, text: str, line: str
) -> None:
    assert first_line(script(tmp_path, text), tmp_path / "work", SOME) == line


@for_each(
    ("text", "said"),
    [
        ("echo x; exit 3", "exited with 3"),
        ("sleep 600", "took longer than 0.2 s"),
        ("while :; do echo yes; done", "took longer than 0.2 s"),
    ],
)
def test_a_program_that_fails_or_takes_too_long_is_ended_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.setattr(own_status, "_SECONDS", 0.2 if "took" in said else 30.0)
    assert first_line(script(tmp_path, text), tmp_path / "work", SOME) == f"status_command: {said}"


def test_a_program_in_the_workspace_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path, "touch ran")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "lies in the workspace" in first_line(("status.sh",), tmp_path, SOME)
    assert not (tmp_path / "ran").exists()
    assert first_line(("no-program",), tmp_path, SOME) == (
        "status_command: no-program is not on PATH"
    )


def test_a_program_gets_a_minimal_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    line = first_line(
        script(tmp_path, 'echo "$OPENAI_API_KEY:$CODEAGENT_WORKSPACE"'), tmp_path / "w", SOME
    )
    assert line == f":{tmp_path}/w"[:120]


class LineApp(App[None]):
    def compose(self) -> ComposeResult:
        self.state = UiState()
        yield StatusLine(self.state)

    def text(self) -> str:
        return self.query_one(StatusLine).render_line(0).text.strip()


async def test_the_template_takes_the_place_of_the_figures_and_keeps_the_keys() -> None:
    app = LineApp()
    async with app.run_test(size=(80, 24)) as pilot:
        line = app.query_one(StatusLine)
        line.prefer(
            checked(Settings, {"status_line": "{model} | {branch} | {cost} | {context}"}), Path("/")
        )
        app.state.status.set(phase="idle", model=f"x/{MANNERS}", cost_usd=0.041, jobs=2)
        await pilot.pause()
        assert "\x1b" not in app.text() and "[bold]x[/] \\x1b[2J" in app.text()
        app.state.status.set(model="demo", phase="thinking", branch="main", stepping=True)
        await pilot.pause()
        shown = app.text().partition(" · ")[2]
        assert shown == "esc pause · step mode · demo · main · $0.041 · ⏎ steer · ? keys"
        await pilot.resize_terminal(60, 20)
        await pilot.pause()
        assert "esc pause" in app.text() and "demo" in app.text() and "? keys" in app.text()


async def test_without_a_template_nothing_changes() -> None:
    app = LineApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.query_one(StatusLine).prefer(Settings(), Path("/"))
        app.state.status.set(phase="idle", cost_usd=0.041, jobs=2)
        await pilot.pause()
        assert app.text() == "ready · 2 jobs · $0.041 · ? keys"


async def test_the_program_runs_at_the_end_of_a_turn_and_otherwise_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    command = script(tmp_path, f"printf x >> {log}; wc -c < {log}")
    app = ReplayApp([], tmp_path, now=0.0)
    monkeypatch.setattr(own_status, "_EVERY", 3600.0)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        app.chat.state.prefer(checked(Settings, {"status_command": list(command)}))
        await until(pilot, lambda: "ready · 1 · ? keys" in shown(app))
        status = app.chat.state.status
        for number in range(2, 4):
            status.set(phase="thinking", cost_usd=0.1 * number)
            status.set(phase="answering", cost_usd=0.2 * number)
            await pilot.pause()
            assert len(log.read_text()) == number - 1
            status.set(phase="idle")
            await until(pilot, lambda number=number: f"ready · {number} · ? keys" in shown(app))


async def test_the_program_runs_after_a_change_and_not_while_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    command = script(tmp_path, f"printf x >> {log}; wc -c < {log}")
    app = ReplayApp([], tmp_path, now=0.0)
    monkeypatch.setattr(own_status, "_EVERY", 0.0)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        app.chat.state.prefer(checked(Settings, {"status_command": list(command)}))
        await until(pilot, lambda: "ready · 1 · ? keys" in shown(app))
        for _ in range(3):
            app.chat.state.status.set(notice="something")
            app.chat.state.status.set(notice="")
            await pilot.pause()
        app.chat.state.status.set(cost_usd=0.7)
        await until(pilot, lambda: "ready · 2 · ? keys" in shown(app))


async def test_a_failure_of_the_program_is_shown_in_its_place(tmp_path: Path) -> None:
    app = ReplayApp([], tmp_path, now=0.0)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        command = list(script(tmp_path, "exit 4"))
        app.chat.state.prefer(
            checked(Settings, {"status_line": "{model} | {command}", "status_command": command})
        )
        said = "anthropic/claude-sonnet-4-5 · status_command: exited with 4"
        before = len(app.chat.state.document.blocks)
        await until(pilot, lambda: said in shown(app))
        assert len(app.chat.state.document.blocks) == before


def shown(app: ReplayApp) -> str:
    return app.chat.query_one(StatusLine).render_line(0).text
