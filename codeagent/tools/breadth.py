"""Which rules are too broad to come of an answer: what they allow cannot be seen from them (SECURITY.md T26)."""

import re

from codeagent.core.policy import NETWORK, Rule
from codeagent.tools.shell_runs import RUNNERS, SHELLS

RUNS_ANYTHING = SHELLS | frozenset(RUNNERS) | {
    "python", "pypy", "node", "deno", "bun", "perl", "ruby", "php", "lua", "luajit", "tclsh", "Rscript", "julia",
    "osascript", "awk", "gawk", "mawk", "nawk", "eval", "source", ".", "trap", "gdb", "expect", "find", "fd", "vi",
    "vim", "nvim", "emacs", "ed", "ex", "docker", "podman",
}  # fmt: skip
"""Programs that run whatever comes behind them."""
GOES_OUT = frozenset({
    "curl", "wget", "nc", "ncat", "netcat", "socat", "telnet", "ftp", "sftp", "scp", "rsync", "http",
    "httpie", "aria2c", "dig", "nslookup", "host", "ping", "gh", "aws", "gcloud", "az", "kubectl",
})  # fmt: skip
"""Programs that talk to other machines."""
DESTROYS = frozenset({"rm", "dd", "mkfs", "shred", "truncate", "chmod", "chown", "kill", "pkill", "killall"})
_VERSIONED = re.compile(r"(python|pypy|perl|ruby|php|lua|node)[\d.]+")
_WILD = re.compile(r"[*?]")


def too_broad(rule: Rule) -> str | None:
    """Why a person's answer must not become this rule, as a phrase; None where it may."""
    if rule.pattern is None:
        return "it would allow every call of the tool"
    if _WILD.search(rule.tool):
        return "it would allow more than one tool"
    if not re.search(r"\w", rule.pattern):
        return "it matches everything"
    fixed = _WILD.split(rule.pattern, maxsplit=1)[0].removeprefix(NETWORK)
    if rule.tool != "bash" or fixed == rule.pattern.removeprefix(NETWORK):
        return None
    return _of_command(fixed) if fixed.strip() else "it begins with anything"


def _of_command(fixed: str) -> str | None:
    """Of a rule for commands that begin with this and go on with anything."""
    words = fixed.split()
    name = words[0].rpartition("/")[2]
    whole = len(words) > 1 or fixed.endswith(" ")
    if not whole:
        return f"other programs than {name} begin with {name}; put a blank before the *"
    if name in RUNS_ANYTHING or _VERSIONED.fullmatch(name):
        return f"{name} runs whatever comes behind it"
    if name in GOES_OUT or words[:2] == ["git", "push"]:
        return f"{' '.join(words[:2]) if name == 'git' else name} talks to other machines"
    if name in DESTROYS:
        return f"{name} destroys whatever comes behind it"
    if name == "git" and (len(words) == 1 or words[1].startswith("-")):
        return "git without a sub-command can be made to run anything"
    return None
