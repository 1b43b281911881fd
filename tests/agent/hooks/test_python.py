"""Hooks as functions in files: in which order, with which words a broken one denies."""

import subprocess
import sys
import textwrap
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from codeagent.agent.hooks.hook import Deny, Hooks, Modify, SubmittedPrompt
from codeagent.agent.hooks.python import HookFileProblem, load_python_hooks
from codeagent.core.events import ToolResultAdded, ToolStarted
from codeagent.core.messages import ToolCall, text_of
from tests.agent.doubles import Turn, do, of, scene

NOT_COMPILED = "" if sys.version_info >= (3, 11, 4) else "it cannot be compiled: "
CALL = ToolCall(id="c1", name="bash", arguments='{"command": "ls"}')


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.py").write_text("from codeagent import *\n" + textwrap.dedent(text))


def loaded(folder: Path, timeout: float = 5) -> tuple[Hooks, list[HookFileProblem]]:
    hooks, problems = load_python_hooks(folder)
    return Hooks(hooks, timeout), list(problems)


async def answer(folder: Path, call: ToolCall = CALL, timeout: float = 5) -> Deny | Modify | None:
    return await loaded(folder, timeout)[0].before_tool(call)


async def test_there_need_not_be_a_folder(tmp_path: Path) -> None:
    assert load_python_hooks(tmp_path / "hooks") == ((), ())


async def test_a_plain_function_denies_allows_and_modifies(tmp_path: Path) -> None:
    write(
        tmp_path,
        a="""
        @hook("before_tool")
        def check(call):
            match call.id:
                case "deny": return Deny("no")
                case "modify": return Modify({"command": "pwd"})
            return True
        """,
    )
    assert await answer(tmp_path, replace(CALL, id="deny")) == Deny("no")
    assert await answer(tmp_path, replace(CALL, id="modify")) == Modify({"command": "pwd"})
    assert await answer(tmp_path) is None


async def test_an_async_function_is_awaited(tmp_path: Path) -> None:
    write(
        tmp_path,
        a="""
        import asyncio
        @hook("before_tool")
        async def check(call):
            await asyncio.sleep(0)
            return Deny("async")
        """,
    )
    assert await answer(tmp_path) == Deny("async")


async def test_neither_kind_runs_in_the_programs_own_thread(tmp_path: Path) -> None:
    source = "import threading\n@hook('before_tool')\n{kind} check(call): return Deny(threading.current_thread().name)"
    for kind in ("def", "async def"):
        (tmp_path / "a.py").write_text(f"from codeagent import *\n{source.format(kind=kind)}\n")
        denied = await answer(tmp_path)
        assert isinstance(denied, Deny) and denied.reason != threading.current_thread().name


@pytest.mark.parametrize(
    "body", ["def check(call): time.sleep(3)", "async def check(call): time.sleep(3)"]
)
async def test_a_function_that_blocks_is_given_up_and_denies(tmp_path: Path, body: str) -> None:
    write(tmp_path, a=f"import time\n@hook('before_tool')\n{body}")
    assert await answer(tmp_path, timeout=0.1) == Deny(
        "the hook a.py:check did not answer within 0.1 s"
    )


async def test_an_async_function_that_will_not_be_cancelled_is_given_up(tmp_path: Path) -> None:
    write(
        tmp_path,
        a="""
        import asyncio
        @hook("before_tool")
        async def check(call):
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    pass
        """,
    )
    assert await answer(tmp_path, timeout=0.1) == Deny(
        "the hook a.py:check did not answer within 0.1 s"
    )


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return 1 / 0", "division by zero"),
        ("raise SystemExit", "it raised SystemExit"),
        ("return None", "it answered NoneType, which is not a decision here"),
        ("return 1", "it answered int, which is not a decision here"),
        ("return AddContext('x')", "it answered AddContext, which is not a decision here"),
        ("return Modify({1, 2})", "its arguments are set, not a dict"),
        (
            "return Modify({'x': {1}})",
            "its arguments are not JSON: Object of type set is not JSON serializable",
        ),
        ("return Modify({'x': float('nan')})", "its arguments are not JSON"),
    ],
)
async def test_whatever_a_function_does_wrong_denies(
    tmp_path: Path, kind: str, body: str, why: str
) -> None:
    write(tmp_path, a=f"@hook('before_tool')\n{kind} check(call): {body}")
    denied = await answer(tmp_path)
    assert isinstance(denied, Deny) and denied.reason.startswith(
        f"the hook a.py:check failed: {why}"
    )


