"""The documentation is true: generated pages are current, links lead somewhere, commands and
settings exist."""

import os
import re
import runpy
import subprocess
import sys
import tomllib
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import get_args

from codeagent.agent.hooks.python import load_python_hooks
from codeagent.cli import commands
from codeagent.config.checking import checked
from codeagent.config.layers import ENVIRONMENT, load_settings, parse_rules
from codeagent.config.sessions import Outcome, Task
from codeagent.config.settings import FileSettings, RuleLayers
from codeagent.core.extension import Extension
from codeagent.core.policy import ApprovalKey, HookEvent, Policy, Rule
from codeagent.extensions.provider_tools.settings import ProviderToolSettings
from codeagent.extensions.web.access import host_key
from codeagent.extensions.web.settings import WebSettings
from codeagent.headless import BROKEN_PIPE, EXIT_CODES
from codeagent.tools.shell.rules import decides
from codeagent.tui.keymap import Keymap, load_keymap
from docs.pictures.__main__ import PICTURES
from docs.pictures.terminals import still
from tests.pty_screen import PtyScreen, environment
from tests.table import for_each

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
GENERATE = runpy.run_path(str(DOCS / "generate.py"))
PACKAGES = {path.name.removesuffix(".py") for path in (ROOT / "codeagent").iterdir()}
CLASS = re.compile(r"`(?:codeagent\.)?((\w+)(?:\.[a-z]\w*)+)\.([A-Z]\w+)")
"""A class with its module, the first part of which is a folder of the package."""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@for_each(
    ("page", "function"),
    [
        ("reference/cli.md", "command_line"),
        ("man/codeagent.1", "man_page"),
        ("reference/events.md", "events"),
        ("reference/hooks.md", "hooks"),
        ("reference/hooks.schema.json", "hooks_schema"),
        ("reference/tool-file.schema.json", "tool_file_schema"),
        ("reference/recipe-file.schema.json", "recipe_file_schema"),
        ("reference/keys.md", "keys"),
        ("explanation/loop.md", "loop"),
        ("explanation/host-programs.md", "host_programs"),
        ("../codeagent/tools/schemas.json", "argument_schemas"),
        ("../codeagent/core/names/commands.txt", "command_names"),
        ("../codeagent/core/names/slash_commands.txt", "slash_commands"),
    ],
)
def test_a_generated_page_is_current(page: str, function: str) -> None:
    assert (DOCS / page).read_text() == GENERATE[function](), "run: make docs"


def test_the_page_about_the_loop_shows_its_source() -> None:
    assert "async def run(self, token: CancelToken) -> RunReason:" in GENERATE["loop"]()


def test_the_command_reference_names_every_command_and_argument() -> None:
    text = GENERATE["command_line"]()
    assert all(f"## codeagent {command.name}\n" in text for command in commands())
    assert all(
        f"`{option}" in text
        for option in ("--model M", "--allow RULE", "--yes", "--output text\\|json")
    )


@for_each("page", PAGES)
def test_links_inside_the_documentation_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    inside = [target for target in targets if "://" not in target]
    assert [target for target in inside if not (page.parent / target).exists()] == []


def test_every_page_is_in_the_list_of_pages() -> None:
    listed = set(re.findall(r"\]\(([^)]+\.md)\)", (DOCS / "README.md").read_text()))
    folders = ("tutorials", "how-to", "reference", "explanation")
    pages = {str(page.relative_to(DOCS)) for name in folders for page in (DOCS / name).glob("*.md")}
    assert pages - listed == set()


def test_every_decision_has_a_number_of_its_own() -> None:
    numbers = sorted(int(page.name[:4]) for page in (DOCS / "adr").glob("*.md"))
    assert numbers == list(range(1, len(numbers) + 1))


def test_every_picture_is_drawn_by_the_command_and_shown_in_a_page() -> None:
    shown = {
        picture for page in PAGES for picture in re.findall(r"images/(.*)\.svg", page.read_text())
    }
    drawn = {picture.stem for picture in (DOCS / "images").glob("*.svg")}
    assert (drawn, shown) == (set(PICTURES), set(PICTURES))


@for_each("page", PAGES)
def test_every_command_in_a_page_is_one_that_exists(page: Path) -> None:
    blocks = re.findall(r"```(?:sh|console)?\n(.*?)```", page.read_text(), re.DOTALL)
    used = re.findall(r"(?:^|\| )\$? ?codeagent ([a-z]+)", "\n".join(blocks), re.MULTILINE)
    assert set(used) <= {command.name for command in commands()}


@for_each("page", PAGES)
def test_every_option_in_a_page_is_one_that_exists(page: Path) -> None:
    known = set(re.findall(r"--[a-z][a-z-]+", GENERATE["command_line"]())) | {"--version", "--help"}
    lines = re.findall(r"codeagent [a-z]+[^`\n]*", page.read_text())
    ours = (
        line.partition(" -- ")[0] for line in lines
    )  # what follows is for the program that a server is
    used = {option for line in ours for option in re.findall(r"(?<=\s)--[a-z][a-z-]+", line)}
    assert used <= known


