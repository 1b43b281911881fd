"""Builds the system prompt, the tool definitions and the notes on the mode; they change only at
boundaries."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from codeagent.agent.emitter import Emitter
from codeagent.core.acts import SetToolset
from codeagent.core.cancel import CancelToken
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CodeagentError
from codeagent.core.memory import Skill
from codeagent.core.messages import Message, UserMessage, text_of
from codeagent.core.model import ModelRequest
from codeagent.core.notices import ToolsetChosen
from codeagent.core.policy import Mode, Rule
from codeagent.core.sanitize import on_one_line, one_line, visible
from codeagent.core.tool import Tool, ToolDefinition, ToolError
from codeagent.tools.catalog import CatalogChange, ToolCatalog

if TYPE_CHECKING:
    from codeagent.core.agents import AgentDefinition  # few conversations have agents

_NO_SANDBOX = (
    "There is no sandbox, so you cannot run commands; say so when a command would be needed."
)
_COMMANDS = {
    "docker": (
        "bash runs in a container that sees only this workspace: no network unless a call asks; .git (commit with "
        "git_commit) and .codeagent are read-only, nothing outside the workspace lasts."
    ),
    "host": "bash runs directly on the user's machine, without a sandbox: each command is asked for.",
}
_PROMPTS = Path(__file__).with_name("prompts")
_TOOL_WIDTH = 100
_SKILL_WIDTH = 240
_SKILLS_WIDTH = 4000
"""Characters for skills with their descriptions; the others are listed by name only."""
_NAMES_WIDTH = 1000
_RUNS_HERE = "their code runs on your machine"
PLAN = (
    "(Plan mode: look at whatever you need, but change nothing; the tools that change files refuse, and for commands "
    "the workspace is read-only. End with a plan in Markdown: what you would change, where, in which order, and how to "
    "tell that it works. The user starts it, or asks for another.)"
)
NO_PLAN = "(Plan mode is over: you may change files again.)"
SMALL_WINDOW = 6_000
"""Tokens; a model with fewer gets a short prompt and few tools."""
_SMALL_TOOLS = ("read", "edit", "write", "bash")
_FOR_OUTPUTS = "output_read"
"""Offered as well once there is an output to read: the notes about what was cut or left out name
this tool."""
_SMALL_INSTRUCTIONS = 800
"""Characters of the workspace's instructions in a short prompt."""


class MakePrompt(Protocol):
    """Makes the system prompt for these tools: the same text for the same tools; `small` for a
    small window."""

    def __call__(self, tools: Sequence[Tool[Any]], *, small: bool = False) -> str: ...


LookAgain = Callable[[], Awaitable[bool]]
"""Checks the other sources of the prompt; True if one has changed."""


@dataclass(frozen=True)
class PromptEnvironment:
    """What the model reads about where it works."""

    workspace: str
    platform: str
    sandbox_kind: str | None
    """`docker`, `host`, or None if commands cannot run."""

    def describe(self) -> str:
        commands = _NO_SANDBOX if self.sandbox_kind is None else _COMMANDS[self.sandbox_kind]
        return f"Workspace: {on_one_line(self.workspace)}\nPlatform: {on_one_line(self.platform)}\n{commands}"


