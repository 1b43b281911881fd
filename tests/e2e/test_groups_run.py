"""Groups through the product: agents of one file write to each other, are woken, and end once all
are idle."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from codeagent.extensions.agents.group_files import GroupFields, MemberFields
from tests.e2e.product import (
    Done,
    Event,
    Product,
    bash,
    calls,
    of,
    read,
    results,
    running,
    say,
    text_of,
)
from tests.table import for_each


def sent(to: str, body: str, **more: str) -> tuple[str, dict[str, Any]]:
    return "send_message", {"to": to, "body": body, **more}


def group(product: Product, agents: list[dict[str, Any]], **more: Any) -> Path:
    """Write a group file; the lines of JSON are YAML, too."""
    path = product.workspace / "group.yaml"
    start = more.pop("start", agents[0]["name"])
    keys = {
        "agents": agents,
        "channels": {"work": "queue", "all": "broadcast"},
        "start": start,
        **more,
    }
    path.write_text("\n".join(f"{key}: {json.dumps(value)}" for key, value in keys.items()))
    return path


def run(
    product: Product,
    *arguments: str,
    prompt: str | None = "go",
    output: str = "jsonl",
    yes: bool = True,
) -> Done:
    given = () if prompt is None else (prompt,)
    more = ("--model", product.script(say("unused")), "--sandbox", "off", "--output", output)
    return product.call(
        "run", *given, "--group", "group.yaml", *more, *(("--yes",) if yes else ()), *arguments
    )


def received(events: list[Event], agent: str) -> list[tuple[str, str, str, str | None]]:
    found = [event for event in of(events, "notice") if event["code"] == "message.received"]
    told = [event["data"] for event in found if event["agent"] == agent]
    return [(one["sender"], one["to"], one["body"], one["reply_to"]) for one in told]


def finished(events: list[Event]) -> Event:
    return next(event for event in of(events, "run.finished") if event["agent"] == "main")


def test_two_scripted_agents_exchange_three_messages_over_a_queue_and_a_broadcast_channel(
    product: Product,
) -> None:
    planner = product.script(
        calls(sent("work", "count")),
        say("waiting"),
        calls(sent("all", "thanks", reply_to="m2")),
        say("planned"),
    )
    worker = product.script(
        calls(sent("planner", "12", reply_to="m1")), say("counted"), say("bye", expect="thanks")
    )
    group(
        product,
        [
            {"name": "planner", "prompt": "You plan.", "model": planner},
            {
                "name": "worker",
                "prompt": "You count.",
                "model": worker,
                "channels": ["work", "all"],
            },
        ],
    )
    done = run(product)
    assert done.code == 0, done.err
    assert received(done.events, "worker") == [
        ("planner", "work", "count", None),
        ("planner", "all", "thanks", "m2"),
    ]
    assert received(done.events, "planner") == [("worker", "planner", "12", "m1")]
    end = finished(done.events)
    first, second = end["text"].split("\n\n")
    assert re.fullmatch(r"planner: idle \(\d runs?, 4 turns, 2 calls\)\nplanned", first)
    assert re.fullmatch(r"worker: idle \(\d runs?, 3 turns, 1 call\)\nbye", second)
    assert (end["reason"], end["turns"], end["calls"]) == ("done", 7, 3)
    logs = sorted(product.sessions[-1].glob("agents/*/events.jsonl"))
    assert len(logs) == 2
    worker_prompts = [
        event["message"]["source"]
        for event in map(json.loads, logs[1].read_text().splitlines())
        if event["type"] == "message.added" and event["message"]["role"] == "user"
    ]
    assert worker_prompts == ["note", "note"]


def test_an_agent_with_the_right_adds_one_that_can_do_no_more_than_itself(product: Product) -> None:
    adding = [
        calls(("add_agent", {"name": "b", "prompt": "P", "task": "T", "tools": ["write"]})),
        calls(("add_agent", {"name": "b", "prompt": "P", "task": "T", "tools": ["rea*"]})),
        calls(("add_agent", {"name": "a", "prompt": "P", "task": "T"})),
        calls(("add_agent", {"name": "b", "prompt": "P", "task": "T", "channels": ["wrok"]})),
        calls(
            (
                "add_agent",
                {
                    "name": "b",
                    "prompt": "P",
                    "task": "T",
                    "tools": ["send_message"],
                    "channels": ["all"],
                },
            )
        ),
        calls(("add_agent", {"name": "c", "prompt": "P", "task": "T"})),
        say("added"),
    ]
    model = product.script(*adding)
    agents = [
        {
            "name": "a",
            "prompt": "A",
            "model": model,
            "may_add": True,
            "tools": ["rea?", "send_message"],
        }
    ]
    group(product, agents, most_agents=2)
    done = run(product)
    errors = [text_of(result) for result in results(done.events) if result["agent"] == "a"]
    assert [text.removeprefix("Invalid arguments: ").partition(";")[0] for text in errors] == [
        "you do not have the tool 'write', so you cannot give it",
        "you do not have the tool 'rea*', so you cannot give it",
        "'a' is taken or not a valid name",
        "unknown channel 'wrok'",
        "b was added and has begun.",
        "the group has 2 agents, which is its limit",
    ]
    assert done.code == 0, done.err
    assert "b: idle (1 run" in finished(done.events)["text"]


@for_each(("right", "kinds"), [(True, [None, None, None]), (False, [None, "denied", "failed"])])
def test_an_agent_adds_a_channel_and_with_the_right_connects_another_to_it(
    product: Product, right: bool, kinds: list[str | None]
) -> None:
    wiring = (
        calls(("create_channel", {"name": "review", "kind": "queue"})),
        calls(("connect_agent", {"agent": "b", "channel": "review"})),
        calls(("send_message", {"to": "review", "body": "look"})),
        say("sent"),
    )
    a = {"name": "a", "prompt": "A", "model": product.script(*wiring), "may_connect": right}
    group(product, [a, {"name": "b", "prompt": "B", "model": product.script(say("seen"))}])
    done = run(product, yes=False)
    assert [
        one["error"] and one["error"]["kind"] for one in results(done.events) if one["agent"] == "a"
    ] == kinds
    assert received(done.events, "b") == ([("a", "review", "look", None)] if right else [])


def test_a_denial_holds_for_an_agent_that_may_connect_others(product: Product) -> None:
    model = product.script(calls(("connect_agent", {"agent": "b", "channel": "all"})), say("so"))
    group(
        product,
        [
            {"name": "a", "prompt": "A", "model": model, "may_connect": True},
            {"name": "b", "prompt": "B"},
        ],
    )
    [denied] = results(run(product, "--deny", "connect_agent(b *)").events)
    assert denied["error"]["kind"] == "denied"


def test_an_agent_without_the_right_has_no_tool_that_adds_one(product: Product) -> None:
    model = product.script(
        calls(("add_agent", {"name": "b", "prompt": "P", "task": "T"})), say("so")
    )
    group(product, [{"name": "a", "prompt": "A", "model": model}])
    [refused] = results(run(product).events)
    assert refused["error"]["kind"] == "not_found"


def test_the_list_of_allowed_tools_holds_for_the_right_to_add_agents(product: Product) -> None:
    model = product.script(
        calls(("add_agent", {"name": "b", "prompt": "P", "task": "T"})), say("so")
    )
    group(product, [{"name": "a", "prompt": "A", "model": model, "may_add": True}])
    [refused] = results(run(product, "--tools", "read,send_message").events)
    assert refused["error"]["kind"] == "not_found"


def test_a_stop_ends_every_agent_and_leaves_nothing_running(product: Product) -> None:
    slow = [calls(bash("sleep 61")), say("slept")]
    members = [{"name": name, "prompt": "P", "model": product.script(*slow)} for name in ("a", "b")]
    group(product, [*members, {"name": "c", "prompt": "P"}], start=["a", "b"])
    done = run(product, "--inject", "abort@tool:2")
    end = finished(done.events)
    assert (done.code, end["reason"]) == (130, "interrupted")
    [_, answer] = [
        event["message"] for event in of(done.events, "message.added") if event["agent"] == "main"
    ]
    assert re.match(r"(?s)a: stopped .*b: stopped .*c: idle, nobody wrote to it", answer["text"])
    assert not any(b"sleep 61" in command for command in running())


def test_an_agent_that_fails_is_said_and_the_others_reach_their_end(product: Product) -> None:
    broken, fine = product.script(say("one", expect="not there")), product.script(say("fine"))
    group(
        product,
        [
            {"name": "a", "prompt": "A", "model": broken},
            {"name": "b", "prompt": "B", "model": fine},
        ],
        start=["a", "b"],
    )
    done = run(product, output="text")
    assert done.code == 1
    assert "failed: not every agent of the group reached its end: a failed" in done.err
    assert re.search(r"^a: failed: .*not there", done.out)
    assert done.out.endswith("b: idle (1 run, 1 turn, 0 calls)\nfine\n")


def test_all_agents_together_stay_within_the_tokens_of_the_group(product: Product) -> None:
    forever = [calls(read("a.txt")), calls(read("b.txt"))] * 20
    members = [
        {"name": name, "prompt": "P", "model": product.script(*forever)} for name in ("a", "b")
    ]
    group(product, members, start=["a", "b"], limits={"max_tokens": 10_000})
    done = run(product)
    end = finished(done.events)
    assert (done.code, end["reason"]) == (3, "limit")
    assert 8000 < end["usage"]["input_tokens"] < 12_000, (
        "each was asking at most once more when it was reached"
    )
    assert end["text"].count("stopped at max_tokens = 10000") == 2


def test_an_agent_stays_within_its_tokens_over_all_its_runs(product: Product) -> None:
    talks = [calls(sent("b", "x")), say("so")] * 20
    answers = [calls(sent("a", "y")), say("so")] * 20
    members = [
        {
            "name": "a",
            "prompt": "P",
            "model": product.script(*talks),
            "limits": {"max_tokens": 9000},
        },
        {"name": "b", "prompt": "P", "model": product.script(*answers)},
    ]
    group(product, members)
    done = run(product)
    assert done.code == 3
    assert "a: stopped at max_tokens = 9000" in finished(done.events)["text"]


def test_what_an_added_agent_uses_counts_for_the_agent_that_added_it(product: Product) -> None:
    adds = ("add_agent", {"name": "b", "prompt": "P", "task": "T"})
    model = product.script(calls(adds), *[calls(read("a.txt")), calls(read("b.txt"))] * 20)
    group(
        product,
        [
            {
                "name": "a",
                "prompt": "P",
                "model": model,
                "may_add": True,
                "limits": {"max_tokens": 12_000},
            }
        ],
    )
    end = finished(run(product).events)
    assert end["text"].count("stopped at max_tokens = 12000") == 2
    assert end["usage"]["input_tokens"] < 15_000


def test_the_group_ends_when_its_messages_are_used_up(product: Product) -> None:
    talks = [calls(sent("b", "x")), say("so")] * 20
    answers = [calls(sent("a", "y")), say("so")] * 20
    members = [
        {"name": "a", "prompt": "P", "model": product.script(*talks)},
        {"name": "b", "prompt": "P", "model": product.script(*answers)},
    ]
    group(product, members, most_messages=3)
    done = run(product)
    assert done.code == 0
    assert len(received(done.events, "a")) + len(received(done.events, "b")) == 3
    assert any(
        "3 messages were sent in all, which is the limit" in text_of(one)
        for one in results(done.events)
    )


def test_a_budget_of_the_group_needs_models_whose_prices_are_known(product: Product) -> None:
    members = [
        {"name": name, "prompt": "P", "model": f"openai/made-up-{name}"} for name in ("a", "b")
    ]
    group(product, members, limits={"budget": 0.5})
    done = run(product)
    assert done.code == 1
    assert "the agent a was not started: no price is known for openai/made-up-a" in done.err


def test_an_agent_can_be_one_that_a_file_describes(product: Product) -> None:
    folder = product.home / "config/codeagent/agents"
    folder.mkdir(parents=True)
    model = product.script(calls(("write", {"path": "x", "content": "x"})), say("read only"))
    head = f"name: reader\ndescription: reads\ntools: read, send_message\nmodel: {model}"
    (folder / "reader.md").write_text(f"---\n{head}\n---\nBe brief.\n")
    group(product, [{"name": "a", "agent": "reader"}], task="look", start=["a"])
    done = run(product, prompt=None)
    assert done.code == 0, done.err
    assert [result["error"]["kind"] for result in results(done.events)] == ["not_found"]
    (folder / "apart.md").write_text(
        "---\nname: apart\ndescription: writes\nworktree: true\n---\nX\n"
    )
    group(product, [{"name": "a", "agent": "apart"}])
    assert (
        "the agent apart has a worktree of its own, which no agent of a group can have"
        in run(product).err
    )
    group(product, [{"name": "a", "agent": "raeder"}])
    refused = run(product)
    assert refused.code == 2
    assert refused.err.splitlines()[-1] == (
        "codeagent: group.yaml:1: unknown agent raeder; did you mean reader?; nothing was run"
    )


BROKEN = """agents:
  - name: planner
    prompt: You plan.
    chanels: [work]
  - {name: worker, prompt: You work., channels: [wrok], mode: fast}
