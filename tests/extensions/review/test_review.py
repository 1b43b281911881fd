"""What ships as recipes: findings that the model repairs, a message that the user edits, and a pull
request whose command is shown."""

import asyncio
import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from codeagent.core.display import TerminalBlock, TextBlock
from codeagent.core.messages import text_of
from codeagent.core.tool import BaseChanged, Failed, Unavailable
from codeagent.extensions.review import pull_request
from codeagent.extensions.review.findings import read_back
from codeagent.extensions.review.pull_request import _REMOTE, OpenPullRequest, PullRequestArgs
from codeagent.tui.parts.checks import call_edit
from codeagent.workspace.files import LocalWorkspace
from tests.e2e.product import Product, Turn, calls, results, say
from tests.e2e.product import text_of as said_by
from tests.fakes import tool_context
from tests.table import for_each

GOOD = {"file": "src/a.py", "line": 2, "severity": "high", "what": "b is lost", "why": "It is."}


@pytest.fixture
def product(tmp_path: Path) -> Product:
    product = Product(tmp_path / "project", tmp_path)
    (product.workspace / "src").mkdir(parents=True)
    (product.workspace / "src/a.py").write_text("a = 1\nb = 2\n")
    (product.workspace / "outside").symlink_to("/etc/hostname")
    return product


def run(product: Product, recipe: str, *turns: Turn, more: tuple[str, ...] = ()) -> list[Any]:
    model = product.script(*turns)
    done = product.call(
        *("run", "--recipe", recipe, "--model", model, "--sandbox", "off", "--output", "jsonl"),
        *more,
    )
    assert done.code == 0, done.err
    return results(done.events)


def test_findings_outside_the_files_of_the_workspace_are_refused_until_they_are_fixed(
    product: Product,
) -> None:
    wrong = [
        GOOD | {"file": "../../etc/passwd"},
        GOOD | {"file": "outside"},
        GOOD | {"file": "src"},
        GOOD | {"file": "src/b.py"},
        GOOD | {"line": 3},
    ]
    rows = [{**GOOD, "severity": "low", "what": "[red]x[/] \x1b[31m"}, GOOD]
    refused, shown = run(
        product,
        "review",
        calls(("report_findings", {"findings": [*wrong, GOOD]})),
        calls(("report_findings", {"findings": rows})),
        say("Not yet."),
    )
    said = said_by(refused)
    assert refused["error"]["kind"] in ("invalid_args", "denied")
    assert "finding 6" not in said
    assert all(f"finding {number}:" in said for number in range(1, 6)), said
    assert said_by(shown) == "Shown to the user: 1 high, 1 low."
    found = read_back(shown["details"]["findings"])
    assert [one.place for one in found] == ["src/a.py:2", "src/a.py:2"]
    assert [one.severity for one in found] == ["high", "low"]
    assert "\x1b" not in json.dumps(shown["details"], ensure_ascii=False)


def test_the_tool_of_findings_is_there_only_while_the_review_runs(product: Product) -> None:
    done = product.run(
        product.script(calls(("report_findings", {"findings": []})), say("ok")), "--output", "jsonl"
    )
    (result,) = results(done.events)
    assert result["error"]["kind"] == "not_found"


def test_every_recipe_that_ships_can_be_used_and_the_users_own_replaces_one(
    product: Product,
) -> None:
    listed = product.call("recipes", "list", "--json")
    shipped = {one["name"]: one for one in json.loads(listed.out)}
    assert set(shipped) == {"review", "commit", "pr", "init"} and listed.err == ""
    assert all(one["trusted"] for one in shipped.values())
    own = product.home / "config/codeagent/commands"
    own.mkdir(parents=True)
    (own / "review.md").write_text("Mine.")
    listed = product.call("recipes", "list", "--json")
    assert [one["description"] for one in json.loads(listed.out) if one["name"] == "review"] == [
        "Mine."
    ]
    assert listed.err == ""


def test_without_the_extension_none_of_them_is_there(product: Product) -> None:
    config = product.home / "config/codeagent/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[extensions]\noff = ["review"]\n')
    assert json.loads(product.call("recipes", "list", "--json").out) == []


