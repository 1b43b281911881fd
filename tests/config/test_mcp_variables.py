"""A project's server gets no variable of the user's, unless the user gave it that one; the question
hides nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from codeagent.config.kept import TrustFile
from codeagent.core.errors import ConfigError
from codeagent.extensions.mcp.config import ServerConfig
from codeagent.extensions.mcp.entries import parse_servers
from codeagent.extensions.mcp.entry import ServerEntry
from codeagent.extensions.mcp.files import ServerFiles
from tests.config.usable_servers import usable
from tests.table import for_each

KEY = {"KEY": "hush-hush", "OTHER": "quiet"}
WHERE: list[tuple[str, dict[str, Any]]] = [
    ("url", {"url": "https://x/mcp?v=${KEY}"}),
    ("url", {"url": "https://${KEY}@x/mcp"}),
    ("headers", {"url": "https://x", "headers": {"Authorization": "Bearer ${KEY}"}}),
    ("oauth", {"url": "https://x", "oauth": {"clientId": "id", "clientSecret": "${KEY}"}}),
    ("oauth", {"url": "https://x", "oauth": {"clientId": "${KEY}"}}),
    ("command", {"command": "${KEY}"}),
    ("args", {"command": "x", "args": ["--token", "${KEY}"]}),
    ("env", {"command": "x", "env": {"TOKEN": "${KEY}"}}),
    ("cwd", {"command": "x", "cwd": "${KEY}"}),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def files(tmp_path: Path, project: Path) -> ServerFiles:
    return ServerFiles(tmp_path / "config", project)


def fresh(folders: pytest.TempPathFactory) -> tuple[ServerFiles, Path]:
    """The files of a new project, and its folder."""
    folder = folders.mktemp("one")
    (folder / "work").mkdir()
    return ServerFiles(folder / "config", folder / "work"), folder / "work"


def put(project: Path, **servers: object) -> None:
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


def entry_of(given: object, place: Any = "project") -> ServerEntry:
    raw = json.dumps({"mcpServers": {"one": given}}).encode()
    (entry,) = parse_servers(raw, ".mcp.json", place).entries
    return entry


def filled(files: ServerFiles, name: str = "one") -> ServerConfig:
    """Raises ConfigError."""
    return files.read().get(name).filled_in(KEY)


def said(config: ServerConfig) -> str:
    return repr(config)


@for_each("key, entry", WHERE)
def test_a_trusted_file_gets_no_variable_of_the_users(
    key: str, entry: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    files, work = fresh(tmp_path_factory)
    put(work, one=entry)
    files.trust()
    with pytest.raises(
        ConfigError,
        match="it wants your variable KEY; give it with: codeagent mcp trust --give one=",
    ):
        filled(files)
    assert usable(files, KEY)[0] == (), key


@for_each("key, entry", WHERE)
def test_a_variable_that_was_given_is_filled_in_wherever_the_file_names_it(
    key: str, entry: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    files, work = fresh(tmp_path_factory)
    put(work, one=entry)
    files.trust(give=[("one", "KEY")])
    assert "hush-hush" in said(filled(files)), key


def test_accepting_the_project_gives_no_variable(tmp_path: Path, project: Path) -> None:
    put(project, one={"command": "x", "args": ["${KEY}"]})
    with pytest.raises(ConfigError, match="it wants your variable KEY"):
        filled(ServerFiles(tmp_path / "config", project, accept=True))


def test_a_default_takes_the_place_of_a_variable_that_was_not_given(
    files: ServerFiles, project: Path
) -> None:
    put(project, one={"command": "x", "args": ["${KEY:-none}"]})
    files.trust()
    assert filled(files).args == ("none",)
    files.trust(give=[("one", "KEY")])
    assert filled(files).args == ("hush-hush",)


def test_a_variable_is_given_to_one_server_and_by_one_name(
    files: ServerFiles, project: Path
) -> None:
    put(project, one={"command": "x", "args": ["${KEY}"]}, two={"command": "x", "args": ["${KEY}"]})
    files.trust(give=[("one", "KEY")])
    assert filled(files).args == ("hush-hush",)
    with pytest.raises(ConfigError, match="--give two=KEY"):
        filled(files, "two")
    put(project, one={"command": "x", "args": ["${KEY}", "${OTHER}"]})
    files.trust(give=[("one", "KEY")])
    with pytest.raises(ConfigError, match="--give one=OTHER"):
        filled(files)


def test_a_change_of_the_file_ends_what_was_given_even_if_it_is_changed_back(
    files: ServerFiles, project: Path
) -> None:
    put(project, one={"command": "x", "args": ["${KEY}"]})
    files.trust(give=[("one", "KEY")])
    put(project, one={"command": "evil", "args": ["${KEY}"]})
    files.trust()
    with pytest.raises(ConfigError, match="it wants your variable KEY"):
        filled(files)
    put(project, one={"command": "x", "args": ["${KEY}"]})
    files.trust()
    with pytest.raises(ConfigError, match="it wants your variable KEY"):
        filled(files)


def test_what_was_given_stays_when_more_is_given_and_when_the_same_file_is_trusted_again(
    files: ServerFiles, project: Path
) -> None:
    put(project, one={"command": "x", "args": ["${KEY}", "${OTHER}"]})
    files.trust(give=[("one", "KEY")])
    files.trust(give=[("one", "OTHER")])
    files.trust()
    assert filled(files).args == ("hush-hush", "quiet")


def test_a_project_that_is_no_longer_trusted_has_no_variable(
    files: ServerFiles, project: Path
) -> None:
    put(project, one={"command": "x", "args": ["${KEY}"]})
    files.trust(give=[("one", "KEY")])
    files.distrust()
    files.trust()
    with pytest.raises(ConfigError, match="it wants your variable KEY"):
        filled(files)


@for_each(
    "give, why",
    [
        (("two", "KEY"), "no server of this project is named 'two'"),
        (("one", "OTHER"), "one does not want OTHER; it wants KEY"),
        (("mine", "KEY"), "no server of this project is named 'mine'"),
    ],
)
def test_what_no_server_wants_cannot_be_given_and_then_nothing_is_trusted(
    give: tuple[str, str], why: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    files, work = fresh(tmp_path_factory)
    files.add("mine", {"command": "x"})
    put(work, one={"command": "x", "args": ["${KEY}"]}, mine={"command": "${KEY}"})
    with pytest.raises(ConfigError, match=why):
        files.trust(give=[give])
    assert [entry.config.name for entry in files.read().untrusted] == ["one"]


def test_a_file_that_changed_since_it_was_shown_is_given_nothing(
    files: ServerFiles, project: Path
) -> None:
    put(project, one={"command": "x", "args": ["${KEY}"]})
    shown = files.read().digest
    put(project, one={"command": "evil", "args": ["${KEY}"]})
    with pytest.raises(ConfigError, match="has changed since it was shown"):
        files.trust(shown, give=[("one", "KEY")])
    assert len(files.read().untrusted) == 1


def test_a_record_that_is_damaged_gives_nothing_and_is_a_problem(
    files: ServerFiles, project: Path, tmp_path: Path
) -> None:
    put(project, one={"command": "x", "args": ["${KEY:-none}"]})
    files.trust(give=[("one", "KEY")])
    (tmp_path / "config" / "mcp-variables.jsonl").write_text("{")
    assert filled(files).args == ("none",)
    assert any("mcp-variables.jsonl:1" in problem.text for problem in files.read().problems)


def test_what_was_given_in_one_folder_is_not_given_in_another_of_the_same_content(
    files: ServerFiles, project: Path, tmp_path: Path
) -> None:
    put(project, one={"command": "x", "args": ["${KEY}"]})
    files.trust(give=[("one", "KEY")])
    (other := tmp_path / "other").mkdir()
    put(other, one={"command": "x", "args": ["${KEY}"]})
    with pytest.raises(ConfigError, match="it wants your variable KEY"):
        filled(ServerFiles(tmp_path / "config", other, accept=True))


def test_the_users_own_file_gets_every_variable_as_before(files: ServerFiles) -> None:
    files.add("one", {"command": "x", "args": ["${KEY}", "${GONE:-d}"]})
    entry = files.read().get("one")
    assert entry.filled_in(KEY).args == ("hush-hush", "d") and entry.wants == ()


def test_trust_that_was_given_before_variables_were_asked_for_still_loads(
    tmp_path: Path, project: Path, files: ServerFiles
) -> None:
    put(project, one={"command": "x"}, two={"command": "x", "args": ["${KEY}"]})
    TrustFile(tmp_path / "config", project, tmp_path / "home", "mcp-trust.jsonl").trust(
        files.read().digest
    )
    servers, problems = usable(files, KEY)
    assert [server.name for server in servers] == [
        "one"
    ] and "it wants your variable KEY" in problems[0]


@for_each(
    "given, whole",
    [
        ({"url": "https://u:p@x/mcp?v=${KEY}&b=abc#f"}, ("https://u:p@x/mcp?v=${KEY}&b=abc#f",)),
        (
            {"command": "x", "args": ["--api-key", "abc", "--token=${KEY}"]},
            ("x --api-key abc '--token=${KEY}'",),
        ),
        ({"command": "x", "args": ["y" * 5000 + "end"]}, ("y" * 5000 + "end",)),
        (
            {"command": "x", "env": {"A": "1", "TOKEN": "a${KEY}"}},
            ("gets A=1", "gets TOKEN=a${KEY}"),
        ),
        (
            {"url": "https://x", "headers": {"Authorization": "Bearer ${KEY}"}},
            ("sends Authorization: Bearer ${KEY}",),
        ),
        (
            {"url": "https://x", "oauth": {"clientId": "${KEY}", "clientSecret": "abc"}},
            ("logs in as ${KEY}, with the secret abc",),
        ),
    ],
)
def test_of_a_projects_entry_the_whole_is_shown(given: object, whole: tuple[str, ...]) -> None:
    entry = entry_of(given)
    text = "\n".join((entry.shown, *entry.details))
    assert all(part in text for part in whole), text
    assert "…" not in text


def test_each_variable_that_is_wanted_has_a_line_that_says_where_it_goes(
    files: ServerFiles, project: Path
) -> None:
    put(project, one={"url": "https://x?v=${KEY}&w=${LEVEL:-low}", "headers": {"A": "${KEY}"}})
    lines = files.read().get("one").details
    assert "wants your KEY, for its address and its header A: not given" in lines
    assert "wants your LEVEL, for its address: not given, so it is low" in lines
    files.trust(give=[("one", "KEY"), ("one", "LEVEL")])
    lines = files.read().get("one").details
    assert "wants your KEY, for its address and its header A: given" in lines
    assert "wants your LEVEL, for its address: given" in lines


@for_each(
    "given, shown",
    [
        ({"url": "https://x/mcp?v=${KEY}&b=abc"}, "https://x/mcp?v=${KEY}&b=…"),
        ({"url": "https://x/mcp?v=abc${KEY}d"}, "https://x/mcp?v=…${KEY}…"),
        ({"url": "https://u:${KEY}@x/mcp"}, "https://…${KEY}@x/mcp"),
        ({"url": "https://x/mcp?v=${KEY:-sk-1}"}, "https://x/mcp?v=${KEY:-…}"),
        ({"command": "x", "args": ["--token=abc${KEY}"]}, "x '--token=…${KEY}'"),
        ({"command": "x", "args": ["--token", "Bearer ${KEY}"]}, "x --token '…${KEY}'"),
    ],
)
def test_of_the_users_own_entry_secrets_are_hidden_and_variables_are_not(
    given: object, shown: str
) -> None:
    assert entry_of(given, "user").shown == shown
