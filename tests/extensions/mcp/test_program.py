"""Where a server's program is started, with which arguments, and what of it is in the workspace."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from codeagent.core.errors import SandboxUnavailable
from codeagent.extensions.mcp.config import ServerConfig
from codeagent.extensions.mcp.program import ServerStart, start_of
from tests.fakes import put
from tests.table import for_each

TOKEN = {"env": {"TOKEN": "x"}}
HOSTS = {"hosts": ("x.org",)}
MACHINE = {"where": "machine"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name in (
        "srv.py",
        "tools/srv.py",
        "tools/util.py",
        "tools/deep/x.json",
        "web/app/index.js",
        "run",
        "conf/c.toml",
    ):
        put(root, name, f"# {name}\n")
    put(root, ".venv/pyvenv.cfg", "")
    put(root, ".venv/bin/server", "")
    put(root, "pkg/__main__.py", "")
    for name in (
        "server/package.json",
        "server/dist/bin/index.js",
        "server/.venv/pyvenv.cfg",
        "server/.venv/bin/run",
    ):
        put(root, name, "")
    put(root, "data/x.db", "")
    put(tmp_path, "elsewhere/server.js", "")
    return root


def started(root: Path, *words: str, project: bool = False, **fields: Any) -> ServerStart:
    filled = [
        word.replace("ROOT", str(root)).replace("OUT", str(root.parent / "elsewhere"))
        for word in words
    ]
    env = {name: value.replace("ROOT", str(root)) for name, value in fields.pop("env", {}).items()}
    cwd = (
        fields.pop("cwd", "")
        .replace("ROOT", str(root))
        .replace("OUT", str(root.parent / "elsewhere"))
    )
    return start_of(
        ServerConfig("s", filled[0], tuple(filled[1:]), env, cwd, from_project=project, **fields),
        root,
    )


def named(start: ServerStart, root: Path) -> set[str]:
    return {os.path.relpath(path, root) for path in start.paths}


@for_each("fields", [{}, TOKEN, HOSTS, MACHINE])
def test_the_users_servers_start_in_a_folder_of_their_own(
    root: Path, fields: Mapping[str, Any]
) -> None:
    start = started(root, "python3", "-m", "mcp_server_git", "--repository", "ROOT", **fields)
    assert (
        start.program.directory is None
        and start.paths == ()
        and start.program.arguments[-1] == str(root)
    )


@for_each(
    "fields, directory",
    [
        ({}, "."),
        ({"cwd": "tools"}, "tools"),
        ({"cwd": "ROOT/tools"}, "tools"),
        (TOKEN, None),
        (HOSTS, None),
    ],
)
def test_a_projects_server_starts_in_the_workspace_unless_it_has_variables_or_hosts(
    root: Path, fields: Mapping[str, Any], directory: str | None
) -> None:
    assert started(root, "python3", "srv.py", project=True, **fields).program.directory == directory


@for_each(
    "cwd, fields, directory",
    [
        ("tools", {}, "tools"),
        ("ROOT/tools", {}, "tools"),
        ("OUT", MACHINE, "OUT"),
        ("ROOT", {}, "."),
    ],
)
def test_a_folder_that_the_user_chose_is_used_where_it_can_do_no_harm(
    root: Path, cwd: str, fields: Mapping[str, Any], directory: str
) -> None:
    directory = directory.replace("OUT", str(root.parent / "elsewhere"))
    assert started(root, "x", cwd=cwd, **fields).program.directory == directory


@for_each(
    "cwd, fields, why",
    [
        ("tools", TOKEN, "could load what it must not"),
        ("tools", HOSTS, "variables or hosts"),
        ("ROOT/tools", MACHINE, "the rights that you have"),
        ("link", MACHINE, "neither an absolute folder"),
        ("OUT/back", MACHINE, "the rights that you have"),
        ("../elsewhere", MACHINE, "neither an absolute folder"),
        ("OUT", {}, "the sandbox has nothing else"),
        ("../elsewhere", TOKEN, "the sandbox has nothing else"),
    ],
)
def test_any_other_folder_keeps_the_users_server_out(
    root: Path, cwd: str, fields: Mapping[str, Any], why: str
) -> None:
    if not (root / "link").exists():
        (root / "link").symlink_to(root.parent / "elsewhere")
        (root.parent / "elsewhere/back").symlink_to(root / "tools")
    with pytest.raises(SandboxUnavailable, match=why) as refused:
        started(root, "x", cwd=cwd, **fields)
    assert "remove cwd" in refused.value.remedy


@for_each(
    "words, cwd, given",
    [
        (("python3", "srv.py"), "", ("python3", "ROOT/srv.py")),
        (("python3", "srv.py"), "tools", ("python3", "ROOT/tools/srv.py")),
        (("tools/srv.py", "."), "", ("ROOT/tools/srv.py", "ROOT")),
        (
            ("node", "--require=./web/app/index.js", "gone.js"),
            "",
            ("node", "--require=ROOT/web/app/index.js", "gone.js"),
        ),
        (("run", "run", "-x", "/etc/passwd"), "", ("run", "ROOT/run", "-x", "/etc/passwd")),
        (("x", "../elsewhere/server.js"), "", ("x", "../elsewhere/server.js")),
    ],
)
def test_arguments_of_a_projects_server_that_name_something_are_made_absolute(
    root: Path, words: tuple[str, ...], cwd: str, given: tuple[str, ...]
) -> None:
    start = started(root, *words, project=True, cwd=cwd, **TOKEN)
    assert start.program.arguments == tuple(word.replace("ROOT", str(root)) for word in given)


@for_each("words", [("srv.py",), ("./tools/srv.py", "x")])
def test_arguments_of_the_users_server_are_left_and_the_way_to_write_them_is_said(
    root: Path, words: tuple[str, ...]
) -> None:
    start = started(root, "python3", *words, **MACHINE)
    assert start.program.arguments == ("python3", *words) and start.paths == ()
    assert f"write ${{workspaceFolder}}/{words[0]}" in start.hint


@for_each(
    "words, powerless, powerful",
    [
        (("python3", "ROOT/tools/srv.py"), {"tools/srv.py"}, {"tools/srv.py", "tools"}),
        (("ROOT/web/app/index.js",), {"web/app/index.js"}, {"web/app/index.js", "web/app"}),
        (("python3", "ROOT/pkg"), {"pkg"}, {"pkg"}),
        (("x", "--config=ROOT/conf/c.toml"), {"conf/c.toml"}, {"conf/c.toml"}),
        (
            ("node", "--import", "file://ROOT/web/app/index.js"),
            {"web/app/index.js"},
            {"web/app/index.js", "web/app"},
        ),
        (
            ("sh", "-c", "exec 'ROOT/tools/srv.py' --all"),
            {"tools/srv.py"},
            {"tools/srv.py", "tools"},
        ),
        (
            ("ROOT/.venv/bin/server",),
            {".venv/bin/server"},
            {".venv/bin/server", ".venv/bin", ".venv"},
        ),
        (
            ("node", "ROOT/server/dist/bin/index.js"),
            {"server/dist/bin/index.js"},
            {"server/dist/bin/index.js", "server/dist/bin", "server"},
        ),
        (
            ("ROOT/server/.venv/bin/run",),
            {"server/.venv/bin/run"},
            {"server/.venv/bin/run", "server/.venv/bin", "server/.venv", "server"},
        ),
        (("mcp-server-sqlite", "--db-path", "ROOT/data/x.db"), set(), set()),
        (("x", "{" + "ROOT/" + "x" * 5000 + "}"), set(), set()),
        (("python3", "ROOT/srv.py"), {"srv.py"}, {"srv.py", "."}),
        (("OUT/to-srv.py",), {"../elsewhere/to-srv.py"}, {"../elsewhere/to-srv.py", "tools"}),
        (("uv", "--directory", "ROOT", "run", "srv.py"), {"."}, {"."}),
        (("python3", "ROOT"), {"."}, {"."}),
        (("npx", "-y", "tsx", "ROOT"), {"."}, {"."}),
        (("uvx", "--from", "ROOT", "server"), {"."}, {"."}),
        (("sh", "-c", "cd ROOT && ./srv.py"), {"."}, {"."}),
        (("npx", "-y", "@modelcontextprotocol/server-filesystem", "ROOT"), set(), set()),
        (("uvx", "mcp-server-git@2", "--repository", "ROOT"), set(), set()),
        (("mcp-server-git", "--repository=ROOT"), set(), set()),
        (("/usr/bin/python3.12", "-I", "-m", "mcp_server_git", "ROOT"), set(), set()),
        (("node", "OUT/server.js", "ROOT"), set(), set()),
        (("docker", "run", "-v", "ROOT:/work", "image"), set(), set()),
        (("x", "ROOT-other/srv.py", "ROOT/gone.py"), set(), set()),
    ],
)
def test_what_is_watched_is_what_it_would_run_and_for_a_powerful_server_what_that_can_import(
    root: Path, words: tuple[str, ...], powerless: set[str], powerful: set[str]
) -> None:
    link = root.parent / "elsewhere/to-srv.py"
    if not link.is_symlink():
        link.symlink_to(root / "tools/srv.py")
    assert named(started(root, *words), root) == powerless
    for fields in (TOKEN, HOSTS, MACHINE):
        assert named(started(root, *words, **fields), root) == powerful, fields


@for_each(
    "words, watched",
    [
        (("python3", "srv.py"), {"tools/srv.py"}),
        (("./srv.py",), {"tools/srv.py"}),
        (("python3", "-m", "srv"), {"tools/srv.py"}),
        (("python3", "-m", "deep"), {"tools/deep"}),
        (("files", "."), set()),
    ],
)
def test_what_a_server_in_the_workspace_names_is_watched_too(
    root: Path, words: tuple[str, ...], watched: set[str]
) -> None:
    for project in (True, False):
        found = named(started(root, *words, project=project, cwd="tools"), root)
        assert found - {"tools"} == watched


@for_each(
    "env, watched",
    [
        ({"PYTHONPATH": "/usr/lib:ROOT/tools"}, {"tools"}),
        ({"NODE_OPTIONS": "--require=ROOT/web/app/index.js"}, {"web/app", "web/app/index.js"}),
        ({"PATH": "ROOT:/bin"}, {"."}),
        ({"MEMORY_FILE_PATH": "ROOT/conf/c.toml"}, set()),
    ],
)
def test_a_place_where_its_variables_say_that_code_is_found_is_watched(
    root: Path, env: dict[str, str], watched: set[str]
) -> None:
    assert named(started(root, "x", env=env), root) == watched


def test_settings_and_modules_in_the_folders_above_belong_to_a_powerful_program(root: Path) -> None:
    above = {
        os.path.relpath(path, root)
        for path in started(root, "node", "ROOT/web/app/index.js", **TOKEN).beside
    }
    assert {
        "web/package.json",
        "package.json",
        "node_modules",
        "web/node_modules",
        "pyproject.toml",
    } <= above
    assert not any(path.startswith("..") for path in above)
    python = {path.name for path in started(root, "python3", "ROOT/tools/srv.py", **TOKEN).beside}
    assert "pyproject.toml" in python and "node_modules" not in python


def test_a_script_of_python_may_import_what_is_beside_it_and_nothing_else_searches_a_folder(
    root: Path,
) -> None:
    assert started(root, "python3", "ROOT/tools/srv.py").program.variables["PYTHONSAFEPATH"] == ""
    assert (
        "PYTHONSAFEPATH"
        not in started(root, "python3", "-m", "x", "ROOT", **TOKEN).program.variables
    )