def test_init_extends_what_is_there(product: Product) -> None:
    (product.workspace / "AGENTS.md").write_text("Be kind.\n")
    edit = {"path": "AGENTS.md", "old_string": "kind.\n", "new_string": "kind.\nTest: make test\n"}
    _, changed = run(
        product,
        "init",
        calls(("read", {"path": "AGENTS.md"})),
        calls(("edit", edit)),
        say("Done."),
        more=("--yes",),
    )
    assert changed.get("error") is None, said_by(changed)
    assert (product.workspace / "AGENTS.md").read_text() == "Be kind.\nTest: make test\n"


REMOTES = (
    ("git@github.com:acme/api.git", ("github.com", "acme", "api")),
    ("https://github.com/acme/api", ("github.com", "acme", "api")),
    ("https://me@git.acme.test/acme/api.git/", ("git.acme.test", "acme", "api")),
    ("ssh://git@github.com:22/acme/api.git", ("github.com", "acme", "api")),
    ("ext::sh -c id", None),
    ("--upload-pack=x", None),
    ("https://github.com/acme/api;id", None),
    ("https://github.com/-x/api", None),
    ("/srv/git/api.git", None),
)


@for_each(("address", "expected"), REMOTES)
def test_only_the_address_of_a_server_names_a_repository(
    address: str, expected: tuple[str, ...] | None
) -> None:
    found = _REMOTE.fullmatch(address)
    assert (None if found is None else found.groups()) == expected


