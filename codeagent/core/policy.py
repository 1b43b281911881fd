"""Who may do what without being asked: a pure function of call, rules and mode."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from functools import partial
from typing import Literal, Protocol

from codeagent.core.dataclass import dataclass
from codeagent.core.display import HunkAnswer
from codeagent.core.errors import ConfigError
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.paths import host_reason, runs_by_folder, secret_reason
from codeagent.core.patterns import HOLE, SYSTEM_FOLDER, glob_of, meets
from codeagent.core.sanitize import first_few

Permission = Literal["auto", "prompt", "deny"]
Effect = Literal["nothing", "files", "anything"]
Mode = Literal["ask", "accept-edits", "plan", "auto"]
_NARROWEST_FIRST: tuple[Mode, ...] = ("plan", "ask", "accept-edits", "auto")
Reads = Literal["no", "if asked", "freely"]
"""`freely`: it is asked about only if `Policy.ask_reads` is set. `if asked`: it only reads, so it
needs no checkpoint, but is asked about anyway, as on this machine."""
NetworkLevel = Literal["none", "allow-list", "ask", "open"]
"""What a command with network access may reach: nothing; the hosts that rules allow; also those
that the user allows when asked; every public host."""
_TIGHTEST_FIRST: tuple[NetworkLevel, ...] = ("none", "allow-list", "ask", "open")
ApprovalSource = Literal["auto", "user", "rule", "hook", "flag"]
"""`auto`: nobody was asked, or nobody was there. `flag`: `--yes` answered for the user."""
RuleOrigin = Literal["flag", "session", "saved", "user", "project"]
"""Where a rule comes from: the command line, an answer for this session, a saved answer, the user's
own configuration, the project's (which may only tighten)."""
Answer = Literal["once", "session", "rule", "edit", "deny"]
"""`session`: this exact call is not asked about again in this session. `rule`: nor is what
`Decision.rule` matches. `edit`: ask again about other arguments."""

ToolHookEvent = Literal["before_tool", "after_tool", "before_update", "after_update"]
"""The hook events around a call; a hook may name the tools it is for."""
HookEvent = Literal[
    "before_tool",
    "after_tool",
    "before_update",
    "after_update",
    "prompt_submit",
    "compaction",
    "run_finished",
    "session_start",
    "session_end",
]

ALWAYS_ASKS = "this tool asks"
"""The reason if neither a rule nor the call itself gives one."""
SAID_NO = "the user said no"
"""How a denial by the user begins, for the model; their reason follows a colon."""
NETWORK = "network: "
"""The beginning of an allowing rule for calls with network access, as in `bash(network: pip install
*)`."""
HOSTS = "network"
"""What stands for the tool in a rule about hosts, as in `network(pypi.org, *.pythonhosted.org)`."""
EFFECTS = "effects"
"""What stands for the tool in a rule about what commands change, as in `effects(src/**)`."""
_MOST_NAMED = 3
_LONGEST_UNSURE = 2_000
"""The longest text with a hole that is compared with a rule; a longer one may match any rule."""
_RULE = lazy_regex(r"(?P<tool>[A-Za-z0-9_*-]{1,64})(?:\((?P<pattern>.*)\))?", re.DOTALL)

