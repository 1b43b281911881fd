"""/permissions: rules in force and where they come from, what was decided, and rules made and
revoked there."""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest
from textual.pilot import Pilot

from codeagent.core.acts import AllowRule, RevokeRule
from codeagent.core.approval_events import ApprovalRequested, ApprovalResolved
from codeagent.core.audit import LedgerRow
from codeagent.core.errors import CodeagentError
from codeagent.core.events import ToolCallAdded, ToolResultAdded
from codeagent.core.messages import ErrorInfo
from codeagent.core.policy import Rule
from codeagent.tui.pages.permissions import PermissionList, PermissionsScreen
from codeagent.tui.pages.rule_editor import RuleEditor
from codeagent.tui.parts.guard import TOO_SOON
from tests.tui.pages.stand_in import MANNERS
from tests.tui.replay import ReplayApp, ReplayClient, enter, settled, until
from tests.tui.scripts import Recording

RULES = (
    Rule("auto", "bash", "git log *", "flag"),
    Rule("deny", "bash", "git push*", "user"),
    Rule("prompt", "write", "migrations/**", "project"),
    Rule("auto", "bash", "pytest -q *", "session"),
    Rule("auto", "write", "src/**", "saved"),
)
COMMAND = '{"command": "git diff --stat &&\\nrm -rf build/ && pytest -q tests"}'


def decided() -> Recording:
    """A run with every kind of decision."""
    recording = Recording().run("clean up and test")
    add = recording.add
    ask = {"name": "bash", "blocks": (), "binding": "0", "reason": "this tool asks"}
    recording.plan(("c1", "read", "src/dates.py", "auto"))
    add(
        ToolResultAdded,
        call_id="c1",
        name="read",
        content=(),
        is_error=False,
        executed=True,
        approval="auto",
    )
    head = {"call_id": "c2", "approval_id": "c2.1"}
    add(
        ApprovalRequested,
        after=1,
        **head,
        **ask,
        target="git diff …",
        arguments=COMMAND,
        proposal="bash(git diff *)",
    )
    add(ApprovalResolved, after=5, **head, answer="once", source="user")
    head = {"call_id": "c3", "approval_id": "c3.1"}
    rule = "bash(pytest -q *)"
    add(ApprovalRequested, after=1, **head, **ask, target="pytest -q tests", proposal=rule)
    add(ApprovalResolved, after=5, **head, answer="rule", source="user", rule=rule)
    for call_id, target, kind, message, approval, by in (
        (
            "c4",
            "git push --force origin main",
            "denied",
            "denied by the rule bash(git push*)",
            "rule",
            "bash(git push*)",
        ),
        ("c5", "make release", "denied", "no releases on Friday", "hook", None),
        ("c6", "make docs", "skipped", "skipped by user: later", "user", None),
    ):
        recording.plan((call_id, "bash", target, "prompt"))
        error = ErrorInfo(kind=kind, message=message)
        add(
            ToolResultAdded,
            after=2,
            call_id=call_id,
            name="bash",
            content=(),
            is_error=True,
            executed=False,
            error=error,
            approval=approval,
            rule=by,
        )
    return recording


