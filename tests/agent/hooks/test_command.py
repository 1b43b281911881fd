"""Hooks that are programs: JSON in, JSON out, and every failure denies."""

import json
import os
import sys
from pathlib import Path

import pytest

from codeagent.agent.hooks.command import CommandHook, command_hooks
from codeagent.agent.hooks.hook import Hooks
from codeagent.core.events import ToolResultAdded, ToolStarted, ToolUpdated
from codeagent.core.host_programs import minimal
from codeagent.core.messages import ToolCall, text_of
from codeagent.core.policy import HookEvent
from tests.agent.doubles import Turn, do, of, scene

CALL = ToolCall(id="c1", name="do", arguments="{}")


def program(folder: Path, source: str) -> tuple[str, ...]:
    path = folder / "hook.py"
    path.write_text(f"import json, sys, time\ntold = json.load(sys.stdin)\n{source}\n")
    return sys.executable, str(path)


def lives(pid_file: Path) -> bool:
    """Whether a process runs; one that has ended may wait for its new parent to take note."""
    try:
        status = Path(f"/proc/{pid_file.read_text().strip()}/stat").read_text()
    except FileNotFoundError:
        return not pid_file.exists()
    return status.rpartition(") ")[2][0] != "Z"


async def result_with(
    folder: Path, source: str, event: HookEvent = "before_tool", what: str = "ok"
):  # type: ignore[no-untyped-def]  # (result, events)
    hooks = Hooks(command_hooks([CommandHook(event, program(folder, source), folder)]), timeout=5)
    events = await scene(Turn("", (do(what),)), Turn("done"), hooks=hooks).run()
    return of(events, ToolResultAdded)[0], events


@pytest.mark.parametrize("source", ["", "print(json.dumps({'decision': 'allow'}))"])
async def test_silence_and_allow_let_the_call_pass(tmp_path: Path, source: str) -> None:
    assert (await result_with(tmp_path, source))[0].error is None


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("print(json.dumps({'decision': 'deny', 'reason': 'not today'}))", "not today"),
        ("sys.exit('no such luck')", "no such luck"),
        ("print('maybe')", "failed"),
        ("print('[]')", "is not valid"),
        ("print('{}')", "is not valid"),
        (
            "print(json.dumps({'decision': 'modify'}))",
            "is not valid: modify.arguments: field required",
        ),
    ],
)
async def test_everything_else_denies_and_says_why(
    tmp_path: Path, source: str, reason: str
) -> None:
    result, events = await result_with(tmp_path, source)
    assert (result.error.kind, result.approval, of(events, ToolStarted)) == ("denied", "hook", [])
    assert reason in text_of(result.content)


async def test_a_program_that_is_not_there_denies(tmp_path: Path) -> None:
    hooks = Hooks(command_hooks([CommandHook("before_tool", ("/nowhere/hook",), tmp_path)]))
    events = await scene(Turn("", (do("ok"),)), Turn("done"), hooks=hooks).run()
    assert of(events, ToolResultAdded)[0].error.kind == "denied"


async def test_a_program_that_hangs_denies_and_is_killed(tmp_path: Path) -> None:
    command = program(
        tmp_path,
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(__import__('os').getpid()))\ntime.sleep(60)",
    )
    hooks = Hooks(command_hooks([CommandHook("before_tool", command, tmp_path)]), timeout=1)
    events = await scene(Turn("", (do("ok"),)), Turn("done"), hooks=hooks).run()
    assert of(events, ToolResultAdded)[0].error.kind == "denied"
    assert not lives(tmp_path / "pid")


async def test_a_program_that_hangs_in_a_flood_with_a_child_is_given_up(tmp_path: Path) -> None:
    command = ("sh", "-c", "sleep 60 & yes | head -c 1000000; wait")
    hooks = Hooks(command_hooks([CommandHook("before_tool", command, tmp_path)]), timeout=0.5)
    events = await scene(Turn("", (do("ok"),)), Turn("done"), hooks=hooks).run()
    assert of(events, ToolResultAdded)[0].error.kind == "denied"