def test_the_example_of_a_configuration_file_is_one() -> None:
    [example] = re.findall(
        r"```toml\n(.*?)```", (DOCS / "how-to/headless.md").read_text(), re.DOTALL
    )
    settings = checked(FileSettings, tomllib.loads(example))
    assert settings.model is not None and len(parse_rules(RuleLayers(user=settings.rules))) == 3


def test_the_examples_of_the_page_about_rules_are_borne_out(tmp_path: Path) -> None:
    [example] = re.findall(r"```toml\n(.*?)```", (DOCS / "how-to/rules.md").read_text(), re.DOTALL)
    (tmp_path / "config.toml").write_text(example)
    settings = load_settings(
        {}, environment={}, user_file=tmp_path / "config.toml", workspace=tmp_path, decides=decides
    )
    assert len(parse_rules(settings.rules)) == 5


def test_the_settings_of_the_page_about_the_sandbox_ask_before_a_command_runs() -> None:
    text = (DOCS / "how-to/sandbox.md").read_text()
    [settings] = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert checked(FileSettings, tomllib.loads(settings)).sandbox.approval == "text"
    assert FileSettings().sandbox.approval == "effects"


def test_the_rules_of_the_pages_about_effects_take_what_they_say() -> None:
    """Each example of a rule for effects in a page is one, and takes files below its folder."""
    examples = [
        (page, rule)
        for page in PAGES
        for rule in re.findall(r"effects\(([\w*/]+)\)", page.read_text())
    ]
    assert {page.name for page, _ in examples} >= {"approve.md", "rules.md", "headless.md"}
    for page, pattern in examples:
        rules = (Rule.parse(f"effects({pattern})", "auto"),)
        file = pattern.replace("**", "deep/file.py").replace("*", "file.py")
        judged = [
            Policy("ask", rules).check("effects", ApprovalKey("path", (path,)), "prompt", "files")
            for path in (file, "elsewhere.py")
        ]
        assert [verdict.permission for verdict in judged] == ["auto", "prompt"], page


def test_the_settings_of_the_page_about_toolsets_make_sets(tmp_path: Path) -> None:
    text = (DOCS / "how-to/toolsets.md").read_text()
    [settings] = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    [manifest] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    found = checked(FileSettings, tomllib.loads(settings))
    assert (found.tools, found.toolsets.use, found.toolsets.offer) == (
        ("*",),
        ("github",),
        ("web", "files"),
    )
    assert sorted(found.toolsets.groups) == ["issues", "users"]
    names: dict[str, Extension] = {}
    exec(manifest, names)
    assert names["EXTENSION"].sources == "my_package.weather:sources"


def test_the_settings_of_the_page_about_jobs_turn_partial_results_on() -> None:
    [settings] = re.findall(r"```toml\n(.*?)```", (DOCS / "how-to/jobs.md").read_text(), re.DOTALL)
    assert checked(FileSettings, tomllib.loads(settings)).experimental.partial_results == 30
    assert FileSettings().experimental.partial_results is None


def test_the_settings_of_the_page_about_the_queue_are_the_other_ones() -> None:
    [settings] = re.findall(
        r"```toml\n(.*?)```", (DOCS / "how-to/steer-and-stop.md").read_text(), re.DOTALL
    )
    found, default = checked(FileSettings, tomllib.loads(settings)).queue, FileSettings().queue
    assert (found.steer, found.follow_up) == (default.follow_up, default.steer) == ("one", "all")


def test_the_settings_of_the_page_about_provider_tools_are_some() -> None:
    [settings] = re.findall(
        r"```toml\n(.*?)```", (DOCS / "how-to/provider-tools.md").read_text(), re.DOTALL
    )
    told = tomllib.loads(settings)
    declared = checked(ProviderToolSettings, told.pop("provider_tools"))
    found = checked(FileSettings, told)
    assert (found.toolsets.use, declared["anthropic/*"]) == (("provider",), ("web_search",))


def test_the_examples_of_the_page_about_python_print_what_it_says(tmp_path: Path) -> None:
    text = (DOCS / "how-to/python-api.md").read_text()
    [script] = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    programs = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for number, program in enumerate(programs):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "greet.json").write_text(script)
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        )
        assert f"```text\n{done.stdout}```" in text, done.stderr
    assert len(programs) == 2


def test_the_page_about_python_names_every_field() -> None:
    text = (DOCS / "how-to/python-api.md").read_text()
    names = [one.name for kind in (Task, Outcome) for one in fields(kind)]
    assert [name for name in names if f"`{name}`" not in text] == []


