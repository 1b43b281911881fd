"""`codeagent run`: where its prompt comes from, and the session it goes on with."""

import contextlib
import json
import os
import pty
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.commands import run
from codeagent.core.errors import ConfigError
from tests.e2e.conftest import product as product
from tests.e2e.product import Product, calls, of, results, say


@contextlib.contextmanager
def standard_input(fd: int) -> Iterator[None]:
    """Descriptor 0 leads where `fd` does."""
    kept = os.dup(0)
    os.dup2(fd, 0)
    try:
        yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)


def piped(data: bytes) -> str:
    """What `run` adds to its prompt where this is piped in."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        with standard_input(file.fileno()):
            return run.read_piped()


def test_what_is_piped_in_is_added_to_the_prompt_and_said(product: Product) -> None:
    done = product.call(
        "run",
        "explain this",
        "--sandbox",
        "off",
        "--model",
        product.script(say("ok")),
        stdin="Error: no such file\n",
    )
    (message,) = (
        event["message"]
        for event in of(product.log(), "message.added")
        if event["message"]["role"] == "user"
    )
    assert message["content"][0]["text"] == "explain this\n\nStandard input:\n\nError: no such file"
    assert (done.code, done.out) == (0, "ok\n")
    assert done.err.splitlines()[0] == "codeagent: standard input was added to the prompt: 1 line"


def test_of_a_long_text_the_beginning_and_the_end_are_added_and_the_rest_is_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = piped(b"first\n" + b"x" * 300_000 + b"\nlast")
    assert text.startswith("\n\nStandard input:\n\nfirst\n") and text.endswith("\nlast")
    assert "[… 172011 characters left out …]" in text and len(text) < 130_000
    assert "without 172,011 characters of its middle" in capsys.readouterr().err


def test_an_open_pipe_that_sends_nothing_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "_SILENCE", 0.0)
    reading, writing = os.pipe()
    with standard_input(reading):
        assert run.read_piped() == ""
    os.close(reading)
    os.close(writing)
    assert "sent nothing" in capsys.readouterr().err


def test_a_pipe_that_began_to_send_is_read_to_its_end_and_the_wait_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.write(writing, b"first, ")
    waited = threading.Event()

    def say(text: str) -> None:
        if "until it ends" in text:
            waited.set()

    def send_the_rest() -> None:
        waited.wait(20)
        os.write(writing, b"then the rest")
        os.close(writing)

    monkeypatch.setattr(run, "_SILENCE", 0.0)
    monkeypatch.setattr(run, "say", say)
    sender = threading.Thread(target=send_the_rest)
    sender.start()
    with standard_input(reading):
        assert run.read_piped() == "\n\nStandard input:\n\nfirst, then the rest"
    sender.join()
    os.close(reading)


def test_a_terminal_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = pty.openpty()
    os.write(first, b"typed\n")
    with standard_input(second):
        assert run.read_piped() == ""
    os.close(first)
    os.close(second)


@pytest.mark.parametrize(
    "flags", [os.O_RDONLY, os.O_WRONLY], ids=["null device", "open for writing only"]
)
def test_the_null_device_adds_nothing(flags: int, capsys: pytest.CaptureFixture[str]) -> None:
    fd = os.open(os.devnull, flags)
    with standard_input(fd):
        assert run.read_piped() == ""
    os.close(fd)
    assert capsys.readouterr().err == ""


def test_a_folder_as_standard_input_adds_nothing(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    with standard_input(fd):
        assert run.read_piped() == ""
        with pytest.raises(ConfigError, match="standard input cannot be read"):
            run.read_prompt("-")
    os.close(fd)


def test_what_is_not_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="not text"):
        piped(b"\x89PNG\0\0")


def test_what_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_MOST_READ", 1 << 20)
    goes_on = pytest.raises(ConfigError, match="longer than 1 MiB")
    with Path("/dev/zero").open("rb") as endless, standard_input(endless.fileno()), goes_on:
        run.read_piped()


def test_continue_goes_on_with_the_session_of_this_folder_written_to_last(
    product: Product, tmp_path: Path
) -> None:
    here = [product.run(product.script(say("ok")), prompt=text) for text in ("first", "second")]
    assert [done.code for done in here] == [0, 0]
    other = tmp_path / "other"
    other.mkdir()
    assert product.run(product.script(say("ok")), "--cwd", str(other)).code == 0
    done = product.run(product.script(say("on")), "--continue", "--output", "jsonl")
    (before,) = (
        path for path in product.sessions if "second" in (path / "events.jsonl").read_text()
    )
    assert (done.code, done.events[0]["session"]) == (0, before.name)
    assert [event["resumed"] for event in of(done.events, "run.started")] == [True]


@pytest.mark.parametrize("which", ["--resume", "--continue"])
def test_a_session_goes_on_with_its_own_model_where_none_is_set(
    product: Product, which: str
) -> None:
    model = product.script(say("ok"))
    assert product.run(model).code == 0
    session = product.sessions[0].name
    arguments = ("--resume", session[:-2]) if which == "--resume" else ("--continue",)
    done = product.call("run", "again", "--sandbox", "off", *arguments)
    assert (done.code, done.out) == (0, "ok\n")
    assert (
        f"codeagent: no model is set: session {session} continues with {model}"
        in done.err.splitlines()
    )
    assert [event["model"] for event in of(product.log(), "run.started")] == [model, model]


@pytest.mark.parametrize("named_by", ["flag", "environment", "file"])
def test_a_model_that_is_named_goes_before_the_one_of_the_session(
    product: Product, named_by: str
) -> None:
    assert product.run(product.script(say("ok"))).code == 0
    model = product.script(say("by another"))
    flags = ("--model", model) if named_by == "flag" else ()
    variables = {"CODEAGENT_MODEL": model} if named_by == "environment" else {}
    if named_by == "file":
        file = Path(product.environment["XDG_CONFIG_HOME"], "codeagent", "config.toml")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'model = "{model}"\n')
    done = product.call(
        "run",
        "again",
        "--sandbox",
        "off",
        "--continue",
        *flags,
        env=product.environment | variables,
    )
    assert (done.code, done.out) == (0, "by another\n")
    assert "no model is set" not in done.err


def test_continue_without_a_session_of_this_folder_is_a_usage_error(product: Product) -> None:
    done = product.run(product.script(say("on")), "--continue")
    assert (done.code, done.out) == (2, "")
    assert f"no session of {product.workspace} yet" in done.err and len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "x", "--model", "demo", "--resume", "nosuch"),
        ("sessions", "show", "nosuch"),
        ("stats", "nosuch"),
    ],
)
def test_a_session_that_does_not_exist_is_a_usage_error(
    product: Product, arguments: tuple[str, ...]
) -> None:
    done = product.call(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err == "codeagent: unknown session 'nosuch'; see: codeagent sessions list\n"


@pytest.mark.parametrize("output", ["json", "jsonl"])
def test_a_failure_is_also_a_line_on_standard_error(product: Product, output: str) -> None:
    model = product.script({"text": "", "error": {"status": 401}})
    done = product.call("run", "x", "--model", model, "--sandbox", "off", "--output", output)
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith("failed: ")
    assert [json.loads(line) for line in done.out.splitlines()]


@pytest.mark.parametrize(("rule", "meant"), [("bsh(rm*)", "bash(rm*)"), ("Write(*)", "write(*)")])
def test_a_rule_that_names_no_tool_is_an_error_with_the_nearest_name(
    product: Product, rule: str, meant: str
) -> None:
    done = product.call(
        "run", "x", "--sandbox", "off", "--deny", rule, "--model", product.script(say("ok"))
    )
    assert (done.code, done.out) == (2, "")
    assert f"the rule {rule} does not name a tool; did you mean {meant}?" in done.err


def test_while_tool_files_wait_for_trust_a_rule_may_be_for_one_of_their_tools(
    product: Product,
) -> None:
    folder = product.workspace / ".codeagent/tools"
    folder.mkdir(parents=True)
    (folder / "deploy.yaml").write_text(
        "name: deploy\ndescription: Deploy.\nargv: [make, deploy]\n"
    )
    given = (
        "run",
        "x",
        "--sandbox",
        "off",
        "--deny",
        "deploy",
        "--model",
        product.script(say("ok")),
    )
    waiting = product.call(*given)
    assert waiting.code == 0 and "the rule deploy does not name a tool" in waiting.err
    loaded = product.call(*given, "--trust-project")
    assert loaded.code == 0 and "does not name a tool" not in loaded.err


@pytest.mark.parametrize(
    ("line", "options", "runs"),
    [
        ("x=rm; $x f", [], False),
        ("X=1 rm f", ["--yes"], False),
        ("x=rm; $x f", ["--yes"], True),
        ("mv f f.bak; echo $((1)) > h", [], True),
    ],
)
def test_what_may_be_a_denied_command_is_denied_headless_and_a_yes_answers_only_where_it_is_asked(
    product: Product, line: str, options: list[str], runs: bool
) -> None:
    (product.workspace / "f").write_text("x")
    model = product.script(calls(("bash", {"command": line})), say("done"))
    rules = ["--allow", "bash", "--deny", "bash(rm *)"]
    product.call("run", "x", "--sandbox", "off", *rules, *options, "--model", model)
    (result,) = results(product.log())
    assert (result["error"] is None) == runs
    assert (product.workspace / "f").exists() is not runs