async def test_files_go_by_name_and_functions_by_place_and_each_sees_what_was_changed_before(
    tmp_path: Path,
) -> None:
    add = (
        "lambda call: Modify({'command': __import__('json').loads(call.arguments)['command'] + %r})"
    )
    write(
        tmp_path,
        b=f"hook('before_tool')({add % 'b'})",
        a=f"def _(): ...\nhook('before_tool')({add % '1'})\nhook('before_tool')({add % '2'})",
    )
    assert await answer(tmp_path) == Modify({"command": "ls12b"})


async def test_functions_of_one_name_are_all_called(tmp_path: Path) -> None:
    write(
        tmp_path,
        a="@hook('before_tool')\ndef _(call): return False\n@hook('before_tool')\ndef _(call): return True",
    )
    assert await answer(tmp_path) == Deny("denied by the hook a.py:_")


async def test_a_hook_may_be_for_some_tools_only(tmp_path: Path) -> None:
    write(tmp_path, a="@hook('before_tool', tools='bash*')\ndef check(call): return False")
    assert await answer(tmp_path) == Deny("denied by the hook a.py:check")
    assert await answer(tmp_path, replace(CALL, name="read")) is None


async def test_files_that_begin_with_an_underscore_or_a_dot_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path, _helper="1/0", **{".#lock": "1/0"})
    assert load_python_hooks(tmp_path) == ((), ())


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("x = 1\n1 / 0\n", "a.py:2: ZeroDivisionError: division by zero"),
        ("x = 1\ndef x(:\n", "a.py:2: invalid syntax"),
        ("import no_such_thing\n", "a.py:1: ModuleNotFoundError: No module named 'no_such_thing'"),
        ("raise SystemExit\n", "a.py:1: SystemExit"),
        ("x = 1\n", "a.py:1: it registers no hook: decorate a function with @hook(…)"),
        ("\0", f"a.py:1: {NOT_COMPILED}source code string cannot contain null bytes"),
        (
            "from codeagent import hook\n\n@hook\ndef f(call): ...\n",
            'a.py:3: TypeError: name the event that the hook is for: @hook("',
        ),
        (
            "from codeagent import hook\nhook('before_lunch')\n",
            "a.py:2: TypeError: 'before_lunch' is not an event for hooks; they are before_tool, after_tool, ",
        ),
        (
            "from codeagent import hook\n@hook('before_tool')\ndef f(): ...\n",
            "a.py:2: TypeError: f is called as f(call) for before_tool: too many positional arguments",
        ),
        (
            "from codeagent import hook\n@hook('before_tool')\ndef f(call): yield\n",
            "a.py:2: TypeError: f is a generator",
        ),
        (
            "from codeagent import hook\nhook('run_finished', tools='bash')\n",
            "a.py:2: TypeError: tools cannot be given for run_finished",
        ),
    ],
)
async def test_a_broken_file_is_named_with_its_line_and_denies_every_call(
    tmp_path: Path, text: str, where: str
) -> None:
    (tmp_path / "a.py").write_text(text)
    hooks, (problem,) = loaded(tmp_path)
    assert str(problem).startswith(f"{tmp_path}/{where}")
    assert str(problem).endswith("is denied until you fix or remove it and start again")
    if "run_finished" not in text:
        assert await hooks.before_tool(CALL) == Deny(str(problem))


async def test_what_a_broken_file_registered_before_it_broke_is_not_called(tmp_path: Path) -> None:
    write(tmp_path, a="@hook('before_tool')\ndef f(call): return Modify({})\n1 / 0")
    hooks, (problem,) = loaded(tmp_path)
    assert (len(hooks.registered), problem.line) == (1, 4)
    assert await hooks.before_tool(CALL) == Deny(str(problem))


async def test_a_file_that_is_no_text_or_no_file_denies_every_call(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "b.py").mkdir()
    (tmp_path / "c.py").symlink_to(tmp_path / "nowhere")
    hooks, problems = loaded(tmp_path)
    assert [(problem.file.name, problem.what) for problem in problems[1:]] == [
        ("b.py", "it is not a file"),
        ("c.py", "it is not a file"),
    ]
    assert await hooks.before_tool(CALL) == Deny(str(problems[0]))


