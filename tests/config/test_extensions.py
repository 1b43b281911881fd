"""Extensions: their manifests, switching one off, and what an installed package brings."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from codeagent.config import extensions
from codeagent.config.extensions import Extensions, all_extensions
from codeagent.config.layers import load_settings
from codeagent.config.settings import Settings
from codeagent.core.errors import ConfigError
from codeagent.core.extension import (
    Extension,
    InConversations,
    OfferedSet,
    OnScreen,
    RunOption,
    SlashCommand,
    Subcommand,
    resolved,
)
from codeagent.extensions.web.settings import WebSettings
from codeagent.tools.shell.rules import decides

EVERY = [extension.name for extension in all_extensions().on]


def settings(tmp_path: Path, text: str, **flags: object) -> Settings:
    file = tmp_path / "config.toml"
    file.write_text(text)
    file.chmod(0o600)
    return load_settings(
        {"rules": {}, **flags}, environment={}, user_file=file, workspace=tmp_path, decides=decides
    )


def named_in(part: object) -> Iterator[str]:
    """Yield every reference of a manifest, in whatever part of it."""
    match part:
        case str() if re.fullmatch(r"[a-z_.]+:\w+", part):
            yield part
        case Mapping():
            yield from named_in(tuple(part.values()))
        case tuple():
            for one in part:
                yield from named_in(one)
        case _ if is_dataclass(part):
            for one in fields(part):
                yield from named_in(getattr(part, one.name))


@pytest.mark.parametrize("extension", all_extensions().on, ids=lambda extension: extension.name)
def test_all_that_a_manifest_names_is_there(extension: Extension) -> None:
    assert all(map(callable, map(resolved, named_in(extension))))
    for command in extension.subcommands:
        assert callable(resolved(f"{command.module}:add_arguments"))
        assert callable(resolved(f"{command.module}:main"))


def test_a_section_of_an_extension_is_read_by_its_own_model(tmp_path: Path) -> None:
    read = settings(tmp_path, '[web]\nsearch = "brave"\n')
    assert read.section("web", WebSettings).search == "brave"
    assert read.origins["web.search"] == str(tmp_path / "config.toml")
    assert Settings().section("web", WebSettings) == WebSettings()


def test_what_is_wrong_in_a_section_of_an_extension_is_said_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config.toml:2: web.serach: .*did you mean web.search"):
        settings(tmp_path, '[web]\nserach = "brave"\n')


def test_the_section_of_an_extension_that_is_off_is_named_and_not_read(tmp_path: Path) -> None:
    read = settings(tmp_path, '[web]\nanything = 1\n\n[extensions]\noff = ["web"]\n')
    assert read.sections == {}
    assert read.unused == (
        f"{tmp_path / 'config.toml'}:1: web: no such setting, because the extension web is "
        "switched off",
    )


def test_the_command_line_switches_off_more_than_the_file(tmp_path: Path) -> None:
    off = {"off": tuple(EVERY)}
    read = settings(tmp_path, '[web]\nsearch = "brave"\n', extensions=off)
    assert read.extensions.off == tuple(EVERY)
    assert read.sections == {}


def test_an_unknown_extension_is_an_error_that_lists_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"config.toml:2: .*unknown extension 'wbe'; there are agents, "
    ):
        settings(tmp_path, '[extensions]\noff = ["wbe"]\n')


def test_a_project_switches_nothing_off(tmp_path: Path) -> None:
    (tmp_path / ".codeagent").mkdir()
    (tmp_path / ".codeagent/config.toml").write_text('[extensions]\noff = ["web"]\n')
    with pytest.raises(ConfigError, match="cannot be set by a project"):
        settings(tmp_path, "")


def installed(monkeypatch: pytest.MonkeyPatch, *values: str) -> Extensions:
    """Read the extensions as if a package had entry points with these values."""
    points = [EntryPoint("mine", value, extensions.PACKAGES) for value in values]
    monkeypatch.setattr(extensions, "may_bring", lambda groups, path: True)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
    return all_extensions.__wrapped__()


MINE = Extension(
    name="mine",
    about="a package's",
    sets=(OfferedSet(name="mine", about="", tools=("count",), make="m:f"),),
    subcommands=(Subcommand(name="count", about="counts", module="m"),),
)
SAME_NAME = Extension(name="web", about="")
SAME_SECTION = Extension(name="other", about="", settings={"web": "m:f"})
SAME_COMMAND = Extension(
    name="other", about="", subcommands=(Subcommand(name="mcp", about="", module="m"),)
)
SAME_SLASH_COMMAND = Extension(
    name="other",
    about="",
    screen=OnScreen(commands=(SlashCommand(name="mcp", about="", does="m:f"),)),
)
SAME_OPTION = Extension(
    name="other", about="", run_options=(RunOption(name="recipe", metavar="", about=""),)
)
SAME_ACT = Extension(
    name="other", about="", in_conversations=InConversations(acts={"TrustServers": "m:f"})
)
SAME_PART = Extension(name="other", about="", at_provider="m:f")
KERNELS_SECTION = Extension(name="other", about="", settings={"rules": "m:f"})
KERNELS_COMMAND = Extension(
    name="other", about="", subcommands=(Subcommand(name="run", about="", module="m"),)
)
KERNELS_ACTION = Extension(
    name="other", about="", subcommands=(Subcommand(name="list", of="tools", about="", module="m"),)
)
KERNELS_OPTION = Extension(
    name="other", about="", run_options=(RunOption(name="yes", metavar="", about=""),)
)
KERNELS_SLASH_COMMAND = Extension(
    name="other",
    about="",
    screen=OnScreen(commands=(SlashCommand(name="rain", aliases=("undo",), about="", does="m:f"),)),
)
SAME_SET = Extension(
    name="other", about="", sets=(OfferedSet(name="web", about="", tools=(), make="m:f"),)
)
NOT_ONE = object()


def test_an_installed_package_brings_an_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed(monkeypatch, f"{__name__}:MINE").on[-1] is MINE


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("SAME_NAME", "it brings the name web, which web has; that of web is used"),
        ("SAME_SET", "it brings the toolset web, which web has; that of web is used"),
        ("KERNELS_SECTION", "the settings rules, which codeagent has; that of codeagent is used"),
        ("KERNELS_COMMAND", "the command run, which codeagent has; that of codeagent is used"),
        ("KERNELS_ACTION", "the command tools list, which codeagent has; that of codeagent"),
        ("KERNELS_OPTION", "the option yes, which codeagent has; that of codeagent is used"),
        ("KERNELS_SLASH_COMMAND", "the slash command undo, which codeagent has; that of codeagent"),
        ("SAME_SECTION", "brings the settings web, which web has"),
        ("SAME_COMMAND", "brings the command mcp, which mcp has"),
        ("SAME_SLASH_COMMAND", "brings the slash command mcp, which mcp has"),
        ("SAME_OPTION", "brings the option recipe, which recipes has"),
        ("SAME_ACT", "brings the act TrustServers, which mcp has"),
        ("SAME_PART", "brings the part at_provider, which provider_tools has"),
        ("NOT_ONE", "is not an Extension"),
        ("MISSING", "AttributeError"),
    ],
)
def test_an_extension_that_does_not_fit_is_broken_and_the_others_are_there(
    monkeypatch: pytest.MonkeyPatch, value: str, said: str
) -> None:
    found = installed(monkeypatch, f"{__name__}:{value}", f"{__name__}:MINE")
    assert said in found.broken["mine"]
    assert found.on[-1] is MINE
