"""What a question showed is what a yes is for: if that changed while the question waited, it
is asked again or refused with a clear line, and never done.

Each row is one question of the product. The tests of completeness read the code: a question without
a row fails.
"""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest

import codeagent
from codeagent.core import acts
from codeagent.core.tool import Tool
from tests.security import bound_questions as about
from tests.security import bound_trust as trust
from tests.security.bound_questions import CALLS, Outcome, call
from tests.tui.fake_launcher import TABLE

REDEFINED = "its definition has changed since this call was made"
AGAIN = "asked 2 times"


@dataclass(frozen=True)
class Row:
    name: str
    asks: Callable[[Path, bool], Awaitable[Outcome]]
    said: str
    """What must be said if what was shown has changed."""


ROWS = (
    Row("write", about.write, AGAIN),
    Row("edit", about.edit, AGAIN),
    Row("multi_edit", about.multi_edit, AGAIN),
    Row("apply_patch", about.apply_patch, AGAIN),
    Row("json_write", about.json_write, AGAIN),
    Row("take_patch", about.take_patch, AGAIN),
    Row("hunk review", about.hunk_review, AGAIN),
    Row("git_commit", about.git_commit, AGAIN),
    Row("open_pull_request", about.open_pull_request, "asked 2 times"),
    *(Row(name, call(name), REDEFINED) for name in CALLS),
    Row("a server's tool", about.mcp, REDEFINED),
    Row("a server's tool, changed in silence", about.mcp_in_silence, REDEFINED),
    Row("a server's form", about.elicitation, "cancel"),
    Row("hosts of a command", about.host_card, AGAIN),
    Row("what a command left", about.leftover, AGAIN),
    Row("effects of a command", about.effects, "changed by somebody else"),
    Row("effects of a command, changed in its layer", about.effects_in_layer, AGAIN),
    Row("merge of a child's worktree", about.merge, "Nothing of what it changed was taken"),
    Row("undo", about.undo, "changed after it was shown; nothing was changed"),
    Row("redo", about.redo, "changed after it was shown; nothing was changed"),
    Row("rewind", about.rewound, "changed after it was shown; nothing was changed"),
    Row("taking back a hunk", about.take_back_a_hunk, "changed meanwhile"),
    Row("summary", about.summary, "another summary waits now; nothing was changed"),
    Row("plan", trust.plan, "ignored (just appeared)"),
    Row("the whole batch", trust.whole_batch, "ignored (just appeared)"),
    Row("tool files and agents", trust.tools, "look at them again; nothing was trusted"),
    Row(
        "a project's servers",
        trust.servers,
        "has changed since it was shown, so it was not trusted",
    ),
    Row("the program of a project's server", trust.server_program, "not started until you agree"),
    Row(
        "variables for a server",
        trust.variables,
        "has changed since it was shown, so nothing was given",
    ),
    Row("a server's changed tools", trust.agreement, "not used until you agree"),
    Row("recipes", trust.recipes, "still to be trusted"),
    Row("start of a recipe", trust.recipe_start, "is not trusted"),
    Row("a git directory elsewhere", trust.git_directory, "its git directory is elsewhere"),
    Row(
        "the repository's image",
        trust.image,
        "changed while you were being asked, and nothing was trusted",
    ),
)
NAMES = {row.name for row in ROWS}


@pytest.mark.soak(tried=1, row="bound questions")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_a_yes_is_for_what_was_shown(row: Row, tmp_path: Path) -> None:
    (shown := tmp_path / "shown").mkdir()
    (changed := tmp_path / "changed").mkdir()
    done = await row.asks(shown, False)
    assert done.done, f"it was not done although nothing changed: {done.said}"
    refused = await row.asks(changed, True)
    assert not refused.done, f"it was done although what was shown had changed: {refused.said}"
    assert row.said in refused.said, refused.said


def test_no_name_is_used_twice() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


ASKED_IN = {
    "codeagent/agent/approvals.py:Approvals._ask_about": "every call, by its tool below",
    "codeagent/agent/approvals.py:UserQuestions.ask": "a server's form",
    "codeagent/agent/trials.py:_Review._ask": "effects of a command",
    "codeagent/agent/trials.py:_tried_read_only": "every call, by its tool below",
    "codeagent/agent/leftover_rules.py:LeftoverRules.ask": "what a command left",
    "codeagent/extensions/agents/merging.py:Merge._ask": "merge of a child's worktree",
    "codeagent/agent/reach.py:CallReach._card": "hosts of a command",
}
"""Where the code asks through `Approvals.ask`."""


def test_every_place_that_asks_has_a_row() -> None:
    found = {
        place
        for place, node in calls_in_code({"ask"})
        if any(keyword.arg == "binding" for keyword in node.keywords)
    }
    assert found == set(ASKED_IN)
    assert set(ASKED_IN.values()) - {"every call, by its tool below"} <= NAMES


TOOLS = {
    "AddSchedule": "add_schedule",
    "AddTimer": "add_timer",
    "ApplyPatch": "apply_patch",
    "Bash": "bash",
    "BuiltinTool": "a YAML tool over a built-in one",
    "CommandTool": "a YAML tool that runs a command",
    "ConnectAgent": "connect_agent",
    "Edit": "edit",
    "FunctionTool": "a Python tool on the machine",
    "GenericRequest": "any request to an API",
    "GitCommit": "git_commit",
    "HttpRequest": "http_request",
    "JsonWrite": "json_write",
    "MultiEdit": "multi_edit",
    "OpenPullRequest": "open_pull_request",
    "OperationTool": "an API's operation",
    "Python": "python",
    "SandboxedFunction": "a Python tool in the sandbox",
    "ServerTool": "a server's tool",
    "TakePatch": "take_patch",
    "WatchChannel": "watch_channel",
    "WatchFile": "watch_file",
    "WebFetch": "web_fetch",
    "WebSearch": "web_search",
    "Write": "write",
}
"""The tools that ask before they run."""


