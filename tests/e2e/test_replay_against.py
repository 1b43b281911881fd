"""`codeagent replay --against`: the same prompts with another model, on a copy; the user's folder
is never touched."""

import asyncio
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import Done, Product, Turn, bash, calls, of, read, say
from tests.servers import Turn as Answer
from tests.servers import openai_server

WRITE = ("write", {"path": "new.txt", "content": "new\n"})


@pytest.fixture(autouse=True)
def copies(product: Product, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the copies are made."""
    folder = product.home / "copies"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def recorded(product: Product, *turns: Turn, inject: str = "") -> str:
    """Record a session that reads, writes and answers, then change the folder; returns its id."""
    script = product.script(*(turns or (calls(read("a.txt")), calls(WRITE), say("It is written."))))
    done = product.run(
        script,
        "--yes",
        *(("--inject", inject) if inject else ()),
        prompt=f"look at {product.workspace}/a.txt",
    )
    assert done.code == 0, done
    (product.workspace / "a.txt").write_text("changed since\n")
    return product.sessions[0].name


def against(product: Product, session: str, model: str, *arguments: str) -> Done:
    return product.call("replay", session, "--against", model, "--sandbox", "off", *arguments)


@pytest.fixture
def session(product: Product) -> str:
    return recorded(product)


def report(done: Done) -> dict[str, Any]:
    assert done.out, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_another_model_works_on_a_copy_and_the_first_difference_is_reported(
    product: Product, session: str, copies: Path
) -> None:
    before = state(product.workspace)
    log = (product.sessions[0] / "events.jsonl").read_bytes()
    other = product.script(
        calls(read("a.txt")),
        calls(("write", {"path": "other.txt", "content": "other\n"})),
        say("Done."),
    )

    told = report(against(product, session, other, "--yes", "--output", "json"))

    assert told["divergence"] == {
        "prompt": 1,
        "turn": 2,
        "kind": "call",
        "recorded": f"write {json.dumps(WRITE[1])}",
        "new": 'write {"path": "other.txt", "content": "other\\n"}',
    }
    assert (told["prompts"], told["prompts_sent"], told["changed"]) == (1, 1, ["other.txt"])
    assert (told["recorded"]["turns"], told["new"]["turns"], told["new"]["calls"]) == (3, 3, 2)
    assert told["recorded"]["usage"]["input_tokens"] > 0 and told["new"]["usage"]["cost_usd"] == 0
    copy = Path(told["copy"])
    assert (copy / "other.txt").read_text() == "other\n"
    assert (copy / "a.txt").read_text() == "this is a.txt\nsecond line\n", "as the session found it"
    assert product.call_in(copy, "git", "status", "--short").out == "?? other.txt\n"
    events = product.log()
    assert told["new_session"] == product.sessions[-1].name == events[0]["session"]
    assert (
        of(events, "message.added")[0]["message"]["content"][0]["text"] == f"look at {copy}/a.txt"
    )
    assert state(product.workspace) == before
    assert (product.sessions[0] / "events.jsonl").read_bytes() == log


def test_what_would_be_asked_is_denied_and_a_copy_without_changes_is_removed(
    product: Product, session: str, copies: Path
) -> None:
    stores = sorted(product.home.glob("state/codeagent/checkpoints/*"))
    again = product.script(calls(read("a.txt")), calls(WRITE), say("It was not allowed."))

    done = against(product, session, again)

    assert done.code == 4
    assert (
        "diverged  in turn 3 of prompt 1\n  then    It is written.\n  now     It was not allowed."
        in done.out
    )
    assert "copy      removed" in done.out and list(copies.iterdir()) == []
    assert "denied: there is nobody to ask" in done.err
    assert sorted(product.home.glob("state/codeagent/checkpoints/*")) == stores


def test_without_a_sandbox_no_command_runs_whatever_is_approved(
    product: Product, session: str
) -> None:
    reaches = product.script(calls(bash(f"touch {product.workspace}/reached")), say("Done."))
    done = against(product, session, reaches, "--yes")
    assert done.code == 4 and "bash and python are denied" in done.err
    assert not (product.workspace / "reached").exists()


async def test_a_model_over_http_that_does_the_same_diverges_nowhere(
    product: Product, session: str
) -> None:
    answers = [
        Answer(calls=(("read", {"path": "a.txt"}),)),
        Answer(text="Now I write.", calls=(WRITE,)),
        Answer(text="It is written."),
    ]
    async with openai_server(answers) as server:
        arguments = (
            "--sandbox",
            "off",
            "--yes",
            "--against",
            "openai/local",
            "--api-base",
            server.base_url,
        )
        environment = product.environment | {"OPENAI_API_KEY": "k"}
        done = await asyncio.to_thread(
            product.call_apart, "replay", session, *arguments, env=environment
        )
    assert (done.code, server.rejected) == (0, [])
    assert "diverged  nowhere" in done.out and "openai/local, 3 turns, 2 calls" in done.out
    assert "1 file changed\n  new.txt" in done.out


def test_every_prompt_and_what_was_said_meanwhile_is_sent_again(product: Product) -> None:
    session = recorded(product, calls(WRITE), say("Seen."), inject="steer@batch:1=mind the tests")
    assert (
        product.run(product.script(say("Two.")), "--resume", session, prompt="and then?").code == 0
    )
    other = product.script(calls(WRITE), say("Seen."), say("Three."))

    told = report(against(product, session, other, "--yes", "--output", "json"))

    assert (told["prompts"], told["prompts_sent"]) == (2, 2)
    assert told["divergence"] == {
        "prompt": 2,
        "turn": 1,
        "kind": "text",
        "recorded": "Two.",
        "new": "Three.",
    }
    heard = [
        event["message"]
        for event in of(product.log(), "message.added")
        if event["message"]["role"] == "user"
    ]
    said = [
        (message["source"], message["content"][0]["text"])
        for message in heard
        if message["source"] != "note"
    ]
    assert [source for source, _ in said] == ["prompt", "steer", "prompt"]
    assert [text for _, text in said][1:] == ["mind the tests", "and then?"]


def test_what_cannot_be_compared_is_refused_and_runs_nothing(
    product: Product, session: str, copies: Path
) -> None:
    other = product.script(say("Hello."))
    for flags in (
        ("--against", other, "--svg"),
        ("--against", other, "--speed", "2"),
        ("--yes",),
        ("--svg", "--yes"),
    ):
        done = product.call("replay", session, *flags)
        assert done.code == 2 and "nothing was run" in done.err, flags
    assert against(product, session, "script:nosuch.json").code == 2
    sessions = len(product.sessions)
    shutil.rmtree(product.home / "state/codeagent/checkpoints")
    done = against(product, session, other)
    assert done.code == 1 and "no longer known" in done.err and "nothing was run" in done.err
    assert len(product.sessions) == sessions and list(copies.iterdir()) == []