start: planer
chanels: {}
"""


def test_whatever_is_wrong_with_a_group_file_is_said_with_its_line_and_the_nearest_word(
    product: Product,
) -> None:
    (product.workspace / "group.yaml").write_text(BROKEN)
    done = run(product)
    assert done.code == 2 and not product.sessions
    assert done.err.splitlines()[-4:] == [
        "codeagent: the group was not run:",
        "  group.yaml:4: agents[0].chanels: no such key; did you mean channels?",
        "  group.yaml:5: agents[1].mode: write ask, accept-edits, plan or auto, not 'fast'",
        "  group.yaml:7: chanels: no such key; did you mean channels?",
    ]
    mended = BROKEN.replace("chanels: [work]", "channels: [work]").replace(", mode: fast", "")
    (product.workspace / "group.yaml").write_text(
        mended.replace("chanels: {}", "channels: {work: queue, worker: queue}")
    )
    assert run(product).err.splitlines()[-3:] == [
        "  group.yaml:5: agents[1].name: another agent, or a channel, has the name worker",
        "  group.yaml:5: agents[1].channels[0]: unknown channel wrok; did you mean work or worker?",
        "  group.yaml:6: start[0]: unknown agent planer; did you mean planner?",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--recipe", "x"),
            "--group begins a session of its own, without a recipe; nothing was run",
        ),
        (("--continue",), "--group begins a session of its own, without a recipe; nothing was run"),
        ((), "group.yaml has no task, so give PROMPT; nothing was run"),
    ],
)
def test_what_does_not_fit_a_group_is_refused(
    product: Product, arguments: tuple[str, ...], said: str
) -> None:
    group(product, [{"name": "a", "prompt": "A"}])
    assert run(product, *arguments, prompt=None).err.splitlines()[-1] == f"codeagent: {said}"


def test_a_group_needs_no_model_if_each_agent_has_one(product: Product) -> None:
    folder = product.home / "config/codeagent/agents"
    folder.mkdir(parents=True)
    head = f"name: reader\ndescription: reads\nmodel: {product.script(say('from a file'))}"
    (folder / "reader.md").write_text(f"---\n{head}\n---\nBe brief.\n")
    own = {"name": "a", "prompt": "A", "model": product.script(say("of its own"))}
    group(product, [own, {"name": "b", "agent": "reader"}], start=["a", "b"])
    command = ("run", "go", "--group", "group.yaml", "--sandbox", "off")
    done = product.call(*command)
    assert done.code == 0 and "of its own" in done.out and "from a file" in done.out, done.err
    group(product, [own, {"name": "b", "prompt": "B"}])
    refused = product.call(*command)
    assert refused.code == 2
    assert refused.err.splitlines()[-1] == (
        "codeagent: no model is set, and b has none: give --model NAME; nothing was run"
    )


def test_the_how_to_is_true(product: Product) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/groups.md").read_text()
    keys = [key for fields in (GroupFields, MemberFields) for key in fields.model_fields]
    assert [key for key in keys if key not in page and key not in ("version", "description")] == []
    [text] = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    [command] = re.findall(r"```sh\ncodeagent (.*?)\n```", page)
    folder = product.home / "config/codeagent/agents"
    folder.mkdir(parents=True)
    (folder / "reviewer.md").write_text(
        "---\nname: reviewer\ndescription: reviews\n---\nBe brief.\n"
    )
    value = yaml.safe_load(text)
    scripts = {
        "planner": (
            calls(sent("work", "src/a"), sent("work", "src/b")),
            say("sent"),
            say("so"),
            say("The report."),
        ),
        "reader": (calls(sent("planner", "fine")), say("read")),
        "second-reader": (calls(sent("planner", "fine, too")), say("read as well")),
    }
    for one in value["agents"]:
        one["model"] = product.script(*scripts[one["name"]])
    (product.workspace / "review.yaml").write_text(yaml.safe_dump(value))
    done = product.call(
        *shlex.split(command), "--model", product.script(say("x")), "--sandbox", "off", "--yes"
    )
    assert done.code == 0, done.err
    assert [name for name in scripts if f"{name}: idle (" in done.out] == list(scripts)
    (product.workspace / "review.yaml").write_text(
        text.replace("    tools: [list", "    chanels: []\n    tools: [list")
    )
    broken = product.call(*shlex.split(command), "--model", "demo")
    assert "agents[0].chanels: no such key; did you mean channels?" in broken.err
