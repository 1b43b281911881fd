"""Hooks through the real command line: what they do to a run, and what the log says of it."""

import sys
from functools import partial
from pathlib import Path

import pytest

from codeagent.agent.hooks.hook import Hooks
from codeagent.app import runtime
from tests.e2e.product import Event, Product, bash, calls, of, results, running, say, text_of


def configure(product: Product, event: str, source: str, **more: str) -> Path:
    """A command hook that runs this Python; `told` is what it was told."""
    program = product.home / "hook.py"
    program.write_text(f"import json, os, sys, time\ntold = json.load(sys.stdin)\n{source}\n")
    config = product.home / "config/codeagent/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    lines = [f'event = "{event}"', f'command = ["{sys.executable}", "{program}"]']
    lines += [f'{key} = "{value}"' for key, value in more.items()]
    with config.open("a") as file:
        file.write("\n".join(["[[hooks]]", *lines, ""]))
    return program


def hook_file(product: Product, name: str, source: str) -> Path:
    path = product.home / "config/codeagent/hooks" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    return path


def touched(product: Product) -> bool:
    return (product.workspace / "made").exists()


def only_result(product: Product) -> Event:
    (result,) = results(product.log())
    return result


def test_a_command_hook_denies_bash_and_the_log_says_so(product: Product) -> None:
    configure(
        product,
        "before_tool",
        "print(json.dumps({'decision': 'deny', 'reason': 'no shell on Fridays'}))",
    )
    done = product.run(product.script(calls(bash("touch made")), say("ok")), "--yes")
    result = only_result(product)
    assert (result["error"]["kind"], result["approval"], result["executed"]) == (
        "denied",
        "hook",
        False,
    )
    assert text_of(result) == "no shell on Fridays"
    assert (done.code, touched(product), of(product.log(), "tool.started")) == (4, False, [])


@pytest.mark.parametrize(
    "printed",
    ['{"decision": "allow", "so": 1}', '{"decision": "yes"}', "fine", "[]", '{"decision": 1}'],
)
def test_an_answer_outside_the_contract_denies(product: Product, printed: str) -> None:
    configure(product, "before_tool", f"print({printed!r})")
    product.run(product.script(calls(bash("touch made")), say("ok")), "--yes")
    assert (only_result(product)["approval"], touched(product)) == ("hook", False)


