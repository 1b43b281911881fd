"""Recipes through the product: trusted, given their inputs, run step by step, and continued where
they stopped."""

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import product as product
from tests.e2e.product import Done, Product, calls, of, read, results, say, text_of

RELEASE = """
name: release
version: 1
description: Look, then write notes.
inputs:
  - {name: tag, description: of the release}
  - {name: tone, type: choice, choices: [short, long], default: short}
steps:
  - id: look
    prompt: What is here for {{inputs.tag}}?
    tools: [list]
    mode: plan
  - id: write
    prompt: "Write {{inputs.tone}} notes from: {{steps.look.text}}"
    tools: [write]
    limits: {max_turns: 3}
"""


@pytest.fixture
def release(product: Product) -> Product:
    """A project with one recipe of two steps."""
    folder = product.workspace / ".codeagent" / "commands"
    folder.mkdir(parents=True)
    (folder / "release.yaml").write_text(RELEASE)
    return product


def run(product: Product, model: str, *arguments: str) -> Done:
    return product.call(
        "run", "--sandbox", "off", "--yes", "--model", model, "--recipe", *arguments
    )


def prompts(product: Product) -> list[str]:
    messages = [event["message"] for event in of(product.log(), "message.added")]
    said = [
        one for one in messages if one["role"] == "user" and one.get("source", "prompt") == "prompt"
    ]
    return [one["content"][0]["text"] for one in said]


def test_a_recipe_runs_its_steps_once_the_project_is_trusted(release: Product) -> None:
    model = release.script(
        calls(("list", {"path": "."})),
        say("one file"),
        calls(("write", {"path": "NOTES.md", "content": "v1\n"})),
        say("written"),
    )
    refused = run(release, model, "release", "--input", "tag=v1")
    assert refused.code == 2 and "whose recipes you have not trusted as they are now" in refused.err
    assert not release.sessions
    trusted = release.call("recipes", "trust")
    assert trusted.out == "trusted as they are now: .codeagent/commands/release.yaml\n"
    done = run(release, model, "release", "--input", "tag=v1")
    assert (done.code, done.out) == (0, "one file\n\nwritten\n")
    assert (release.workspace / "NOTES.md").read_text() == "v1\n"
    assert prompts(release) == ["What is here for v1?", "Write short notes from: one file"]


def test_a_tool_that_a_step_does_not_list_is_refused(release: Product) -> None:
    model = release.script(
        calls(("write", {"path": "x", "content": "x"})), say("no"), say("nothing")
    )
    done = run(release, model, "release", "--input", "tag=v1", "--trust-project")
    assert "write is not among the tools of this step: list" in done.err
    assert not (release.workspace / "x").exists()


def test_wrong_inputs_are_all_listed_and_nothing_is_run(release: Product) -> None:
    done = run(
        release, "demo", "release", "--input", "tga=v1", "--input", "tone=loud", "--trust-project"
    )
    assert done.code == 2 and not release.sessions
    assert done.err.splitlines()[-4:] == [
        "codeagent: the recipe release was not run:",
        "  tga is not an input; did you mean tag?",
        "  tag is missing (text: of the release)",
        "  tone must be one of short, long, not 'loud'",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--recipe", "relase", "--trust-project"), "unknown recipe relase; did you mean release?"),
        (
            ("--recipe", "release", "--input", "tag"),
            "--input 'tag' is not NAME=VALUE; nothing was run",
        ),
        (
            ("--recipe", "release", "--input", "a=1", "--input", "a=2"),
            "the input a is given twice; nothing was run",
        ),
        (("--recipe", "release", "do it"), "give PROMPT or --recipe, not both; nothing was run"),
        (
            ("--input", "a=1", "do it"),
            "--input belongs to a recipe: give --recipe NAME; nothing was run",
        ),
    ],
)
def test_a_wrong_command_line_is_said_in_a_line(
    release: Product, arguments: tuple[str, ...], said: str
) -> None:
    done = release.call("run", "--model", "demo", *arguments)
    assert done.code == 2 and done.err.splitlines()[-1] == f"codeagent: {said}"


def test_as_json_there_is_one_object_with_every_step(release: Product) -> None:
    model = release.script(say("one file"), say("written"))
    done = run(
        release, model, "release", "--input", "tag=v1", "--trust-project", "--output", "json"
    )
    report = json.loads(done.out)
    assert (report["text"], report["reason"], report["turns"]) == ("written", "done", 2)
    assert report["steps"] == [
        {"step": "look", "reason": "done", "text": "one file"},
        {"step": "write", "reason": "done", "text": "written"},
    ]


def test_it_stops_at_the_first_failure_and_continues_there_in_the_same_session(
    release: Product,
) -> None:
    stuck = [calls(("write", {"path": f"{n}.md", "content": "x"})) for n in range(3)]
    first = run(
        release,
        release.script(say("one file"), *stuck),
        "release",
        "--input",
        "tag=v1",
        "--trust-project",
    )
    assert first.code == 3 and "stopped at step write; done: look; not begun: none" in first.err
    session = release.sessions[0].name
    again = ("release", "--input", "tag=v1", "--trust-project", "--continue")
    done = run(release, release.script(say("written")), *again)
    assert (done.code, done.out) == (0, "written\n") and release.sessions[0].name == session
    assert prompts(release)[-1] == "Write short notes from: one file"


def test_a_step_whose_model_cannot_be_opened_is_a_failure(release: Product) -> None:
    path = release.workspace / ".codeagent" / "commands" / "release.yaml"
    path.write_text(RELEASE.replace("limits: {max_turns: 3}", "model: script:nowhere.json"))
    model = release.script(say("one file"))
    done = run(
        release, model, "release", "--input", "tag=v1", "--trust-project", "--output", "json"
    )
    report = json.loads(done.out)
    assert (done.code, report["reason"]) == (1, "failed") and "nowhere.json" in report["error"]