async def test_a_file_that_the_agent_or_anybody_could_write_is_not_run_and_denies(
    tmp_path: Path,
) -> None:
    workspace, folder = tmp_path / "work", tmp_path / "hooks"
    workspace.mkdir()
    folder.mkdir()
    (workspace / "a.py").write_text("raise SystemExit('it ran')")
    (folder / "a.py").symlink_to(workspace / "a.py")
    for hooks, problems in (
        load_python_hooks(folder, workspace),
        load_python_hooks(workspace, workspace),
    ):
        assert "it lies in the workspace, where the agent could write it, so it was not run" in str(
            problems[0]
        )
        assert await Hooks(hooks).before_tool(CALL) == Deny(str(problems[0]))
    write(folder, b="raise SystemExit('it ran')")
    (folder / "b.py").chmod(0o666)
    hooks, problems = load_python_hooks(folder)
    assert "everybody on this machine can write it, so it was not run: chmod o-w" in str(
        problems[1]
    )


async def test_a_folder_that_cannot_be_read_denies_every_call(tmp_path: Path) -> None:
    (tmp_path / "hooks").write_text("")
    hooks, (problem,) = loaded(tmp_path / "hooks")
    assert str(problem).startswith(
        f"{tmp_path}/hooks:1: the folder cannot be read (Not a directory)"
    )
    assert await hooks.before_tool(CALL) == Deny(str(problem))


async def test_a_broken_file_denies_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path, a="@hook('prompt_submit')\ndef f(prompt): return True\n1 / 0")
    hooks, (problem,) = loaded(tmp_path)
    assert await hooks.before_tool(CALL) is None
    assert await hooks.prompt_submit(SubmittedPrompt("go")) == Deny(str(problem))
    write(tmp_path, a="# before_update\n1 / 0")
    hooks, (problem,) = loaded(tmp_path)
    assert not await hooks.before_update(CALL, "piece")
    write(tmp_path, a="@hook('after_tool')\ndef f(call): return True\n1 / 0")
    assert await answer(tmp_path) is None


async def test_a_broken_file_does_not_keep_the_others_from_their_place(tmp_path: Path) -> None:
    good = "@hook('before_tool')\ndef f(call): return {}"
    write(tmp_path, a=good.format("Deny('a')"), b="1 / 0", c=good.format("Deny('c')"))
    assert [hook.name for hook in loaded(tmp_path)[0].registered] == ["a.py:f", "b.py", "c.py:f"]
    assert await answer(tmp_path) == Deny("a")


async def test_the_result_of_a_denied_call_names_the_broken_file(tmp_path: Path) -> None:
    (tmp_path / "guard.py").write_text("1 / 0\n")
    hooks, _ = loaded(tmp_path)
    events = await scene(Turn("", (do("ok"),)), Turn("done"), hooks=hooks).run()
    (result,) = of(events, ToolResultAdded)
    assert (result.error.kind, result.approval, of(events, ToolStarted)) == ("denied", "hook", [])
    assert text_of(result.content).startswith(
        f"{tmp_path}/guard.py:1: ZeroDivisionError: division by zero; "
    )


def test_such_a_file_can_be_imported_elsewhere_and_its_functions_called(tmp_path: Path) -> None:
    write(tmp_path, a="@hook('before_tool')\ndef check(call): return False")
    code = "import a; print(a.check(None))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "False\n", done.stderr


def test_loading_leaves_no_files_behind(tmp_path: Path) -> None:
    write(tmp_path, a="@hook('before_tool')\ndef check(call): return True")
    load_python_hooks(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.py"]


def test_a_hook_that_hangs_does_not_keep_the_program_from_ending(tmp_path: Path) -> None:
    write(tmp_path, a="import time\n@hook('before_tool')\ndef check(call): time.sleep(60)")
    write(
        tmp_path,
        b="import time\n@hook('before_update')\nasync def check(call, text): time.sleep(60)",
    )
    code = f"""
import asyncio, pathlib
from codeagent.agent.hooks.hook import Hooks
from codeagent.agent.hooks.python import load_python_hooks
from codeagent.core.messages import ToolCall
hooks = Hooks(load_python_hooks(pathlib.Path({str(tmp_path)!r}))[0], 0.05)
call = ToolCall(id="c", name="bash")
print(asyncio.run(hooks.before_tool(call)).reason, asyncio.run(hooks.before_update(call, "")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stdout == "the hook a.py:check did not answer within 0.05 s False\n", done.stderr