GH = """#!/bin/sh
printf '%s\\n' "$PWD" "$@" > {0}/said
env | sort > {0}/environment
cat > {0}/body
echo https://github.com/acme/api/pull/7
"""
MESSAGE = "Count leap years\n\nThe *parser* forgot $(id) them.\n"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose configuration runs something, and a `gh` on PATH."""
    root, programs = tmp_path / "repository", tmp_path / "programs"
    programs.mkdir()
    (programs / "gh").write_text(GH.format(tmp_path))
    (programs / "gh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("GH_TOKEN", "t0ken")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "s3cret")
    git = ("git", "-C", str(root))
    subprocess.run(("git", "init", "-q", "-b", "leap-years", str(root)), check=True)
    for key, value in {
        "remote.origin.url": "git@github.com:acme/api.git",
        "core.fsmonitor": f"touch {tmp_path}/ran",
        "core.sshCommand": f"touch {tmp_path}/ran",
    }.items():
        subprocess.run((*git, "config", key, value), check=True)
    return root


async def test_a_pull_request_is_opened_as_its_command_was_shown(
    repository: Path, tmp_path: Path
) -> None:
    workspace = LocalWorkspace(repository)
    tool = OpenPullRequest(workspace, os.environ)
    args = PullRequestArgs(message=MESSAGE, base="main", draft=True)
    assert tool.permission == "prompt" and tool.approval_key(args).opaque
    shown = await tool.preview(args, tool_context(workspace))
    command, body = shown.blocks
    assert isinstance(command, TerminalBlock) and isinstance(body, TextBlock)
    words = shlex.split(command.command)
    assert words[1:] == [
        *("pr", "create", "--repo", "github.com/acme/api", "--head", "leap-years"),
        *("--base", "main", "--draft", "--title", "Count leap years", "--body-file", "-"),
    ]
    assert body.text.strip() == "The *parser* forgot $(id) them."
    result = await tool.run(args, tool_context(workspace, base=shown.base))
    assert text_of(result.content) == "Opened: https://github.com/acme/api/pull/7"
    assert (tmp_path / "said").read_text().splitlines() == ["/", *words[1:]]
    assert (tmp_path / "body").read_text() == "The *parser* forgot $(id) them.\n"
    environment = (tmp_path / "environment").read_text()
    assert "GH_TOKEN=t0ken" in environment and "s3cret" not in environment
    assert not (tmp_path / "ran").exists()


@for_each(("host", "given"), [("", False), ("git.elsewhere.test", False), ("Git.Acme.test", True)])
async def test_a_token_for_servers_of_an_enterprise_goes_only_to_the_one_that_the_user_named(
    host: str, given: bool, tmp_path: Path
) -> None:
    """gh sends it to whatever host the repository names, which came with the repository."""
    tool = OpenPullRequest(
        LocalWorkspace(tmp_path), {"GH_ENTERPRISE_TOKEN": "t0ken", "GH_HOST": host, "PATH": "/bin"}
    )
    found = tool._variables(["gh", "pr", "create", "--repo", "git.acme.test/acme/api"])
    assert found.get("GH_ENTERPRISE_TOKEN") == ("t0ken" if given else None)


async def test_gh_gets_no_configuration_that_lies_in_the_repository(tmp_path: Path) -> None:
    """One could name a socket to which gh sends everything, with its token."""
    own, theirs = tmp_path / "own", tmp_path / "repository"
    theirs.mkdir()
    (tmp_path / "link").symlink_to(theirs)
    argv = ["gh", "--repo", "github.com/acme/api"]
    for folder, kept in ((own, True), (theirs / "x", False), (tmp_path / "link", False)):
        given = {"GH_CONFIG_DIR": str(folder), "XDG_CONFIG_HOME": str(folder), "HOME": str(folder)}
        found = OpenPullRequest(LocalWorkspace(theirs), given)._variables(argv)
        assert (found.keys() >= given.keys()) is kept, folder
        assert kept or not found.keys() & given.keys()


async def test_gh_ends_with_a_call_that_the_user_stops(repository: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "begun")
    gh = f"#!/bin/sh\necho $$ > {tmp_path}/begun\nexec sleep 600\n"
    (tmp_path / "programs/gh").write_text(gh)
    workspace = LocalWorkspace(repository)
    args = PullRequestArgs(message=MESSAGE)
    task = asyncio.create_task(
        OpenPullRequest(workspace, os.environ).run(args, tool_context(workspace))
    )
    process = int(await asyncio.to_thread((tmp_path / "begun").read_text))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


async def test_a_pull_request_that_differs_from_what_was_shown_is_not_opened(
    repository: Path, tmp_path: Path
) -> None:
    workspace = LocalWorkspace(repository)
    tool = OpenPullRequest(workspace, os.environ)
    args = PullRequestArgs(message=MESSAGE)
    shown = await tool.preview(args, tool_context(workspace))
    (repository / ".git/HEAD").write_text("ref: refs/heads/x\n")
    with pytest.raises(BaseChanged):
        await tool.run(args, tool_context(workspace, base=shown.base))
    assert not (tmp_path / "said").exists()


@pytest.mark.parametrize(
    ("url", "base", "said"),
    [
        ("ext::sh -c id", "", "the address of origin"),
        ("git@github.com:acme/api.git", "--web", "--web as a branch"),
    ],
)
async def test_what_gh_cannot_take_is_reported_with_what_to_do_instead(
    repository: Path, url: str, base: str, said: str
) -> None:
    with (repository / ".git/config").open("a") as config:
        config.write(f'[remote "origin"]\n\turl = {url}\n')
    workspace = LocalWorkspace(repository)
    with pytest.raises(Failed, match=f"{said}.*give the user title and description"):
        await OpenPullRequest(workspace, os.environ).preview(
            PullRequestArgs(message=MESSAGE, base=base), tool_context(workspace)
        )


async def test_without_gh_the_user_gets_the_text(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_request, "find_program", lambda name, root: None)
    workspace = LocalWorkspace(repository)
    with pytest.raises(Unavailable, match="give the user title and description"):
        await OpenPullRequest(workspace, os.environ).preview(
            PullRequestArgs(message=MESSAGE), tool_context(workspace)
        )


@for_each(
    ("name", "message", "kind"),
    [
        ("git_commit", "One line", "message"),
        ("git_commit", "Two\n\nlines", "message"),
        ("git_commit", "hidden \u200b character", "json"),
        ("weather", "One line", "json"),
    ],
)
def test_a_commit_is_edited_as_its_message(name: str, message: str, kind: str) -> None:
    given = {"message": message, "paths": ["a.py"]}
    edit = call_edit(name, json.dumps(given))
    assert edit is not None and edit.kind == kind
    if kind == "message":
        assert edit.text == message
        assert json.loads(edit.arguments("Mine")) == {"message": "Mine", "paths": ["a.py"]}
