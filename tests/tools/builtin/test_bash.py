"""The bash tool: what a command printed and how it ended, for the model and for the user."""

import asyncio
import json
from dataclasses import replace

import pytest

from codeagent.core.display import TerminalBlock
from codeagent.core.errors import SandboxLost, SandboxUnavailable
from codeagent.core.messages import text_of
from codeagent.core.policy import Mode, Policy
from codeagent.core.sandbox import CommandResult
from codeagent.core.tool import EXCLUSIVE, SHARED, Access, Cancelled, Failed, InvalidArgs, ToolError
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.builtin.bash import Bash, BashArgs
from tests.fakes import FakeSandbox, put, tool_context
from tests.table import for_each
from tests.toolbox import Toolbox


async def failing(box: Toolbox, command: str = "x", **arguments: object) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await box.call("bash", command=command, **arguments)
    return caught.value


async def test_output_is_streamed_as_it_comes_and_returned(box: Toolbox) -> None:
    box.sandbox = FakeSandbox([("stdout", b"one\n"), ("stderr", b"warn\n"), ("stdout", b"two\n")])
    result = await box.call("bash", command="make")
    assert text_of(result.content) == "one\nwarn\ntwo"
    assert box.updates == [("stdout", "one\n"), ("stderr", "warn\n"), ("stdout", "two\n")]
    assert result.blocks == (TerminalBlock(command="make", output="one\nwarn\ntwo", exit_code=0),)
    assert result.details["exit_code"] == 0


async def test_a_failing_command_is_an_error_with_both_streams_and_the_code(box: Toolbox) -> None:
    box.sandbox = FakeSandbox(
        [("stdout", b"out\n"), ("stderr", b"err\n")], CommandResult(exit_code=3)
    )
    error = await failing(box)
    assert error.kind == "failed"
    assert text_of(error.content) == "out\nerr\n[exit code 3]"
    assert error.details["exit_code"] == 3


async def test_silence_memory_left_processes_and_notices_are_said(box: Toolbox) -> None:
    box.sandbox = FakeSandbox()
    assert await box.text("bash", command="true") == "(no output)"
    box.sandbox = FakeSandbox(
        [], CommandResult(exit_code=0, left_running=2, notices=("a .git was moved",))
    )
    assert await box.text("bash", command="x &") == "[left running: 2]\n[a .git was moved]"
    box.sandbox = FakeSandbox([], CommandResult(exit_code=137, out_of_memory=True))
    assert (
        text_of((await failing(box)).content) == "[exit code 137] [the sandbox ran out of memory]"
    )


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("fatal: Unable to create '/w/.git/index.lock': Read-only file system\n", True),
        ("error: could not lock config file .git/config: Read-only file system\n", True),
        ("touch: cannot touch '/usr/x': Read-only file system\n", False),
        ("fatal: not a git repository\n", False),
    ],
)
async def test_a_git_that_cannot_write_is_told_what_commits(
    box: Toolbox, printed: str, said: bool
) -> None:
    box.sandbox = FakeSandbox([("stderr", printed.encode())], CommandResult(exit_code=128))
    error = await failing(box, "git add -A && git commit -m x")
    assert ("[git in bash only reads" in text_of(error.content)) is said


@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [
        ({}, 120),
        ({"command": "grep -rn x ."}, 20),
        ({"command": "awk 'BEGIN{for(;;);}'"}, 20),
        ({"command": "grep -rn x .", "timeout": 50.0}, 50),
        ({"timeout": 5.0}, 5),
        ({"timeout": 3000.0}, 600),
        ({"run_in_background": True}, None),
        ({"run_in_background": True, "timeout": 6000.0}, 6000),
    ],
)
def test_a_command_has_a_time_limit_and_a_ceiling_but_none_in_the_background_unless_it_asks(
    box: Toolbox, arguments: dict[str, object], seconds: float | None
) -> None:
    tool = box.tool("bash")
    given = {"command": "x"} | arguments
    assert tool.time_limit(tool.Args(**given)) == seconds
    assert tool.in_background(tool.Args(**given)) is ("run_in_background" in arguments)


@pytest.mark.parametrize(
    ("arguments", "permission"),
    [
        ({}, "auto"),
        ({"timeout": 20.0}, "auto"),
        ({"timeout": 21.0}, "prompt"),
        ({"run_in_background": True}, "prompt"),
    ],
)
def test_what_only_reads_is_asked_about_where_it_may_take_long(
    box: Toolbox, arguments: dict[str, object], permission: str
) -> None:
    tool = box.tool("bash")
    key = tool.approval_key(tool.Args(command="grep -rn x .", **arguments))
    assert Policy().check("bash", key, "prompt", "anything").permission == permission


