"""A session goes on: after its end, after kill -9, and never twice at a time."""

import signal
from collections.abc import Callable
from dataclasses import replace

import pytest

from codeagent.session.log import seal, unseal
from tests.e2e.product import Product, bash, calls, of, read, results, say, text_of


def test_a_resumed_session_continues_the_conversation_in_the_same_log(product: Product) -> None:
    assert product.run(product.script(calls(read("a.txt")), say("First."))).code == 0
    session = product.sessions[0].name
    done = product.run(
        product.script(say("Second.", expect="^and now$")),
        "--resume",
        session[:-3],
        prompt="and now",
    )
    assert (done.code, done.out) == (0, "Second.\n")
    log = product.log()
    assert len(product.sessions) == 1
    assert [event["resumed"] for event in of(log, "run.started")] == [False, True]
    numbers = [event["seq"] for event in log]
    assert numbers == sorted(set(numbers))
    assert product.call("sessions", "check").code == 0


def test_a_file_read_before_may_be_edited_after_a_resume_unless_it_changed(
    product: Product,
) -> None:
    edit = calls(("edit", {"path": "a.txt", "old_string": "second", "new_string": "2nd"}))
    product.run(product.script(calls(read("a.txt"), read("b.txt")), say("Seen.")))
    session = product.sessions[0].name
    assert product.run(product.script(edit, say("ok")), "--resume", session, "--yes").code == 0
    assert (product.workspace / "a.txt").read_text() == "this is a.txt\n2nd line\n"
    (product.workspace / "b.txt").write_text("someone else's second\n")
    stale = calls(("edit", {"path": "b.txt", "old_string": "second", "new_string": "2nd"}))
    product.run(product.script(stale, say("ok")), "--resume", session, "--yes")
    assert (product.workspace / "b.txt").read_text() == "someone else's second\n"


def test_after_kill_9_in_a_batch_the_session_is_sound_and_goes_on(product: Product) -> None:
    model = product.script(calls(read("a.txt"), bash("sleep 30.25"), read("b.txt")), say("never"))
    process = product.start("run", "go", "--model", model, "--sandbox", "off", "--yes")
    product.wait_for(lambda log: any(event["name"] == "bash" for event in of(log, "tool.started")))
    process.send_signal(signal.SIGKILL)
    process.wait()
    checked = product.call("sessions", "check", "--last")
    assert checked.code == 0
    assert "repaired on resume: call" in checked.out

    model = product.script(say("Going on.", expect="\nonce more$"))
    done = product.run(model, "--resume", product.sessions[0].name, prompt="once more")
    assert (done.code, done.out) == (0, "Going on.\n")
    first, second, third = results(product.log())
    assert (first["is_error"], "this is a.txt" in text_of(first)) == (False, True)
    assert text_of(second).startswith("cancelled: session ended")
    assert (second["error"]["kind"], second["executed"]) == ("cancelled", True)
    assert text_of(third) == "cancelled: session ended"
    assert (third["error"]["kind"], third["executed"]) == ("cancelled", False)
    assert [event["reason"] for event in of(product.log(), "run.finished")] == [
        "interrupted",
        "done",
    ]
    checked = product.call("sessions", "check", "--last")
    assert (checked.code, "repaired" in checked.out) == (0, False)


def test_text_queued_when_the_process_died_is_delivered_when_it_goes_on(product: Product) -> None:
    model = product.script(calls(bash("sleep 30.25")), say("never"))
    arguments = (
        "--model",
        model,
        "--sandbox",
        "off",
        "--yes",
        "--inject",
        "steer@tool:1=also the docs",
    )
    process = product.start("run", "go", *arguments)
    product.wait_for(lambda log: bool(of(log, "steer.queued")))
    process.kill()
    process.wait()
    done = product.run(
        product.script(say("Both.", expect="also the docs")), "--resume", product.sessions[0].name
    )
    assert (done.code, done.out) == (0, "Both.\n")


