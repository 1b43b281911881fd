"""Recipe files: what they give, every mistake with its line, and nothing of a project runs before
it is trusted."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.errors import ConfigError
from codeagent.core.recipes import RecipeInput, RecipeStep, StepLimits, find_recipe, require_trust
from codeagent.extensions.recipes.reading import LoadedRecipe, load_recipe
from codeagent.extensions.recipes.recipe_folders import RecipeFolders, recipe_folders
from codeagent.tools.folders import ToolFile
from tests.table import for_each

REVIEW = """---
description: Review one folder.
inputs:
  - {name: project, type: path, description: the folder}
  - {name: depth, type: integer, default: 2}
tools: read, list
mode: plan
limits: {max_turns: 5}
---
Review {{inputs.project}} to depth {{inputs.depth}}.
"""
RELEASE = """name: release
version: 1
description: Look, then write.
inputs: [{name: tag}]
mode: ask
network: allow-list
limits: {max_calls: 9, max_seconds: 60}
steps:
  - id: look
    prompt: What is new in {{inputs.tag}}?
    tools: [list, search]
    limits: {max_calls: 3}
  - id: write
    prompt: "Write notes from: {{steps.look.text}}"
    model: script:other.json
    mode: accept-edits
    network: none
"""


def load(
    content: str | bytes, name: str = "look.md", place: Any = "project", folder: str = ".codeagent"
) -> LoadedRecipe:
    shown = f"{folder}/commands/{name}"
    data = content.encode() if isinstance(content, str) else content
    return load_recipe(ToolFile(Path("/w") / shown, shown, data, place))


def problems(content: str | bytes, name: str = "look.md") -> list[str]:
    found = load(content, name)
    return [str(problem).removeprefix(f".codeagent/commands/{name}:") for problem in found.problems]


def test_a_prompt_has_inputs_and_what_holds_while_it_runs() -> None:
    recipe = load(REVIEW, "review.md").recipe
    assert recipe is not None and not load(REVIEW).problems
    assert (recipe.name, recipe.description, recipe.where) == (
        "review",
        "Review one folder.",
        ".codeagent/commands/review.md",
    )
    assert recipe.inputs == (
        RecipeInput("project", "path", description="the folder"),
        RecipeInput("depth", "integer", required=False, default=2),
    )
    (step,) = recipe.steps
    assert (step.tools, step.mode, step.limits) == (
        ("read", "list"),
        "plan",
        StepLimits(max_turns=5),
    )
    assert step.prompt == "Review {{inputs.project}} to depth {{inputs.depth}}.\n"
    assert recipe.usage == "<project> [depth]" and not recipe.trusted


def test_a_text_without_front_matter_is_a_prompt() -> None:
    recipe = load("\ufeff# Tidy up\n\nRemove what nobody uses.\n", "tidy.md").recipe
    assert recipe is not None and (recipe.name, recipe.description) == ("tidy", "Tidy up")


def test_a_file_of_steps_has_what_holds_for_all_and_what_holds_for_one() -> None:
    recipe = load(RELEASE, "x.yaml").recipe
    assert recipe is not None and (recipe.name, recipe.version) == ("release", "1")
    look, write = recipe.steps
    assert look == RecipeStep(
        "look",
        "What is new in {{inputs.tag}}?",
        ("list", "search"),
        None,
        "ask",
        StepLimits(max_calls=3, max_seconds=60),
        "allow-list",
    )
    assert (write.tools, write.model, write.mode) == (None, "script:other.json", "accept-edits")
    assert write.network == "none"
    assert write.limits == StepLimits(max_calls=9, max_seconds=60)


WRONG: tuple[tuple[str, str, list[str]], ...] = (
    ("---\ninputs: 3\n---\nx", "look.md", ["2: inputs: a list is expected, not a number"]),
    ("---\na: b: c\n---\nx", "look.md", ["2: it is not YAML: mapping values are not allowed here"]),
    ("---\nx", "look.md", ["1: the front matter is not closed by a line of ---"]),
    ("---\ntool: [x]\n---\nx", "look.md", ["2: tool: no such key; did you mean tools?"]),
    (
        "---\ntools: ['a b']\n---\nx",
        "look.md",
        ["2: tools: 'a b' is not a tool's name; * and ? may stand for parts of one"],
    ),
    (
        "---\nmode: yolo\n---\nx",
        "look.md",
        ["2: mode: write ask, accept-edits, plan or auto, not 'yolo'"],
    ),
    ("---\nlimits: {money: 3}\n---\nx", "look.md", ["2: limits.money: no such key"]),
    (
        "---\nlimits: {max_turns: 0}\n---\nx",
        "look.md",
        ["2: limits.max_turns: it should be greater than or equal to 1"],
    ),
    (
        "---\ndescription: x\n---\n\n",
        "look.md",
        ["2: the prompt below the front matter is missing"],
    ),
    (
        "one\ntwo {{inputs.x}}",
        "look.md",
        ["2: {{inputs.x}} does not name an input; there are none"],
    ),
    (
        "---\ninputs:\n- name: topic\n---\n{{inputs.topc}}",
        "look.md",
        [
            "3: inputs[0]: topic is not used in a prompt",
            "5: {{inputs.topc}} does not name an input; did you mean {{inputs.topic}}?",
        ],
    ),
    ("{{steps.a.text}}", "look.md", ["1: {{steps.a.text}} does not name an earlier step"]),
    ("hello", "help.md", ["1: name: /help is built in; give the recipe another name"]),
    (
        "hello",
        "two words.md",
        ["1: name: 'two words' is not a name; use 1 to 64 letters, digits, _ or -"],
    ),
    (
        "---\ninputs:\n- {name: a, type: choice}\n- {name: a, choices: [x], default: y}\n---\n{{inputs.a}}",
        "look.md",
        [
            "3: inputs[0]: a choice needs choices, a list",
            "4: inputs[1].name: there is another input a",
            "4: inputs[1].choices: only an input of type choice has choices",
        ],
    ),
    (
        "---\ninputs: [{name: n, type: integer, default: many}]\n---\n{{inputs.n}}",
        "look.md",
        ["2: inputs[0].default: n must be a whole number, not 'many'"],
    ),
    (
        "name: x\nprompt: y\n",
        "x.yaml",
        ["1: a recipe in YAML has steps; a prompt of one step is a file NAME.md"],
    ),
    ("steps: []\n", "x.yaml", ["1: steps: it is empty"]),
    (
        "steps:\n- {id: a, prompt: x}\n- {id: a, prompt: y}\n",
        "x.yaml",
        ["3: steps[1].id: there is another step a"],
    ),
    (
        "steps:\n- {id: a, prompt: 'x {{steps.b.text}}'}\n- {id: b, prompt: y}\n",
        "x.yaml",
        ["2: steps[0].prompt: {{steps.b.text}} does not name an earlier step"],
    ),
    (
        "steps:\n- {prompt: x, tool: [y]}\n",
        "x.yaml",
        ["2: steps[0].tool: no such key; did you mean tools?"],
    ),
)


@for_each("content, name, said", WRONG)
def test_a_mistake_is_a_problem_with_its_line_and_there_is_no_recipe(
    content: str, name: str, said: list[str]
) -> None:
    assert load(content, name).recipe is None
    found = problems(content, name)
    assert len(found) == len(said) and all(
        line.startswith(start) for line, start in zip(found, said, strict=True)
    ), found


@given(st.binary(max_size=400), st.sampled_from(["a.md", "a.yaml"]))
def test_no_bytes_at_all_are_more_than_a_problem(content: bytes, name: str) -> None:
    found = load(content, name)
    assert found.recipe is not None or any(problem.level == "error" for problem in found.problems)


@given(st.text(alphabet="-:{}[]\n a1&*!|>'\"#inputsteps", max_size=120))
def test_no_front_matter_is_more_than_a_problem(head: str) -> None:
    found = load(f"---\n{head}\n---\nprompt")
    assert found.recipe is not None or found.problems


def test_a_bomb_of_aliases_is_refused() -> None:
    layers = "\n".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'x'}]" for n in range(9)
    )
    assert load(f"---\n{layers}\n---\nx").recipe is None


def test_of_a_command_of_another_program_only_the_prompt_is_taken() -> None:
    text = "---\ndescription: Fix it\nallowed-tools: Bash(*)\nmodel: opus\nhooks: {}\n---\nFix $1. !`rm -rf /`\n"
    found = load(text, "fix.md", folder=".claude")
    recipe = found.recipe
    assert recipe is not None and recipe.numbered and recipe.description == "Fix it"
    assert recipe.steps == (RecipeStep("1", "Fix $1. !`rm -rf /`\n"),)
    assert [problem.level for problem in found.problems] == ["warning"] * 4


def test_a_misspelt_key_of_a_command_of_another_program_is_pointed_out() -> None:
    (problem,) = load(
        "---\ndescripton: Fix it\n---\nFix $1.\n", "fix.md", folder=".claude"
    ).problems
    assert problem.where.endswith(":2: descripton") and problem.level == "warning"
    assert "did you mean description?" in problem.text


class Trusting:
    """A TrustRecord in memory."""

    def __init__(self) -> None:
        self.trusted = ""

    def trusts(self, digest: str) -> bool:
        return digest == self.trusted

    def trust(self, digest: str) -> None:
        self.trusted = digest

    def forget(self) -> None:
        self.trusted = ""


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """The workspace and the user's folder."""
    root, own = tmp_path / "w", tmp_path / "own"
    root.mkdir()
    own.mkdir()
    return root, own


