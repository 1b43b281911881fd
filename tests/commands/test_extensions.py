"""`codeagent extensions`, and an extension that is switched off."""

from pathlib import Path

import pytest

from codeagent import cli
from codeagent.config.extensions import Extensions
from codeagent.config.local_environment import user_config_file


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def write(text: str) -> None:
    user_config_file().parent.mkdir(parents=True, exist_ok=True)
    user_config_file().write_text(text)
    user_config_file().chmod(0o600)


def test_the_list_says_which_are_on(capsys: pytest.CaptureFixture[str]) -> None:
    write('[extensions]\noff = ["mcp"]\n')
    assert cli.main(["extensions", "list"]) == 0
    states = {line.split()[0]: line.split()[1] for line in capsys.readouterr().out.splitlines()}
    assert states["mcp"] == "off"
    assert states["web"] == "on"


def test_what_one_brings_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["extensions", "show", "web"]) == 0
    printed = capsys.readouterr().out
    assert "settings  [web]" in printed
    assert "toolsets  web: http_request, web_fetch, web_search" in printed
    cli.main(["extensions", "show", "text_calls"])
    cli.main(["extensions", "show", "provider_tools"])
    printed = capsys.readouterr().out
    assert "models    changes how models are asked" in printed
    assert "models    tools that a model's provider runs" in printed


def test_what_one_brings_has_its_options_and_its_commands_on_the_screen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["extensions", "show", "recipes"]) == 0
    commands = capsys.readouterr().out.partition("commands  ")[2].split("\n")
    assert [line.strip() for line in commands if line] == [
        "codeagent recipes",
        "codeagent run --recipe NAME",
        "codeagent run --input NAME=VALUE",
        "/recipes [trust|distrust]",
    ]


def test_an_unknown_one_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["extensions", "show", "nothing"]) == 2
    assert "unknown extension 'nothing'" in capsys.readouterr().err


def test_the_command_of_an_extension_that_is_off_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write('[extensions]\noff = ["mcp"]\n')
    assert cli.main(["mcp", "list"]) == 2
    said = "codeagent: mcp: the extension mcp is switched off, by extensions.off in"
    assert capsys.readouterr().err.startswith(said)


def test_an_action_of_another_extension_is_there_while_that_of_its_command_is_off(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write('[extensions]\noff = ["mcp"]\n')
    assert cli.main(["mcp", "serve", "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: codeagent mcp serve ")
    assert cli.main(["mcp", "serve", "--cwd", "nowhere"]) == 2
    assert "--cwd 'nowhere' is not an existing folder" in capsys.readouterr().err
    assert cli.main(["mcp", "--help"]) == 2
    assert "the extension mcp is switched off" in capsys.readouterr().err


def test_a_folder_with_the_words_of_an_action_as_its_name_is_a_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mcp serve").mkdir()
    monkeypatch.chdir(tmp_path)
    assert cli.main(["mcp serve", "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: codeagent [PATH] ")


def test_an_action_whose_own_extension_is_off_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    for off in ('"mcp_serve"', '"mcp", "mcp_serve"'):
        write(f"[extensions]\noff = [{off}]\n")
        assert cli.main(["mcp", "serve"]) == 2
        said = "codeagent: mcp serve: the extension mcp_serve is switched off"
        assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize(
    ("file", "extension"), [("a.yaml", "user_tools"), ("a.py", "user_tools"), ("a.md", "agents")]
)
def test_a_file_that_an_extension_would_load_is_checked_only_if_it_is_on(
    file: str, extension: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / file).write_text("---\nname: a\ndescription: does a thing\n---\n")
    write(f'[extensions]\noff = ["{extension}"]\n')
    assert cli.main(["tools", "check", file, "--cwd", str(tmp_path)]) == 2
    said = f"{file}: the extension {extension} is switched off, by extensions.off in"
    assert said in capsys.readouterr().err


def test_a_file_is_checked_beside_the_tools_that_are_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "fetch.yaml").write_text(
        "name: web_fetch\nbuiltin: true\ndescription: Only the pages of one host.\nrestrictions: {hosts: [a.example]}\n"
    )
    check = ["tools", "check", "fetch.yaml", "--cwd", str(tmp_path)]
    assert cli.main(check) == 0
    write('[extensions]\noff = ["web"]\n')
    assert cli.main(check) == 2
    assert "web_fetch" in capsys.readouterr().err


def test_one_that_cannot_be_used_is_listed_with_the_reason(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Extensions((), broken={"mine": "ImportError: no module of\x1b mine"})
    monkeypatch.setattr("codeagent.config.layers.all_extensions", lambda: found)
    assert cli.main(["extensions", "list"]) == 0
    assert capsys.readouterr().out == "mine  fail ImportError: no module of\\x1b mine\n"
    assert cli.main(["extensions", "show", "mine"]) == 2
    assert "the extension mine cannot be used: ImportError" in capsys.readouterr().err


@pytest.mark.parametrize("section", ['off = "mcp"', 'of = ["mcp"]', "off = [1]"])
def test_a_section_that_is_not_valid_leaves_no_command_of_an_extension_on(
    section: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(f"[extensions]\n{section}\n")
    for command in (["extensions", "list"], ["mcp", "list"]):
        assert cli.main(command) == 2
        assert f"{user_config_file()}:2: extensions.of" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "extension"), [("recipe", "recipes"), ("group", "agents")])
def test_an_option_of_an_extension_that_is_off_says_so(
    option: str, extension: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (script := tmp_path / "script.json").write_text('[{"text": "Done."}]')
    given = ["run", "--model", f"script:{script}", "--cwd", str(tmp_path), f"--{option}", "any"]
    said = f"--{option}: the extension {extension} is switched off; nothing was run"
    assert cli.main([*given, "--safe"]) == 2
    assert said in capsys.readouterr().err
