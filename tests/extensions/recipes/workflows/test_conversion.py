"""Workflows of AWF become recipes and tool files that load, and whatever has no counterpart is said
with its line."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from codeagent.core.recipes import RecipeInput, RecipeStep, StepLimits
from codeagent.core.yaml_text import Unreadable, documents
from codeagent.extensions.recipes.reading import load_recipe
from codeagent.extensions.recipes.workflows.conversion import Conversion, as_yaml, convert
from codeagent.tools.files.workflows import is_workflow
from codeagent.tools.folders import ToolFile
from tests.extensions.user_tools.test_yaml_tools import Box
from tests.table import for_each

CODING = """\
name: small-feature
version: "1.2"
description: Builds one feature and sums it up.
inputs:
  - {name: folder, type: string, required: true, description: where the code lies}
  - {name: feature, type: string, required: true}
  - {name: rounds, type: integer, default: 3}
tools:
  - name: read_file
    builtin: true
    approval: auto
    restrictions:
      paths: ["{{inputs.folder}}/**"]
  - name: write_file
    builtin: true
    approval: prompt
    restrictions:
      paths: ["{{inputs.folder}}/src/**"]
  - name: shell
    builtin: true
    restrictions:
      commands: [git log, make]
  - name: find_text
    command: "grep -rn '{{args.text}}' {{inputs.folder}}"
    description: Find a text in the code.
    approval: prompt
    timeout: 20s
    parameters:
      - {name: text, type: string, required: true}
      - {name: unused, type: integer}
steps:
  - name: build
    type: agent
    provider: claude
    prompt: |
      Build {{inputs.feature}} in at most {{inputs.rounds}} rounds.
    tools: [read_file, write_file, shell, find_text]
    options: {model: claude-sonnet-4-5, temperature: 0.2}
    tool_options: {max_calls: 50, timeout_per_call: 30s}
  - name: sum-up
    type: agent
    provider: codex
    prompt: "Sum up: {{states.build.output}}"
    timeout: 5m
"""
CHAIN = """\
name: review-chain
inputs:
  topic: {type: string, required: true}
  depth: {type: string, validation: {enum: [short, long]}, default: short}
states:
  initial: look
  answer:
    type: agent
    provider: gemini
    prompt: "Answer {{ .states.look.Response }} at {{.inputs.depth}} length."
    options: {model: gemini-2.0-flash}
    timeout: 0
    on_success: done
    on_failure: {message: it failed, status: 3}
  look:
    type: agent
    provider: claude
    prompt: "Look at {{.inputs.topic}}."
    options: {model: sonnet}
    timeout: 60
    on_success: answer
    on_failure: failed
  done: {type: terminal, status: success}
  failed: {type: terminal, status: failure}