def test_a_projects_recipes_run_only_as_they_were_trusted(folders: tuple[Path, Path]) -> None:
    root, own = folders
    write(root / ".codeagent/commands", look="look around")
    write(root / ".claude/commands", fix="fix $1")
    write(own / "commands", mine="my own")
    trust = Trusting()
    book = RecipeFolders(recipe_folders(root, own), trust)
    assert [(one.name, one.trusted) for one in book.listed] == [
        ("mine", True),
        ("look", False),
        ("fix", False),
    ]
    assert book.untrusted == (".codeagent/commands/look.md", ".claude/commands/fix.md")
    with pytest.raises(
        ConfigError, match=r"look\.md comes with this project, whose recipes you have not trusted"
    ):
        require_trust(find_recipe(book, "look"))
    book.trust()
    require_trust(find_recipe(book, "look"))
    assert book.untrusted == () and not book.refresh()
    write(root / ".claude/commands", fix="fix $1, and push it")
    assert book.refresh() and not find_recipe(book, "look").trusted
    book.trust()
    book.distrust()
    assert not find_recipe(book, "fix").trusted and find_recipe(book, "mine").trusted


def test_what_is_trusted_is_what_was_read_and_shown(folders: tuple[Path, Path]) -> None:
    root, _ = folders
    write(root / ".codeagent/commands", look="look around")
    book = RecipeFolders(recipe_folders(root, None), Trusting())
    write(root / ".codeagent/commands", look="push everything, now")
    book.trust()
    assert not find_recipe(book, "look").trusted