def test_the_examples_of_the_page_about_hooks_are_hooks(tmp_path: Path) -> None:
    text = (DOCS / "how-to/hooks.md").read_text()
    [program] = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    [hook] = checked(FileSettings, tomllib.loads(program)).hooks
    assert (hook.event, hook.tools) == ("before_tool", "bash*")
    [functions] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "guard.py").write_text(functions)
    hooks, problems = load_python_hooks(tmp_path)
    assert ([hook.name for hook in hooks], problems) == (
        ["guard.py:quiet_installs", "guard.py:no_card_numbers"],
        (),
    )


def test_the_page_about_hooks_names_every_event_with_what_it_is_given() -> None:
    text = (DOCS / "how-to/hooks.md").read_text()
    assert [event for event in get_args(HookEvent) if f"| `{event}(" not in text] == []


def test_the_settings_and_rules_of_the_pages_about_the_web_and_apis_are_some() -> None:
    [web] = re.findall(r"```toml\n(.*?)```", (DOCS / "how-to/web.md").read_text(), re.DOTALL)
    [api] = re.findall(r"```toml\n(.*?)```", (DOCS / "how-to/openapi.md").read_text(), re.DOTALL)
    told = tomllib.loads(web)
    asked = checked(WebSettings, told.pop("web"))
    found = checked(FileSettings, told)
    assert (asked.search, asked.secrets) == ("brave", {"GITHUB_TOKEN": ("api.github.com",)})
    rules = parse_rules(
        RuleLayers(user=found.rules, project=checked(FileSettings, tomllib.loads(api)).rules)
    )
    judged = [
        Policy("auto", rules).check(tool, key, "prompt", effect).permission
        for tool, key, effect in (
            ("web_fetch", host_key("https://docs.python.org/3/"), "nothing"),
            ("web_fetch", host_key("https://a.internal.example.org/"), "nothing"),
            ("http_request", host_key("https://api.github.com/x", method="GET"), "anything"),
            ("http_request", host_key("https://api.github.com/x", method="POST"), "anything"),
        )
    ]
    assert judged == ["auto", "deny", "auto", "prompt"]


def test_the_example_of_a_file_of_keys_is_one(tmp_path: Path) -> None:
    [example] = re.findall(r"```yaml\n(.*?)```", (DOCS / "how-to/themes.md").read_text(), re.DOTALL)
    (tmp_path / "keys.yaml").write_text(example)
    assert load_keymap(tmp_path / "keys.yaml").own == {
        "chat.detail": ("f2",),
        "composer.newline": ("shift+enter", "ctrl+n"),
    }


def test_the_keys_of_the_readme_are_those_of_the_screen() -> None:
    text = (ROOT / "README.md").read_text()
    shown = {
        row.keys.split(", ")[0]
        for row in Keymap().rows()
        if row.id.startswith(("chat.", "composer.send"))
    }
    assert [key for key in shown if key not in text] == []


def test_every_class_that_is_named_with_its_module_is_there() -> None:
    gone = [
        f"{name(path)}: {module}.{called}"
        for path in (*PAGES, *(ROOT / "codeagent").rglob("*.py"))
        for module, package, called in CLASS.findall(path.read_text())
        if package in PACKAGES and not is_there(f"codeagent.{module}", called)
    ]
    assert gone == []


def is_there(module: str, called: str) -> bool:
    try:
        return hasattr(import_module(module), called)
    except ImportError:
        return False


def test_every_slash_command_in_a_page_is_one_that_exists() -> None:
    pages = [
        ROOT / "README.md",
        *(DOCS / "how-to").glob("*.md"),
        *(DOCS / "tutorials").glob("*.md"),
    ]
    used = {
        name for page in pages for name in re.findall(r"`/([a-z]{3,})[^`/]*`", page.read_text())
    }
    known = set(GENERATE["slash_commands"]().split())
    shipped = (ROOT / "codeagent/extensions/review/recipes").glob("*.md")
    recipes = {"todos", *(file.stem for file in shipped)}
    examples = {"hello", "weather"}
    assert used <= known | recipes | examples | {"usr"}


def test_the_variables_that_set_something_are_named() -> None:
    text = (DOCS / "how-to/headless.md").read_text()
    assert [variable for variable in ENVIRONMENT if variable not in text] == []


def test_the_exit_codes_of_the_reference_are_those_of_the_program() -> None:
    text = GENERATE["command_line"]()
    assert all(f"{code} " in text for code in [*EXIT_CODES.values(), BROKEN_PIPE])


def test_a_picture_of_a_terminal_has_the_same_ids_and_times_each_time(tmp_path: Path) -> None:
    lines = ("took 9 ms: 20261128-204448-41f3a991 ok", "took 131 ms: 20261120-120000-0badcafe ok")
    pictures = set[str]()
    for line in lines:
        with PtyScreen(["echo", line], environment(tmp_path), tmp_path, (60, 5)) as screen:
            screen.exit_code()
            pictures.add(screen.picture("echo", still()))
    assert len(pictures) == 1
    picture = pictures.pop()
    assert "12&#160;ms" in picture and "20261124-094003-5e741c10" in picture
