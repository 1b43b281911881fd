"""Agents from Markdown files: what a file may say, and what is said about one that is wrong."""

from pathlib import Path

import pytest

from codeagent.core.agents import AgentDefinition
from codeagent.extensions.agents.agent import AgentTool
from codeagent.extensions.agents.children import Children
from codeagent.extensions.agents.definitions import AgentLoader
from codeagent.tools.folders import Loaded, ToolFile
from tests.table import for_each


def load(text: str, name: str = "reviewer.md") -> Loaded:
    shown = f".codeagent/agents/{name}"
    return AgentLoader().load(ToolFile(Path("/w") / shown, shown, text.encode(), "project"))


def only(text: str) -> AgentDefinition:
    loaded = load(text)
    assert [str(problem) for problem in loaded.problems if problem.level == "error"] == []
    (agent,) = loaded.agents
    return agent


def test_the_front_matter_people_know_is_enough() -> None:
    agent = only(
        "---\nname: reviewer\ndescription: reviews\ntools: Read, Bash\nmodel: m/x\n---\n\nYou review.\n"
    )
    assert agent == AgentDefinition(
        "reviewer",
        "reviews",
        "You review.",
        tools=("read", "bash", "job_*"),
        model="m/x",
        where=".codeagent/agents/reviewer.md:2",
    )


def test_a_file_may_also_give_limits_thinking_mode_and_whether_it_runs_beside_others() -> None:
    agent = only(
        "---\ndescription: d\ntools: [read, 'mcp__github__*']\nthinking: high\nmode: plan\nnetwork: none\n"
        "parallel: true\nlimits: {max_turns: 5, budget: 0.5, max_seconds: 60}\ncolor: red\n---\n"
    )
    assert (agent.name, agent.tools) == ("reviewer", ("read", "mcp__github__*"))
    assert (agent.thinking, agent.mode, agent.network, agent.parallel) == (
        "high",
        "plan",
        "none",
        True,
    )
    assert agent.limits == {"max_turns": 5, "max_cost_usd": 0.5, "max_seconds": 60}


@pytest.mark.parametrize(
    ("line", "has", "warned"),
    [
        ("worktree: true", True, False),
        ("isolation: worktree", True, False),
        ("isolation: vm", False, True),
    ],
)
def test_a_file_may_ask_for_a_worktree_in_the_words_of_another_program_too(
    line: str, has: bool, warned: bool
) -> None:
    loaded = load(f"---\ndescription: d\n{line}\n---\n")
    assert (loaded.agents[0].worktree, bool(loaded.problems)) == (has, warned)


@pytest.mark.parametrize(("model", "warned"), [("inherit", False), ("sonnet", True)])
def test_a_model_as_another_program_calls_it_is_that_of_the_parent(
    model: str, warned: bool
) -> None:
    loaded = load(f"---\ndescription: d\nmodel: {model}\n---\n")
    assert (loaded.agents[0].model, bool(loaded.problems)) == (None, warned)


def test_what_another_programs_file_takes_away_is_taken_away_here_too() -> None:
    agent = only("---\ndescription: d\npermissionMode: plan\nmaxTurns: 4\n---\n")
    assert (agent.mode, agent.limits) == ("plan", {"max_turns": 4})


@for_each(
    ("line", "warned"), [("color: red", 0), ("memory: user", 1), ("permissionMode: acceptEdits", 1)]
)
def test_a_key_of_another_program_that_takes_nothing_away_keeps_no_agent_out(
    line: str, warned: int
) -> None:
    loaded = load(f"---\ndescription: d\n{line}\n---\n")
    assert (len(loaded.agents), [problem.level for problem in loaded.problems]) == (
        1,
        ["warning"] * warned,
    )