@pytest.mark.parametrize("stream", ["1", "2"])
async def test_a_program_that_prints_without_end_denies_and_is_killed(
    tmp_path: Path, stream: str
) -> None:
    command = ("sh", "-c", f"echo $$ > {tmp_path}/pid; exec yes >&{stream}")
    hooks = Hooks(command_hooks([CommandHook("before_tool", command, tmp_path)]), timeout=30)
    events = await scene(Turn("", (do("ok"),)), Turn("done"), hooks=hooks).run()
    assert (
        text_of(of(events, ToolResultAdded)[0].content)
        == "the hook sh failed: it printed more than 1024 KiB"
    )
    assert not lives(Path(f"{tmp_path}/pid"))


async def test_a_program_runs_outside_the_workspace_with_a_minimal_environment_and_what_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WANTED", "OTHER_API_KEY"):
        monkeypatch.setenv(name, "x")
    source = f"import os\njson.dump([os.getcwd(), dict(os.environ)], open({str(tmp_path / 'told')!r}, 'w'))"
    command = program(tmp_path, source)
    for in_workspace, folder in ((False, "/"), (True, str(tmp_path))):
        hook = CommandHook(
            "before_tool", command, tmp_path, in_workspace=in_workspace, variables=("WANTED",)
        )
        assert await Hooks(command_hooks([hook]), timeout=30).before_tool(CALL) is None
        where, environment = json.loads((tmp_path / "told").read_text())
        assert where == folder
        assert environment.keys() - {*minimal(os.environ), "LC_CTYPE"} == {
            "WANTED",
            "CODEAGENT_WORKSPACE",
            "CODEAGENT_CALL",
        }
        assert environment["CODEAGENT_WORKSPACE"] == str(tmp_path)


async def test_a_module_of_the_workspace_is_not_what_a_program_imports(tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text(f"open({str(tmp_path / 'FIRED')!r}, 'w')\n")
    for in_workspace in (False, True):
        hook = CommandHook(
            "before_tool", (sys.executable, "-m", "policy"), tmp_path, in_workspace=in_workspace
        )
        answer = await Hooks(command_hooks([hook]), timeout=30).before_tool(CALL)
        assert (tmp_path / "FIRED").exists() == in_workspace == (answer is None)


async def test_a_child_in_a_session_of_its_own_ends_with_a_program_that_is_given_up(
    tmp_path: Path,
) -> None:
    command = ("bash", "-c", f"setsid sleep 600 & echo $! > {tmp_path}/pid; sleep 600")
    hooks = Hooks(command_hooks([CommandHook("before_tool", command, tmp_path)]), timeout=1)
    await scene(Turn("", (do("ok"),)), Turn("done"), hooks=hooks).run()
    assert not lives(tmp_path / "pid")


async def test_a_program_need_not_read_what_it_is_told(tmp_path: Path) -> None:
    hooks = Hooks(command_hooks([CommandHook("before_tool", ("true",), tmp_path)]), timeout=30)
    long = ToolCall(id="c1", name="write", arguments=json.dumps({"content": "x" * 1_000_000}))
    assert await hooks.before_tool(long) is None


async def test_arguments_can_be_changed(tmp_path: Path) -> None:
    source = "print(json.dumps({'decision': 'modify', 'arguments': {'what': 'fail'}}))"
    assert text_of((await result_with(tmp_path, source))[0].content) == "it failed"


async def test_a_program_is_told_the_call_and_afterwards_the_result(tmp_path: Path) -> None:
    source = f"json.dump(told, open({str(tmp_path / 'told')!r}, 'w'))"
    await result_with(tmp_path, source, "after_tool")
    told = json.loads((tmp_path / "told").read_text())
    assert (told["event"], told["call"]["name"]) == ("after_tool", "do")
    assert told["result"] == {
        "content": "did ok",
        "is_error": False,
        "executed": True,
        "error": None,
    }


async def test_an_update_can_be_suppressed(tmp_path: Path) -> None:
    source = "print(json.dumps({'decision': 'deny' if told['text'] == 'piece 1' else 'allow'}))"
    _, events = await result_with(tmp_path, source, "before_update", "update")
    assert "".join(event.text for event in of(events, ToolUpdated)) == "piece 2"