def test_every_tool_that_asks_has_a_row() -> None:
    assert {kind.__name__ for kind in tools_that_ask()} == set(TOOLS)
    assert set(TOOLS.values()) <= NAMES


KEPT_IN = {
    "codeagent/extensions/images/plan.py": "the repository's image",
    "codeagent/config/local_environment.py": "a git directory elsewhere",
    "codeagent/app/tools.py": "tool files and agents",
    "codeagent/extensions/recipes/recipe_folders.py": "recipes",
    "codeagent/extensions/openapi/added.py": "",  # `codeagent tools trust` names what it trusted; nothing is asked
    "codeagent/extensions/mcp/files.py": "a project's servers",
}
"""Where trust is kept, and the question that it comes from."""


def test_every_record_of_trust_comes_from_a_question_with_a_row() -> None:
    kept = importlib.import_module("codeagent.config.kept")
    records = {
        name
        for name, kind in vars(kept).items()
        if inspect.isclass(kind) and issubclass(kind, kept._ProjectFile)
    }
    assert {place.partition(":")[0] for place, _ in calls_in_code(records)} == set(KEPT_IN)
    assert {name for name in KEPT_IN.values() if name} <= NAMES


ANSWERS = {
    "Answer": "every call, by its tool below",
    "AnswerSummary": "summary",
    "AgreeToServer": "a server's changed tools",
    "GiveVariables": "variables for a server",
    "Restore": "undo",
    "RestoreFile": "taking back a hunk",
    "RunRecipe": "start of a recipe",
    "TrustServers": "a project's servers",
    "TrustTools": "tool files and agents",
}
"""The acts that answer a question."""
NOT_ANSWERS = {
    "AllowRule",
    "Background",
    "CancelCall",
    "Compact",
    "EditCall",
    "FollowUp",
    "Interrupt",
    "Pause",
    "Pin",
    "Prompt",
    "Reorder",
    "RestartServer",
    "Resume",
    "RevokeRule",
    "Rewrite",
    "RunShell",
    "SendToJob",
    "SetBudget",
    "SetEffort",
    "SetMode",
    "SetModel",
    "SetNetwork",
    "SetToolset",
    "SkipCall",
    "Steer",
    "Step",
    "Stop",
    "StopJob",
    "StopTrigger",
    "TakeBack",
    "Unpin",
}
"""The acts that say all that they do themselves."""


def test_every_act_that_answers_has_a_row() -> None:
    assert {kind.__name__ for kind in get_args(acts.Act)} == set(ANSWERS) | NOT_ANSWERS
    assert set(ANSWERS.values()) - {"every call, by its tool below"} <= NAMES


APPROVING = {
    "card.once": "every call, by its tool below",
    "card.session": "every call, by its tool below",
    "card.rule": "every call, by its tool below",
    "card.hunks": "hunk review",
    "card.all": "the whole batch",
    "plan.start": "plan",
    "plan.start_accepting": "plan",
    "tools.yes": "tool files and agents",
    "server.yes": "a project's servers",
}
"""The keys that say yes."""


def test_every_key_that_says_yes_has_a_row() -> None:
    assert {row.id for row in TABLE.keys if row.approves} == set(APPROVING)
    assert set(APPROVING.values()) - {"every call, by its tool below"} <= NAMES


SCREENS = {
    "codeagent/tui/pages/opening.py:ask": "the repository's image",  # and a git directory; the folder itself stays
    "codeagent/extensions/recipes/page.py:_trust": "recipes",
    "codeagent/tui/pages/rewind.py:_asked": "undo",
    "codeagent/extensions/batch/applying.py:open_patches": "",  # only shows patches, of which each is asked about
    "codeagent/commands/sandbox_packages.py:_confirm": "",  # what is fetched was read before and is held in memory
}
"""Where a page or a line on the terminal asks before anything begins."""


def test_every_page_that_asks_has_a_row() -> None:
    pages = {"FolderQuestion", "GoingBackPage", "input"}
    assert {place for place, _ in calls_in_code(pages)} == set(SCREENS)
    assert {name for name in SCREENS.values() if name} <= NAMES


def calls_in_code(names: Collection[str]) -> Iterator[tuple[str, ast.Call]]:
    """Yield every call in the package of something with one of these names, with its file and
    function."""
    root, called = Path(codeagent.__file__).parents[1], re.compile(rf"\b(?:{'|'.join(names)})\s*\(")
    for file in sorted((root / "codeagent").rglob("*.py")):
        text = file.read_text()
        if called.search(text) is None:
            continue  # to parse them all takes seconds
        for name, function in functions(ast.parse(text)):
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and {
                    getattr(node.func, "attr", ""),
                    getattr(node.func, "id", ""),
                } & {*names}:
                    yield f"{file.relative_to(root).as_posix()}:{name}", node


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                yield f"{node.name}.{getattr(inner, 'name', '')}", inner


def tools_that_ask() -> Iterator[type[Tool[Any]]]:
    """Yield every kind of tool in the package that asks by default."""
    for module in pkgutil.walk_packages(codeagent.__path__, "codeagent."):
        if module.name.startswith(("codeagent.tools.", "codeagent.extensions.")):
            importlib.import_module(module.name)
    left: list[type[Tool[Any]]] = [Tool]
    seen: set[type[Tool[Any]]] = set()
    while left:
        kind = left.pop()
        left += [one for one in kind.__subclasses__() if one not in seen]
        seen.add(kind)
        ours = kind.__module__.startswith("codeagent.")
        if ours and not inspect.isabstract(kind) and kind.permission == "prompt":
            yield kind