def test_a_budget_that_cannot_be_counted_ends_the_recipe_before_its_step(release: Product) -> None:
    path = release.workspace / ".codeagent" / "commands" / "release.yaml"
    path.write_text(
        RELEASE.replace(
            "limits: {max_turns: 3}", "model: openai/made-up\n    limits: {budget: 0.5}"
        )
    )
    done = run(
        release, release.script(say("one file")), "release", "--input", "tag=v1", "--trust-project"
    )
    assert done.code == 1
    assert (
        "no price is known for openai/made-up, so a budget of $0.5 would limit nothing" in done.err
    )
    assert "the recipe release stopped at step write; done: look" in done.err
    assert "max_seconds=1.5 budget=0.25" in _shown(release, "max_seconds: 1.5, budget: 0.25")


def _shown(release: Product, limits: str) -> str:
    path = release.workspace / ".codeagent" / "commands" / "release.yaml"
    path.write_text(RELEASE.replace("max_turns: 3", limits))
    return release.call("recipes", "show", "release").out


def test_the_users_own_recipe_needs_no_trust_and_may_loosen_the_mode(product: Product) -> None:
    folder = product.home / "config" / "codeagent" / "commands"
    folder.mkdir(parents=True)
    (folder / "fix.md").write_text("---\nmode: accept-edits\n---\nWrite it.")
    model = product.script(calls(("write", {"path": "x", "content": "x"})), say("done"))
    done = product.call("run", "--sandbox", "off", "--model", model, "--recipe", "fix")
    assert (done.code, (product.workspace / "x").read_text()) == (0, "x")
    (product.workspace / "x").unlink()
    done = product.call(
        "run", "--sandbox", "off", "--mode", "ask", "--model", model, "--recipe", "fix"
    )
    assert done.code == 4 and not (product.workspace / "x").exists()


def test_an_input_of_the_recipe_restricts_the_tools_of_a_file(product: Product) -> None:
    folder = product.workspace / ".codeagent"
    (folder / "commands").mkdir(parents=True)
    (folder / "tools").mkdir()
    (folder / "commands" / "look.md").write_text(
        "---\ninputs: [{name: project}]\n---\nLook at {{inputs.project}}."
    )
    (folder / "tools" / "review.yaml").write_text(
        "name: review\nversion: 1\ninputs: [{name: project}]\ntools:\n"
        "- name: read\n  builtin: true\n  restrictions:\n    paths: ['{{inputs.project}}/**']\n"
    )
    for name in ("app", "other"):
        (product.workspace / name).mkdir()
        (product.workspace / name / "a.txt").write_text(f"inside {name}\n")
    turns = [
        calls(read("app/a.txt"), read("other/a.txt")),
        say("done"),
        calls(read("app/a.txt")),
        say("done"),
    ]
    model = product.script(*turns)
    given = ("look", "--input", "project=app", "--trust-project")
    assert (
        "argument 'path' is 'other/a.txt'; this tool may read only app/**"
        in run(product, model, *given).err
    )
    first, second = sorted(results(product.log()), key=lambda result: result["call_id"])
    assert "inside app" in text_of(first) and "inside other" not in text_of(second)
    plain = product.call(
        "run", "look", "--sandbox", "off", "--trust-project", "--model", product.script(*turns[2:])
    )
    assert "the input 'project' is missing" in plain.err


def test_a_folder_without_recipes_says_so_and_where_they_are_read_from(product: Product) -> None:
    config = product.home / "config/codeagent/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[extensions]\noff = ["review"]\n')
    listed = product.call("recipes", "list")
    assert (listed.code, listed.err) == (0, "")
    assert listed.out.startswith("no recipe is here; they are read from ")
    assert json.loads(product.call("recipes", "list", "--json").out) == []


def test_recipes_are_listed_shown_and_checked(release: Product, tmp_path: Path) -> None:
    folder = release.workspace / ".codeagent" / "commands"
    (folder / "broken.md").write_text("one {{inputs.x}}")
    listed = release.call("recipes", "list")
    assert listed.out.splitlines()[:2] == [
        "release              Look, then write notes. (not trusted)",
        "                     .codeagent/commands/release.yaml: <tag> [tone]",
    ]
    assert (
        ".codeagent/commands/broken.md:1: {{inputs.x}} does not name an input; there are none"
        in listed.err
    )
    shown = release.call("recipes", "show", "release")
    assert shown.out.splitlines()[:6] == [
        "release 1",
        "Look, then write notes.",
        "from .codeagent/commands/release.yaml (not trusted)",
        "  tag             text, required. of the release",
        "  tone            one of short, long, default short.",
        "",
    ]
    assert (
        "[look] tools=list mode=plan" in shown.out
        and "[write] tools=write max_turns=3" in shown.out
    )
    facts = json.loads(release.call("recipes", "list", "--json").out)
    assert [(one["name"], one["trusted"], len(one["steps"])) for one in facts] == [
        ("release", False, 2),
        *((name, True, 1) for name in ("commit", "init", "pr", "review")),
    ]
    assert release.call("recipes", "check", ".codeagent/commands/broken.md").code == 2
    checked = release.call("recipes", "check", ".codeagent/commands/release.yaml")
    assert (checked.code, checked.out) == (
        0,
        ".codeagent/commands/release.yaml: /release, 2 steps\n",
    )


def test_trust_can_be_taken_back(release: Product) -> None:
    release.call("recipes", "trust")
    assert "(not trusted)" not in release.call("recipes", "list").out
    release.call("recipes", "distrust")
    assert "(not trusted)" in release.call("recipes", "list").out
