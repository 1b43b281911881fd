"""The sessions of the corpus: each function works on a machine as a user would."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.e2e.product import bash, calls, of, read, say
from tests.e2e.screens import READY
from tests.old.machines import CONFIG, done, git, leave, put, screen, typed
from tests.old.reading import THOUGHT, THOUGHT_AGAIN, Machine, served_by
from tests.servers import Turn

FILES = Path(__file__).parent / "files"
TOOLS = FILES / "tool-files" / CONFIG / "tools"
PICTURE = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde"
    b"\0\0\0\x0cIDATx\x9cc\xf8\xcf\xc0\0\0\x03\x01\x01\0\xc9\xfe\x92\xef\0\0\0\0IEND\xaeB`\x82"
)


def plain(made: Machine) -> None:
    model = made.script(
        calls(read("a.txt"), ("search", {"pattern": "second"}), text="I look around."),
        calls(read("missing.txt"), ("read", '{"path": ')),
        calls(bash("echo one; echo two >&2; exit 3")),
        {"text": "Done: **three** files.\n\n```python\nprint(1)\n```", "reasoning": "All seen."},
    )
    done(made.run(model, "--yes", prompt="look at «a.txt»\nand say what is there"))
    done(made.run(made.script(say("Yes.")), "--continue", prompt="sure?"))


def denied(made: Machine) -> None:
    model = made.script(
        calls(bash("rm a.txt"), ("write", {"path": "b.txt", "content": "no"})),
        calls(bash("echo allowed")),
        say("I could not."),
    )
    rules = ("--deny", "bash(rm *)", "--allow", "bash(echo *)")
    made.run(model, *rules)
    done(made.call("sessions", "rename", made.sessions[0].name, "What was «denied»"))


def steered(made: Machine) -> None:
    model = made.script(calls(read("a.txt")), calls(read("b.txt")), say("Both."), say("And that."))
    texts = ("steer@tool:1=also the docs", "follow-up@batch:1=then the tests")
    done(made.run(model, *(word for text in texts for word in ("--inject", text))))


def edits(made: Machine) -> None:
    model = made.script(
        calls(read("a.txt")),
        calls(
            ("edit", {"path": "a.txt", "old_string": "second line", "new_string": "2nd line"}),
            ("write", {"path": "new/c.txt", "content": "made\n"}),
        ),
        say("First change."),
        calls(("write", {"path": "d.txt", "content": "more\n"})),
        say("Second change."),
        say("I see."),
    )
    with screen(made, model, "--mode", "accept-edits") as opened:
        typed(opened, ("change a", "First change."), ("write d", "Second change."))
        for number, line in enumerate(("/undo", "/redo", "/undo 2"), start=1):
            opened.wait_for(READY)
            opened.send(line, "enter")
            if number == 3:
                opened.wait_for("Enter undo it")
                time.sleep(1)
                opened.send("enter")
            made.wait_for(lambda log, number=number: len(of(log, "checkpoint.restored")) == number)
        typed(opened, ("and now", "I see."))
        leave(opened)


def rewound(made: Machine) -> None:
    model = made.script(say("One."), calls(read("a.txt")), say("Two."), say("Three."), say("Four."))
    with screen(made, model) as opened:
        typed(opened, ("first", "One."), ("second", "Two."), ("third", "Three."))
        typed(opened, ("/rewind", "third"))
        opened.wait_for("(current)")
        time.sleep(1)
        opened.send("up")
        time.sleep(1)
        opened.send("enter")
        opened.wait_for("onversation")
        opened.send("enter")
        typed(opened, ("fourth", "Four."))
        leave(opened)


def forked(made: Machine) -> None:
    model = made.script(say("One."), say("unused"))
    done(made.run(model, prompt="first"))
    done(made.run(made.script(calls(read("a.txt")), say("Two.")), "--continue", prompt="second"))
    done(made.call("sessions", "fork", made.sessions[0].name, "--before", "2"))
    done(made.run(made.script(say("Another two.")), "--continue", prompt="in another way"))


def compacted(made: Machine) -> None:
    long = " ".join(map(str, range(150)))
    model = made.script(
        say(f"{long}First."),
        calls(read("a.txt")),
        say("Second."),
        say("Third."),
        {"text": "They said hello.", "summary": True},
    )
    with screen(made, model, "--mode", "auto") as opened:
        typed(opened, ("/pin never touch b.txt", "pinned"), ("one", "First."), ("two", "Second."))
        typed(opened, ("/compact the hello", "Summary to replace"))
        time.sleep(1)
        opened.send("/compact use", "enter")
        typed(opened, ("three", "Third."))
        leave(opened)


def children(made: Machine) -> None:
    child = made.script(calls(read("a.txt")), say("a.txt has two lines"))
    head = f"---\nname: reader\ndescription: reads\nmodel: {child}\ntools: read\n---\nBe brief.\n"
    put(made, f"{CONFIG}/agents/reader.md", head)
    maker = made.script(calls(("write", {"path": "made.txt", "content": "made\n"})), say("made"))
    put(
        made,
        "repo/.codeagent/agents/maker.md",
        f"---\nname: maker\ndescription: makes\nmodel: {maker}\nmode: accept-edits\n"
        "limits: {max_turns: 5}\n---\nMake it.\n",
    )
    model = made.script(
        calls(
            ("agent", {"name": "reader", "task": "count"}),
            ("agent", {"name": "maker", "task": "make"}),
        ),
        say("Both done."),
    )
    done(made.run(model, "--yes", "--trust-project"))


def grouped(made: Machine) -> None:
    def send(to: str, body: str, **more: str) -> tuple[str, Any]:
        return "send_message", {"to": to, "body": body, **more}

    planner = made.script(calls(send("work", "count")), say("waiting"), say("planned"), say("bye"))
    worker = made.script(
        calls(read("a.txt")), calls(send("planner", "2", reply_to="m1")), say("counted")
    )
    agents = [
        {"name": "planner", "prompt": "You plan.", "model": planner},
        {"name": "worker", "prompt": "You count.", "model": worker, "channels": ["work", "all"]},
    ]
    put(
        made,
        "repo/group.yaml",
        f"name: count\nagents: {json.dumps(agents)}\n"
        "channels: {work: queue, all: broadcast}\nstart: planner\nlimits: {max_seconds: 60}\n",
    )
    model = made.script(say("unused"))
    done(
        made.call(
            "run", "go", "--group", "group.yaml", "--model", model, "--sandbox", "off", "--yes"
        )
    )


def triggered(made: Machine) -> None:
    put(made, f"{CONFIG}/config.toml", '[toolsets]\nuse = ["triggers"]\n')
    soon = ("add_timer", {"prompt": "look at the build", "seconds": 1})
    schedule = ("add_schedule", {"prompt": "new year", "cron": "0 0 1 1 *"})
    model = made.script(calls(soon), say("set"), say("looked"))
    done(made.run(model, "--yes", "--wait-for-triggers"))
    model = made.script(
        calls(schedule), calls(("trigger_stop", {"id": "trigger-2"})), say("It is set.")
    )
    done(made.run(model, "--yes", "--continue", prompt="more"))


def served(made: Machine) -> None:
    put(made, "home/notes.py", (FILES / "pins/repo/tools/notes.py").read_text())
    entry = {"command": "python3", "args": [f"{made.home}/notes.py"], "where": "machine"}
    put(made, f"{CONFIG}/mcp.json", json.dumps({"mcpServers": {"n": entry}}, indent=2))
    put(made, f"{CONFIG}/config.toml", '[rules]\nallow = ["mcp__n__*"]\n')
    model = made.script(
        calls(("toolset_use", {"name": "n"})),
        calls(("mcp__n__echo", {"text": "said back"}), ("mcp__n__echo", {"text": 7})),
        calls(("mcp__n__book", {})),
        say("Booked."),
    )
    with screen(made, model, "--mode", "auto") as opened:
        opened.send("go", "enter")
        opened.wait_for("Where to?", 10)
        time.sleep(1)
        opened.send("\t")
        opened.wait_for("Tab to type here")
        time.sleep(1)
        opened.send("Oslo")
        time.sleep(1)
        opened.send("enter")
        opened.wait_for("Booked.", 5)
        leave(opened)


def cooked(made: Machine) -> None:
    put(
        made,
        "repo/.codeagent/commands/release.yaml",
        "name: release\nversion: 1\ndescription: Notes.\ninputs:\n  - {name: tag, description: the tag}\n"
        "limits: {max_turns: 30}\nsteps:\n"
        "  - {id: look, prompt: 'What since {{inputs.tag}}?', tools: [read, bash], mode: ask}\n"
        "  - {id: write, prompt: 'Write from {{steps.look.text}}', tools: [write]}\n",
    )
    model = made.script(
        calls(read("a.txt")),
        say("Two lines."),
        calls(("write", {"path": "NOTES.md", "content": "two lines\n"})),
        say("Written."),
    )
    done(
        made.call(
            "run",
            "--recipe",
            "release",
            "--input",
            "tag=v1",
            "--model",
            model,
            "--sandbox",
            "off",
            "--yes",
            "--trust-project",
        )
    )


def sets(made: Machine) -> None:
    put(made, f"{CONFIG}/config.toml", '[toolsets]\noffer = ["files", "web"]\n')
    edit = {"path": "a.txt", "old_string": "second", "new_string": "2nd"}
    model = made.script(
        calls(("toolset_use", {"name": "files"}), read("a.txt")),
        calls(("multi_edit", {"edits": [edit]})),
        say("Changed."),
    )
    done(made.run(model, "--yes"))


def pictures(made: Machine) -> None:
    put(made, "repo/dot.png", PICTURE)
    model = made.script(calls(read("dot.png")), say("A red dot."))
    done(made.run(model))


def shell(made: Machine) -> None:
    model = made.script(say("Seen."), say("Hidden."))
    with screen(made, model) as opened:
        typed(opened, ("!echo $((40 + 2))", "42"), ("what was that", "Seen."))
        leave(opened)


def kept(made: Machine) -> None:
    items = [{"text": "count", "status": "done"}, {"text": "tell", "status": "pending"}]
    model = made.script(
        calls(("scratchpad", {"action": "set", "key": "plan", "value": "count"})),
        calls(("todo", {"items": items})),
        say("Counted."),
    )
    done(made.run(model))


def killed(made: Machine) -> None:
    model = made.script(calls(read("a.txt"), bash("sleep 30.25"), read("b.txt")), say("never"))
    command = ("run", "go", "--model", model, "--sandbox", "off", "--yes")
    process = made.start(*command, "--inject", "steer@tool:1=and the docs")
    made.wait_for(lambda log: any(event["name"] == "bash" for event in of(log, "tool.started")))
    made.wait_for(lambda log: bool(of(log, "steer.queued")))
    process.send_signal(signal.SIGKILL)
    process.wait()
    log = made.sessions[0] / "events.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + whole.splitlines()[-1][:57])


def cut(made: Machine) -> None:
    done(made.run(made.script(calls(read("a.txt")), say("First.")), prompt="one"))
    done(made.run(made.script(say("Second.")), "--continue", prompt="two"))
    log = made.sessions[0] / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:5], b"\0" * 40 + b"\n", *lines[6:]])[:-30])


def thinking(made: Machine) -> None:
    turns = [THOUGHT, THOUGHT_AGAIN]
    with served_by("anthropic", turns) as server:
        arguments = ("--model", "anthropic/claude-sonnet-4-5", "--api-base", server.base_url)
        done(made.call("run", "think", *arguments, "--sandbox", "off", "--thinking", "low"))


def reasoning(made: Machine) -> None:
    turns = [
        Turn(
            text="Let me see.",
            reasoning="A file?",
            calls=(("read", {"path": "a.txt"}),),
            ids=("c9",),
        ),
        Turn(text="Two lines.", reasoning="Two.", usage={"input": 9, "output": 3, "cache_read": 4}),
    ]
    with served_by("openai", turns) as server:
        arguments = ("--model", "openai/local", "--api-base", server.base_url)
        done(made.call("run", "think", *arguments, "--sandbox", "off"))


def texts(made: Machine) -> None:
    put(
        made,
        f"{CONFIG}/config.toml",
        '[[text_tools.models]]\nmodel = "script:*"\nprotocol = "hermes"\n',
    )
    call = '<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call>'
    model = made.script(
        say(f"I read.\n{call}"), say("<tool_call>\n{broken\n</tool_call>"), say("Read.")
    )
    done(made.run(model))


def own_tools(made: Machine) -> None:
    for name in ("words.yaml", "double.py"):
        put(made, f"{CONFIG}/tools/{name}", (TOOLS / name).read_text())
    model = made.script(
        calls(("word_count", {"file": "a.txt", "flag": "lines"}), ("double", {"value": 21})),
        say("42."),
    )
    done(made.run(model, "--yes"))


def contained(made: Machine) -> None:
    model = made.script(calls(bash("echo from the container; ls")), say("Seen."))
    done(made.run_in_container(model, "--yes"))


def worktree(made: Machine) -> None:
    git(made)
    child = made.script(calls(("write", {"path": "made.txt", "content": "made\n"})), say("made"))
    put(
        made,
        f"{CONFIG}/agents/maker.md",
        f"---\nname: maker\ndescription: makes\nmodel: {child}\nworktree: true\n---\nMake it.\n",
    )
    model = made.script(calls(("agent", {"name": "maker", "task": "make"})), say("Taken."))
    done(made.run(model, "--yes"))


def hooked(made: Machine) -> None:
    put(
        made,
        f"{CONFIG}/config.toml",
        '[[hooks]]\nevent = "before_tool"\ntools = "bash"\n'
        'command = ["sh", "-c", "cat > /dev/null; echo not today >&2; exit 1"]\n',
    )
    done(made.run(made.script(calls(bash("echo hi")), say("Done.")), "--yes"), 4)


SESSIONS: tuple[Callable[[Machine], None], ...] = (
    plain,
    denied,
    steered,
    edits,
    rewound,
    forked,
    compacted,
    children,
    grouped,
    triggered,
    served,
    cooked,
    sets,
    pictures,
    shell,
    kept,
    killed,
    cut,
    thinking,
    reasoning,
    texts,
    own_tools,
    contained,
    worktree,
    hooked,
)
EXPORTED = (plain, edits, children)
"""Those whose export and calls are kept, too; the screen says the same in fewer words."""