async def test_a_command_that_was_not_asked_about_says_why_it_had_so_little_time(
    box: Toolbox,
) -> None:
    async def run_out() -> None:
        context.cancel.cancel("timeout after 20 s")
        task.cancel()

    context = tool_context(box.workspace, FakeSandbox([run_out, 60.0]))
    task = asyncio.ensure_future(box.tool("bash").run(BashArgs(command="grep -rn x ."), context))
    with pytest.raises(
        Cancelled, match="gets 20 s, because nobody is asked about it; narrow it, or give a longer"
    ):
        await task


async def test_a_cancel_stops_the_command_and_keeps_what_was_printed(box: Toolbox) -> None:
    printed = asyncio.Event()

    async def say_so() -> None:
        printed.set()

    box.sandbox = FakeSandbox([("stdout", b"partial\n"), say_so, 60.0])
    task = asyncio.ensure_future(box.call("bash", command="x"))
    await printed.wait()
    task.cancel()
    with pytest.raises(Cancelled) as caught:
        await task
    assert text_of(caught.value.content) == "partial"
    assert "2 processes stopped" in str(caught.value)


async def test_a_result_that_raced_with_the_cancel_is_kept(box: Toolbox) -> None:
    async def end_by_cancel() -> None:
        task.cancel()

    box.sandbox = FakeSandbox([("stdout", b"done\n"), end_by_cancel])
    task = asyncio.ensure_future(box.call("bash", command="x"))
    assert text_of((await task).content) == "done"


async def test_a_lost_sandbox_means_an_unknown_state_and_is_said(box: Toolbox) -> None:
    box.sandbox = FakeSandbox([("stdout", b"partial\n")], SandboxLost("the daemon went away"))
    error = await failing(box)
    assert "partial" in text_of(error.content)
    assert "unknown" in text_of(error.content)


async def test_a_sandbox_that_cannot_start_is_the_executor_s_to_explain(box: Toolbox) -> None:
    box.sandbox = FakeSandbox([], SandboxUnavailable("no daemon", "start it"))
    with pytest.raises(SandboxUnavailable):
        await box.call("bash", command="x")
    box.sandbox = None
    with pytest.raises(Failed, match="without a sandbox"):
        await box.call("bash", command="x")


@pytest.mark.parametrize("command", ["", "  ", "a\0b"])
async def test_a_command_that_is_none_is_refused(box: Toolbox, command: str) -> None:
    with pytest.raises(InvalidArgs):
        await box.call("bash", command=command)


async def test_a_flood_is_cut_for_the_model_and_kept_for_output_read(box: Toolbox) -> None:
    lines = b"".join(b"line %d\n" % n for n in range(100_000))
    box.sandbox = FakeSandbox(
        [("stdout", lines[at : at + 7919]) for at in range(0, len(lines), 7919)]
    )
    text = await box.text("bash", command="x")
    assert len(text) < 33_000
    assert text.startswith("line 0\n")
    assert text.endswith("line 99999")
    [handle] = box.outputs.texts
    assert f'output_read(id="{handle}")' in text
    assert box.outputs.texts[handle] == lines.decode()
    assert box.outputs.closed == {handle}
    assert "line 50000" in await box.text("output_read", id=handle, offset=50_001, lines=1)
    assert "".join(update for _, update in box.updates) == lines.decode()


async def test_what_changed_while_a_command_ran_is_shown_before_it_is_overwritten(
    box: Toolbox,
) -> None:
    """A user's edit and a formatter's look the same from here, so neither counts as seen."""
    put(box.root, "a.txt", "one\ntwo\n")
    await box.call("read", path="a.txt")

    async def the_user_saves() -> None:
        put(box.root, "a.txt", "one\nthe user's own\n")

    box.sandbox = FakeSandbox([the_user_saves])
    await box.call("bash", command="sleep 5")
    with pytest.raises(Failed, match=r"(?s)changed since you read it.*-two\n\+the user's own"):
        await box.call("write", path="a.txt", content="ONE\ntwo\n")
    assert box.content("a.txt") == "one\nthe user's own\n"


async def test_a_change_that_was_shown_in_full_counts_as_seen(box: Toolbox) -> None:
    put(box.root, "a.txt", "one\n")
    await box.call("read", path="a.txt")

    async def fmt() -> None:
        put(box.root, "a.txt", "two\n")

    box.sandbox = FakeSandbox([fmt])
    await box.call("bash", command="fmt")
    change = {"path": "a.txt", "old_string": "two", "new_string": "three"}
    with pytest.raises(Failed, match="That is all that changed"):
        await box.call("edit", **change)
    await box.call("edit", **change)
    assert box.content("a.txt") == "three\n"


