"""Who may do what without being asked: a pure function of call, rules and mode."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from codeagent.core.errors import ConfigError
from codeagent.core.hunks import HunkAnswer

Permission = Literal["auto", "prompt", "deny"]
Effect = Literal["nothing", "files", "anything"]
Mode = Literal["ask", "accept-edits", "plan", "auto"]
ApprovalSource = Literal["auto", "user", "rule", "hook", "flag"]
"""`auto`: nobody was asked, or nobody was there. `flag`: `--yes` answered in the user's place."""
RuleOrigin = Literal["flag", "session", "saved", "user", "project"]
"""Where a rule comes from: the command line, an answer for this session, an answer that was kept, the person's own
configuration, the project's (which may only tighten)."""
Answer = Literal["once", "session", "rule", "edit", "deny"]
"""`session`: this exact call is not asked about again in this session. `rule`: neither is what `Decision.rule` matches.
`edit`: ask again, about other arguments."""

ALWAYS_ASKS = "this tool asks"
"""The reason where neither a rule nor the call itself gives one."""
SAID_NO = "the user said no"
"""How a denial of the person's begins, for the model; their reason follows a colon."""
NETWORK = "network: "
"""How an allowing rule begins that is for calls with network access, as in `bash(network: pip install *)`."""
_RULE = re.compile(r"(?P<tool>[A-Za-z0-9_*-]{1,64})(?:\((?P<pattern>.*)\))?", re.DOTALL)

_INCLUDES: dict[str, tuple[str, ...]] = {"write": ("edit",), "read": ("list", "search")}
"""What may be written may be edited, and what may not be read may not be searched either."""


@dataclass(frozen=True)
class ApprovalKey:
    """What the rules are matched against.

    `parts` are the simple commands of a command line, or paths, or the arguments as text. An
    allowing rule must match every part; a denying rule, any. `opaque` says that the parts may
    not be all of it (a substitution, a parse failure): then no rule can allow the call.
    """

    kind: Literal["command", "path", "text"]
    parts: tuple[str, ...]
    opaque: bool = False
    sensitive: str | None = None
    """Why a person is asked even where the mode would not: shown with the question. For a path, only a rule that
    names it exactly answers for them."""
    reads_only: bool = False
    """All of it is known to only read, where it runs confined: asked about only where `Policy.ask_reads` says so."""
    reading: frozenset[str] = frozenset()
    """Those of `parts` that are known to only read: an allowing rule for the others is enough then."""
    network: bool = False
    """The call reaches other machines: only a rule whose pattern begins with NETWORK allows it, matched against the
    parts behind that word; other rules match with the word or without it. Plan mode denies it."""

    does: tuple["Deed", ...] = ()
    """What the call does by means of other tools: their rules that deny or ask hold for it, too; none allows it."""

    @property
    def spellings(self) -> tuple[str, ...]:
        """What a rule that denies or asks needs to match one of."""
        return (*self.parts, *(NETWORK + part for part in self.parts)) if self.network else self.parts


@dataclass(frozen=True)
class Deed:
    """Something that could have been done with another tool, named as that tool would name it."""

    tool: str
    key: ApprovalKey


@dataclass(frozen=True)
class Rule:
    """`tool` or `tool(pattern)`, as in `bash(git status*)` or `write(src/**)`."""

    permission: Permission
    tool: str
    pattern: str | None = None
    origin: RuleOrigin = "user"

    @classmethod
    def parse(cls, text: str, permission: Permission, origin: RuleOrigin = "user") -> "Rule":
        """Raises ConfigError when the text is no rule."""
        match = _RULE.fullmatch(text.strip())
        if match is None or match["pattern"] == "":
            raise ConfigError(f"not a rule: {text!r}; write tool or tool(pattern), as in bash(git status*)")
        return cls(permission, match["tool"], match["pattern"], origin)

    def __str__(self) -> str:
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"

    @property
    def is_exact(self) -> bool:
        """It names one thing: no wildcard."""
        return self.pattern is not None and not any(letter in self.pattern for letter in "*?")

    def covers(self, tool: str) -> bool:
        """Its own tools, and those that do less of the same: see `_INCLUDES`."""
        return any(_glob(name, "text").fullmatch(tool) for name in (self.tool, *_INCLUDES.get(self.tool, ())))

    def matches(self, part: str, kind: str) -> bool:
        return self.pattern is None or _glob(self.pattern, kind).fullmatch(part) is not None


@dataclass(frozen=True)
class Verdict:
    permission: Permission
    source: ApprovalSource
    reason: str
    """A phrase for the person and, on a denial, for the model."""
    rule: str | None = None


@dataclass(frozen=True)
class Decision:
    """What was answered to an approval request."""

    answer: Answer
    reason: str = ""
    """On a denial: what the model is told."""
    source: ApprovalSource = "user"
    rule: str = ""
    """With `rule`: the rule that allows this call and others like it from now on, as the person left it."""
    keep: bool = False
    """With `rule`: also in later sessions of this workspace."""
    arguments: str = ""
    """With `edit`: the arguments the call shall have instead, as JSON."""
    hunks: tuple[HunkAnswer, ...] | None = None
    """With `once`: what of the change is taken, an answer for each of `core.hunks.cut`; None: all of it."""