def test_a_command_hook_that_hangs_denies_when_its_time_is_up_and_is_ended(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Hooks().timeout == 10
    monkeypatch.setattr(runtime, "Hooks", partial(Hooks, timeout=0.5))
    program = configure(product, "before_tool", "time.sleep(300)")
    product.run(product.script(calls(bash("touch made")), say("ok")), "--yes")
    result = only_result(product)
    assert (result["error"]["kind"], result["approval"]) == ("denied", "hook")
    assert text_of(result) == f"the hook {sys.executable} did not answer within 0.5 s"
    assert not touched(product)
    assert not [line for line in running() if str(program).encode() in line]


def test_a_denied_prompt_reaches_no_model_and_is_kept_in_the_log(product: Product) -> None:
    configure(
        product,
        "prompt_submit",
        "print(json.dumps({'decision': 'deny', 'reason': 'not on ' + told['text']}))",
    )
    done = product.run(product.script(say("hello")), prompt="a Friday")
    assert (done.code, done.out) == (4, "")
    assert "the prompt was not sent: a hook denied it: not on a Friday" in done.err
    assert [event["type"] for event in product.log()] == ["notice"]
    assert product.log()[0]["data"] == {"prompt": "a Friday"}


def test_a_hook_adds_something_behind_the_prompt(product: Product) -> None:
    configure(
        product,
        "prompt_submit",
        "print(json.dumps({'decision': 'context', 'text': 'it is Friday'}))",
    )
    done = product.run(product.script(say("hello", expect="it is Friday")))
    assert (done.code, done.out) == (0, "hello\n")


def test_a_program_is_told_of_the_end_of_a_run(product: Product) -> None:
    configure(
        product,
        "run_finished",
        "json.dump(told, open(os.path.join(os.path.dirname(__file__), 'told'), 'w'))",
    )
    product.run(product.script(say("all done")))
    told = (product.home / "told").read_text()
    assert (
        '"event": "run_finished"' in told
        and '"reason": "done"' in told
        and '"text": "all done"' in told
    )


def test_a_relative_program_would_be_a_file_of_the_project_and_is_refused(product: Product) -> None:
    config = product.home / "config/codeagent/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[[hooks]]\nevent = "before_tool"\ncommand = ["./hook.sh"]\n')
    done = product.run(product.script(say("ok")))
    assert done.code == 2
    assert (
        "hooks.command: give the full path of the program: a relative one would be a file of the project"
        in done.err
    )


@pytest.mark.parametrize("setting", ['event = "run_finished"\ncommand = ["true"]\ntools = "bash"'])
def test_tools_are_refused_where_no_call_is_meant(product: Product, setting: str) -> None:
    config = product.home / "config/codeagent/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f"[[hooks]]\n{setting}\n")
    done = product.run(product.script(say("ok")))
    assert (done.code, "tools cannot be given for run_finished" in done.err) == (2, True), done.err


def test_a_command_hook_may_be_for_some_tools_only(product: Product) -> None:
    configure(product, "before_tool", "sys.exit('no')", tools="read")
    product.run(product.script(calls(bash("touch made")), say("ok")), "--yes")
    assert touched(product)


def test_a_function_in_a_hook_file_changes_the_arguments(product: Product) -> None:
    hook_file(
        product,
        "guard.py",
        "import json\n"
        "from codeagent import Modify, hook\n"
        "@hook('before_tool', tools='bash')\n"
        "def elsewhere(call):\n"
        "    command = json.loads(call.arguments)['command']\n"
        "    return Modify({'command': command.replace('made', 'made-by-a-hook')})\n",
    )
    product.run(product.script(calls(bash("touch made")), say("ok")), "--yes", "--output", "jsonl")
    (asked,) = of(product.log(), "approval.requested")
    (started,) = of(product.log(), "tool.started")
    assert asked["target"] == started["target"] == "touch made-by-a-hook"
    assert (product.workspace / "made-by-a-hook").exists() and not touched(product)


def test_a_broken_hook_file_denies_every_call_and_is_named_on_standard_error_and_in_the_result(
    product: Product,
) -> None:
    path = hook_file(product, "guard.py", "from codeagent import hook\n1 / 0\n")
    done = product.run(product.script(calls(bash("touch made")), say("ok")), "--yes")
    where = f"{path}:2: ZeroDivisionError: division by zero; "
    assert where in done.err
    assert text_of(only_result(product)).startswith(where)
    assert (only_result(product)["approval"], touched(product)) == ("hook", False)


def test_sessions_are_told_of_their_start_and_end(product: Product) -> None:
    log = product.home / "told"
    hook_file(
        product,
        "diary.py",
        "from codeagent import hook\n"
        "def note(session, what):\n"
        f"    open({str(log)!r}, 'a').write(f'{{what}} {{session.id}} {{session.resumed}}\\n')\n"
        "@hook('session_start')\n"
        "def start(session): note(session, 'start')\n"
        "@hook('session_end')\n"
        "async def end(session): note(session, 'end')\n",
    )
    product.run(product.script(say("one")))
    session = product.sessions[0].name
    product.run(product.script(say("two")), "--resume", session)
    assert log.read_text().splitlines() == [
        f"start {session} False",
        f"end {session} False",
        f"start {session} True",
        f"end {session} True",
    ]


def test_a_project_cannot_bring_hook_files(product: Product) -> None:
    folder = product.workspace / ".codeagent/hooks"
    folder.mkdir(parents=True)
    (folder / "evil.py").write_text(f"open({str(product.home / 'ran')!r}, 'w')\n")
    assert product.run(product.script(say("ok"))).code == 0
    assert not (product.home / "ran").exists()