_INCLUDES: dict[str, tuple[str, ...]] = {
    "write": ("edit", "multi_edit", "apply_patch", "json_write"),
    "edit": ("multi_edit", "json_write"),
    "read": ("list", "search", "glob", "tree", "json_read"),
    "list": ("glob", "tree"),
}
"""The tools that a rule for each tool also covers: `write` also covers `edit`, and `read` also
covers `search`."""


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
    """Why the user is asked even if the mode would not ask: shown with the question. For a path,
    only a rule that names it exactly answers in their place."""
    reads: Reads = "no"
    """Whether all of it only reads if it runs confined."""
    reading: frozenset[str] = frozenset()
    """Those of `parts` that only read: then an allowing rule for the others is enough."""
    network: bool = False
    """Whether it reaches other machines: only a rule whose pattern begins with NETWORK allows it,
    matched against the parts after that word; other rules match with the word or without it. Plan
    mode denies it."""
    server: str = ""
    """The host or the MCP server that answers the call, if it is known."""
    runs: tuple[str, ...] = ()
    """Further spellings of what the call does, only for rules that deny or ask; `HOLE` is unknown
    text."""
    host: str = ""
    """The host that the call reaches, as `example.org:443`; empty if there is none, or there may be
    several."""
    needs: tuple[str, ...] = ()
    """The hosts that a command with network access is known to need, as `example.org`: its question
    names them."""
    offline: "ApprovalKey | None" = None
    """The same call without network access, if a question about each host can take the place of one
    about the call."""
    perhaps: tuple[str, ...] = ()
    """What the call may do, as far as can be seen: a rule that denies or asks and matches one of
    these asks."""
    unseen: str = ""
    """Why it may do more than is listed here, as a phrase: it is asked about if a rule that denies
    or asks has a pattern. Empty if it does no more."""
    does: tuple["EquivalentCall", ...] = ()
    """What the call does in place of other tools: their rules that deny or ask apply to it, but
    none allows it."""

    @property
    def answered_by(self) -> str:
        """Who answers the call if this machine does not: the model reads what they wrote. Empty:
        nobody else."""
        return self.server or ("the network" if self.network else "")

    @property
    def spellings(self) -> tuple[str, ...]:
        """Return the texts of which a rule that denies or asks has to match one."""
        return self._said((*self.parts, *self.runs))

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return the texts for which such a rule asks if it could match one."""
        return self._said((*(run for run in self.runs if HOLE in run), *self.perhaps))

    def as_calls(self, tool: str) -> Iterator[tuple[str, "ApprovalKey"]]:
        """Yield the call of this tool, and the calls of other tools that it takes the place of."""
        yield tool, self
        for call in self.does:
            yield call.tool, call.key

    def _said(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        return (*texts, *(NETWORK + text for text in texts)) if self.network else texts


@dataclass(frozen=True)
class EquivalentCall:
    """What a call does, as another tool that could have done it would name it."""

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
        """Raises ConfigError if the text is not a rule."""
        match = _RULE.fullmatch(text.strip())
        if match is None or match["pattern"] == "":
            raise ConfigError(
                f"not a rule: {text!r}; write tool or tool(pattern), as in bash(git status*)"
            )
        if match["tool"] == HOSTS and match["pattern"] is not None:
            from codeagent.core.hosts import (
                host_rules,
            )  # brings ipaddress, and few rules are about hosts

            try:
                host_rules(match["pattern"])
            except ValueError as error:
                raise ConfigError(f"not a rule: {error}") from error
        return cls(permission, match["tool"], match["pattern"], origin)

    def __str__(self) -> str:
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"

    @property
    def is_exact(self) -> bool:
        """Whether it names one thing, without a wildcard."""
        return self.pattern is not None and not any(letter in self.pattern for letter in "*?")

    @property
    def names_what_runs(self) -> bool:
        """Whether the name it ends with, whatever its wildcards stand for, is one of a file that
        runs outside."""
        name = (self.pattern or "").rpartition("/")[2]
        return host_reason(re.sub(r"[*?]+", "x", name)) is not None

    def covers(self, tool: str) -> bool:
        """Whether the rule covers the tool: its own one, or one that it includes, see
        `_INCLUDES`."""
        return any(
            glob_of(name, "text").fullmatch(tool)
            for name in (self.tool, *_INCLUDES.get(self.tool, ()))
        )

    def reaches(self, host: str) -> bool:
        """Whether the rule is about this host, `example.org` or `example.org:8443`; False if it is
        not about hosts."""
        if self.tool != HOSTS or self.pattern is None:
            return self.tool == HOSTS
        from codeagent.core.hosts import names_host  # as above

        return names_host(self.pattern, host)

    def matches(self, part: str, kind: str) -> bool:
        return self.pattern is None or glob_of(self.pattern, kind).fullmatch(part) is not None

    def could_match(self, text: str) -> bool:
        """Whether some text in the holes of a command would make it one that the rule matches."""
        if self.pattern is None or len(text) > _LONGEST_UNSURE:
            return True
        pattern = SYSTEM_FOLDER.sub("", self.pattern)
        if text[:1] not in (HOLE, pattern[0]) and pattern[0] not in "*?":
            return False
        return any(map(partial(meets, text=text), {pattern, pattern.removesuffix(" *")}))


Objection = Callable[[Rule], str | None]
"""Returns why an answer must not become this rule, as a phrase; None if it may."""


class KeptRules(Protocol):
    """The rules a user keeps for a workspace beyond one session; methods may block on a small
    file."""

    def keep(self, rule: str, *, denies: bool = False) -> str:
        """Save the rule for this workspace; return where it is kept. Raises ConfigError."""

    def forget(self, rule: str) -> None:
        """Remove a saved rule; an unknown one is ignored. Raises ConfigError if it cannot be
        removed."""


@dataclass(frozen=True)
class Verdict:
    permission: Permission
    source: ApprovalSource
    reason: str
    """A phrase for the user and, on a denial, for the model."""
    rule: str | None = None
    later: str = ""
    """With `auto`: the user is asked once the call wants to reach a host, whichever it is, for this
    reason."""
    tried: bool = False
    """With `auto`: the call's commands are tried out, and what they would change is decided
    about."""


@dataclass(frozen=True)
class Decision:
    """The answer to an approval request."""

    answer: Answer
    reason: str = ""
    """On a denial: what the model is told."""
    source: ApprovalSource = "user"
    rule: str = ""
    """With `rule`: the rule that allows this call and similar ones from now on, as edited by the
    user."""
    keep: bool = False
    """With `rule`: whether it also holds in later sessions of this workspace."""
    arguments: str = ""
    """With `edit`: the arguments that the call should have instead, as JSON."""
    hunks: tuple[HunkAnswer, ...] | None = None
    """With `once`: which hunks are accepted, an answer for each of `core.display.cut`; None: all of
    them."""


@dataclass(frozen=True)
class Policy:
    """The rules and the mode in force. deny > prompt > auto among rules, rules before mode."""

    mode: Mode = "ask"
    rules: tuple[Rule, ...] = ()
    ask_reads: bool = False
    """Whether to ask about commands that only read, too."""
    ask_ignored: bool = False
    """Whether to ask about files that a command changed and the ignore rules leave out, too."""
    network: NetworkLevel = "ask"
    heard: tuple[str, ...] = ()
    """Whose text the model has read so far, besides the user's and this machine's: see
    `ApprovalKey.answered_by`."""
    vouched: Mapping[Rule, int] = field(default_factory=dict)
    """The length of `heard` when the user last made each rule; 0 for a rule that is not listed."""

    def adding(self, rule: Rule, known: int | None = None) -> "Policy":
        """Return the policy with a rule that the user made knowing of the first `known` of `heard`;
        None: of all."""
        rules = self.rules if rule in self.rules else (*self.rules, rule)
        return replace(
            self,
            rules=rules,
            vouched={**self.vouched, rule: len(self.heard) if known is None else known},
        )

    def check(self, tool: str, key: ApprovalKey, default: Permission, effect: Effect) -> Verdict:
        """Judge a call; `default` and `effect` are the tool's own."""
        if self.mode == "plan" and effect != "nothing":
            return Verdict("deny", "auto", "plan mode changes nothing")
        if self.mode == "plan" and key.network:
            return Verdict("deny", "auto", "plan mode gives no command network access")
        if key.network and self.network == "none":
            return Verdict("deny", "auto", "the network is off; only the user can turn it on")
        if key.host and (reach := self.reach(key.host)).permission == "deny":
            return reach
        stopping = self._stopping(tool, key)
        for rule in (*_having("deny", stopping), *_having("prompt", stopping)):
            return _by_rule(rule)
        if (doubt := self._doubt(tool, key)) is not None:
            return doubt
        rules = _having("auto", [rule for rule in self.rules if rule.covers(tool)])
        return self._by_rules_or_mode(key, rules, default, effect)

    def asking_later(
        self, tool: str, key: ApprovalKey, default: Permission, effect: Effect
    ) -> Verdict:
        """Judge as `check` does, but for a call that asks only because of hosts that nobody knows
        yet.

        Such a call runs; nothing that it wants to reach is reached before the user has answered.
        """
        verdict = self.check(tool, key, default, effect)
        if (
            verdict.permission != "prompt"
            or self.network != "ask"
            or key.offline is None
            or key.needs
        ):
            return verdict
        if _having("prompt", self._stopping(tool, key)) or self._doubt(tool, key) is not None:
            return verdict
        offline = self.check(tool, key.offline, default, effect)
        return replace(offline, later=verdict.reason) if offline.permission == "auto" else verdict

    def trying(self, key: ApprovalKey, verdict: Verdict) -> Verdict:
        """Return the verdict for a call whose commands can be tried out.

        Only what nobody decided about is tried out: no rule, nothing about the call itself that
        asks, and no user who wants to be asked even about commands that change nothing.
        """
        undecided = verdict.permission == "prompt" and verdict.reason == ALWAYS_ASKS
        if not undecided or self.ask_reads or key.network or key.sensitive is not None:
            return verdict
        return Verdict("auto", "auto", "it is tried out first", tried=True)

    def _by_rules_or_mode(
        self, key: ApprovalKey, rules: list[Rule], default: Permission, effect: Effect
    ) -> Verdict:
        """Judge by the allowing rules and, if they leave something open, by the call and the mode.

        Rules made by answers are suspended for calls that others answer, once the model has read
        what somebody wrote since then; if only such a rule would have allowed the
        call, the user is asked and told so.
        """
        known = [rule for rule in rules if not (key.answered_by and self._is_suspended(rule))]
        verdict = self._allowed(key, known) or self._without_rules(key, default, effect)
        if verdict.permission == "auto" or (before := self._allowed(key, rules)) is None:
            return verdict
        heard = self.heard[min(self.vouched.get(rule, 0) for rule in rules if rule not in known) :]
        names = first_few(heard, _MOST_NAMED)
        why = f"{before.rule} is suspended: the model has since read text from {names}, which may be behind this call"
        return Verdict("prompt", "rule", why, before.rule)

    def _is_suspended(self, rule: Rule) -> bool:
        return rule.origin in ("session", "saved") and self.vouched.get(rule, 0) < len(self.heard)

    def reach(self, host: str, *, named: bool = False) -> Verdict:
        """Judge a request of a running command to a host, `example.org:443`.

        `named`: whether the hosts with which the call was allowed include it.
        """
        if self.network == "none":
            return Verdict("deny", "auto", "the network is off")
        about = [
            rule
            for rule in self.rules
            if rule.reaches(host) or (rule.pattern is None and rule.covers(HOSTS))
        ]
        for rule in _having("deny", about):
            return _by_rule(rule)
        asking = next(iter(_having("prompt", about)), None)
        allowed = next((rule for rule in _having("auto", about) if rule.tool == HOSTS), None)
        if asking is not None and self.network != "allow-list":
            return _by_rule(asking)
        if allowed is not None and asking is None:
            return _by_rule(allowed)
        match self.network:
            case "open":
                return Verdict("auto", "auto", "the network is open")
            case "ask" if named:
                return Verdict("auto", "auto", "allowed with the call, which names it")
            case "ask":
                return Verdict("prompt", "auto", "no rule allows this host")
            case _:
                return Verdict("deny", "auto", "it is not on the allow-list")

    def _stopping(self, tool: str, key: ApprovalKey) -> list[Rule]:
        """Return the rules that match the call or what it does; a denying one without a pattern
        matches everything."""
        found = []
        for name, one in key.as_calls(tool):
            for rule in self.rules:
                whole = rule.pattern is None and rule.permission == "deny"
                if rule.covers(name) and (
                    whole or any(rule.matches(part, one.kind) for part in one.spellings)
                ):
                    found.append(rule)
        return found

    def _doubt(self, tool: str, key: ApprovalKey) -> Verdict | None:
        """Return why a rule that denies or asks might match what cannot be seen of the call; None
        if none might."""
        for name, one in key.as_calls(tool):
            for rule in self.rules:
                if rule.permission == "auto" or rule.pattern is None or not rule.covers(name):
                    continue
                if one.unseen:
                    return Verdict("prompt", "rule", f"{one.unseen}: it may be {rule}", str(rule))
                if any(map(rule.could_match, one.doubts)):
                    return Verdict("prompt", "rule", f"a part of it may be {rule}", str(rule))
        return None

    def _allowed(self, key: ApprovalKey, rules: list[Rule]) -> Verdict | None:
        """Judge by the allowing rules; None if they leave something open."""
        if key.sensitive is not None and key.kind == "path":
            kind = _runs_only(key)
            rules = [rule for rule in rules if rule.is_exact or (kind and rule.names_what_runs)]
        if key.network:
            rules = [rule for rule in rules if (rule.pattern or "").startswith(NETWORK)]
        if (bare := next((rule for rule in rules if rule.pattern is None), None)) is not None:
            return _by_rule(bare)
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
        if key.reads == "freely" and not self.ask_reads:
            return Verdict("auto", "auto", "it only reads, in the sandbox")
        if self.mode == "auto" or (self.mode == "accept-edits" and effect == "files"):
            return Verdict("auto", "auto", f"the mode {self.mode} does not ask")
        return Verdict("prompt", "auto", ALWAYS_ASKS)


def narrower(one: Mode, other: Mode) -> Mode:
    """Return the mode that allows less."""
    return min(one, other, key=_NARROWEST_FIRST.index)


def tighter(*levels: NetworkLevel) -> NetworkLevel:
    """Return the level that allows the least."""
    return min(levels, key=_TIGHTEST_FIRST.index)


def _runs_only(key: ApprovalKey) -> bool:
    """Whether the paths are sensitive only because a file among them has the name of one that runs
    outside."""
    if any(runs_by_folder(part) or secret_reason(part) for part in key.parts):
        return False
    return key.sensitive in map(host_reason, key.parts)


def _by_rule(rule: Rule) -> Verdict:
    """Judge as the rule says."""
    words = {"deny": "denied by the rule {}", "prompt": "the rule {} asks"}
    reason = words.get(rule.permission, "allowed by the rule {}").format(rule)
    return Verdict(rule.permission, "rule", reason, str(rule))


def _having(permission: Permission, rules: list[Rule]) -> list[Rule]:
    return [rule for rule in rules if rule.permission == permission]


def _first(rules: list[Rule], part: str, kind: str) -> Rule | None:
    return next((rule for rule in rules if rule.matches(part, kind)), None)