def system_prompt(
    tools: Sequence[Tool[Any]],
    instructions: str,
    environment: PromptEnvironment,
    skills: Sequence[Skill] = (),
    *,
    small: bool = False,
) -> str:
    """Join the base text, tools, their hints, skills, the workspace's instructions and the
    environment.

    A pure function; adding a tool or skill changes no text before it. `small` leaves out what a
    small window has no room for: hints and skills, and all but the beginning of the instructions.
    """
    base = (_PROMPTS / f"{'small' if small else 'base'}.md").read_text("utf-8").strip()
    said = instructions.strip()
    if small and len(said) > _SMALL_INSTRUCTIONS:
        said = f"{said[:_SMALL_INSTRUCTIONS]}\n[… cut here, for the window is small: read AGENTS.md for the rest …]"
    own = said and f"# Instructions of this workspace (AGENTS.md)\n{_framed(said)}"
    if small:
        return (
            "\n\n".join(section for section in (base, own, environment.describe()) if section)
            + "\n"
        )
    sections = [
        base,
        _tools(tools),
        _hints(tools),
        _skills(skills),
        own,
        f"# Environment\n{environment.describe()}",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _framed(text: str) -> str:
    """Return text of a repository between marks that do not occur in it: its headings are not those
    of the prompt."""
    name, folded = "agents-md", text.casefold()
    while name in folded:
        name += "-"
    return f"<{name}>\n{text}\n</{name}>"


def _tools(tools: Sequence[Tool[Any]]) -> str:
    """Describe the tools that the user added; a built-in one is fully described by its
    definition."""
    added = [tool for tool in tools if tool.source != "builtin"]
    if not added:
        return ""
    lines = ["# Tools of this project and user ([info]: info tells more)"]
    for tool in added:
        about = one_line(tool.description.strip().partition("\n")[0], _TOOL_WIDTH)
        lines.append(f"- {tool.name}: {about}{' [info]' if tool.documentation else ''}")
    return "\n".join(lines)


def _hints(tools: Sequence[Tool[Any]]) -> str:
    hints = dict.fromkeys(tool.hint for tool in tools if tool.hint)
    return (
        "\n".join(["# Hints", *(f"- {' '.join(visible(hint).split())}" for hint in hints)])
        if hints
        else ""
    )


def _skills(skills: Sequence[Skill]) -> str:
    lines: list[str] = []
    room = _SKILLS_WIDTH
    for skill in skills:
        line = f"- {skill.name}: {one_line(skill.description, _SKILL_WIDTH)}"
        room -= len(line)
        if room < 0:
            break
        lines.append(line)
    if not lines:
        return ""
    if rest := skills[len(lines) :]:
        lines.append(
            f"- and {len(rest)} more: {one_line(', '.join(skill.name for skill in rest), _NAMES_WIDTH)}"
        )
    return "\n".join(["# Skills (read the one that fits with info before you start)", *lines])


_WORKTREE = (
    "You work in a worktree of your own: a copy of the workspace as it was when you began. Changes that were not "
    "committed are in it; what git ignores is not, such as installed packages. What you change there is shown to the "
    "user when you are done, who decides what of it is taken; do not commit it."
)


def role(agent: "AgentDefinition") -> str:
    """Return the end of a child's system prompt."""
    told = (
        f"# You are the agent {agent.name}\nAnother agent gives you a task, and knows nothing of what you do but your "
        "last message: it is the result, so put all of it there, and say what you could not do."
    )
    if agent.worktree:
        told += f"\n\n{_WORKTREE}"
    return f"{told}\n\n{agent.prompt}\n" if agent.prompt else f"{told}\n"


class PromptBuilder:
    """Keeps the system prompt and the tools byte-identical from one boundary to the next if no file
    changed."""

    def __init__(
        self,
        catalog: ToolCatalog,
        prompt: MakePrompt,
        look_again: LookAgain | None = None,
        rules: Sequence[Rule] = (),
        outputs: Callable[[], Collection[str]] = tuple,
    ) -> None:
        """`rules` are those of files and the command line; one for an unknown tool is reported once
        that is certain.

        `outputs` returns the handles of everything that was cut or left out so far.
        """
        self._outputs = outputs
        self._small = False
        self.catalog = catalog
        self._prompt = prompt
        self._look_again = look_again
        self._rules = tuple(rules)
        self._told: set[str] = set()
        self._looking = asyncio.Lock()
        self.tools: tuple[ToolDefinition, ...] = ()
        self._rebuild()

    async def first_ready(self, token: CancelToken) -> None:
        """Wait once, and not for long, for the toolsets that were turned on before the first
        request.

        Raises RunCancelled.
        """
        if not self.catalog.toolsets.waited:
            await token.guard(self.catalog.toolsets.first_ready())

    async def at_boundary(self, emitter: Emitter) -> None:
        """Reload tool files that changed, take in what sources changed and what was turned on, and
        report it."""
        async with self._looking:
            others = self._look_again is not None and await self._look_again()
            change = await self.catalog.refresh()
            if change is not None or others:
                self._rebuild()
            elif self._small:
                self.tools = self._fitting(self.catalog.definitions())
        if change is not None:
            tell_tools(change, emitter)
            self._tell_unknown(emitter)

    def next_request(self) -> ModelRequest:
        """Return what the next request begins with, all but the messages; assumes that no file has
        changed."""
        return ModelRequest(self.system_prompt, (), self._fitting(self.catalog.coming()))

    async def trust(
        self, trusted: bool, emitter: Emitter, *, running: bool, seen: str | None = None
    ) -> None:
        """Load the project's tool files as they were `seen`, or none; during a run this takes
        effect at a boundary.

        Raises ConfigError, also if they have changed since; while nothing runs, they are first
        listed again.
        """
        files = self.catalog.files
        try:
            await (files.trust(seen) if trusted else files.distrust())
        finally:
            if not running:
                await self.at_boundary(emitter)

    async def choose(
        self, act: SetToolset, emitter: Emitter, *, running: Callable[[], bool]
    ) -> None:
        """Turn a toolset on or off for the user, at once if nothing is running, and log it. Raises
        CodeagentError."""
        toolsets = self.catalog.toolsets
        try:
            if act.on:
                await toolsets.use(act.name, act.tools)
            else:
                toolsets.turn_off(act.name, act.tools)
        except ToolError as error:
            raise CodeagentError(str(error)) from error
        what = f"{', '.join(act.tools)} of {act.name}" if act.tools else act.name
        text = f"turned {'on' if act.on else 'off'} from the next request on: {what}"
        emitter.emit(ToolsetChosen(text=text, toolset=act.name, tools=act.tools, on=act.on))
        if not running():
            await self.at_boundary(emitter)

    def _tell_unknown(self, emitter: Emitter) -> None:
        """Report each rule and each allowed tool that does not exist, once that is certain."""
        unknown = self.catalog.unknown(self._rules) if self.catalog.complete else ()
        for text in (*unknown, *self.catalog.unlisted(certain=True)):
            if (what := text.partition(";")[0]) not in self._told:
                self._told.add(what)
                emitter.warn("rule.unknown", text)

    def fit(self, window: int | None) -> None:
        """Make prompt and tools for the window of the model, in tokens, from the next boundary
        on."""
        self.catalog.toolsets.fit(window)
        if self._small != is_small(window):
            self._small = not self._small
            self._rebuild()

    def _fitting(self, tools: tuple[ToolDefinition, ...]) -> tuple[ToolDefinition, ...]:
        if not self._small:
            return tools
        names = (*_SMALL_TOOLS, _FOR_OUTPUTS) if self._outputs() else _SMALL_TOOLS
        return tuple(tool for tool in tools if tool.name in names)

    def _rebuild(self) -> None:
        self.system_prompt = self._prompt(self.catalog.always, small=self._small)
        self.tools = self._fitting(self.catalog.definitions())


def is_small(window: int | None) -> bool:
    return window is not None and window < SMALL_WINDOW


def told_small(model: str, window: int | None) -> tuple[tuple[str, str], ...]:
    """Return code and text of the notice about a short prompt; none for a window that is not
    small."""
    if not is_small(window):
        return ()
    tools = ", ".join(_SMALL_TOOLS)
    text = (
        f"{model} has a window of {window:,} tokens: it gets a short prompt and, of the tools, only {tools} (and "
        f"{_FOR_OUTPUTS} once an output was cut); a server that is started with a larger context has room for all of it"
    )
    return (("model.small_window", text),)


def tell_tools(change: CatalogChange, emitter: Emitter) -> None:
    """Report what was found in the tool files: `tools.changed`, `tools.problem`,
    `tools.untrusted`."""
    if words := _in_words(change):
        names = {
            "added": list(change.added),
            "changed": list(change.changed),
            "removed": list(change.removed),
        }
        emitter.notice("tools.changed", f"tools: {words}", **names)
    for problem in change.problems:
        if (
            problem.level == "error"
        ):  # a warning is for whoever writes the tool: `codeagent tools check`, /tools
            unused = "the agent is" if ".md:" in problem.where else "its tools are"
            text = str(problem) if problem.partial else f"{problem}; {unused} not in use"
            emitter.warn("tools.problem", text, where=problem.where)
    if change.untrusted:
        files = ", ".join(change.untrusted)
        text = f"not loaded, because you have not trusted it as it is now: {files}. /tools shows it"
        if any(name.endswith(".py") for name in change.untrusted):
            text = f"{text}; {_RUNS_HERE}"
        emitter.warn("tools.untrusted", text, files=list(change.untrusted))


def _in_words(change: CatalogChange) -> str:
    parts = (("new", change.added), ("changed", change.changed), ("gone", change.removed))
    return "; ".join(f"{word} {', '.join(names)}" for word, names in parts if names)


def mode_note(messages: Iterable[Message], mode: Mode) -> UserMessage | None:
    """Return the note about a change of mode; None if the model knows it from `messages`."""
    planning = False
    for message in messages:
        if isinstance(message, UserMessage) and message.source == "note":
            text = text_of(message.content)
            planning = text == PLAN or (planning and text != NO_PLAN)
    if planning == (mode == "plan"):
        return None
    return UserMessage.from_text(NO_PLAN if planning else PLAN, source="note")