def test_accepting_holds_for_what_is_read_first_only(folders: tuple[Path, Path]) -> None:
    root, _ = folders
    write(root / ".codeagent/commands", look="look around")
    book = RecipeFolders(recipe_folders(root, None), None, accept=True)
    assert find_recipe(book, "look").trusted
    write(root / ".codeagent/commands", look="another")
    book.refresh()
    assert not find_recipe(book, "look").trusted


def test_the_first_recipe_of_a_name_keeps_it_and_the_users_own_come_first(
    folders: tuple[Path, Path],
) -> None:
    root, own = folders
    write(own / "commands", look="mine")
    write(root / ".codeagent/commands", look="theirs")
    write(root / ".claude/commands", look="others")
    book = RecipeFolders(recipe_folders(root, own), None)
    assert [one.place for one in book.listed] == ["user"]
    taken = f"the name look is taken by {own}/commands/look.md, which is used"
    assert [str(one) for one in book.problems] == [
        f".codeagent/commands/look.md: {taken}",
        f".claude/commands/look.md: {taken}",
    ]


def test_no_link_leads_out_of_the_workspace(folders: tuple[Path, Path]) -> None:
    root, own = folders
    write(own, secret="my own words")
    (root / ".codeagent/commands").mkdir(parents=True)
    (root / ".codeagent/commands/look.md").symlink_to(own / "secret.md")
    (root / ".claude").mkdir()
    (root / ".claude/commands").symlink_to(own)
    book = RecipeFolders(recipe_folders(root, None), None)
    assert book.listed == () and [one.where for one in book.problems] == [
        ".codeagent/commands/look.md",
        ".claude/commands",
    ]


def test_a_recipe_that_is_not_there_is_named_with_those_that_are(
    folders: tuple[Path, Path],
) -> None:
    root, own = folders
    write(own / "commands", review="x", broken="{{inputs.x}}")
    book = RecipeFolders(recipe_folders(root, own), None)
    with pytest.raises(ConfigError) as refused:
        find_recipe(book, "reviw")
    assert str(refused.value).split("\n  ") == [
        "unknown recipe reviw; did you mean review?",
        f"{own}/commands/broken.md:1: {{{{inputs.x}}}} does not name an input; there are none",
    ]


def test_without_any_recipe_it_is_said_that_there_are_none(folders: tuple[Path, Path]) -> None:
    book = RecipeFolders(recipe_folders(*folders), None)
    with pytest.raises(ConfigError, match=r"^unknown recipe review; there are none$"):
        find_recipe(book, "review")
