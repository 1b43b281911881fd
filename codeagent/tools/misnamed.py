"""What is said about names in rules and lists that no tool has; imported only if there is a rule or
list."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from codeagent.core.patterns import AllowList
from codeagent.core.policy import EFFECTS, HOSTS, Rule
from codeagent.tools.faults import nearest_or_all

MCP = "mcp__"
"""The prefix of the tools that a server adds once it is connected."""


def unknown_rules(rules: Iterable[Rule], names: Collection[str]) -> tuple[str, ...]:
    """Return a line for each rule with an unknown tool; rules for hosts, effects and MCP tools are not
    checked."""
    wrong = [
        rule
        for rule in rules
        if not (rule.tool.startswith(MCP) or any(map(rule.covers, (*names, HOSTS, EFFECTS))))
    ]
    return tuple(f"the rule {rule} does not name a tool{_meant(rule, names)}" for rule in wrong)


def unknown_entries(
    where: str, listed: AllowList, names: Collection[str], may_come: Callable[[str], bool]
) -> tuple[str, ...]:
    """Return a line for each entry of a list of tools that matches none; `where` names the list.

    `may_come` tells whether an entry may match a tool that is not known yet; such an entry gets no
    line.
    """
    wrong = (entry for entry in listed.unknown(names) if not may_come(entry))
    return tuple(
        f"{entry} in {where} is not a tool{nearest_or_all(entry, names, most=1)}" for entry in wrong
    )


def wrong_list(listed: Sequence[str], listable: Collection[str], there: Collection[str]) -> str:
    """Say what is wrong with a list of names and patterns, as far as is known now; empty if nothing
    is.

    `listable` are the names that a list may have, `there` those of the tools that can be used or
    turned on.
    """
    allow = AllowList((tuple(listed),))
    # The tools of a server are known only while it is connected.
    wrong = [name for name in allow.unknown(listable) if not name.startswith(MCP)]
    if wrong:
        return f"no tool is named {wrong[0]}{nearest_or_all(wrong[0], listable, most=1)}"
    nothing_left = bool(listed) and len(allow.unknown(there)) == len(set(listed))
    return f"none of these tools is available here: {', '.join(listed)}" if nothing_left else ""


def _meant(rule: Rule, names: Collection[str]) -> str:
    return nearest_or_all(rule.tool, names, lambda tool: str(replace(rule, tool=tool)), most=1)
