"""Rules on tools: which are too broad to come from an answer, and which one a
question proposes.

A proposed rule allows this call and others like it, and the user may edit it first. It is never the
bare tool name, nor anything that would allow everything: no shell, no interpreter, no program that
runs others, reaches another machine or removes files.
"""

import posixpath
import re
from dataclasses import replace
from pathlib import PurePosixPath

from codeagent.core.errors import ConfigError
from codeagent.core.host_files import kind_of
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.paths import host_reason, secret_reason
from codeagent.core.policy import EFFECTS, HOSTS, NETWORK, ApprovalKey, Policy, Rule
from codeagent.core.sanitize import spelled

_WILD = lazy_regex(r"[*?]")
_READING = ("read", "list", "search", "glob", "tree", "json_read")
_WRITING = ("write", "edit", "multi_edit", "apply_patch", "json_write")
"""The tools whose rules are matched against a path."""
_LONGEST = 100


def too_broad(rule: Rule) -> str | None:
    """Why an answer must not become this rule, as a phrase; None if it may."""
    if rule.pattern is None:
        return "it would allow every call of the tool"
    if _WILD.search(rule.tool):
        return "it would allow more than one tool"
    if not re.search(r"\w", rule.pattern):
        return "it matches everything"
    fixed = _WILD.split(rule.pattern, maxsplit=1)[0].removeprefix(NETWORK)
    if rule.tool != "bash" or fixed == rule.pattern.removeprefix(NETWORK):
        return None
    return _of_command(fixed) if fixed.strip() else "it starts with a wildcard"


def _of_command(fixed: str) -> str | None:
    """Why a rule for all commands that begin with this is too broad, as a phrase; None if it is
    not."""
    words = fixed.split()
    name = words[0].rpartition("/")[2]
    whole = len(words) > 1 or fixed.endswith(" ")
    if not whole:
        return f"the names of other programs begin with {name} too; put a space before the *"
    from codeagent.tools.shell.programs import (  # few rules are kept
        DESTROYS,
        GOES_OUT,
        runs_anything,
    )

    if runs_anything(name):
        return f"{name} runs whatever follows it"
    if name in GOES_OUT or words[:2] == ["git", "push"]:
        return f"{' '.join(words[:2]) if name == 'git' else name} connects to other machines"
    if name in DESTROYS:
        return f"{name} destroys whatever it is given"
    if name == "git" and (len(words) == 1 or words[1].startswith("-")):
        return "git without a sub-command can be made to run anything"
    return None


def path_proposal(tool: str, key: ApprovalKey) -> str:
    """A rule for the file's folder; at the top level, for its suffix or its name.

    For a file that runs outside the sandbox when the project is built or a tool starts: one for its
    kind, in every folder. Empty for any other sensitive file.
    """
    if key.opaque or not key.parts:
        return ""
    path = PurePosixPath(key.parts[0])
    plain = spelled(str(path)) == str(path) and not re.search(r"[*?\s()]", str(path))
    if not plain or path.is_absolute() or ".." in path.parts:
        return ""
    if key.sensitive is not None:
        kind = kind_of(path.name)
        return that_allows(f"{tool}(**/{kind})", tool, key) if kind else ""
    if len(path.parts) > 1:
        return that_allows(f"{tool}({path.parent}/**)", tool, key)
    return that_allows(f"{tool}(*{path.suffix})" if path.suffix else f"{tool}({path})", tool, key)


def that_allows(rule: str, tool: str, key: ApprovalKey, *, ask_reads: bool = False) -> str:
    """The rule, if it does what it is proposed for and may come from an answer; else empty."""
    if not rule or len(rule) > _LONGEST:
        return ""
    try:
        parsed = Rule.parse(rule, "auto")
    except ConfigError:
        return ""
    if too_broad(parsed) is not None:
        return ""
    policy = Policy(rules=(parsed,), ask_reads=ask_reads)
    return rule if policy.check(tool, key, "prompt", "anything").source == "rule" else ""


def decides(rule: Rule, example: str) -> bool:
    """Whether the rule, by itself, decides calls like the example; never raises.

    The example is what the rule's tool is asked about: a command line, a path relative to the
    workspace, a host, or JSON arguments. A rule that allows must match all of it, any other only a
    part.
    """
    if rule.tool == HOSTS:
        return rule.reaches(example)
    tool, key = _example_call(rule, example)
    return (
        Policy("ask", (rule,), ask_reads=True).check(tool, key, "prompt", "anything").source
        == "rule"
    )


def _example_call(rule: Rule, example: str) -> tuple[str, ApprovalKey]:
    if rule.covers("bash"):
        from codeagent.tools.shell.syntax import command_key  # few rules have examples

        return "bash", replace(
            command_key(example), network=(rule.pattern or "").startswith(NETWORK)
        )
    for tool in (*_WRITING, *_READING, EFFECTS):
        if rule.covers(tool):
            return tool, _example_path(example, reading=tool in _READING)
    return rule.tool, ApprovalKey(kind="text", parts=(example,))


def _example_path(path: str, *, reading: bool) -> ApprovalKey:
    """As `path_key` makes it, without a workspace: links cannot be followed."""
    folded = posixpath.normpath(path)
    outside = folded.startswith(("/", "../")) or folded == ".."
    sensitive = secret_reason(folded) if reading else host_reason(folded)
    return ApprovalKey(kind="path", parts=(folded,), opaque=outside, sensitive=sensitive)
