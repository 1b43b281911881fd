"""Crafted paths against every file tool; nothing outside is read, listed,
found or changed."""

import json
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.errors import (
    NotAFile,
    OutsideWorkspace,
    ProtectedPath,
    WorkspaceError,
    WorkspaceLost,
)
from codeagent.core.paths import host_reason, protected_part, secret_reason
from codeagent.core.tool import ToolError, ToolResult
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.builtin.edit import Edit
from codeagent.tools.builtin.list import List
from codeagent.tools.builtin.read import Read
from codeagent.tools.builtin.search import Search
from codeagent.tools.builtin.write import Write
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.registry import ToolRegistry
from codeagent.workspace.files import LocalWorkspace
from tests.fakes import put, tool_context
from tests.landings import write
from tests.table import for_each

CANARY = "CANARY-51c0"
TARGETS = ("repo-evil", "repo2", "outside")


def written(result: ToolResult) -> str:
    return json.dumps(asdict(result), ensure_ascii=False)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A workspace beside three folders that hold the canary, with every kind of link to them."""
    root = tmp_path / "repo"
    put(root, "inside.txt", "inside\n")
    put(root, "sub/deep/file.txt", "inside\n")
    for name in TARGETS:
        put(tmp_path / name, "f.txt", f"{CANARY}\n")
        put(tmp_path / name, "dir/f.txt", f"{CANARY}\n")
    put(tmp_path, "f.txt", f"{CANARY}\n")
    for name, target in links(tmp_path).items():
        (root / name).symlink_to(target)
    for number in range(45):
        (root / f"chain{number}").symlink_to(
            f"chain{number + 1}" if number < 44 else "../outside/f.txt"
        )
    return root


def links(parent: Path) -> dict[str, str]:
    return {
        "to-file": "../outside/f.txt",
        "to-dir": "../outside",
        "absolute": str(parent / "outside"),
        "absolute-file": str(parent / "outside/f.txt"),
        "up": "..",
        "up-up": "../..",
        "root-link": "/",
        "through": "sub/../../outside",
        "evil": "../repo-evil",
        "dangling-out": "../outside/new.txt",
        "sub/link-up": "../../outside",
        "self-and-out": "sub/link-up",
        "proc": "/proc/self/root",
        "loop-a": "loop-b",
        "loop-b": "loop-a",
        "cwd": "/proc/self/cwd",
        "fd": "/dev/fd/0",
        "dot": "./../outside",
    }


def crafted(root: Path) -> list[str]:
    """More than 300 paths, each of which leads out or nowhere."""
    parent = root.parent
    ends = ["f.txt", "dir/f.txt", "new.txt", "dir/new/er.txt"]
    heads = [
        f"{climb}{name}"
        for name in TARGETS
        for climb in (
            "../",
            "./../",
            "sub/../../",
            "sub/deep/../../../",
            "..//",
            ".././",
            "sub//..//../",
            "./sub/../../",
        )
    ]
    heads += [str(parent / name) for name in TARGETS] + [f"{root}/../{name}" for name in TARGETS]
    heads += [
        f"{root}-evil",
        f"{root}2",
        f"//{parent}/outside",
        f"{root}/./../outside",
        f"/../..{parent}/outside",
    ]
    heads += [
        "to-dir",
        "absolute",
        "up/outside",
        "through",
        "evil",
        "sub/link-up",
        "self-and-out",
        "dot",
        "up-up",
    ]
    heads += [
        f"root-link{parent}/outside",
        f"proc{parent}/outside",
        "to-dir/dir/..",
        "absolute/../outside",
        "sub/link-up/.",
    ]
    heads += [f"to-dir/../{name}" for name in TARGETS] + [
        f"{root}/to-dir",
        f"{root}//absolute",
        "up/repo-evil",
        "evil/dir/..",
    ]
    paths = [f"{head}{slash}{end}" for head in heads for end in ends for slash in ("/", "//")]
    paths += [
        "to-file",
        "absolute-file",
        "dangling-out",
        "chain0",
        "chain30",
        "loop-a",
        "cwd",
        "fd",
        "up",
        "..",
        "../",
        "/",
    ]
    paths += [
        "/etc/passwd",
        "/proc/self/environ",
        "/proc/self/mem",
        "/dev/zero",
        "root-link/etc/passwd",
        "~/x",
        "a\0b",
    ]
    paths += [
        "x" * 300,
        "/".join(["d"] * 3000),
        "\u202e../outside/f.txt",
        "..\\outside\\f.txt",
        "%2e%2e/outside/f.txt",
    ]
    return paths


def registry(workspace: LocalWorkspace) -> ToolRegistry:
    seen = ReadTracker(workspace)
    return ToolRegistry(
        [
            Read(workspace, seen),
            Write(workspace, seen),
            Edit(workspace, seen),
            List(workspace),
            Search(workspace, seen),
        ]
    )


def calls(path: str) -> Iterator[tuple[str, dict[str, object]]]:
    yield "read", {"path": path}
    yield "write", {"path": path, "content": "HACKED"}
    yield "edit", {"path": path, "old_string": CANARY, "new_string": "HACKED"}
    yield "edit", {"path": path, "old_string": "", "new_string": "HACKED"}
    yield "list", {"path": path}
    yield "search", {"path": path, "pattern": "CANARY"}


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


@pytest.mark.soak(row="crafted paths")
@pytest.mark.parametrize("kernel", [True, False], ids=["openat2", "walk"])
async def test_three_hundred_crafted_paths_reach_nothing_outside(
    repo: Path, kernel: bool, tried: Callable[[int], None]
) -> None:
    outside = {name: contents(repo.parent / name) for name in TARGETS}
    workspace = LocalWorkspace(repo, kernel=kernel)
    tools = registry(workspace)
    paths = crafted(repo)
    assert len(set(paths)) >= 300
    # A search is a process of its own: of those only some.
    entries = [
        (name, path, arguments)
        for number, path in enumerate(paths)
        for name, arguments in calls(path)
        if name != "search" or number % 8 == 0
    ]
    tried(len(entries))
    for name, path, arguments in entries:
        tool = tools.get(name)
        answer = ""
        try:
            args = parse_arguments(tool, json.dumps(arguments))
            tool.access(args, workspace)
            tool.approval_key(args)
            answer = written(await tool.run(args, tool_context(workspace)))
        except (ToolError, WorkspaceError) as error:
            answer = str(error)
        assert CANARY not in answer, (name, path)
    assert {name: contents(repo.parent / name) for name in TARGETS} == outside


async def test_searching_the_whole_repository_follows_no_link(repo: Path) -> None:
    tools = registry(LocalWorkspace(repo))
    search = tools.get("search")
    result = await search.run(
        parse_arguments(search, json.dumps({"pattern": "CANARY|inside"})),
        tool_context(LocalWorkspace(repo)),
    )
    assert CANARY not in written(result)
    assert "inside.txt:1:inside" in written(result)


@pytest.mark.parametrize("kernel", [True, False], ids=["openat2", "walk"])
@pytest.mark.parametrize(
    "path", ["to-file", "to-dir/f.txt", "absolute/dir/f.txt", "self-and-out/f.txt"]
)
def test_a_refused_link_is_named_with_its_real_target(repo: Path, path: str, kernel: bool) -> None:
    with pytest.raises(OutsideWorkspace, match=str(repo.parent / "outside")):
        LocalWorkspace(repo, kernel=kernel).open(path)


@pytest.mark.parametrize("kernel", [True, False], ids=["openat2", "walk"])
@pytest.mark.parametrize(
    ("name", "target"),
    [("in", "inside.txt"), ("sub/in", "../inside.txt"), ("around", "sub/deep/../../inside.txt")],
)
def test_links_inside_the_workspace_are_followed(
    repo: Path, name: str, target: str, kernel: bool
) -> None:
    (repo / name).symlink_to(target)
    (repo / "absolute-in").symlink_to(repo / "inside.txt")
    workspace = LocalWorkspace(repo, kernel=kernel)
    assert workspace.open(name).read() == b"inside\n"
    assert workspace.open("absolute-in").read() == b"inside\n"
    assert workspace.resolve(name) == "inside.txt"


@pytest.mark.parametrize(
    "path", ["inside.txt", "./inside.txt", "sub/../inside.txt", "sub//deep/../../inside.txt"]
)
def test_spellings_of_a_path_inside_are_one_file(repo: Path, path: str) -> None:
    workspace = LocalWorkspace(repo)
    assert workspace.open(path).read() == b"inside\n"
    assert workspace.open(str(repo / path)).read() == b"inside\n"
    assert workspace.key(path) == workspace.key("inside.txt") == "inside.txt"


SPELLINGS = [
    *(
        f"{head}{name}{tail}"
        for name in (".git", ".GIT", ".gIt")
        for head in ("", "a/b/")
        for tail in ("", "/x")
    ),
    *(
        f".g{c}it/config"
        for c in "\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u202e\u2066\ufe0f\u034f\u115f\U000e0041"
    ),
    *(
        f".git{c}/config"
        for c in "\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u202a\u206a\ufe00\u3164\uffa0\u180e"
    ),
    *(f"{c}.git/config" for c in "\u200b\u200c\u200d\u2060\ufeff"),
    *(
        f".git{tail}/hooks/pre-commit"
        for tail in (".", "..", " ", ". .", "::$INDEX_ALLOCATION", ":x", " .")
    ),
    *(
        f"{name}/config"
        for name in ("GIT~1", "git~1", "Git~2", ".ｇｉｔ", ".ｇit", "．git", ".gⅰt", ".ＧＩＴ")
    ),
    *(
        f"{head}{name}"
        for name in (".codeagent", ".CODEAGENT", ".codeagent.", ".CodeAgent ", "CODEAG~1")
        for head in ("", "a/", "a/b/")
    ),
    *(f".codeagent{tail}" for tail in ("/config.toml", "/tools/x.yaml", "\u200b/x", "./x")),
    "sub\\.git\\config",
]


@for_each("path", SPELLINGS)
def test_every_spelling_of_a_protected_name_is_protected(path: str) -> None:
    assert protected_part(path) is not None


@given(path=st.text(alphabet=".giGItT~1codeag/ :\\\u200b\x01\uff47\u2170x", max_size=14))
def test_a_path_is_as_protected_alone_as_with_a_part_that_rules_out_the_short_answer(
    path: str,
) -> None:
    assert (protected_part(path) is None) == (protected_part(f"{path}/xgit") is None)


@for_each(
    "path",
    [
        ".gitignore",
        ".github/workflows/ci.yml",
        "git/x",
        "a.git",
        ".gitattributes",
        "src/codeagent/x.py",
        "gitx~1",
    ],
)
def test_names_that_only_look_similar_are_not_protected(path: str) -> None:
    assert protected_part(path) is None


@pytest.mark.parametrize(
    "path",
    [".git/config", "sub/.git/hooks/x", ".codeagent/config.toml", ".GIT/x", "git-link/config"],
)
@pytest.mark.parametrize("exists", [True, False])
def test_protected_paths_are_never_written(repo: Path, path: str, exists: bool) -> None:
    (repo / "git-link").symlink_to(".git")
    if exists:
        put(repo, ".git/config", "mine")
    before = contents(repo)
    with pytest.raises(ProtectedPath):
        write(LocalWorkspace(repo), path, b"HACKED", base=None)
    assert contents(repo) == before
    assert (repo / ".git").exists() == exists, "nothing is made on the way to a refusal"
    assert not (repo / ".codeagent").exists()


@pytest.mark.parametrize("kernel", [True, False], ids=["openat2", "walk"])
def test_special_files_are_refused_at_once(repo: Path, kernel: bool) -> None:
    os.mkfifo(repo / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(repo / "socket"))
        workspace = LocalWorkspace(repo, kernel=kernel)
        for name in ("fifo", "socket", "sub"):
            with pytest.raises(NotAFile):
                workspace.open(name)
            with pytest.raises(NotAFile):
                write(workspace, name, b"x", base=None)


@pytest.mark.parametrize("change", ["renamed", "replaced", "removed"])
def test_a_workspace_that_is_moved_away_is_neither_read_nor_written(
    repo: Path, change: str
) -> None:
    workspace = LocalWorkspace(repo)
    moved = repo.parent / "moved"
    repo.rename(moved)
    if change == "replaced":
        put(repo, "inside.txt", "another\n")
    before = contents(moved)
    for action in (
        lambda: write(workspace, "new.txt", b"x", base=None),
        lambda: workspace.open("inside.txt"),
        lambda: workspace.entries("."),
        lambda: workspace.stat("inside.txt"),
    ):
        with pytest.raises(WorkspaceLost, match=f"was moved to {moved}$"):
            action()
    assert contents(moved) == before


SECRETS = (
    ".env .env.local a/.ENV.production k.pem id_rsa x/id_ed25519 .ssh/config server.key .netrc .aws/anything "
    "credentials.json secrets.yaml deploy_rsa prod.tfvars a.tfstate.backup _netrc htpasswd AuthKey.p8 vpn.ovpn "
    "keys.kdb .docker/config.json x/gh/hosts.yml .my.cnf admin.kubeconfig credentials.tfrc.json sftp-config.json "
    ".vault_pass .dev.vars"
)
NO_SECRETS = (
    ".env.example id_rsa.pub environment.py keys.py monkey.txt src/secrets.py docker/config.json .docker/Dockerfile "
    "hosts.yml rsa.py test_rsa.py main.tf boto.py"
)


@for_each("path", SECRETS.split())
def test_files_of_secrets_are_known_by_their_names(path: str) -> None:
    assert secret_reason(path) is not None


@for_each("path", NO_SECRETS.split())
def test_ordinary_names_are_no_secrets(path: str) -> None:
    assert secret_reason(path) is None


def test_files_that_run_on_the_host_are_asked_about() -> None:
    assert host_reason("conftest.py") is not None
    assert host_reason("a/.vscode/tasks.json") is not None
    assert host_reason("src/main.py") is None
