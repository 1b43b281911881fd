"""`mcpServers` is read as users write it for other programs, and a project's starts nothing before
it is trusted."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codeagent.core.errors import ConfigError
from codeagent.extensions.mcp.config import LoginClient, ServerConfig
from codeagent.extensions.mcp.entries import parse_servers
from codeagent.extensions.mcp.entry import filled_in
from codeagent.extensions.mcp.files import ServerFiles
from tests.config.usable_servers import usable
from tests.table import for_each

ENTRY = {"command": "npx", "args": ["-y", "server"]}


def parsed(entry: object, name: str = "one", place: Any = "user") -> Any:
    return parse_servers(
        json.dumps({"mcpServers": {name: entry}}, indent=1).encode(), "mcp.json", place
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def files(tmp_path: Path, project: Path) -> ServerFiles:
    return ServerFiles(tmp_path / "config", project)


def put_project(project: Path, servers: object) -> None:
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


def put_user(files: ServerFiles, text: str) -> None:
    files.user_file.parent.mkdir(exist_ok=True)
    files.user_file.write_text(text)


@for_each(
    "entry, expected",
    [
        (ENTRY, ServerConfig("one", command="npx", args=("-y", "server"))),
        (
            {"command": "x", "env": {"A": "b"}, "cwd": "sub", "timeout": 5, "disabled": True},
            ServerConfig("one", command="x", env={"A": "b"}, cwd="sub", timeout=5),
        ),
        ({"command": "x", "timeout": 30000}, ServerConfig("one", command="x", timeout=30)),
        ({"command": "x", "env": None}, ServerConfig("one", command="x")),
        (
            {"command": "x", "where": "machine", "startTimeout": 90},
            ServerConfig("one", command="x", where="machine", start_timeout=90),
        ),
        (
            {"type": "http", "url": "https://x/mcp", "headers": {"A": "b"}},
            ServerConfig("one", url="https://x/mcp", headers={"A": "b"}),
        ),
        (
            {
                "url": "http://x",
                "oauth": {"clientId": "${ID}", "clientSecret": "s", "callbackPort": 8080},
            },
            ServerConfig("one", url="http://x", client=LoginClient("${ID}", "s", 8080)),
        ),
        ({"serverUrl": "http://x"}, ServerConfig("one", url="http://x")),
        (
            {"transport": "streamable-http", "httpUrl": "http://x"},
            ServerConfig("one", url="http://x"),
        ),
    ],
)
def test_an_entry_is_read_as_it_is_written_for_other_programs(
    entry: object, expected: ServerConfig
) -> None:
    found = parsed(entry)
    [one] = found.entries
    assert (one.config, one.file, found.problems) == (expected, "mcp.json", ())
    assert one.enabled == ("disabled" not in str(entry))


@for_each(
    "entry, where, what",
    [
        ("x", "mcp.json:3: one", "must be an object"),
        ({}, "mcp.json:3: one", "either command (stdio) or url (http)"),
        (
            {"command": "x", "url": "http://x"},
            "one.command",
            "either command (stdio) or url (http)",
        ),
        ({"command": "x", "args": [1]}, "one.args.0", "valid string"),
        ({"command": "x", "args": "a b"}, "one.args", "valid list"),
        ({"command": "x", "env": {"PORT": 1}}, "one.env.PORT", "valid string"),
        ({"command": "x\0y"}, "one.command", "NUL"),
        ({"command": "x", "timeout": 0}, "one.timeout", "greater than 0"),
        ({"type": "sse", "url": "http://x"}, "one.type", "sse is not supported"),
        ({"type": "ws", "url": "http://x"}, "one.type", "stdio and http"),
        ({"type": "stdio", "url": "http://x"}, "one.type", "has the transport http"),
        ({"url": "file:///etc/passwd"}, "one.url", "http:// or https://"),
        ({"url": "http://[x"}, "one.url", "http:// or https://"),
        ({"url": "http://x", "headers": {"A": "b\r\nC: d"}}, "one.headers", "several lines"),
        ({"url": "http://x", "headers": {"a b": "c"}}, "one.headers", "not that of an HTTP header"),
    ],
)
def test_a_broken_entry_is_a_problem_with_its_place(entry: object, where: str, what: str) -> None:
    found = parsed(entry)
    (problem,) = found.problems
    assert found.entries == () and problem.where.endswith(where) and what in problem.text, problem


@for_each("name", ["", "a b", "a__b", "x" * 33, "käse", "-a", "a.b", "\u202e"])
def test_a_name_that_cannot_be_part_of_a_tools_name_is_a_problem(name: str) -> None:
    found = parsed(ENTRY, name)
    assert found.entries == () and "give it another name" in found.problems[0].text


def test_a_broken_entry_keeps_only_itself_out() -> None:
    raw = json.dumps({"mcpServers": {"bad": {}, "good": ENTRY}}).encode()
    assert [entry.config.name for entry in parse_servers(raw, "mcp.json", "user").entries] == [
        "good"
    ]


def test_only_the_users_own_file_lets_a_server_write() -> None:
    [own] = parsed(ENTRY | {"write": True}).entries
    assert own.config.write and "may write in the workspace" in own.details
    theirs = parsed(ENTRY | {"write": True}, place="project")
    assert [one.config.write for one in theirs.entries] == [False]
    assert "may write in the workspace" not in theirs.entries[0].details
    assert [(one.level, one.where) for one in theirs.problems] == [
        ("warning", "mcp.json:9: one.write")
    ]
    assert not parsed(ENTRY).entries[0].config.write


@for_each(
    "entry", [ENTRY | {"where": "machine", "write": True}, {"url": "http://x", "write": True}]
)
def test_to_write_is_said_only_of_a_server_in_the_sandbox(entry: dict[str, Any]) -> None:
    found = parsed(entry)
    assert (
        not found.entries[0].config.write
        and "for a server in the sandbox" in found.problems[0].text
    )


@for_each("value", ["yes", 1, "true"])
def test_to_write_is_true_or_false(value: object) -> None:
    found = parsed(ENTRY | {"write": value})
    assert found.entries == () and "valid boolean" in found.problems[0].text


def test_keys_of_other_programs_are_reported_and_the_server_is_used() -> None:
    found = parsed(ENTRY | {"autoApprove": ["*"]})
    assert len(found.entries) == 1
    assert [(one.level, one.where) for one in found.problems] == [
        ("warning", "mcp.json:9: one.autoApprove")
    ]


def test_what_is_not_used_of_a_login_is_reported() -> None:
    found = parsed({"url": "http://x", "oauth": {"clientId": "id", "scopes": []}})
    assert [(one.text, one.level) for one in found.problems] == [
        ("not used by codeagent", "warning")
    ]
    assert found.entries[0].details == ("logs in as id",)
    found = parsed({"url": "http://x", "oauth": {"callbackPort": 1}})
    assert [one.text for one in found.problems] == ["not used without clientId"]
    assert found.entries[0].config.client is None
    [problem] = parsed({"command": "x", "oauth": {"clientId": "id"}}).problems
    assert problem.text == "a login is for a server with a url"


def test_the_variables_of_a_login_are_filled_in() -> None:
    [entry] = parsed(
        {"url": "http://x", "oauth": {"clientId": "${ID}", "clientSecret": "${SECRET}"}}
    ).entries
    assert filled_in(entry.config, {"ID": "a", "SECRET": "b"}).client == LoginClient("a", "b")


@for_each("raw", [b"{", b"[]", b"\xff", b'{"mcpServers": []}', b"[" * 100_000, b'"x"'])
def test_a_file_that_is_not_an_object_of_servers_is_one_problem(raw: bytes) -> None:
    found = parse_servers(raw, "mcp.json", "user")
    assert (
        found.entries == ()
        and len(found.problems) == 1
        and found.problems[0].where.startswith("mcp.json:1")
    )


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.floats(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "mcpServers",
                        "command",
                        "url",
                        "args",
                        "env",
                        "headers",
                        "timeout",
                        "type",
                        "x",
                    ]
                ),
                inner,
            )
        ),
    )
)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_value_of_a_file_makes_reading_it_fail(value: object) -> None:
    for data in (value, {"mcpServers": value}, {"mcpServers": {"a": value}}):
        found = parse_servers(json.dumps(data).encode(), "mcp.json", "project")
        assert all(entry.shown and (entry.details or True) for entry in found.entries)


@for_each(
    "text, environment, expected",
    [
        ("${A}", {"A": "1"}, "1"),
        ("x-${A}-${B}", {"A": "1", "B": "2"}, "x-1-2"),
        ("${A:-d}", {}, "d"),
        ("${A:-d}", {"A": ""}, "d"),
        ("${A:-}", {}, ""),
        ("${A}", {"A": ""}, ""),
        ("${A:-a:-b}", {}, "a:-b"),
        ("$A {A} $(A)", {"A": "1"}, "$A {A} $(A)"),
        ("${A}", {"A": "${B}", "B": "no"}, "${B}"),
    ],
)
def test_variables_are_filled_in_once(
    text: str, environment: dict[str, str], expected: str
) -> None:
    config = ServerConfig("one", command=text, args=(text,), env={"N": text}, cwd=text)
    full = filled_in(config, environment)
    assert (full.command, full.args, full.env["N"], full.cwd) == (
        expected,
        (expected,),
        expected,
        expected,
    )
    web = filled_in(ServerConfig("one", url=text, headers={"H": text}), environment)
    assert (web.url, web.headers["H"]) == (expected, expected)


@for_each("origin", ["user", "project"])
def test_the_workspace_is_filled_in_as_other_programs_spell_it(
    files: ServerFiles, project: Path, origin: str
) -> None:
    folder = "${workspaceFolder}"
    entry = {
        "command": f"{folder}/a",
        "args": [f"--at={folder}"],
        "env": {"AT": f"{folder}/b"},
        "cwd": f"{folder}/c",
    }
    put_user(files, json.dumps({"mcpServers": {"one": entry} if origin == "user" else {}}))
    put_project(project, {"one": entry} if origin == "project" else {})
    [found] = files.read().entries
    config, at = found.config, str(project.resolve())
    assert (config.command, config.args, config.env, config.cwd) == (
        f"{at}/a",
        (f"--at={at}",),
        {"AT": f"{at}/b"},
        f"{at}/c",
    )
    assert found.shown == f"{at}/a --at={at} (in {at}/c)" and config.from_project == (
        origin == "project"
    )


def test_a_workspace_whose_name_reads_as_a_variable_is_not_filled_in(tmp_path: Path) -> None:
    project = tmp_path / "${TOKEN}"
    project.mkdir()
    files = ServerFiles(tmp_path / "config", project)
    put_user(files, json.dumps({"mcpServers": {"one": {"command": "${workspaceFolder}/a"}}}))
    servers, problems = usable(files, {"TOKEN": "hush"})
    assert servers == () and "workspaceFolder is not set" in problems[0]


@for_each(
    "text, why",
    [
        ("${A}", "the variable A is not set"),
        ("${env:A}", "is not ${NAME}"),
        ("${}", "is not ${NAME}"),
    ],
)
def test_a_variable_that_is_not_set_keeps_its_server_out(
    text: str, why: str, files: ServerFiles
) -> None:
    files.add("one", ENTRY | {"env": {"N": text}})
    files.add("two", ENTRY)
    servers, problems = usable(files, {})
    assert [server.name for server in servers] == ["two"] and why in problems[0]
    files.remove("one")
    files.remove("two")


def test_a_projects_servers_are_not_usable_before_they_are_trusted_and_after_any_change(
    files: ServerFiles, project: Path
) -> None:
    put_project(project, {"theirs": ENTRY})
    assert [one.config.name for one in files.read().untrusted] == ["theirs"] and usable(files, {})[
        0
    ] == ()
    files.trust()
    assert [server.name for server in usable(files, {})[0]] == ["theirs"]
    put_project(project, {"theirs": ENTRY | {"args": ["other"]}})
    assert usable(files, {})[0] == ()
    files.trust()
    files.distrust()
    assert usable(files, {})[0] == ()


def test_a_file_that_changed_since_it_was_shown_is_not_trusted(
    files: ServerFiles, project: Path
) -> None:
    put_project(project, {"theirs": ENTRY})
    shown = files.read().digest
    put_project(project, {"theirs": {"command": "evil"}})
    with pytest.raises(ConfigError, match="has changed since it was shown"):
        files.trust(shown)
    assert len(files.read().untrusted) == 1
    files.trust(files.read().digest)
    assert files.read().untrusted == ()


def test_accepting_counts_for_these_files_only(
    files: ServerFiles, project: Path, tmp_path: Path
) -> None:
    put_project(project, {"theirs": ENTRY})
    assert ServerFiles(tmp_path / "config", project, accept=True).read().untrusted == ()
    assert len(files.read().untrusted) == 1


def test_a_project_cannot_choose_the_machine(project: Path, files: ServerFiles) -> None:
    put_project(project, {"theirs": ENTRY | {"where": "machine"}})
    found = files.read()
    assert (
        found.entries[0].config.where == "sandbox"
        and "a project cannot choose this" in found.problems[0].text
    )


def test_the_users_server_keeps_a_name_that_the_project_has_too(
    project: Path, files: ServerFiles
) -> None:
    put_project(project, {"one": {"command": "evil"}})
    files.add("one", ENTRY)
    found = files.read()
    assert [entry.config.command for entry in found.entries] == ["npx"] and found.problems[
        0
    ].level == "warning"


@pytest.mark.parametrize(
    "make", [lambda path: path.symlink_to("/etc/passwd"), lambda path: os.mkfifo(path), Path.mkdir]
)
def test_a_project_file_that_is_no_plain_file_is_a_problem(
    make: Any, project: Path, files: ServerFiles
) -> None:
    make(project / ".mcp.json")
    assert files.read().entries == () and "cannot be read" in files.read().problems[0].text


def test_the_users_file_is_private_and_keeps_what_others_wrote_into_it(files: ServerFiles) -> None:
    put_user(files, '{"inputs": [1], "mcpServers": {"old": {"command": "x", "autoApprove": []}}}')
    files.add("new", ENTRY)
    files.remove("new")
    files.add("k2", ENTRY)
    data = json.loads(files.user_file.read_text())
    assert data == {
        "inputs": [1],
        "mcpServers": {"old": {"command": "x", "autoApprove": []}, "k2": ENTRY},
    }
    assert files.user_file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["{", "[]", '{"mcpServers": []}'])
def test_a_file_that_cannot_be_read_is_never_overwritten(text: str, files: ServerFiles) -> None:
    put_user(files, text)
    for change in (lambda: files.add("new", ENTRY), lambda: files.remove("new")):
        with pytest.raises(ConfigError, match="repair the file"):
            change()
    assert files.user_file.read_text() == text


def test_a_link_to_the_file_stays_a_link(files: ServerFiles, tmp_path: Path) -> None:
    put_user(files, "{}")
    kept = tmp_path / "dotfiles.json"
    files.user_file.rename(kept)
    files.user_file.symlink_to(kept)
    files.add("new", ENTRY)
    assert files.user_file.is_symlink() and "new" in kept.read_text()


def test_a_file_that_others_may_write_or_the_agent_could_change_is_not_used(
    project: Path, files: ServerFiles
) -> None:
    put_user(files, json.dumps({"mcpServers": {"one": ENTRY}}))
    files.user_file.chmod(0o666)
    assert files.read().entries == () and "chmod go-w" in files.read().problems[0].text
    inside = ServerFiles(project / "config", project)
    put_user(inside, json.dumps({"mcpServers": {"one": ENTRY}}))
    assert inside.read().entries == () and "lies in the workspace" in inside.read().problems[0].text
    with pytest.raises(ConfigError, match="lies in the workspace"):
        inside.add("two", ENTRY)


@for_each(
    "entry, shown",
    [
        ({"command": "x", "args": ["--api-key", "sk-123", "a b"]}, "x --api-key '…' 'a b'"),
        (
            {"command": "x", "args": ["--token=abc", "--api-key=${KEY}"]},
            "x '--token=…' '--api-key=${KEY}'",
        ),
        ({"command": "x", "cwd": "sub", "env": {"A": "hidden"}}, "x (in sub)"),
        (
            {"url": "https://u:p@x/mcp?key=abc&b=c", "headers": {"A": "hidden"}},
            "https://…@x/mcp?key=…&b=…",
        ),
    ],
)
def test_what_would_run_is_shown_without_its_secrets(entry: object, shown: str) -> None:
    (found,) = parsed(entry).entries
    assert (
        found.shown == shown
        and "hidden" not in "".join(found.details)
        and "hidden" not in repr(found.shown)
    )
