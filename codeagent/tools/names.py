"""The names that the tools of a conversation have or may get, against which rules and lists are
checked; imported only if there is one."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal

from codeagent.core.agents import AgentDefinition
from codeagent.core.errors import ConfigError
from codeagent.core.patterns import AllowList
from codeagent.core.policy import Rule
from codeagent.core.toolbox import ToolProblem
from codeagent.tools.loaded import AGENTS, LoadedFiles
from codeagent.tools.misnamed import MCP, unknown_entries, unknown_rules, wrong_list
from codeagent.tools.registry import ToolRegistry
from codeagent.tools.toolsets import Toolsets

_SOURCE_SECONDS = 30.0
"""Seconds that a check of names waits for sources that are starting."""


class ToolNames:
    """The names that the tools of a conversation have, or may still get, and what is said of other
    names in rules and lists."""

    def __init__(
        self,
        in_use: ToolRegistry,
        known: Callable[[], frozenset[str]],
        toolsets: Toolsets,
        files: LoadedFiles,
        *,
        elsewhere: frozenset[str] = frozenset(),
        of_sets: frozenset[str] = frozenset(),
        off: frozenset[str] = frozenset(),
    ) -> None:
        """`known` returns the names of the tools that do not belong to a toolset, allowed or not.
        `elsewhere`, `of_sets` and `off`: as in `ToolCatalog`."""
        self._in_use = in_use
        self._known = known
        self._toolsets = toolsets
        self._files = files
        self._elsewhere = elsewhere
        self._of_sets = of_sets
        self._off = off

    def misnamed(self, rules: Collection[Rule], to_read: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return what `unknown` and `unlisted` return."""
        return (*self.unknown(rules), *self.unlisted(to_read))

    def unknown(self, rules: Collection[Rule]) -> tuple[str, ...]:
        """Return a line for each rule with an unknown tool; rules for hosts and MCP tools are not
        checked."""
        here = [rule for rule in rules if not any(map(rule.covers, self._off))]
        return unknown_rules(here, self._names())

    def unlisted(self, to_read: tuple[str, ...] = (), *, certain: bool = False) -> tuple[str, ...]:
        """Return a line for each entry of the list of allowed tools, and of `to_read`, that is not
        a tool.

        An entry is left out if a source that has not listed its tools may have it or, if the answer
        has to be `certain`, a file that is not in use.
        """

        def may_come(entry: str) -> bool:
            return self._toolsets.sources.may_have(entry) or (
                certain and self._files.may_have(entry)
            )

        # The user's setting applies to all projects, which have different servers.
        here = tuple(name for name in to_read if not name.startswith(MCP))
        lists = {
            "the list of allowed tools": self._toolsets.allow,
            "require_info": AllowList((here,)),
        }
        names = self._listable()
        return tuple(
            line
            for where, listed in lists.items()
            for line in unknown_entries(where, listed, names, may_come)
        )

    async def check(self, listed: Sequence[str], *, of_project: bool = False) -> None:
        """Check a list of tools, as `ToolsInUse.check_names`."""
        files = ", ".join(name for name in self._files.untrusted if not name.endswith(AGENTS))
        waiting = f"not trusted as it is now: {files}; read it, then run codeagent tools trust"
        if listed and of_project and files:
            raise ConfigError(
                f"the tools that it lists depend on the project's tool files, {waiting}"
            )
        if self.misnamed_in(listed) and not self._toolsets.sources.names_known:
            await self._toolsets.sources.all_started(_SOURCE_SECONDS)
        if said := self.misnamed_in(listed):
            raise ConfigError(f"{said}; {waiting}" if files else said)

    def misnamed_in(self, listed: Sequence[str], among: Collection[str] | None = None) -> str:
        """Say what is wrong with a list of names and patterns of tools, as far as is known now;
        empty if nothing is.

        `among` are the tools that are left if the list holds; None: all of which anything is known.
        """
        return wrong_list(listed, self._listable(), self._there() if among is None else among)

    def surely_misnamed_in(self, listed: Sequence[str]) -> str:
        """Say what is wrong with a list of tools, whatever the sources may bring that have not
        listed theirs; empty if nothing is."""
        certain = [name for name in listed if not self._toolsets.sources.may_have(name)]
        some_may_come = len(certain) < len(listed)
        return self.misnamed_in(certain, (*self._there(), *certain) if some_may_come else None)

    def misnamed_agents(self, agents: Iterable[AgentDefinition]) -> tuple[ToolProblem, ...]:
        """Return what is wrong with the agents' lists of tools.

        It is a warning while a tool may be in a file that waits for trust. A name that a source may
        still bring is checked when the agent starts.
        """
        level: Literal["error", "warning"] = "warning" if self._files.untrusted else "error"
        said = ((agent, self.surely_misnamed_in(agent.tools or ())) for agent in agents)
        return tuple(
            ToolProblem(f"{agent.where}: tools", wrong, level) for agent, wrong in said if wrong
        )

    def _names(self) -> list[str]:
        """Return the names that a rule may have."""
        return sorted({*self._elsewhere, *self._known(), *self._toolsets.sources.tool_names()})

    def _listable(self) -> list[str]:
        """Return the names of all tools that a list may name, whether they are here or not."""
        return sorted({*self._names(), *self._of_sets, *(tool.name for tool in self._in_use)})

    def _there(self) -> list[str]:
        """Return the names of the tools that can be used, or turned on."""
        sources = self._toolsets.sources
        in_use = (tool.name for tool in self._in_use)
        return sorted({*self._known(), *sources.tool_names(), *in_use})