@for_each(
    ("text", "problem"),
    [
        (
            "no front matter",
            "1: it must begin with a line of ---, then name: and description:, then --- again",
        ),
        ("---\nname: a\n", "1: the front matter is not closed by a line of ---"),
        ("---\n- a\n---\n", "2: the front matter must be lines of the form key: value"),
        ("---\nname: a\n---\n", "2: description is missing; the model chooses by it"),
        (
            "---\nname: a b\ndescription: d\n---\n",
            "2: name: use 1 to 64 letters, digits, _ or -, beginning with a ",
        ),
        (
            "---\ndescription: d\nmode: wide\n---\n",
            "3: mode: write ask, accept-edits, plan or auto, not 'wide'",
        ),
        (
            "---\ndescription: d\nlimits: {max_turns: 0}\n---\n",
            "3: limits.max_turns: it should be greater than or equal to 1",
        ),
        (
            "---\ndescription: d\nlimits: {turns: 1}\n---\n",
            "3: limits.turns: no such key; did you mean max_turns?",
        ),
        ("---\ndescription: d\ntool: read\n---\n", "3: tool: no such key; did you mean tools?"),
        (
            "---\ndescription: d\npermissionmode: plan\n---\n",
            "3: permissionmode: no such key; did you mean permissionMode",
        ),
        (
            "---\ndescription: d\npermissionMode: plam\n---\n",
            "3: permissionMode: write default, acceptEdits, ",
        ),
        ("---\ndescription: d\ntools:\n---\n", "3: tools: write a list of the names of tools"),
        ("---\ndescription: d\ntools: Task\n---\n", "3: tools: none of them is a tool here: Task"),
        (
            "---\ndescription: d\ndisallowedTools: Bash\n---\n",
            "3: disallowedTools: it is not supported: write in tools",
        ),
        (
            "---\ndescription: d\ntools: [a b]\n---\n",
            "3: tools: 'a b' is not a tool's name; * and ? may stand for ",
        ),
        ("---\ndescription: [\n---\n", "it is not YAML"),
        (
            "---\ndescription: d\ndescription: e\n---\n",
            "3: the key 'description' appears twice, first on line 2",
        ),
    ],
)
def test_a_broken_file_is_a_problem_with_its_line_and_no_agent(text: str, problem: str) -> None:
    loaded = load(text)
    assert loaded.agents == ()
    assert problem in str(loaded.problems[0]), str(loaded.problems[0])


def listed(*agents: AgentDefinition) -> list[str]:
    children = Children()
    children.definitions = agents
    return AgentTool(children).description.partition("Agents:\n")[2].split("\n")


def test_the_tool_names_the_agents_that_there_are_now() -> None:
    children = Children()
    tool = AgentTool(children)
    assert tool.description.endswith("Agents:\n- general: any task, with your tools")
    children.definitions = (AgentDefinition("reviewer", "reviews"), *children.definitions)
    assert tool.description.endswith(
        "Agents:\n- reviewer: reviews\n- general: any task, with your tools"
    )


@for_each("number", [1, 2, 3, 5, 10, 20, 40])
def test_each_agent_has_a_line_with_its_name_and_what_it_is_good_for(number: int) -> None:
    agents = [
        AgentDefinition(f"test-writer-{each:02}", f"writes tests {each} " * 40)
        for each in range(number)
    ]
    lines = listed(*agents)
    assert len("\n".join(lines)) <= 2_000
    for line, agent in zip(lines, agents, strict=True):
        name, _, about = line.removeprefix("- ").partition(": ")
        assert name == agent.name and agent.description.startswith(about[:-1]) and len(about) >= 24


def test_what_short_descriptions_leave_belongs_to_the_long_ones() -> None:
    short = [AgentDefinition(f"short-{each}", "looks") for each in range(9)]
    *others, long = listed(*short, AgentDefinition("long", "knows " * 170))
    assert others == [f"- {agent.name}: looks" for agent in short]
    assert 1_015 <= len(long) <= 1_030


def test_of_very_many_agents_the_last_are_named_whole_and_described_by_info() -> None:
    agents = [
        AgentDefinition(f"specialist-of-the-language-{each:03}", "knows it " * 20)
        for each in range(200)
    ]
    *lines, rest = listed(*agents)
    assert len(lines) >= 25 and len("\n".join(lines)) <= 2_000 and len(rest) <= 1_000
    start, _, names = rest.partition(": ")
    assert start == f"- and {200 - len(lines)} more, which info describes"
    *whole, end = names.split(", ")
    assert end == "…" and whole == [
        agent.name for agent in agents[len(lines) : len(lines) + len(whole)]
    ]


@for_each(("words", "told"), [(3, False), (250, True)])
def test_info_tells_of_agents_what_their_lines_have_no_room_for(words: int, told: bool) -> None:
    children = Children()
    children.definitions = tuple(
        AgentDefinition(f"agent-{each}", "four " * words + f"end {each}") for each in range(5)
    )
    said = AgentTool(children).documentation
    assert bool(said) == told
    assert not told or "end 4" in said
