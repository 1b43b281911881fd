"""What a session was asked, and where another one with the same prompts first did something
else."""

from codeagent.core.acts import Interrupt, Steer
from codeagent.core.events import (
    BatchPlanned,
    CheckpointCreated,
    CheckpointRestored,
    KnownEvent,
    MessageAdded,
    Notice,
    TurnStarted,
)
from codeagent.core.messages import AssistantMessage, ToolCall
from codeagent.extensions.replay.comparison import Divergence, Exchange, divergence, outline
from tests.session.eventlogs import Log
from tests.table import for_each


def said(text: str, *calls: tuple[str, str]) -> AssistantMessage:
    return AssistantMessage(
        text=text, calls=tuple(ToolCall(id="c", name=name, arguments=of) for name, of in calls)
    )


READ, EDIT = ("read", '{"path": "a.py", "line": 1}'), ("edit", '{"path": "a.py"}')
RECORDED = (
    Exchange("fix it", (said("", READ), said("Fixed."))),
    Exchange("again", (said("Done."),)),
)


@for_each(
    "now, expected",
    [
        (RECORDED, None),
        (
            (
                Exchange(
                    "fix it", (said("Hm.", ("read", '{"line":1,"path":"a.py"}')), said(" Fixed.\n"))
                ),
            ),
            None,
        ),
        (
            (Exchange("fix it", (said("", EDIT),)),),
            Divergence(1, 1, "call", f"read {READ[1]}", f"edit {EDIT[1]}"),
        ),
        (
            (Exchange("fix it", (said("", READ, EDIT),)),),
            Divergence(1, 1, "call", "", f"edit {EDIT[1]}"),
        ),
        ((Exchange("fix it", (said("No."),)),), Divergence(1, 1, "call", f"read {READ[1]}", "No.")),
        (
            (Exchange("fix it", (said("", READ), said("Broken."))),),
            Divergence(1, 2, "text", "Fixed.", "Broken."),
        ),
        ((Exchange("fix it", (said("", READ),)),), Divergence(1, 2, "text", "Fixed.", "")),
        ((Exchange("fix it"),), Divergence(1, 1, "call", f"read {READ[1]}", "")),
        (
            (Exchange("fix it", (said("", READ), said("Fixed."), said("", EDIT))),),
            Divergence(1, 3, "call", "", f"edit {EDIT[1]}"),
        ),
        (
            (RECORDED[0], Exchange("again", (said("Don't."),))),
            Divergence(2, 1, "text", "Done.", "Don't."),
        ),
        (
            (Exchange("fix it", (said("", ("read", "{broken")),)),),
            Divergence(1, 1, "call", f"read {READ[1]}", "read {broken"),
        ),
    ],
)
def test_the_first_divergence_is_found(
    now: tuple[Exchange, ...], expected: Divergence | None
) -> None:
    assert divergence(RECORDED, now) == expected


def test_a_path_in_the_copy_is_the_same_as_in_the_recorded_folder() -> None:
    here = (Exchange("go", (said("", ("read", '{"path": "/w/a.py"}')), said("See /w/a.py."))),)
    there = (
        Exchange("go", (said("", ("read", '{"path": "/copy/a.py"}')), said("See /copy/a.py."))),
    )
    assert divergence(here, there, lambda text: text.replace("/copy", "/w")) is None
    assert divergence(here, there) == Divergence(
        1, 1, "call", 'read {"path": "/w/a.py"}', 'read {"path": "/copy/a.py"}'
    )


def checkpoint(log: Log, name: str, cause: str) -> None:
    log.add(
        CheckpointCreated,
        checkpoint_id=name,
        snapshot=f"files-{name}",
        cause=cause,
        left_out=("big.bin: large",),
    )


def turn(log: Log, batch: int, *calls: str) -> None:
    log.add(TurnStarted, turn=batch)
    log.assistant("", *calls)
    log.add(BatchPlanned, batch=batch, calls=())


def test_prompts_steering_and_the_files_at_the_beginning_are_read() -> None:
    log = Log()
    log.run()
    log.user("fix it")
    log.user("a note of codeagent", "note")
    checkpoint(log, "k1", "prompt")
    turn(log, 1, "c1")
    log.user("mind the tests", "steer")
    turn(log, 2, "c2")
    log.user("stop that", "interrupt")
    log.add(MessageAdded, message=AssistantMessage(text="cut off", stop="cut"))
    log.assistant("Fixed.")
    log.user("and the docs", "follow_up")
    log.assistant("Written.")
    log.end()
    log.shell("s1", shared=True)
    log.run()
    log.user("queued while it was idle", "steer")
    checkpoint(log, "k2", "prompt")
    found = outline(log.events)
    assert [exchange.prompt for exchange in found.exchanges] == [
        "fix it",
        "and the docs",
        "queued while it was idle",
    ]
    assert found.exchanges[0].steering == (
        (1, Steer("mind the tests")),
        (2, Interrupt("stop that")),
    )
    assert [len(exchange.turns) for exchange in found.exchanges] == [3, 1, 0]
    assert (found.snapshot, found.left_out) == ("files-k1", ("big.bin: large",))
    assert (found.workspace, found.models, found.not_repeated) == (
        "/w",
        ("m",),
        ("commands that the user ran",),
    )


def test_what_the_user_took_back_is_not_part_of_it() -> None:
    log = Log()
    for number, prompt in enumerate(("first", "second"), 1):
        log.run()
        log.user(prompt)
        checkpoint(log, f"k{number}", "prompt")
        log.assistant("done")
    checkpoint(log, "k3", "restore")
    restored = {"files": ("a.py",), "conversation": True, "kind": "rewind"}
    log.add(CheckpointRestored, checkpoint_id="k2", before="k3", **restored)
    assert [exchange.prompt for exchange in outline(log.events).exchanges] == ["first"]
    assert outline(log.events).not_repeated == ("going back to earlier files",)
    log.add(CheckpointRestored, checkpoint_id="k3", before="k4", **restored | {"kind": "redo"})
    assert [exchange.prompt for exchange in outline(log.events).exchanges] == ["first", "second"]


def test_the_files_are_those_of_the_first_checkpoint_unless_one_before_it_failed() -> None:
    def session(*, failed: bool) -> list[KnownEvent]:
        log = Log()
        for prompt in ("first", "second"):
            log.run()
            log.user(prompt)
            log.assistant("done")
        if failed:
            log.add(Notice, code="checkpoint.failed", text="the disk is full")
        checkpoint(log, "k1", "batch")
        checkpoint(log, "k2", "after")
        return log.events

    found = outline(session(failed=False))
    assert (found.snapshot, found.since) == ("files-k1", 2)
    assert outline(session(failed=True)).snapshot == ""
    assert outline([]).exchanges == ()
