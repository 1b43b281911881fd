"""A misspelt tool in the list of an agent, a recipe or a group stops it: it never means no tool, or
every one."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.conftest import product as product
from tests.e2e.product import Done, Event, Product, calls, results, say, text_of

TOOL = "name: count\ndescription: Counts the words of a text, as wc does.\nargv: [wc, -w]\n"


def put(product: Product, path: str, text: str) -> None:
    file = product.workspace / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def recipe(product: Product, tools: str, *arguments: str) -> Done:
    put(product, ".codeagent/commands/look.md", f"---\ntools: {tools}\n---\nLook.\n")
    product.call("recipes", "trust")
    model = product.script(say("looked"))
    return product.call(
        "run", "--sandbox", "off", "--yes", "--model", model, "--recipe", "look", *arguments
    )


def group(product: Product, tools: list[str]) -> Done:
    members: list[dict[str, Any]] = [{"name": "a", "prompt": "You look.", "tools": tools}]
    (product.workspace / "group.yaml").write_text(
        json.dumps({"agents": members, "start": "a", "task": "look"})
    )
    model = product.script(say("looked"))
    return product.call(
        "run", "--sandbox", "off", "--yes", "--model", model, "--group", "group.yaml"
    )


def agent(product: Product, tools: str) -> Done:
    folder = product.home / "config/codeagent/agents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "looker.md").write_text(
        f"---\nname: looker\ndescription: looks\ntools: {tools}\n---\nBe brief.\n"
    )
    return product.run(
        product.script(calls(("agent", {"name": "looker", "task": "look"})), say("ok"))
    )


def own(product: Product) -> list[Event]:
    return [event for event in results(product.log()) if event["agent"] == "main"]


def test_a_recipe_with_a_misspelt_tool_is_not_run(product: Product) -> None:
    done = recipe(product, "[raed]")
    assert done.code == 1 and "looked" not in done.out
    assert (
        ".codeagent/commands/look.md: tools of step 1: no tool is named raed; did you mean read?"
        in done.err
    )


def test_a_recipe_with_the_tools_that_there_are_runs(product: Product) -> None:
    assert recipe(product, "[read, 'job_*', web_fetch, mcp__github__get]").out == "looked\n"


def test_a_recipe_is_not_run_if_none_of_its_tools_is_there(product: Product) -> None:
    done = recipe(product, "[web_fetch, 'mcp__github__*']")
    assert done.code == 1
    assert "none of these tools is available here: web_fetch, mcp__github__*" in done.err


def test_a_recipe_may_still_have_no_tool_at_all(product: Product) -> None:
    assert recipe(product, "[]").out == "looked\n"


@pytest.mark.parametrize("tools", ["[count]", "[read]"])
def test_a_projects_recipe_that_lists_tools_is_not_run_without_the_projects_tool_files(
    product: Product, tools: str
) -> None:
    put(product, ".codeagent/tools/count.yaml", TOOL)
    done = recipe(product, tools)
    assert done.code == 1 and "looked" not in done.out
    assert (
        "not trusted as it is now: .codeagent/tools/count.yaml; read it, then run codeagent tools trust"
        in done.err
    )
    product.call("tools", "trust")
    assert recipe(product, tools).out == "looked\n"


def test_a_group_with_a_misspelt_tool_is_not_run(product: Product) -> None:
    done = group(product, ["raed", "send_message"])
    assert done.code == 1 and "looked" not in done.out
    said = "the agent a was not started: group.yaml:1: tools: no tool is named raed; did you mean read?"
    assert said in done.err, done.err


def test_a_group_with_the_tools_that_there_are_runs(product: Product) -> None:
    done = group(product, ["read", "send_message"])
    assert (done.code, "looked" in done.out) == (0, True), done.err


def test_an_agent_with_a_misspelt_tool_is_not_offered_and_it_is_said(product: Product) -> None:
    done = agent(product, "raed, list")
    assert "Tool not found: agent" in text_of(own(product)[0])
    assert (
        "looker.md:2: tools: no tool is named raed; did you mean read?; the agent is not in use"
        in done.err
    )
    listed = product.call("tools", "list", "--problems")
    assert listed.code == 1 and "no tool is named raed; did you mean read?" in listed.out


def test_an_agent_with_the_tools_that_there_are_is_started(product: Product) -> None:
    agent(product, "read, list, web_fetch")
    assert own(product)[0]["child_session"]


def test_the_check_of_an_agent_names_a_misspelt_tool(product: Product) -> None:
    put(
        product,
        ".codeagent/agents/a.md",
        "---\nname: a\ndescription: looks\ntools: [raed]\n---\nx\n",
    )
    put(
        product,
        ".codeagent/agents/b.md",
        "---\nname: b\ndescription: looks\ntools: [read]\n---\nx\n",
    )
    wrong = product.call("tools", "check", ".codeagent/agents/a.md")
    assert "a.md:2: tools: no tool is named raed; did you mean read?" in wrong.err
    assert (
        product.call("tools", "check", ".codeagent/agents/b.md").out
        == ".codeagent/agents/b.md: agent b\n"
    )


def test_the_check_of_a_recipe_names_a_misspelt_tool(product: Product) -> None:
    put(product, ".codeagent/commands/look.md", "---\ntools: [raed]\n---\nLook.\n")
    done = product.call("recipes", "check", ".codeagent/commands/look.md")
    assert done.code == 2
    assert done.err.endswith(
        "look.md: tools of step 1: no tool is named raed; did you mean read?\n"
    )


def server(product: Product) -> None:
    """Configure a server that cannot list its tools."""
    file = product.home / "config/codeagent/mcp.json"
    file.parent.mkdir(parents=True)
    file.write_text(
        json.dumps({"mcpServers": {"silent": {"command": "false", "where": "machine"}}})
    )


def yaml_tool(product: Product) -> None:
    put(product, ".codeagent/tools/count.yaml", TOOL)


def broken_agent(product: Product) -> None:
    put(product, ".codeagent/agents/a.md", "no front matter")
    product.call("tools", "trust")


@pytest.mark.parametrize("beside", [server, yaml_tool, broken_agent])
def test_a_misspelt_name_in_the_list_of_tools_runs_nothing_whatever_else_there_is(
    product: Product, beside: Callable[[Product], None]
) -> None:
    beside(product)
    model = product.script(say("looked"))
    done = product.run(model, "--tools", "raed,list")
    assert (done.code, done.out) == (2, "")
    assert (
        "raed in the list of allowed tools is not a tool; did you mean read? Nothing was run"
        in done.err
    )
    assert product.sessions == []
    listed = product.call("tools", "list", "--tools", "raed,list")
    assert listed.code == 2 and "did you mean read?" in listed.err


def test_a_name_that_a_server_or_a_file_may_still_bring_is_not_misspelt(product: Product) -> None:
    server(product)
    yaml_tool(product)
    done = product.run(
        product.script(say("looked")), "--tools", "read,mcp__silent__look,mcp__s*,count"
    )
    assert done.out == "looked\n", done.err


def test_a_list_with_a_tool_of_a_server_that_waits_for_trust_says_so(product: Product) -> None:
    put(product, ".mcp.json", json.dumps({"mcpServers": {"theirs": {"command": "true"}}}))
    done = product.run(product.script(say("looked")), "--tools", "read,mcp__theirs__look")
    assert done.code == 2
    assert (
        "Nothing was run; .mcp.json: " in done.err
        and "theirs; /mcp, or codeagent mcp list" in done.err
    )


def test_a_server_that_has_not_listed_its_tools_hides_no_misspelt_name(product: Product) -> None:
    server(product)
    head = "---\nname: a\ndescription: looks\ntools: "
    put(product, ".codeagent/agents/a.md", f"{head}[raed]\n---\nx\n")
    put(product, ".codeagent/agents/b.md", f"{head}[mcp__silent__look, web_fetch]\n---\nx\n")
    put(product, ".codeagent/commands/a.md", "---\ntools: [mcp__silent__look, raed]\n---\nLook.\n")
    put(product, ".codeagent/commands/b.md", "---\ntools: [mcp__silent__look]\n---\nLook.\n")
    said = "no tool is named raed; did you mean read?"
    assert f"a.md:2: tools: {said}" in product.call("tools", "check", ".codeagent/agents/a.md").err
    assert not product.call("tools", "check", ".codeagent/agents/b.md").err
    assert (
        f"a.md: tools of step 1: {said}"
        in product.call("recipes", "check", ".codeagent/commands/a.md").err
    )
    assert product.call("recipes", "check", ".codeagent/commands/b.md").code == 0