@dataclass(frozen=True)
class Policy:
    """The rules and the mode in force. deny > prompt > auto among rules, rules before mode."""

    mode: Mode = "ask"
    rules: tuple[Rule, ...] = ()
    ask_reads: bool = False
    """Ask about commands that only read, too."""

    def check(self, tool: str, key: ApprovalKey, default: Permission, effect: Effect) -> Verdict:
        """Judge one call; `default` and `effect` are the tool's own."""
        if self.mode == "plan" and effect != "nothing":
            return Verdict("deny", "auto", "plan mode changes nothing")
        if self.mode == "plan" and key.network:
            return Verdict("deny", "auto", "plan mode gives no command network access")
        stopping = self._stopping(tool, key)
        for rule in _having("deny", stopping):
            return Verdict("deny", "rule", f"denied by the rule {rule}", str(rule))
        for rule in _having("prompt", stopping):
            return Verdict("prompt", "rule", f"the rule {rule} asks", str(rule))
        rules = [rule for rule in self.rules if rule.covers(tool)]
        return self._allowed(key, _having("auto", rules)) or self._without_rules(key, default, effect)

    def _stopping(self, tool: str, key: ApprovalKey) -> list[Rule]:
        """The rules that match the call or anything it does; a denying one without a pattern matches everything."""
        found = []
        for name, one in ((tool, key), *((deed.tool, deed.key) for deed in key.does)):
            for rule in self.rules:
                whole = rule.pattern is None and rule.permission == "deny"
                if rule.covers(name) and (whole or any(rule.matches(part, one.kind) for part in one.spellings)):
                    found.append(rule)
        return found

    def _allowed(self, key: ApprovalKey, rules: list[Rule]) -> Verdict | None:
        """By rules; None where they leave something open."""
        if key.sensitive is not None and key.kind == "path":
            rules = [rule for rule in rules if rule.is_exact]
        if key.network:
            rules = [rule for rule in rules if (rule.pattern or "").startswith(NETWORK)]
        if (bare := next((rule for rule in rules if rule.pattern is None), None)) is not None:
            return Verdict("auto", "rule", f"allowed by the rule {bare}", str(bare))
        free = frozenset() if self.ask_reads else key.reading
        said = NETWORK if key.network else ""
        matched = [_first(rules, said + part, key.kind) for part in key.parts if part not in free]
        if not matched or key.opaque or not all(matched):
            return None
        names = ", ".join(dict.fromkeys(str(rule) for rule in matched))
        return Verdict("auto", "rule", f"allowed by {names}", names)

    def _without_rules(self, key: ApprovalKey, default: Permission, effect: Effect) -> Verdict:
        if default == "deny":
            return Verdict("deny", "auto", "this tool is off unless a rule allows it")
        if key.sensitive is not None:
            return Verdict("prompt", "auto", key.sensitive)
        if default == "auto":
            return Verdict("auto", "auto", "this tool needs no question")
        if key.reads_only and not self.ask_reads:
            return Verdict("auto", "auto", "it only reads, in the sandbox")
        if self.mode == "auto" or (self.mode == "accept-edits" and effect == "files"):
            return Verdict("auto", "auto", f"the mode {self.mode} does not ask")
        return Verdict("prompt", "auto", ALWAYS_ASKS)


def _having(permission: Permission, rules: list[Rule]) -> list[Rule]:
    return [rule for rule in rules if rule.permission == permission]


def _first(rules: list[Rule], part: str, kind: str) -> Rule | None:
    return next((rule for rule in rules if rule.matches(part, kind)), None)


@lru_cache(maxsize=1024)
def _glob(pattern: str, kind: str) -> re.Pattern[str]:
    """`*` and `?` as in a shell; in a path they stop at `/` and `**` does not.

    ` *` at the end of a command stands for any further words, or none: `pytest *` is `pytest` and not `pytest-x`. `/**`
    at the end of a path stands for the folder, too.
    """
    within = "[^/]" if kind == "path" else "."
    out: list[str] = []
    rest, end = pattern, ""
    if kind == "command" and len(pattern) > 2 and pattern.endswith(" *"):
        rest, end = pattern[:-2], "(?: .*)?"
    if kind == "path" and len(pattern) > 3 and pattern.endswith("/**"):
        rest, end = pattern[:-3], "(?:/.*)?"
    while rest:
        if kind == "path" and rest.startswith("**/"):
            out.append("(?:.*/)?")
            rest = rest[3:]
        elif rest.startswith("**"):
            out.append(".*")
            rest = rest[2:]
        else:
            out.append({"*": within + "*", "?": within}.get(rest[0], re.escape(rest[0])))
            rest = rest[1:]
    return re.compile("".join(out) + end, re.DOTALL)
