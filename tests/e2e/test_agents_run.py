"""Agents through the real command line: files, trust, denials, logs, what is printed, and what is
left."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import Event, Product, bash, calls, of, results, running, say, text_of


def agent(name: str, task: str = "do it", **more: Any) -> tuple[str, dict[str, Any]]:
    return "agent", {"name": name, "task": task, **more}


def describe(
    product: Product,
    name: str,
    model: str,
    *lines: str,
    body: str = "Be brief.",
    where: str = "user",
) -> Path:
    """Write a file of an agent, the user's own or the project's, with a script as its model."""
    folder = (
        product.home / "config/codeagent/agents" if where == "user" else product.workspace / where
    )
    folder.mkdir(parents=True, exist_ok=True)
    head = [f"name: {name}", f"description: {name}s things", f"model: {model}", *lines]
    path = folder / f"{name}.md"
    path.write_text("\n".join(["---", *head, "---", body, ""]))
    return path


def child_log(product: Product, number: int = 1) -> list[Event]:
    path = product.sessions[-1] / "agents" / str(number) / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def own(events: list[Event]) -> list[Event]:
    return [event for event in results(events) if event["agent"] == "main"]


def test_a_task_is_given_to_an_agent_of_the_user_and_its_answer_comes_back(
    product: Product,
) -> None:
    (product.workspace / "a.txt").write_text("one\n")
    child = product.script(calls(("read", {"path": "a.txt"})), say("a.txt holds one"))
    describe(product, "reader", child, "tools: read")
    done = product.run(
        product.script(calls(agent("reader")), say("told", expect="a.txt holds one"))
    )
    assert (done.code, done.out) == (0, "told\n")
    (result,) = results(product.log())
    session = product.sessions[-1].name
    assert (text_of(result), result["child_session"]) == ("a.txt holds one", f"{session}.1")
    log = child_log(product)
    assert (log[0]["code"], log[0]["data"]["parent_session"], log[0]["agent"]) == (
        "agent.started",
        session,
        "reader.1",
    )
    assert "reader.1: ✓ read" in done.err and "a.txt holds one" not in done.out


def test_a_child_has_only_the_tools_of_its_list_and_its_own_prompt(product: Product) -> None:
    describe(
        product,
        "reader",
        product.script(calls(bash("id")), say("I may only read")),
        "tools: read, list",
    )
    product.run(product.script(calls(agent("reader")), say("ok")))
    (refused,) = results(child_log(product))
    assert "Tool not found: bash" in text_of(refused)


def test_what_the_parent_denies_is_denied_in_the_child_under_the_childs_name(
    product: Product,
) -> None:
    describe(product, "maker", product.script(calls(bash("touch made")), say("I could not")))
    model = product.script(calls(agent("maker")), say("ok"))
    done = product.run(model, "--deny", "bash", "--yes", "--output", "jsonl")
    (denied,) = [event for event in results(done.events) if event["name"] == "bash"]
    assert (denied["agent"], denied["error"]["kind"], denied["approval"]) == (
        "maker.1",
        "denied",
        "rule",
    )
    assert not (product.workspace / "made").exists()
    (result,) = own(done.events)
    assert (result["error"], result["details"]["denied"], done.code) == (None, True, 4)


def test_events_of_a_child_are_in_the_stream_with_its_name_and_session_and_not_in_the_parents_log(
    product: Product,
) -> None:
    describe(product, "maker", product.script(say("made")))
    done = product.run(product.script(calls(agent("maker")), say("ok")), "--output", "jsonl")
    childs = [event for event in done.events if event["agent"] == "maker.1"]
    assert {event["session"] for event in childs} == {f"{product.sessions[-1].name}.1"}
    assert [event["type"] for event in of(childs, "run.finished")] == ["run.finished"]
    assert {event["agent"] for event in product.log()} == {"main"}
    assert done.events[-1]["agent"] == "main"


def test_questions_of_a_child_are_answered_like_those_of_its_parent(product: Product) -> None:
    describe(product, "maker", product.script(calls(bash("touch made")), say("made")))
    model = product.script(calls(agent("maker")), say("ok"))
    assert product.run(model, "--yes").code == 0
    assert (product.workspace / "made").exists()
    events = product.run(model, "--output", "jsonl").events
    (refused,) = [event for event in results(events) if event["agent"] == "maker.1"]
    assert "nobody to ask" in text_of(refused)


def test_agents_of_a_project_are_used_only_once_they_are_trusted(product: Product) -> None:
    describe(product, "maker", product.script(say("made")), where=".codeagent/agents")
    model = product.script(calls(agent("maker")), say("ok"))
    done = product.run(model, "--output", "jsonl")
    (notice,) = [event for event in of(done.events, "notice") if event["code"] == "tools.untrusted"]
    assert notice["data"] == {"files": [".codeagent/agents/maker.md"]}
    assert "Tool not found: agent" in text_of(own(done.events)[0])
    done = product.run(model, "--trust-project", "--output", "jsonl")
    assert text_of(own(done.events)[0]) == "made"


def test_agents_of_another_program_work_with_its_names_of_tools(product: Product) -> None:
    script = product.script(calls(("read", {"path": "a"}), bash("id")), say("done"))
    path = describe(
        product, "helper", script, "tools: Read, Grep", "color: red", where=".claude/agents"
    )
    product.run(product.script(calls(agent("helper")), say("ok")), "--trust-project")
    assert path.exists()
    found = {result["name"]: text_of(result) for result in results(child_log(product))}
    assert (found["read"], found["bash"].partition(";")[0]) == (
        "a does not exist",
        "Tool not found: bash",
    )


def test_a_broken_file_is_a_problem_and_disables_only_itself(product: Product) -> None:
    describe(product, "maker", product.script(say("made")))
    broken = product.home / "config/codeagent/agents/broken.md"
    broken.write_text("---\nname: broken\nmode: wide\nlimits: {max_turns: 0}\n---\nx\n")
    done = product.run(product.script(calls(agent("maker")), say("ok")))
    assert text_of(own(product.log())[0]) == "made"
    assert (
        f"{broken}:3: mode: write ask, accept-edits, plan or auto, not 'wide'; the agent is not in use"
        in done.err
    )
    listed = product.call("tools", "list")
    assert f"{broken}:3" in listed.out + listed.err


def test_the_general_agent_is_there_without_files_once_the_set_is_turned_on(
    product: Product,
) -> None:
    config = product.home / "config/codeagent/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('[toolsets]\nuse = ["agents"]\n')
    model = product.script(calls(agent("general", "read nothing")), say("ok"))
    product.run(model)
    (result,) = own(product.log())
    assert result["child_session"], (
        "it plays its parent's script from the start, as it has its model"
    )


def test_without_files_and_setting_there_is_no_such_tool(product: Product) -> None:
    product.run(product.script(calls(agent("general")), say("ok")))
    assert text_of(own(product.log())[0]).startswith("Tool not found: agent")


def test_several_children_work_side_by_side_and_their_sessions_are_in_no_list(
    product: Product,
) -> None:
    describe(
        product,
        "reader",
        product.script(calls(("list", {"path": "."})), say("listed")),
        "tools: [list]",
    )
    model = product.script(calls(*[agent("reader")] * 10), say("ok"))
    assert product.run(model).code == 0
    assert [text_of(result) for result in own(product.log())] == ["listed"] * 10
    numbers = sorted(int(path.name) for path in (product.sessions[-1] / "agents").iterdir())
    assert numbers == list(range(1, 11))
    session = product.sessions[-1].name
    assert len(product.call("sessions", "list").out.splitlines()) == 2, "a heading and one session"
    assert product.call("sessions", "check", f"{session}.7").code == 0
    assert "listed" in product.call("sessions", "show", f"{session}.7").out


def test_what_children_used_is_in_the_statistics_of_their_session(product: Product) -> None:
    describe(product, "reader", product.script(calls(("list", {"path": "."})), say("listed")))
    product.run(product.script(calls(agent("reader")), say("ok")))
    stats = json.loads(product.call("stats", "--json").out)
    assert (stats["tools"]["agent"]["calls"], stats["tools"]["list"]["calls"]) == (1, 1)


def test_a_time_limit_of_an_agent_ends_what_it_runs(product: Product) -> None:
    script = product.script(calls(bash("exec sleep 3141")), say("never"))
    describe(product, "maker", script, "limits: {max_seconds: 1}")
    product.run(product.script(calls(agent("maker")), say("ok")), "--yes")
    assert own(product.log())[0]["error"] == {
        "kind": "timeout",
        "message": "The agent maker was not done within 1 s",
    }
    assert not [line for line in running() if b"sleep" in line and b"3141" in line]


def test_a_stop_reaches_the_commands_of_every_child(product: Product) -> None:
    script = product.script(calls(bash("exec sleep 2718")), say("never"))
    describe(product, "maker", script, "parallel: true")
    model = product.script(calls(agent("maker"), agent("maker")), say("never"))
    process = product.start("run", "go", "--model", model, "--sandbox", "off", "--yes")

    def started(number: int) -> bool:
        return bool(of(child_log(product, number), "tool.started"))

    product.wait_for(lambda events: started(1) and started(2))
    process.terminate()
    process.communicate(timeout=60)
    assert [result["error"]["kind"] for result in own(product.log())] == ["cancelled", "cancelled"]
    assert not [line for line in running() if b"sleep" in line and b"2718" in line]


def test_what_a_child_changes_is_between_the_checkpoints_of_its_parents_batch(
    product: Product,
) -> None:
    script = product.script(calls(("write", {"path": "new.txt", "content": "x"})), say("written"))
    describe(product, "maker", script)
    product.run(product.script(calls(agent("maker")), say("ok")), "--yes")
    (before,) = [
        event for event in of(product.log(), "checkpoint.created") if event["cause"] == "batch"
    ]
    (after,) = [
        event for event in of(product.log(), "checkpoint.created") if event["cause"] == "after"
    ]
    assert before["label"] == "agent maker: do it" and before["snapshot"] != after["snapshot"]
    assert of(child_log(product), "checkpoint.created") == []


def test_the_planner_of_the_how_to_delegates_to_its_specialists(product: Product) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/agents.md").read_text()
    files = re.findall(
        r"^`(\.codeagent/\S+)`:\n\n```markdown\n(.*?)```", page, re.DOTALL | re.MULTILINE
    )
    scripts = {
        "finder.md": product.script(
            calls(("list", {"path": "."})), say('{"done": true, "files": ["a.py"]}')
        ),
        "writer.md": product.script(
            calls(("write", {"path": "MODULES.md", "content": "a.py\n"})),
            say("done"),
            say('{"done": true, "files": []}'),
        ),
    }
    for path, text in files:
        file = product.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        model = scripts.get(file.name)
        file.write_text(text.replace("\ntools:", f"\nmodel: {model}\ntools:") if model else text)
    schema = {"type": "object", "required": ["done", "files"]}
    planner = product.script(
        calls(agent("finder", "which modules are there?", output_format=schema)),
        calls(
            agent("writer", "write a.py into MODULES.md", output_format=schema),
            ("read", {"path": "a.py"}),
        ),
        say("MODULES.md lists a.py", expect="read is not among the tools of this step"),
    )
    flags = ("--sandbox", "off", "--yes", "--trust-project", "--model", planner)
    done = product.call("run", *flags, "--recipe", "delegate", "--input", "goal=list the modules")
    assert (done.code, done.out) == (0, "MODULES.md lists a.py\n"), done.err
    assert (product.workspace / "MODULES.md").read_text() == "a.py\n"
    assert "it is not JSON" in json.dumps(child_log(product, 2)), (
        "the writer had to repair its answer"
    )


def test_an_agent_may_name_a_tool_of_a_set_that_is_off_for_its_parent(product: Product) -> None:
    config = product.home / "config/codeagent/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('[toolsets]\noffer = ["files"]\nuse = ["agents"]\n')
    script = product.script(calls(("tree", {})), say("a tree"))
    describe(product, "looker", script, "tools: [tree]")
    product.run(product.script(calls(agent("looker"), ("tree", {})), say("ok")))
    (theirs,) = results(child_log(product))
    assert theirs["error"] is None
    own_call = next(result for result in own(product.log()) if result["name"] == "tree")
    assert "Tool not in use: tree" in text_of(own_call)


def test_resuming_closes_the_logs_of_children_that_were_cut_short_too(product: Product) -> None:
    describe(product, "maker", product.script(calls(bash("sleep 2.25")), say("never")))
    model = product.script(calls(agent("maker")), say("never"))
    process = product.start("run", "go", "--model", model, "--sandbox", "off", "--yes")
    product.wait_for(lambda events: bool(of(child_log(product), "tool.started")))
    process.kill()
    process.wait()
    assert results(child_log(product)) == []
    session = product.sessions[-1].name
    product.run(product.script(say("ok")), "--resume", session)
    log = child_log(product)
    (result,) = results(log)
    assert (result["agent"], result["error"]["kind"], result["session"]) == (
        "maker.1",
        "cancelled",
        f"{session}.1",
    )
    assert [event["reason"] for event in of(log, "run.finished")] == ["interrupted"]
    checked = product.call("sessions", "check", f"{session}.1")
    assert (checked.code, "repaired" in checked.out) == (0, False)


@pytest.mark.docker
def test_children_work_in_the_container_of_their_parent_and_a_stop_leaves_nothing(
    product: Product,
) -> None:
    script = product.script(calls(bash("touch made; exec sleep 1618")), say("never"))
    describe(product, "maker", script, "parallel: true")
    model = product.script(calls(agent("maker"), agent("maker")), say("never"))
    process = product.start("run", "go", "--model", model, "--yes")

    def started(number: int) -> bool:
        return bool(of(child_log(product, number), "tool.started"))

    def mounted() -> bool:
        label = f"label=codeagent.workspace={product.workspace}"
        return bool(
            product.call_in(product.home, "docker", "ps", "-a", "-q", "--filter", label).out
        )

    product.wait_for(
        lambda events: started(1) and started(2) and (product.workspace / "made").exists()
    )
    assert mounted()
    process.terminate()
    process.communicate(timeout=60)
    assert [result["error"]["kind"] for result in own(product.log())] == ["cancelled", "cancelled"]
    assert [
        result["sandbox"] for number in (1, 2) for result in results(child_log(product, number))
    ] == ["docker"] * 2
    assert b"sleep\0001618\0" not in running()
    deadline = time.monotonic() + 30
    while mounted():
        assert time.monotonic() < deadline, "the engine still has the container"
        time.sleep(0.1)