def damage(product: Product, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """Change the lines of the last session's log."""
    path = product.sessions[-1] / "events.jsonl"
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        (lambda lines: [*lines[:4], *lines[5:]], "line 5: something before event "),
        (
            lambda lines: [*lines[:4], b"\0" * 99 + b"\n", *lines[5:]],
            "line 5: a run of NUL bytes, left out",
        ),
    ],
    ids=["a line is gone", "a line is damaged"],
)
def test_a_damaged_log_is_told_once_with_what_is_missing_and_goes_on(
    product: Product, change: Callable[[list[bytes]], list[bytes]], missing: str
) -> None:
    product.run(product.script(calls(read("a.txt")), say("First.")))
    session = product.sessions[0].name
    damage(product, change)
    assert product.call("sessions", "check").code == 1
    done = product.run(product.script(say("Second.")), "--resume", session)
    assert (done.code, done.out) == (0, "Second.\n")
    (told,) = (
        line
        for line in done.err.splitlines()
        if line.startswith("warning: the log of this session is damaged")
    )
    assert missing in told and f"codeagent sessions check {session}" in told
    assert [
        event["code"]
        for event in of(product.call("sessions", "show", "--json").events, "notice")
        if event["level"] == "warning"
    ] == ["session.damaged"]


def test_a_log_from_before_lines_were_linked_goes_on_without_a_word(product: Product) -> None:
    product.run(product.script(calls(read("a.txt")), say("First.")))
    damage(product, lambda lines: [_unlinked(line) for line in lines])
    done = product.run(product.script(say("Second.")), "--resume", product.sessions[0].name)
    assert (done.code, "damaged" in done.err) == (0, False)
    assert product.call("sessions", "check").code == 0


def _unlinked(line: bytes) -> bytes:
    body = unseal(line[:-1])
    assert body is not None
    return seal(body.decode())


def test_a_session_in_use_is_refused_with_the_pid(product: Product) -> None:
    model = product.script(calls(bash("sleep 30.25")), say("never"))
    process = product.start("run", "go", "--model", model, "--sandbox", "off", "--yes")
    product.wait_for(lambda log: bool(of(log, "tool.started")))
    done = product.run(product.script(say("no")), "--resume", product.sessions[0].name)
    assert done.code == 1
    assert f"in use by process {process.pid}" in done.err
    process.send_signal(signal.SIGINT)
    process.wait(20)


def test_a_session_of_another_folder_is_refused(product: Product) -> None:
    product.run(product.script(say("First.")))
    other = product.home / "other"
    other.mkdir()
    done = product.run(
        product.script(say("no")), "--resume", product.sessions[0].name, "--cwd", str(other)
    )
    assert done.code == 2
    assert str(product.workspace) in done.err


def test_a_session_is_continued_in_its_own_folder_from_anywhere(product: Product) -> None:
    product.run(product.script(say("First.")))
    session = product.sessions[0].name
    other = product.home / "other"
    other.mkdir()
    arguments = (
        "run",
        "go",
        "--model",
        product.script(say("Second.")),
        "--resume",
        session,
        "--sandbox",
        "off",
    )
    done = replace(product, workspace=other).call(*arguments)
    assert (done.code, done.out) == (0, "Second.\n")
    assert f"session {session} belongs to {product.workspace}: working there" in done.err


def test_an_unknown_session_is_one_line(product: Product) -> None:
    done = product.run(product.script(say("no")), "--resume", "20000101")
    assert (done.code, done.out) == (2, "")
    assert done.err == "codeagent: unknown session '20000101'; see: codeagent sessions list\n"


def test_no_consent_is_taken_from_a_stored_session(product: Product) -> None:
    write = calls(("write", {"path": "new.txt", "content": "x"}))
    product.run(product.script(write, say("ok")), "--yes")
    (product.workspace / "new.txt").unlink()
    done = product.run(product.script(write, say("no")), "--resume", product.sessions[0].name)
    assert done.code == 4
    assert not (product.workspace / "new.txt").exists()
