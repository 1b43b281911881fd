"""`codeagent mcp`: servers are listed, added and removed without being started, tested, and logged
in to."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.e2e.product import Product
from tests.extensions.mcp.authorized import Authority, authorized_server
from tests.fakes import put
from tests.table import for_each

SERVER = Path(__file__).parents[1] / "extensions/mcp/hostile.py"


@pytest.fixture
def product(tmp_path: Path) -> Product:
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    return Product(tmp_path / "work", tmp_path / "home")


def test_an_added_server_is_listed_with_what_it_starts_and_can_be_removed(product: Product) -> None:
    added = product.call(
        "mcp",
        "add",
        "git",
        "--env",
        "TOKEN=${GH}",
        "--host",
        "github.com",
        "--",
        "uvx",
        "x",
        "--",
        "-y",
    )
    assert (added.code, added.err) == (0, "")
    (server,) = json.loads(product.call("mcp", "list", "--json").out)["servers"]
    assert (server["name"], server["transport"], server["from"], server["trusted"]) == (
        "git",
        "stdio",
        "yours",
        True,
    )
    assert (server["starts"], server["env"], server["hosts"]) == (
        "uvx x -- -y",
        ["TOKEN"],
        ["github.com"],
    )
    assert "the variable GH is not set" in product.call("mcp", "list").out
    assert product.call("mcp", "remove", "git").code == 0
    assert product.call("mcp", "list").out.startswith("no server is configured")


def test_a_server_with_a_url_is_added_with_its_headers_and_no_value_of_one_is_printed(
    product: Product,
) -> None:
    done = product.call(
        "mcp", "add", "site", "https://x.org/mcp", "--header", "Authorization=Bearer hush-hush"
    )
    listed = product.call("mcp", "list")
    assert (
        done.code == 0 and "sends Authorization" in listed.out and "https://x.org/mcp" in listed.out
    )
    assert (
        "hush" not in done.out + done.err + listed.out + product.call("mcp", "list", "--json").out
    )


def test_a_server_is_added_with_the_client_that_was_registered_for_it(product: Product) -> None:
    client = ("--client-id", "our-id", "--client-secret", "${SECRET}", "--callback-port", "8080")
    assert product.call("mcp", "add", "site", "https://x.org/mcp", *client).code == 0
    listed = product.call("mcp", "list").out
    assert "logs in as our-id" in listed and "the variable SECRET is not set" in listed


def test_a_server_cannot_take_the_name_of_a_built_in_set(product: Product) -> None:
    done = product.call("mcp", "add", "web", "https://x.org/mcp")
    assert (
        done.code == 2
        and "web is the name of a built-in set of tools; give the server another name" in done.err
    )
    assert product.call("mcp", "list").out.startswith("no server is configured")


def test_a_server_for_this_machine_says_so(product: Product) -> None:
    product.call("mcp", "add", "git", "--machine", "--", "uvx", "x")
    assert "runs on this machine, outside the sandbox" in product.call("mcp", "list").out


def test_a_server_that_may_write_says_so(product: Product) -> None:
    product.call("mcp", "add", "git", "--write", "--", "uvx", "x")
    assert "may write in the workspace" in product.call("mcp", "list").out
    (server,) = json.loads(product.call("mcp", "list", "--json").out)["servers"]
    assert server["write"] is True
    product.call("mcp", "add", "other", "--", "uvx", "x")
    assert (
        "write"
        not in json.loads((product.home / "config/codeagent/mcp.json").read_text())["mcpServers"][
            "other"
        ]
    )


@for_each(
    "line, why",
    [
        (("one", "https://x", "--write"), "--write is for a command"),
        (("one", "--write", "--machine", "--", "x"), "--write is for the sandbox"),
        (("a b", "--", "x"), "a server's name is"),
        (("one", "https://x", "y"), "a URL takes no arguments"),
        (("one", "https://x", "--machine"), "--machine is for a command"),
        (("one", "--header", "A=b", "--", "x"), "--header is for a URL"),
        (("one", "--env", "A", "--", "x"), "--env is NAME=VALUE"),
        (("one", "--client-id", "id", "--", "x"), "--client-id is for a URL"),
        (("one", "https://x", "--callback-port", "1"), "need --client-id"),
        (
            ("one", "https://x", "--client-id", "a", "--client-secret", "hush"),
            "must name a variable",
        ),
        (("one", "--timeout", "-1", "--", "x"), "--timeout: must be more than 0"),
        (("one", "--timeout", "0", "--", "x"), "--timeout: must be more than 0"),
        (("one", "ftp://x"), "url: it must begin with http:// or https://"),
        (("one", "--host", "http://x y", "--", "x"), "hosts: write example.org"),
        (
            ("one", "https://x", "--client-id", "a", "--callback-port", "70000"),
            "oauth.callbackPort: input should be",
        ),
        (("one", "--", ""), "nothing was added"),
    ],
)
def test_what_cannot_be_a_server_is_refused_and_nothing_is_written(
    line: tuple[str, ...], why: str, product: Product
) -> None:
    done = product.call("mcp", "add", *line)
    assert (done.code, done.out) == (2, "") and why in done.err, done
    assert not list(product.home.rglob("mcp.json"))


def test_a_projects_servers_are_shown_before_they_are_trusted(product: Product) -> None:
    (product.workspace / ".mcp.json").write_text(
        '{"mcpServers": {"theirs": {"command": "npx", "args": ["-y", "it"]}}}'
    )
    before = product.call("mcp", "list").out
    assert "not trusted, so it is not started" in before and "npx -y it" in before
    trusted = product.call("mcp", "trust")
    assert trusted.code == 0 and "npx -y it" in trusted.out
    assert json.loads(product.call("mcp", "list", "--json").out)["servers"][0]["trusted"]
    product.call("mcp", "distrust")
    assert not json.loads(product.call("mcp", "list", "--json").out)["servers"][0]["trusted"]


def test_a_broken_file_is_not_trusted(product: Product) -> None:
    (product.workspace / ".mcp.json").write_text("{")
    done = product.call("mcp", "trust")
    assert (done.code, done.out) == (
        1,
        "",
    ) and "nothing was trusted: repair .mcp.json first" in done.err


def test_nothing_to_trust_is_said(product: Product) -> None:
    assert product.call("mcp", "trust").out.startswith("nothing to trust")


def test_problems_of_the_files_go_to_standard_error(product: Product) -> None:
    (product.workspace / ".mcp.json").write_text(
        '{"mcpServers": {"a": {"command": "x", "alwaysAllow": []}, "b": {}}}'
    )
    done = product.call("mcp", "list")
    assert (
        done.code == 0
        and "alwaysAllow: not used by codeagent" in done.err
        and "error: .mcp.json:1: b" in done.err
    )


def add_server(product: Product, behaviour: str, *, name: str = "it") -> None:
    (product.home / "kept").mkdir(exist_ok=True)
    command = (sys.executable, str(SERVER), behaviour, str(product.home / "kept"))
    assert product.call("mcp", "add", name, "--machine", "--", *command).code == 0


def test_a_file_that_cannot_be_read_is_not_said_to_have_no_server(product: Product) -> None:
    (product.workspace / ".mcp.json").write_text("{")
    done = product.call("mcp", "list")
    assert (done.code, done.out) == (0, "")
    assert ".mcp.json:1: not JSON" in done.err


def test_a_tested_server_lists_its_tools_and_is_ended(product: Product) -> None:
    add_server(product, "Server")
    done = product.call("mcp", "test", "it")
    assert (done.code, done.out.splitlines()[0]) == (
        0,
        "it, on this machine, outside the sandbox: 1 tool",
    )
    assert "mcp__it__echo" in done.out
    (left,) = product.home.glob("kept/pid-*")
    with pytest.raises(ProcessLookupError):
        os.kill(int(left.name.removeprefix("pid-")), 0)


def test_a_server_that_does_not_start_is_exit_code_1_with_the_end_of_what_it_wrote(
    product: Product,
) -> None:
    product.call("mcp", "add", "bad", "--machine", "--", "sh", "-c", "echo no such key >&2; exit 3")
    done = product.call("mcp", "test", "bad")
    assert (done.code, done.out) == (1, "")
    assert "it ended with code 3" in done.err and "\n  no such key\n" in done.err


def test_a_program_in_the_workspace_is_shown_and_started_once_the_user_agrees(
    product: Product,
) -> None:
    (product.workspace / "srv.py").write_text(f"# first\n{SERVER.read_text()}")
    command = ("python3", "${workspaceFolder}/tools/srv.py", "Server", str(product.home))
    (product.workspace / "tools").mkdir()
    (product.workspace / "srv.py").rename(product.workspace / "tools/srv.py")
    assert product.call("mcp", "add", "it", "--machine", "--", *command).code == 0
    before = product.call("mcp", "test", "it")
    assert before.code == 1 and "+# first\n" in before.out and "--agree starts it" in before.err
    assert not list(product.home.glob("pid-*"))
    agreed = product.call("mcp", "test", "it", "--agree")
    assert agreed.code == 0 and "+# first\n" in agreed.out and "mcp__it__echo" in agreed.out
    assert product.call("mcp", "test", "it").out.startswith("it, on this machine")
    (product.workspace / "tools/srv.py").write_text(f"# second\n{SERVER.read_text()}")
    changed = product.call("mcp", "test", "it")
    assert (
        changed.code == 1
        and "-# first\n+# second\n" in changed.out
        and "srv.py as it is now" in changed.out
    )


def test_trusting_a_project_names_the_files_of_its_programs(product: Product) -> None:
    (product.workspace / "srv.py").write_text("print('it')\n")
    entry = {"command": "python3", "args": ["srv.py"]}
    (product.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": entry}}))
    trusted = product.call("mcp", "trust")
    assert "with these files of their programs" in trusted.out and "\n  srv.py  " in trusted.out
    (product.workspace / "srv.py").write_text("print('evil')\n")
    again = product.call("mcp", "test", "theirs", "--cwd", str(product.workspace))
    assert again.code == 1


def test_a_folder_in_the_workspace_for_a_server_on_this_machine_says_what_to_do(
    product: Product,
) -> None:
    file = product.home / "config/codeagent/mcp.json"
    file.parent.mkdir(parents=True)
    entry = {
        "command": "touch",
        "args": [str(product.home / "ran")],
        "where": "machine",
        "cwd": ".",
    }
    file.write_text(json.dumps({"mcpServers": {"it": entry}}))
    done = product.call("mcp", "test", "it")
    assert (
        done.code == 1
        and "is in the workspace" in done.err
        and "remove cwd from its entry" in done.err
    )
    assert not (product.home / "ran").exists()


def test_an_untrusted_server_is_not_started(product: Product) -> None:
    entry = {"command": "touch", "args": [str(product.home / "ran")]}
    (product.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": entry}}))
    done = product.call("mcp", "test", "theirs")
    assert done.code == 2 and "codeagent mcp trust" in done.err and "touch" in done.err
    assert not (product.home / "ran").exists()


def test_an_unknown_server_names_those_there_are(product: Product) -> None:
    add_server(product, "Server")
    done = product.call("mcp", "test", "nope")
    assert done.code == 2 and "no MCP server is named 'nope'; configured: it" in done.err


def test_only_a_server_over_http_can_be_logged_in_to(product: Product) -> None:
    add_server(product, "Server")
    done = product.call("mcp", "login", "it")
    assert done.code == 2 and "there is nothing to log in to" in done.err


def test_a_login_is_kept_for_tests_and_runs_and_ends_with_its_server(product: Product) -> None:
    visit = "import httpx2, sys; httpx2.get(sys.argv[1], follow_redirects=True)"
    browser = put(product.home, "browser", f"#!{sys.executable}\n{visit}\n")
    browser.chmod(0o755)
    with authorized_server(Authority()) as url:
        product.call("mcp", "add", "private", url)
        before = product.call("mcp", "test", "private")
        assert (
            before.code == 1 and "it wants you to log in: codeagent mcp login private" in before.err
        )
        done = product.call(
            "mcp", "login", "private", env=product.environment | {"BROWSER": str(browser)}
        )
        assert done.code == 0 and done.out.startswith("logged in to private; the login is kept in ")
        assert "open this address to log in" in done.err
        after = product.call("mcp", "test", "private")
        assert after.code == 0 and "mcp__private__whoami" in after.out
        model = product.script(
            {"calls": [["toolset_use", {"name": "private"}]]},
            {"calls": [["mcp__private__whoami", {}]]},
            {"text": "Done."},
        )
        run = product.run(model, "--yes", "--output", "jsonl")
        assert "you are in" in run.out
        assert "access-" not in run.out + run.err + after.out + after.err + done.out + done.err
        assert "refresh-" not in (product.sessions[-1] / "events.jsonl").read_text()
        product.call("mcp", "remove", "private")
        assert "MCP_PRIVATE" not in (product.home / "config/codeagent/keys.toml").read_text()


def test_a_run_uses_the_tools_of_a_server_once_its_set_is_turned_on(product: Product) -> None:
    add_server(product, "Server")
    model = product.script(
        {"calls": [["toolset_use", {"name": "it"}]]},
        {"calls": [["mcp__it__echo", {"text": "well said"}]]},
        {"text": "Done."},
    )
    done = product.run(model, "--yes", "--output", "jsonl")
    (result,) = [
        one
        for one in done.events
        if one["type"] == "tool.result" and one["name"] == "mcp__it__echo"
    ]
    assert not result["is_error"] and "well said" in json.dumps(result["content"])


def test_a_run_starts_nothing_of_an_untrusted_project_and_says_so(product: Product) -> None:
    entry = {"command": "touch", "args": [str(product.home / "ran")], "where": "machine"}
    (product.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": entry}}))
    done = product.run(product.script({"text": "Done."}))
    assert done.code == 0 and "not trusted, so it is not started: theirs" in done.err
    assert not (product.home / "ran").exists()


def put_project(product: Product, **servers: object) -> None:
    (product.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


def test_every_question_about_a_project_shows_all_of_its_file_and_each_variable_it_wants(
    product: Product,
) -> None:
    url = f"https://x.org/mcp?v=${{ANTHROPIC_API_KEY}}&pad={'a' * 500}end"
    put_project(
        product, theirs={"url": url, "headers": {"Authorization": "Bearer ${TOKEN}", "X": "plain"}}
    )
    for words in (("list",), ("test", "theirs"), ("login", "theirs"), ("trust",)):
        done = product.call("mcp", *words)
        text = done.out + done.err
        assert (
            url in text
            and "sends Authorization: Bearer ${TOKEN}" in text
            and "sends X: plain" in text
        ), words
        assert "wants your ANTHROPIC_API_KEY, for its address: not given" in text, words
        assert "wants your TOKEN, for its header Authorization: not given" in text, words
    (server,) = json.loads(product.call("mcp", "list", "--json").out)["servers"]
    assert [one["name"] for one in server["wants"]] == ["ANTHROPIC_API_KEY", "TOKEN"] and server[
        "url"
    ] == url


def test_a_variable_is_given_to_a_server_of_the_project_by_name(product: Product) -> None:
    put_project(
        product,
        theirs={"command": "sh", "args": ["-c", "echo $T >&2; exit 1"], "env": {"T": "${HOME}"}},
    )
    product.call("mcp", "trust")
    assert "it wants your variable HOME; give it with: codeagent mcp trust --give theirs=HOME" in (
        product.call("mcp", "list").out
    )
    refused = product.call("mcp", "trust", "--give", "theirs=PATH")
    assert refused.code == 2 and "theirs does not want PATH; it wants HOME" in refused.err
    assert "--give takes SERVER=NAME" in product.call("mcp", "trust", "--give", "theirs").err
    given = product.call("mcp", "trust", "--give", "theirs=HOME")
    assert given.code == 0 and "wants your HOME, for its variable T: given" in given.out
    assert "not tested" in product.call("mcp", "list").out
    product.call("mcp", "distrust")
    product.call("mcp", "trust")
    assert "not given" in product.call("mcp", "list").out