async def test_a_user_s_edit_is_not_hidden_by_a_command_that_prints_a_part_of_the_file(
    box: Toolbox,
) -> None:
    lines = [f"line {n}" for n in range(1, 41)]
    put(box.root, "a.txt", "\n".join(lines))
    await box.call("read", path="a.txt")

    async def the_user_saves() -> None:
        put(box.root, "a.txt", "\n".join([*lines[:-1], "the user's own"]))

    box.sandbox = FakeSandbox([the_user_saves, ("stdout", b"line 1\nline 2\n")])
    await box.call("bash", command="head -2 a.txt")
    with pytest.raises(Failed, match=r"(?s)only in part.*-line 40\n\+the user's own"):
        await box.call("write", path="a.txt", content="x\n")
    assert box.content("a.txt").endswith("the user's own")


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("sed -n 2,3p src/a.py", "b = 2\nc = 3\n"),
        ("cd src && cat -n a.py | head -3", "     1\ta = 1\n     2\tb = 2\n     3\tc = 3\n"),
        ("grep -n b src/a.py", "2:b = 2\n"),
        ("rg -n -A1 'b =' .", "src/a.py:2:b = 2\nsrc/a.py-3-c = 3\n"),
    ],
)
async def test_what_a_command_printed_of_a_file_counts_as_read(
    box: Toolbox, command: str, printed: str
) -> None:
    put(box.root, "src/a.py", "a = 1\nb = 2\nc = 3\nd = 4\n")
    box.sandbox = FakeSandbox([("stdout", printed.encode())])
    await box.call("bash", command=command)
    await box.call("edit", path="src/a.py", old_string="b = 2", new_string="b = 5")
    assert box.content("src/a.py") == "a = 1\nb = 5\nc = 3\nd = 4\n"


async def test_a_file_that_a_command_only_named_was_not_read(box: Toolbox) -> None:
    put(box.root, "a.py", "a = 1\nb = 2\n")
    box.sandbox = FakeSandbox([("stdout", b"2 a.py\n")])
    await box.call("bash", command="wc -l a.py")
    with pytest.raises(Failed, match="was not read"):
        await box.call("edit", path="a.py", old_string="b = 2", new_string="b = 5")


async def test_a_file_a_command_printed_whole_can_be_replaced(box: Toolbox) -> None:
    put(box.root, "a.py", "\na = 1\n\nb = 2\n")
    box.sandbox = FakeSandbox([("stdout", b"\na = 1\n\nb = 2\n")])
    await box.call("bash", command="cat a.py")
    await box.call("write", path="a.py", content="c = 3\n")
    assert box.content("a.py") == "c = 3\n"


async def test_a_printed_part_does_not_make_the_whole_file_known(box: Toolbox) -> None:
    put(box.root, "a.py", "a = 1\nb = 2\n")
    box.sandbox = FakeSandbox([("stdout", b"a = 1\n")])
    await box.call("bash", command="head -1 a.py")
    with pytest.raises(Failed, match="only in part"):
        await box.call("write", path="a.py", content="c = 3\n")


async def test_what_changed_during_a_job_may_be_a_user_s_doing_so_it_is_shown_before_it_is_overwritten(
    box: Toolbox,
) -> None:
    put(box.root, "a.txt", "one\n")
    await box.call("read", path="a.txt")

    async def change() -> None:
        put(box.root, "a.txt", "two\n")

    tool = box.tool("bash")
    context = replace(tool_context(box.workspace, FakeSandbox([change])), is_job=lambda: True)
    result = await tool.run(tool.Args(command="x", run_in_background=True), context)
    assert "shown_files" not in result.details
    with pytest.raises(Failed, match=r"(?s)changed since you read it.*\+two"):
        await box.call("edit", path="a.txt", old_string="two", new_string="three")


async def test_the_preview_is_the_whole_command(box: Toolbox) -> None:
    tool = box.tool("bash")
    command = "echo a\n" + "\n" * 60 + "rm -rf x"
    preview = await tool.preview(tool.Args(command=command), tool_context(box.workspace))
    assert preview.blocks == (TerminalBlock(command=command),)
    assert preview.target == "echo a …"


async def test_in_plan_mode_the_command_asks_for_a_workspace_that_cannot_be_written(
    box: Toolbox,
) -> None:
    sandbox = FakeSandbox()
    tool = Bash(box.outputs, box.reads)
    context = tool_context(box.workspace, sandbox)
    for read_only in (False, True):
        await tool.run(tool.Args(command="ls"), replace(context, read_only=read_only))
    assert [command.read_only for command in sandbox.commands] == [False, True]


