"""In mode auto a server asks if it is elsewhere, holds something or runs on this machine, as the
web tools do."""

from pathlib import Path
from typing import Any

from codeagent.core.policy import Mode, Policy, Rule, Verdict
from codeagent.core.tool import OpenArgs
from codeagent.extensions.mcp.config import LoginClient, ServerConfig
from codeagent.extensions.mcp.offer import offer_of
from codeagent.extensions.mcp.server_tool import ServerTool
from codeagent.extensions.mcp.source import McpSource, ServerHost
from tests.table import for_each

ECHO = {"name": "echo", "description": "Say it back.", "inputSchema": {"type": "object"}}
REMOTE = {"url": "https://u:p@mcp.example.org/mcp?k=secret"}


def verdict(fields: dict[str, Any], policy: Policy, **hints: bool) -> Verdict:
    config = ServerConfig("s", **fields)
    source = McpSource(config, ServerHost(Path("/nowhere"), {}, Path("/nowhere")))
    [offered] = offer_of("s", [{**ECHO, "annotations": hints}]).tools
    tool = ServerTool(offered, source)
    return policy.check(tool.name, tool.approval_key(OpenArgs()), tool.permission, tool.effect)


@for_each(
    "fields, reason",
    [
        (REMOTE, "network access to mcp.example.org"),
        ({"url": "http://192.168.1.2:8080/mcp"}, "network access to 192.168.1.2:8080"),
        ({"url": "http://localhost.example.org/"}, "network access to localhost.example.org"),
        ({"url": "http://127.0.0.1:1/", "headers": {"X-Key": "v"}}, "it holds X-Key"),
        ({"url": "http://[::1]:1/", "client": LoginClient("id", "v")}, "it holds a login"),
        ({"command": "x", "hosts": ("example.org",)}, "it may reach example.org"),
        ({"command": "x", "env": {"TOKEN": "v"}}, "it holds TOKEN"),
        ({"command": "x", "where": "machine"}, "it runs on this machine, outside the sandbox"),
    ],
)
def test_mode_auto_asks_and_says_why(fields: dict[str, Any], reason: str) -> None:
    found = verdict(fields, Policy("auto"))
    assert (found.permission, reason in found.reason) == ("prompt", True), found
    assert "secret" not in found.reason and "u:p" not in found.reason


@for_each(
    "fields",
    [
        {"command": "x"},
        {"url": "http://127.0.0.1:1/"},
        {"url": "http://localhost/"},
        {"url": "http://[::1]/"},
    ],
)
def test_mode_auto_does_not_ask_for_one_that_holds_nothing_and_stays_here(
    fields: dict[str, Any],
) -> None:
    assert verdict(fields, Policy("auto")).permission == "auto"


def test_what_a_server_says_about_itself_never_spares_the_question() -> None:
    for hints in ({"readOnlyHint": True}, {"readOnlyHint": True, "destructiveHint": False}):
        assert verdict(REMOTE, Policy("auto"), **hints).permission == "prompt"


def test_rules_in_the_same_words_as_before_allow_deny_and_are_suspended() -> None:
    allows = (Rule.parse("mcp__s__echo", "auto"), Rule.parse("mcp__s__*(*)", "auto"))
    for rule in allows:
        assert verdict(REMOTE, Policy("auto", (rule,))).permission == "auto"
    modes: tuple[Mode, ...] = ("ask", "auto")
    for mode in modes:
        for text in ("mcp__s__*(mcp.example.org)", "mcp__s__echo"):
            assert verdict(REMOTE, Policy(mode, (Rule.parse(text, "deny"),))).permission == "deny"
    own = Rule.parse("mcp__s__echo(*)", "auto", "session")
    found = verdict(REMOTE, Policy("auto", (own,), heard=("elsewhere",)))
    assert found.permission == "prompt" and "is suspended" in found.reason
