"""Tries a rule on an example of what it is for, by the parsing that calls get."""

import posixpath
from dataclasses import replace

from codeagent.core.paths import host_reason, secret_reason
from codeagent.core.policy import NETWORK, ApprovalKey, Policy, Rule
from codeagent.tools.shell.syntax import command_key

_COMMANDS = ("bash",)
"""Tools whose rules are matched against the commands of a line."""
_READING = ("read", "list", "search")
_WRITING = ("write", "edit")
"""Tools whose rules are matched against a path."""


def decides(rule: Rule, example: str) -> bool:
    """Whether the rule, alone, decides a call that the example stands for; never raises.

    The example is a command line, a path relative to the workspace, or arguments as JSON: whatever
    the rule's tool is asked about. An allowing rule must match all of it, any other a part.
    """
    tool, key = _call(rule, example)
    return Policy("ask", (rule,), ask_reads=True).check(tool, key, "prompt", "anything").source == "rule"


def _call(rule: Rule, example: str) -> tuple[str, ApprovalKey]:
    for tool in _COMMANDS:
        if rule.covers(tool):
            networked = (rule.pattern or "").startswith(NETWORK)
            return tool, replace(command_key(example), network=networked)
    for tool in (*_WRITING, *_READING):
        if rule.covers(tool):
            return tool, _path_key(example, reading=tool in _READING)
    return rule.tool, ApprovalKey(kind="text", parts=(example,))


def _path_key(path: str, *, reading: bool) -> ApprovalKey:
    """As `tools.path_rules` makes it, but of a workspace that is not there: no link can be followed."""
    folded = posixpath.normpath(path)
    outside = folded.startswith(("/", "../")) or folded == ".."
    sensitive = secret_reason(folded) if reading else host_reason(folded)
    return ApprovalKey(kind="path", parts=(folded,), opaque=outside, sensitive=sensitive)