"""


def file(text: str) -> ToolFile:
    return ToolFile(Path("/w/flow.yaml"), "flow.yaml", text.encode(), "project")


def converted(text: str, **options: Any) -> Conversion:
    return convert(file(text), ("read", "write", "bash", "search"), **options)


def said(made: Conversion, *weights: str) -> list[str]:
    wanted = weights or ("note", "missing", "wrong")
    return [f"{one.line} {one.key}: {one.text}" for one in made.remarks if one.weight in wanted]


def recipe(made: Conversion) -> Any:
    shown = f".codeagent/commands/{made.name}.yaml"
    loaded = load_recipe(ToolFile(Path("/w") / shown, shown, made.recipe.encode(), "project"))
    assert loaded.recipe is not None, loaded.problems
    return loaded.recipe


def test_inputs_tools_steps_and_options_are_those_of_the_workflow() -> None:
    made = converted(CODING)
    found = recipe(made)
    assert (found.name, found.version, found.description) == (
        "small-feature",
        "1.2",
        "Builds one feature and sums it up.",
    )
    assert found.inputs == (
        RecipeInput("folder", "path", description="where the code lies"),
        RecipeInput("feature"),
        RecipeInput("rounds", "integer", required=False, default=3),
    )
    assert found.steps == (
        RecipeStep(
            "build",
            "Build {{inputs.feature}} in at most {{inputs.rounds}} rounds.\n",
            ("read_file", "write_file", "run_shell", "find_text"),
            "anthropic/claude-sonnet-4-5",
            limits=StepLimits(max_calls=50, timeout_per_call=30),
        ),
        RecipeStep(
            "sum-up", "Sum up: {{steps.build.text}}", (), limits=StepLimits(max_seconds=300)
        ),
    )


def test_the_tool_file_loads_and_keeps_every_restriction(tmp_path: Path) -> None:
    made = converted(CODING)
    loaded = Box(tmp_path).load(made.tools)
    assert [str(one) for one in loaded.problems if one.level == "error"] == []
    tools = {tool.name: tool for tool in loaded.tools}
    assert {name: tool.restricted for name, tool in tools.items()} == {
        "read_file": {
            "paths.read": ("{{inputs.folder}}/**",),
            "paths.write": ("{{inputs.folder}}/**",),
        },
        "write_file": {
            "paths.read": ("{{inputs.folder}}/src/**",),
            "paths.write": ("{{inputs.folder}}/src/**",),
        },
        "run_shell": {"commands": ("git log", "make")},
        "find_text": {},
    }
    find = tools["find_text"]
    assert (find.timeout, find.permission, (find.schema or {})["required"]) == (
        20,
        "prompt",
        ["text"],
    )


def test_what_changes_nothing_essential_is_a_note_with_its_line() -> None:
    made = converted(CODING)
    assert said(made) == [
        "1 : the input folder is of type path, because a restriction to paths uses it",
        "19 tools[2].name: shell is the name of the user's own commands here: the tool is called run_shell",
        "38 steps[0].options.temperature: no counterpart here: how a model answers is not set here",
        "40 steps[1]: it also sees the conversation of the steps before it, as every step of a recipe does",
        "42 steps[1].provider: codex is another program: the step runs here, with the session's model",
    ]


def test_states_are_taken_in_the_order_in_which_they_run() -> None:
    made = converted(CHAIN)
    found = recipe(made)
    assert [(step.id, step.prompt, step.model, step.tools) for step in found.steps] == [
        ("look", "Look at {{inputs.topic}}.", None, None),
        (
            "answer",
            "Answer {{steps.look.text}} at {{inputs.depth}} length.",
            "gemini/gemini-2.0-flash",
            None,
        ),
    ]
    assert [step.limits.max_seconds for step in found.steps] == [60, None]
    assert found.inputs[1] == RecipeInput(
        "depth", "choice", required=False, default="short", choices=("short", "long")
    )
    assert made.tools == "" and said(made, "missing", "wrong") == []
    assert [line for line in said(made) if "sonnet" in line] == [
        "19 states.look.options.model: which model sonnet is depends on claude: the step has the session's, unless "
        "you give it one"
    ]


def step(text: str) -> str:
    return f"name: flow\nsteps:\n  - name: a\n    type: agent\n    prompt: x\n{text}"


@for_each(
    ("text", "expected"),
    [
        (step("    retry: {max_attempts: 3}\n"), "6 steps[0].retry: no counterpart here"),
        (step("    system_prompt: be brief\n"), "6 steps[0].system_prompt: no counterpart here"),
        (
            step("    tool_option: {max_calls: 1}\n"),
            "6 steps[0].tool_option: no counterpart here: did you mean",
        ),
        (
            step("    options: {allowed_tools: read}\n"),
            "6 steps[0].options.allowed_tools: no counterpart here",
        ),
        (
            step("    tool_options: {sandbox: off}\n"),
            "6 steps[0].tool_options.sandbox: no counterpart here",
        ),
        (
            step("    mode: conversation\n"),
            "3 steps[0]: no counterpart here: a step of mode conversation;",
        ),
        (
            step("    on_failure: b\n"),
            "6 steps[0].on_failure: no counterpart here: the steps of a recipe run in",
        ),
        (
            step("  - {name: b, type: command, command: make}\n"),
            "6 steps[1]: no counterpart here: a step of type comm",
        ),
        (
            step("  - {name: b, type: agent, prompt: '{{env.HOME}}'}\n"),
            "6 steps[1].prompt: no counterpart here: {{env",
        ),
        (
            step("  - {name: b, type: agent, prompt: '{{states.c.output}}'}\n"),
            "6 steps[1].prompt: no counterpart her",
        ),
        (
            step("  - {name: b, type: agent, prompt: '{{states.a.response.x}}'}\n"),
            "6 steps[1].prompt: no counterpart",
        ),
        (
            step("  - {name: b, type: agent, prompt: '{{if .inputs.x}}'}\n"),
            "6 steps[1].prompt: no counterpart here: {",
        ),
        (
            CHAIN.replace("on_failure: failed", "on_failure: answer"),
            "22 states.look.on_failure: no counterpart here",
        ),
        (
            CHAIN.replace("on_success: done", "on_success: look"),
            "13 states.answer.on_success: no counterpart here: it",
        ),
        (
            CHAIN + "  other: {type: step, command: ls}\n",
            "25 states.other: no counterpart here: it is not reached",
        ),
        (
            CODING.replace("commands: [git log, make]", "commands: [make]\n      users: [a]"),
            "23 tools[2].restrictions",
        ),
        (
            CODING.replace("    timeout: 20s", "    retries: 2"),
            "27 tools[3].retries: no counterpart here",
        ),
        ("hooks: {}\n" + CODING, "1 hooks: no counterpart here"),
        (
            CODING.replace("    timeout: 20s", "    dir: /srv"),
            "27 tools[3].dir: no counterpart here",
        ),
    ],
)
def test_what_would_be_lost_is_said_with_its_line(text: str, expected: str) -> None:
    found = said(converted(text), "missing")
    assert any(line.startswith(expected) for line in found), found


@for_each(
    ("text", "expected"),
    [
        (
            CODING.replace("tools: [read_file,", "tools: [raed_file,"),
            "37 steps[0].tools[0]: raed_file names no tool;",
        ),
        (
            CODING.replace("max_calls: 50", "max_calls: many"),
            "39 steps[0].tool_options.max_calls: a whole number abov",
        ),
        (
            CODING.replace("timeout_per_call: 30s", "timeout_per_call: soon"),
            "39 steps[0].tool_options.timeout_per_cal",
        ),
        (
            CODING.replace("name: small-feature", "name: plan"),
            "1 name: /plan is built in: give the recipe another nam",
        ),
        (
            CODING.replace("name: small-feature", "name: a/../b"),
            "1 name: a recipe needs a name of 1 to 64 letters",
        ),
        (
            CODING.replace("name: shell", "name: shel"),
            "20 tools[2].builtin: shel is not a built-in tool; did you mean",
        ),
        (
            CODING.replace("    description: Find a text in the code.\n", ""),
            "23 tools[3]: it has no description",
        ),
        (
            CODING.replace('["{{inputs.folder}}/**"]', "[/etc/**]"),
            "13 tools[0].restrictions.paths: /etc/** is outside",
        ),
        (
            CODING.replace("commands: [git log, make]", "commands: make"),
            "22 tools[2].restrictions.commands: a list of",
        ),
        (CODING.replace("name: sum-up", "name: build"), "40 steps[1].name: 'build' appears twice"),
        (
            CODING.replace("type: integer, default", "type: date, default"),
            "7 inputs[2].type: date is not a type",
        ),
        (
            CODING.replace('prompt: "Sum up: {{states.build.output}}"', "prompt: 3"),
            "43 steps[1].prompt: a step needs",
        ),
        (
            CHAIN.replace("initial: look", "initial: lok"),
            "6 states.initial: no state is named lok; did you mean look?",
        ),
        (
            CHAIN.replace("    on_success: done\n", ""),
            "7 states.answer.on_success: the name of a state is expected",
        ),
    ],
)
def test_what_is_wrong_is_an_error_with_its_line(text: str, expected: str) -> None:
    found = said(converted(text), "wrong")
    assert any(line.startswith(expected) for line in found), found


def test_inputs_that_are_only_used_are_declared_and_said() -> None:
    made = converted(
        step("  - {name: b, type: agent, prompt: '{{.inputs.who}} and {{inputs.what}}'}\n")
    )
    assert [one.name for one in recipe(made).inputs] == ["what", "who"]
    assert sum("is used and not declared" in line for line in said(made, "note")) == 2


def test_a_command_that_may_reach_hosts_may_reach_only_those(tmp_path: Path) -> None:
    text = CODING.replace("    timeout: 20s", "    restrictions: {hosts: [example.org]}")
    (tool,) = [
        tool for tool in Box(tmp_path).load(converted(text).tools).tools if tool.name == "find_text"
    ]
    assert tool.restricted == {"hosts": ("example.org",)}


def test_hosts_of_requests_and_the_folder_of_a_command_are_kept() -> None:
    request = (
        "  - {name: http_request, builtin: true, restrictions: {hosts: [example.org]}}\nsteps:"
    )
    text = CODING.replace("    timeout: 20s", "    dir: src").replace("steps:", request)
    tools = yaml.safe_load(converted(text).tools)["tools"]
    assert tools[3]["cwd"] == "src"
    assert tools[4] == {
        "name": "http_request",
        "builtin": True,
        "restrictions": {"hosts": ["example.org"]},
    }


def test_an_input_of_no_known_type_is_wrong_whatever_is_written_there() -> None:
    made = converted(
        "steps: [{name: a, provider: claude, prompt: x}]\nname: a\ninputs: [{name: i, type: [string]}]\n"
    )
    assert any(
        "there are string, integer, number, boolean, path" in line for line in said(made, "wrong")
    )


def test_keys_on_one_line_are_remarked_on_in_their_order() -> None:
    keys = ("zeta", "alpha", "mid", "beta", "omega")
    step = ", ".join(f"{key}: 1" for key in keys)
    made = converted(f"name: a\nsteps: [{{name: a, provider: claude, prompt: x, {step}}}]\n")
    assert [one.key.rpartition(".")[2] for one in made.remarks if one.weight == "missing"] == list(
        keys
    )


def test_another_name_can_be_given() -> None:
    assert (
        converted(CODING, name="other").name
        == recipe(converted(CODING, name="other")).name
        == "other"
    )


@for_each(
    ("text", "line", "why"),
    [
        ("name: a\nsteps: [\n", 3, "it is not YAML"),
        ("name: a\n\tb: 1\n", 2, "it is not YAML"),
        ("name: a\nname: b\n", 2, "appears twice"),
        ("a: &x [*x]\n", 1, "holds itself"),
        ("steps: [{prompt: x}]\n", 1, "it is not a workflow of AWF"),
        ("name: x\nargv: [ls]\n", 1, "it is not a workflow of AWF"),
        ("", 1, "it is not a workflow of AWF"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error_with_its_line(
    text: str, line: int, why: str
) -> None:
    with pytest.raises(Unreadable, match=why) as caught:
        converted(text)
    assert caught.value.line == line


@for_each(
    ("text", "expected"),
    [
        (CODING, True),
        (CHAIN, True),
        ("steps: [{name: a, prompt: x, provider: claude}]", True),
        ("tools: [{name: a}]\nsteps: [{prompt: x}]", True),
        ("steps: [{id: a, prompt: x}]", False),
        ("tools: [read]\nsteps: [{prompt: x}]", False),
        ("tools: [{name: a, argv: [ls]}]", False),
        ("states: [a]", False),
        ("states: {a: 1}", False),
        ("3", False),
    ],
)
def test_a_workflow_is_told_from_a_recipe_and_from_a_tool_file(text: str, expected: bool) -> None:
    assert is_workflow(yaml.safe_load(text)) is expected


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=40)
VALUES = st.recursive(
    TEXTS | st.integers(-(10**9), 10**9) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@example(
    {
        "\x85": "a\x85b",
        "t": "\t\r\n\u2028x",
        "\ufeff": " lead\n  more \n",
        "n": "\n",
        "e": "",
        "y": "yes",
    }
)
@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4))
def test_what_is_written_is_read_back_as_it_was(value: dict[str, Any]) -> None:
    (found,) = documents(as_yaml(value).encode())
    assert found.value == value


@example(["{{", "{{", ".states.b.output", "}}"])
@example(["{", "{{", ".states.b.output", "}}", "}"])
@given(
    st.lists(
        st.sampled_from(["{{", "}}", "{", "}", "inputs.a", ".states.b.output", " ", "x", "\n"]),
        max_size=12,
    )
)
def test_a_prompt_keeps_all_but_its_placeholders(pieces: list[str]) -> None:
    prompt = "p" + "".join(pieces)
    text = as_yaml(
        {
            "name": "flow",
            "steps": [
                {"name": "b", "type": "agent", "prompt": "x"},
                {"name": "c", "type": "agent", "prompt": prompt},
            ],
        }
    )
    found = yaml.safe_load(converted(text).recipe)["steps"][1]["prompt"]
    plain = [found, prompt]
    for name, ours in (("inputs.a", "inputs.a"), (".states.b.output", "steps.b.text")):
        plain[1] = plain[1].replace(f"{{{{{name}}}}}", f"{{{{{ours}}}}}")
    assert "".join(plain[0].split()) == "".join(plain[1].split())


KEYS = """
name version description inputs tools steps states initial type agent provider prompt options model tool_options
max_calls timeout_per_call timeout builtin command parameters restrictions paths commands hosts required default
validation enum on_success on_failure terminal mode read_file env dir approval
"""
words = st.sampled_from(
    [
        *KEYS.split(),
        "{{inputs.a}}",
        "{{states.x.output}}",
        "30s",
        "claude",
        "claude-x",
        "",
        "/etc/**",
    ]
)
anything = st.recursive(
    words | st.integers(-2, 2) | st.booleans() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(words.filter(bool), inner, max_size=5)
    ),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(KEYS.split()), anything, max_size=6), anything)
def test_whatever_a_workflow_holds_it_is_converted_or_said(
    value: dict[str, Any], item: Any
) -> None:
    step = {
        "type": "agent",
        "prompt": "x",
        **(item if isinstance(item, dict) else {"options": item}),
    }
    tool = {"name": "t", **(item if isinstance(item, dict) else {"builtin": item})}
    for text in (
        as_yaml({"steps": [step], "tools": [tool], **value}),
        as_yaml({**value, "states": {"initial": item}}),
    ):
        try:
            made = converted(text)
        except Unreadable:
            continue
        assert made.recipe or any(one.weight == "wrong" for one in made.remarks)
        if made.recipe and not made.weighs("wrong"):
            shown = ".codeagent/commands/x.yaml"
            load_recipe(ToolFile(Path("/w") / shown, shown, made.recipe.encode(), "project"))