async def test_a_call_with_network_asks_with_its_reason_and_reaches_every_public_host(
    box: Toolbox,
) -> None:
    box.sandbox = FakeSandbox()
    tool = box.tool("bash")
    plain, networked = tool.Args(command="cat a"), tool.Args(command="cat a", network=True)
    assert tool.approval_key(plain).reads == "freely" and not tool.approval_key(plain).network
    key = tool.approval_key(networked)
    assert (key.reads == "freely", key.reading, key.network, key.parts) == (
        False,
        frozenset(),
        True,
        ("cat a",),
    )
    assert "it could send what it reads to the hosts it may reach" in (key.sensitive or "")
    assert tool.target(networked) == "network: cat a"
    assert tool.proposal(tool.Args(command="pytest -q", network=True)) == ""
    await box.call("bash", command="cat a", network=True)
    await box.call("bash", command="cat a")
    assert [command.hosts for command in box.sandbox.commands] == [("*",), ()]


def test_a_call_with_network_says_what_it_needs_and_what_it_would_be_without(box: Toolbox) -> None:
    tool = box.tool("bash")
    key = tool.approval_key(tool.Args(command="pip install x", network=True))
    assert key.needs == ("pypi.org", "files.pythonhosted.org")
    assert key.offline == tool.approval_key(tool.Args(command="pip install x"))


@for_each(
    ("command", "mode", "later"),
    [
        ("make x", "auto", True),
        ("make x", "ask", False),
        ("cat a", "ask", True),
        ("cat .env", "auto", False),
    ],
)
def test_a_call_with_network_is_asked_about_later_only_if_it_would_run_without_a_question(
    box: Toolbox, command: str, mode: Mode, later: bool
) -> None:
    tool = box.tool("bash")
    key = tool.approval_key(tool.Args(command=command, network=True))
    verdict = Policy(mode=mode).asking_later("bash", key, tool.permission, tool.effect)
    assert (verdict.permission, bool(verdict.later)) == (
        ("auto", True) if later else ("prompt", False)
    )


async def test_a_call_with_network_still_says_that_it_would_read_a_secret(box: Toolbox) -> None:
    tool = box.tool("bash")
    key = tool.approval_key(tool.Args(command="cat .env", network=True))
    assert "network access" in (key.sensitive or "") and "secret" in (key.sensitive or "")


@pytest.mark.parametrize(
    ("arguments", "access"),
    [
        ({"command": "git status && cat a.txt | head -3"}, SHARED),
        ({"command": "cat a.txt > b.txt"}, EXCLUSIVE),
        ({"command": "make"}, EXCLUSIVE),
        ({"command": "cat $(rm a.txt)"}, EXCLUSIVE),
        ({"command": "cat a.txt", "run_in_background": True}, EXCLUSIVE),
        ({"command": "cat a.txt", "network": True}, EXCLUSIVE),
    ],
)
def test_a_command_runs_beside_others_only_where_all_of_it_is_known_to_only_read(
    box: Toolbox, arguments: dict[str, object], access: Access
) -> None:
    tool = box.tool("bash")
    assert tool.access(parse_arguments(tool, json.dumps(arguments)), box.workspace) == access


def test_without_a_container_every_command_runs_alone(box: Toolbox) -> None:
    tool = Bash(box.outputs, box.reads, always_ask="it runs on this machine")
    assert (
        tool.access(parse_arguments(tool, '{"command": "cat a.txt"}'), box.workspace) == EXCLUSIVE
    )


@pytest.mark.parametrize(
    ("arguments", "leaves"),
    [
        ({"command": "cat a.txt | head -3"}, True),
        ({"command": "cat a.txt > b.txt"}, False),
        ({"command": "python3 -c 'print(1)'"}, False),
        ({"command": "cat a.txt", "run_in_background": True}, False),
        ({"command": "cat a.txt", "network": True}, False),
    ],
)
def test_without_a_container_a_command_that_only_reads_is_asked_about_and_needs_no_checkpoint(
    box: Toolbox, arguments: dict[str, object], leaves: bool
) -> None:
    tool = Bash(box.outputs, box.reads, always_ask="it runs on this machine")
    key = tool.approval_key(parse_arguments(tool, json.dumps(arguments)))
    assert (key.reads == "if asked", key.reads == "freely") == (leaves, False)
    assert key.sensitive


NO_MODULE = b"Traceback\nModuleNotFoundError: No module named 'requests.api'\n"


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (".venv/pyvenv.cfg", ".venv/bin/python may have it"),
        ("uv.lock", "uv.lock says what it needs: ask the user to install it into .venv"),
        ("requirements.txt", "requirements.txt says what it needs"),
    ],
)
async def test_where_an_import_fails_the_result_says_what_would_help(
    box: Toolbox, file: str, said: str
) -> None:
    box.sandbox = FakeSandbox([("stderr", NO_MODULE)], CommandResult(1))
    assert "has no module" not in text_of((await failing(box)).content), (
        "nothing is known without such a file"
    )
    put(box.root, file, "")
    text = text_of((await failing(box)).content)
    assert said in text and "Python has no module requests.api" in text
    box.sandbox = FakeSandbox([("stderr", NO_MODULE)])
    assert "has no module" not in text_of((await box.call("bash", command="x")).content)
