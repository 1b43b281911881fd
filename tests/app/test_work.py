"""`work` and `open_session`: tasks and conversations without a screen, as the public API has them."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codeagent import Answer, CodeagentError, Decision, Event, Task, open_session, work

Script = Callable[..., dict[str, Any]]
WRITE = ["write", {"path": "hello.txt", "content": "Hello.\n"}]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, with settings and sessions beside it."""
    for kind in ("config", "state", "data", "cache"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(tmp_path / kind))
    monkeypatch.delenv("CODEAGENT_MODEL", raising=False)
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def scripted(tmp_path: Path) -> Script:
    """`scripted(*turns, **settings)`: settings with a model that answers with these turns."""

    def scripted(*turns: dict[str, Any], **settings: Any) -> dict[str, Any]:
        path = tmp_path / f"script-{len(list(tmp_path.glob('script-*')))}.json"
        path.write_text(json.dumps(turns))
        return {"model": f"script:{path}", "sandbox": {"kind": "off"}, **settings}

    return scripted


async def test_an_outcome_says_how_a_task_ended_and_what_it_changed(
    workspace: Path, scripted: Script
) -> None:
    settings = scripted({"calls": [WRITE]}, {"text": "Written."}, mode="accept-edits")
    outcome = await work(Task("Greet.", workspace, settings))
    assert (outcome.reason, outcome.text, outcome.error) == ("done", "Written.", None)
    assert [(change.path, change.change) for change in outcome.changes] == [("hello.txt", "added")]
    types = [event.type for event in outcome.events]
    assert types[0] == "run.started" and types.count("run.finished") == 1
    assert "text.delta" not in types
    assert {event.session for event in outcome.events} == {outcome.session}


async def test_a_task_that_changes_nothing_lists_no_changes(
    workspace: Path, scripted: Script
) -> None:
    (workspace / "a.txt").write_text("as before\n")
    settings = scripted({"calls": [["read", {"path": "a.txt"}]]}, {"text": "Read."})
    assert (await work(Task("Look.", workspace, settings))).changes == ()


async def test_what_needs_approval_is_denied_unless_everything_is_approved(
    workspace: Path, scripted: Script
) -> None:
    settings = scripted({"calls": [WRITE]}, {"text": "Tried."})
    assert (await work(Task("Greet.", workspace, settings))).reason == "denied"
    assert not (workspace / "hello.txt").exists()
    assert (await work(Task("Greet.", workspace, settings, approve=True))).reason == "done"
    assert (workspace / "hello.txt").read_text() == "Hello.\n"


async def test_a_rule_allows_what_it_names(workspace: Path, scripted: Script) -> None:
    settings = scripted(
        {"calls": [WRITE]}, {"text": "Written."}, rules={"allow": ["write(hello.txt)"]}
    )
    assert (await work(Task("Greet.", workspace, settings))).reason == "done"


async def test_a_limit_ends_a_task(workspace: Path, scripted: Script) -> None:
    settings = scripted({"calls": [["list", {}]]}, {"text": "Never."}, limits={"max_turns": 1})
    assert (await work(Task("Look.", workspace, settings))).reason == "limit"


async def test_a_task_continues_a_session(workspace: Path, scripted: Script) -> None:
    first = await work(Task("One.", workspace, scripted({"text": "1"})))
    second = await work(Task("Two.", workspace, scripted({"text": "2"}), resume=first.session[:-2]))
    assert (second.session, second.text) == (first.session, "2")
    assert len(second.events) < len(first.events) * 2, "only its own events are the outcome's"


async def test_a_task_runs_a_recipe_with_its_inputs(workspace: Path, scripted: Script) -> None:
    folder = workspace.parent / "config/codeagent/commands"
    folder.mkdir(parents=True)
    (folder / "greet.md").write_text(
        "---\ndescription: Greets.\ninputs:\n  - name: who\n---\nGreet {{inputs.who}}.\n"
    )
    outcome = await work(
        Task(
            workspace=workspace,
            settings=scripted({"text": "Hi."}),
            recipe="greet",
            inputs={"who": "Ada"},
        )
    )
    assert (outcome.reason, outcome.text) == ("done", "Hi.")
    assert "Greet Ada." in str(outcome.events)


@pytest.mark.parametrize(
    ("folder", "settings", "why"),
    [
        ("gone", {"model": "demo"}, "not an existing folder"),
        ("work", {}, "no model is set"),
        ("work", {"modell": "demo"}, "no such setting"),
    ],
)
async def test_a_task_that_cannot_begin_raises(
    workspace: Path, folder: str, settings: dict[str, Any], why: str
) -> None:
    with pytest.raises(CodeagentError, match=why):
        await work(Task("Go.", workspace.parent / folder, settings))


async def test_a_session_takes_acts_and_gives_events(workspace: Path, scripted: Script) -> None:
    settings = scripted({"calls": [WRITE]}, {"text": "Written."})
    seen: list[Event] = []
    async with await open_session(settings, workspace, attended=True) as session:
        async for event in session.run("Greet."):
            seen.append(event)
            if event.type == "approval.requested":
                assert session.do(Answer(event.approval_id, Decision("once"))) is None
        folder = session.id
    assert "run.finished" in {event.type for event in seen}
    assert (workspace / "hello.txt").exists()
    async with await open_session(settings, str(workspace), resume=folder) as again:
        assert again.id == folder


async def test_a_closed_session_leaves_nothing_running(workspace: Path, scripted: Script) -> None:
    before = asyncio.all_tasks()
    session = await open_session(scripted({"text": "Hi."}), workspace)
    await session.close()
    await session.close()
    assert asyncio.all_tasks() == before
    refused = session.do(Answer("a1", Decision("once")))
    assert refused is not None and "closed" in refused.reason


async def test_a_recipe_needs_the_extension_that_reads_them(
    workspace: Path, scripted: Script
) -> None:
    (workspace / ".codeagent/commands").mkdir(parents=True)
    (workspace / ".codeagent/commands/greet.md").write_text("Greet.\n")
    settings = scripted({"text": "Done."}, extensions={"off": ["recipes"]})
    with pytest.raises(CodeagentError, match="the extension recipes is switched off"):
        await work(Task(recipe="greet", workspace=workspace, settings=settings))