@pytest.fixture
def read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key comes too soon."""
    monkeypatch.setattr("codeagent.tui.parts.guard.QUIET", 0.0)


@pytest.fixture(autouse=True)
def in_one_time_zone() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def app_of(folder: Path, recording: Recording | None = None, **status: Any) -> ReplayApp:
    recording = recording or decided()
    return ReplayApp(recording.events, folder, now=recording.now, **status)


async def opened(pilot: Pilot[None], rules: tuple[Rule, ...] = RULES) -> None:
    app = pilot.app
    assert isinstance(app, ReplayApp)
    await settled(pilot)
    app.clients[-1].agent.rules = rules
    await enter(pilot, "/permissions")
    await until(pilot, lambda: isinstance(app.screen, PermissionsScreen))
    await pilot.pause()


@asynccontextmanager
async def permissions(
    folder: Path, recording: Recording | None = None, rules: tuple[Rule, ...] = RULES, **status: Any
) -> AsyncIterator[tuple[Pilot[None], ReplayApp]]:
    app = app_of(folder, recording, **status)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot, rules)
        yield pilot, app
    assert app.crash is None


def shown(app: ReplayApp) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def marked(app: ReplayApp) -> str:
    entry = app.screen.query_one(PermissionList).marked
    return entry.call_id if isinstance(entry, LedgerRow) else str(entry or "")


def then(*keys: str) -> Any:
    async def run(pilot: Pilot[None]) -> None:
        await opened(pilot)
        for key in keys:
            await pilot.press(key)
        await pilot.pause()

    return run


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("list", ()),
        ("decision", ("tab", *("down",) * 4, "enter")),
        ("editor", ("tab", *("down",) * 4, "p", "tab")),
        ("wrong", ("n", *("b", "a", "s", "h", "left_parenthesis"))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_state_of_the_page(
    name: str, keys: tuple[str, ...], size: tuple[int, int], snap_compare: Any, tmp_path: Path
) -> None:
    assert snap_compare(app_of(tmp_path), terminal_size=size, run_before=then(*keys))


async def test_the_page_shows_where_rules_come_from_and_who_decided_what_the_newest_first(
    tmp_path: Path,
) -> None:
    async with permissions(tmp_path) as (_, app):
        lines = shown(app).splitlines()
        for word, rule, origin in (
            ("allow", "bash(git log *)", "the command line"),
            ("deny", "bash(git push*)", "your config.toml"),
            ("ask", "write(migrations/**)", "the project's config.toml"),
            ("allow", "bash(pytest -q *)", "this session"),
            ("allow", "write(src/**)", "kept for this folder"),
        ):
            assert any(word in line and rule in line and origin in line for line in lines), rule
        assert "5 rules · 6 decisions" in lines[0]
        newest_first = [line.split() for line in lines if " bash " in line or " read " in line]
        assert [row[1:3] for row in newest_first] == [
            ["cancelled", "you"],
            ["denied", "hook"],
            ["denied", "rule"],
            ["allowed", "you,"],
            ["allowed", "you,"],
            ["allowed", "auto"],
        ]
        assert any("no releases on" in line for line in lines)


async def test_without_rules_and_decisions_the_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with permissions(tmp_path, Recording(), ()) as (pilot, app):
        assert "No rules in force; n writes one" in shown(app)
        assert "No decisions so far" in shown(app)
        await pilot.press("down", "pageup", "tab", "enter", "x", "p")
        assert isinstance(app.screen, PermissionsScreen)


async def test_the_mark_goes_through_both_parts_and_never_onto_a_heading(tmp_path: Path) -> None:
    async with permissions(tmp_path) as (pilot, app):
        seen = [marked(app)]
        for _ in range(12):
            await pilot.press("down")
            seen.append(marked(app))
        assert seen[:6] == [*map(str, RULES), "c6"]
        assert seen[-2:] == ["c1", "c1"]
        await pilot.press("tab")
        assert marked(app) == str(RULES[0])
        await pilot.press("tab")
        assert marked(app) == "c6"


async def test_x_revokes_a_rule_of_this_session_or_one_that_was_kept_and_says_where_any_other_is_taken_out(
    tmp_path: Path,
) -> None:
    async with permissions(tmp_path) as (pilot, app):
        for words in (
            "ends with this process",
            "config.toml: remove it there",
            ".codeagent/config.toml: remove it",
        ):
            await pilot.press("x")
            assert words in shown(app)
            await pilot.press("down")
        assert app.told == []
        await pilot.press("x")
        assert app.told == [RevokeRule(RULES[3])]
        assert "revoked, you will be asked again: bash(pytest -q *)" in shown(app)
        await pilot.press("down", "x")
        assert app.told[1:] == [RevokeRule(RULES[4])]
        await pilot.press("tab", "x")
        assert "x revokes a rule" in shown(app)
        assert len(app.told) == 2


@pytest.mark.usefixtures("read_at_once")
async def test_a_new_rule_is_checked_while_it_is_typed_and_holds_for_the_session(
    tmp_path: Path,
) -> None:
    async with permissions(tmp_path) as (pilot, app):
        await pilot.press("n", *"bash")
        assert "every call of bash" in shown(app)
        await pilot.press("enter", "left_parenthesis")
        assert "not a rule" in shown(app)
        await pilot.press("enter", *"ls", "right_parenthesis", "enter")
        assert app.told == [AllowRule("bash(ls)", False)]
        assert "allowed for this session: bash(ls)" in shown(app)


@pytest.mark.usefixtures("read_at_once")
async def test_p_makes_a_rule_of_a_decision_edited_and_kept(tmp_path: Path) -> None:
    async with permissions(tmp_path) as (pilot, app):
        await pilot.press("tab", "down", "down", "down", "down", "p")
        assert "bash(git diff *)" in shown(app)
        await pilot.press("left", "backspace", *"--stat", "tab", "enter")
        assert app.told == [AllowRule("bash(git diff --stat)", True)]
        assert "allowed in this folder: bash(git diff --stat)" in shown(app)


async def test_enter_that_was_on_its_way_allows_nothing(tmp_path: Path) -> None:
    async with permissions(tmp_path) as (pilot, app):
        await pilot.press("tab", "down", "down", "down", "down", "p", "enter")
        assert TOO_SOON in shown(app)
        assert app.told == []


async def test_a_decision_without_a_proposal_says_so(tmp_path: Path) -> None:
    async with permissions(tmp_path) as (pilot, app):
        await pilot.press("p")
        assert "p makes a rule from a decision" in shown(app)
        await pilot.press("tab", "p")
        assert "a rule cannot be made from this one" in shown(app)
        assert isinstance(app.screen, PermissionsScreen)


@pytest.mark.usefixtures("read_at_once")
async def test_a_rule_that_is_refused_stays_to_be_edited(tmp_path: Path) -> None:
    async with permissions(tmp_path) as (pilot, app):
        app.clients[-1].refusal = "bash(sudo) was not added: it runs whatever it is given"
        await pilot.press("n", *"bash", "left_parenthesis", *"sudo", "right_parenthesis", "enter")
        assert "it runs whatever it is given" in shown(app)
        assert isinstance(app.screen, RuleEditor)
        await pilot.press("escape")
        assert isinstance(app.screen, PermissionsScreen)


async def test_enter_shows_all_of_a_decision_and_esc_comes_back(tmp_path: Path) -> None:
    async with permissions(tmp_path) as (pilot, app):
        await pilot.press("tab", "down", "down", "down", "down", "enter")
        page = shown(app)
        for text in (
            "you, once",
            "git diff --stat &&",
            "rm -rf build/ && pytest -q tests",
            "bash(git diff *)",
        ):
            assert text in page
        await pilot.press("escape")
        assert isinstance(app.screen, PermissionsScreen)
        assert marked(app) == "c2"


async def test_what_is_decided_meanwhile_shows_and_the_mark_stays(tmp_path: Path) -> None:
    recording = decided()
    async with permissions(tmp_path, recording, phase="working") as (pilot, app):
        await pilot.press("tab", "down")
        recording.add(
            ToolCallAdded, call_id="c7", name="bash", arguments='{"command": "make later"}'
        )
        recording.add(
            ToolResultAdded,
            call_id="c7",
            name="bash",
            content=(),
            is_error=False,
            executed=True,
            approval="auto",
        )
        app.chat.state.status.set(batch=9)
        await until(pilot, lambda: "make later" in shown(app))
        assert marked(app) == "c5"
        assert "7 decisions" in shown(app)


async def test_while_codeagent_starts_the_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def starting(client: ReplayClient) -> NoReturn:
        raise CodeagentError("codeagent is still starting; nothing was changed")

    app = app_of(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        monkeypatch.setattr(ReplayClient, "agent", property(starting))
        await enter(pilot, "/permissions")
        await until(pilot, lambda: "still starting" in shown(app))


async def test_text_of_others_is_shown_never_obeyed_in_any_size(tmp_path: Path) -> None:
    recording = Recording().run("x")
    recording.add(ToolCallAdded, call_id="c1", name="bash", arguments=MANNERS)
    error = ErrorInfo(kind="denied", message=MANNERS)
    recording.add(
        ToolResultAdded,
        call_id="c1",
        name="bash",
        content=(),
        is_error=True,
        executed=False,
        error=error,
        approval="hook",
        rule=MANNERS,
    )
    async with permissions(tmp_path, recording, (Rule("auto", "bash", MANNERS, "session"),)) as (
        pilot,
        app,
    ):
        for size in ((20, 6), (40, 10), (200, 50)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            pages = shown(app)
            for keys in (("tab",), ("enter",), ("escape", "n"), ("escape", "x"), ("pagedown",)):
                await pilot.press(*keys)
                pages += shown(app)
            assert not {"\x1b", "\x07", "\u202e"} & set(pages), size
