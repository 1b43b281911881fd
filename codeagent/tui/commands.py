"""The slash commands without a key, the whole table of actions with those of extensions, the page
of /help, and messages about mistyped commands."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, get_args

from codeagent.core.dataclass import dataclass
from codeagent.core.extension import CommandGroup, Extension, SlashCommand
from codeagent.core.sanitize import one_line
from codeagent.tui.actions import Action, with_same
from codeagent.tui.fuzzy import alike
from codeagent.tui.keys import KEYS, SCOPES, Scope

if TYPE_CHECKING:  # not for the first frame
    from codeagent.core.runtime import OfferedText

RowT = TypeVar("RowT")

_WITHOUT_KEYS: dict[CommandGroup, tuple[Action, ...]] = {
    "conversation": (
        Action("command.new", "start a new conversation", aliases=("clear",), while_running=False),
        Action(
            "command.resume",
            "continue an earlier conversation",
            aliases=("sessions",),
            arguments="[session]",
            while_running=False,
        ),
        *with_same(
            (
                Action(
                    "command.fork",
                    "continue in a copy; without that prompt (from 1) and all after it, if given",
                    does="sessions:fork",
                    arguments="[prompt]",
                    while_running=False,
                ),
                Action(
                    "command.rename",
                    "give the session a title, or take it away",
                    does="sessions:rename",
                    arguments="[title]",
                ),
                Action(
                    "command.export",
                    "write the session down: as .md, .html with a search, or .jsonl",
                    does="sessions:export",
                    arguments="[file]",
                ),
                Action("command.diff", "what changed in this session; revert parts of it"),
                Action(
                    "command.undo",
                    "undo what the last batch changed",
                    does="rewind:undo",
                    arguments="[batches]",
                    while_running=False,
                ),
                Action(
                    "command.redo",
                    "restore what was undone",
                    does="rewind:redo",
                    while_running=False,
                ),
                Action(
                    "command.rewind",
                    "go back to an earlier moment: files, conversation, or both",
                    does="rewind:rewind",
                    while_running=False,
                ),
                Action(
                    "command.step",
                    "pause before every batch; skip or edit calls of a waiting batch",
                    does="running:step",
                    arguments="[on|off|go|skip N|unskip N|edit N]",
                ),
                Action(
                    "command.pause",
                    "pause at the next boundary, between two batches of calls",
                    does="running:pause",
                ),
                Action(
                    "command.plan",
                    "plan before anything is changed; then start it",
                    does="running:plan",
                    arguments="[goal|start|edit]",
                ),
                Action(
                    "command.compact",
                    "replace the older part of the conversation with a summary; a hint says what it must cover",
                    does="running:compact",
                    arguments="[hint|use|edit|keep]",
                ),
                Action(
                    "command.pin",
                    "keep a line word for word, however often the conversation is compacted",
                    does="running:pin",
                    arguments="[text]",
                ),
                Action(
                    "command.unpin",
                    "no longer keep a pinned line",
                    does="running:unpin",
                    arguments="number",
                ),
            ),
            needs_conversation=True,
        ),
        Action("command.todo", "the model's to-do list", does="running:todo"),
        Action(
            "command.stop", "stop what runs now, or a job", does="running:stop", arguments="[job]"
        ),
        Action("command.copy", "copy the last answer", arguments="[all]"),
        Action(
            "command.print",
            "leave the conversation in the terminal's own scrollback",
            does="slash:print_below",
        ),
        Action("command.queue", "edit, reorder or remove queued messages"),
        Action(
            "command.mode", "what runs without asking", arguments="[ask|accept-edits|plan|auto]"
        ),
        Action(
            "command.sandbox",
            "what commands with network access may reach",
            arguments="[none|allow-list|ask|open]",
            needs_conversation=True,
        ),
        Action(
            "command.permissions",
            "rules in force, and what was allowed or denied",
            needs_conversation=True,
        ),
    ),
    "model and money": (
        Action(
            "command.model",
            "choose the model",
            does="models:model",
            arguments="[name]",
            while_running=False,
            needs_conversation=True,
        ),
        Action(
            "command.effort",
            "how much the model thinks",
            does="models:effort",
            arguments="[off|low|medium|high|tokens]",
            while_running=False,
            needs_conversation=True,
        ),
        Action(
            "command.budget",
            "what may be spent before the run pauses",
            does="running:budget",
            arguments="[$2|200k tokens|30 min|10 batches|off]",
            needs_conversation=True,
        ),
        Action("command.cost", "tokens and money of this conversation"),
        Action(
            "command.context",
            "what fills the model's context, and what to do about it",
            needs_conversation=True,
        ),
        Action(
            "command.stats", "calls and durations of this conversation", needs_conversation=True
        ),
    ),
    "screen": (Action("command.theme", "choose the colours", arguments="[name]"),),
    "about": (
        Action("command.help", "commands and keys", does="slash:help_page"),
        Action("command.status", "folder, model, mode, sandbox"),
        Action(
            "command.tools",
            "what the agent can do, and the tool files of the project",
            arguments="[trust|distrust|on SET|off SET]",
            needs_conversation=True,
        ),
        Action(
            "command.agents",
            "the agents that worked for this conversation: state, tokens, answer",
            needs_conversation=True,
        ),
        Action("command.skills", "how-tos of the project and of yours that the agent can read"),
        Action("command.extensions", "the features beyond the conversation, and what each brings"),
        Action(
            "command.config",
            "all settings and where each comes from; changes yours",
            does="config:config",
            arguments="[setting [value]]",
        ),
        Action(
            "command.feedback",
            "write a report of what you saw, to attach to an issue",
            arguments="[text]",
        ),
        Action("command.exit", "quit", does="slash:leave", aliases=("quit", "q")),
    ),
}


def _own() -> Iterator[Action]:
    for group in get_args(CommandGroup):
        yield from (replace(row, group=group) for row in _WITHOUT_KEYS[group])
        yield from (row for row in KEYS if row.group == group)


COMMANDS = tuple(_own())
"""Every row of the screen itself with a slash command, in the order of /help."""


@dataclass(frozen=True)
class ActionTable:
    """Everything that a key or a slash command does on one screen."""

    keys: tuple[Action, ...] = KEYS
    commands: tuple[Action, ...] = COMMANDS
    """In the order of /help."""
    scopes: Mapping[str, Scope] = field(default_factory=lambda: SCOPES)
    """Every scope of keys, in the order of the key sheet."""
    switched_off: Mapping[str, str] = field(default_factory=dict)
    """The extension of each command that is missing because the extension is switched off."""
    replaced: Mapping[str, str] = field(default_factory=dict)
    """The name in `keys.yaml` for each that was replaced."""

    @cached_property
    def by_id(self) -> Mapping[str, Action]:
        return {row.id: row for row in (*self.keys, *self.commands)}


OFFERED = "offered"
"""The scope of the rows that an extension offers for a workspace. The function of one also gets the
name of the command, in front of the argument."""
OWN = ActionTable()
"""The table without extensions."""


def table_with(on: Iterable[Extension], off: Iterable[Extension] = ()) -> ActionTable:
    """Return the table with the commands and keys of the extensions that are on."""
    keys = list(KEYS)
    commands = [(row.name, row) for row in COMMANDS]
    scopes = list(SCOPES.items())
    replaced: dict[str, str] = {}
    for extension in on:
        keys += page_rows(extension)
        for page in extension.screen.keys:
            _put(scopes, page.after, (page.scope, Scope(page.heading)))
            for key in page.keys:
                replaced |= dict.fromkeys(key.replaces, f"{page.scope}.{key.name}")
        for command in extension.screen.commands:
            last = [name for name, row in commands if row.group == command.group][-1]
            _put(commands, command.after or last, (command.name, _row(command)))
    switched_off = {
        name: extension.name
        for extension in off
        for command in extension.screen.commands
        for name in (command.name, *command.aliases)
    }
    return ActionTable(
        tuple(keys),
        tuple(row for _, row in commands),
        dict(scopes),
        switched_off=switched_off,
        replaced=replaced,
    )


def _put(rows: list[tuple[str, RowT]], after: str, row: tuple[str, RowT]) -> None:
    """Insert behind the row of that name, or at the end if there is none."""
    at = next((at for at, (name, _) in enumerate(rows, 1) if name == after), len(rows))
    rows.insert(at, row)


def _row(command: SlashCommand) -> Action:
    return Action(
        f"command.{command.name}",
        command.about,
        does=command.does,
        group=command.group,
        aliases=command.aliases,
        arguments=command.arguments,
        while_running=command.while_running,
        needs_conversation=command.needs_conversation,
    )


def page_rows(extension: Extension) -> Iterator[Action]:
    """Return what the keys of an extension's pages do."""
    for page in extension.screen.keys:
        for key in page.keys:
            yield Action(
                f"{page.scope}.{key.name}", key.about, ",".join(key.keys), approves=key.approves
            )


def prompt_row(prompt: "OfferedText") -> Action:
    """Return the slash command for an MCP server's prompt: it is sent as typed, and the server
    supplies the text."""
    return Action(f"prompt.{prompt.name}", prompt.about, inputs=prompt.inputs)


def mistyped(text: str, commands: Iterable[Action], switched_off: Mapping[str, str]) -> str:
    """Return one line, safe to show, about a slash command that does not exist, or whose extension
    is switched off."""
    word = one_line(text.split(maxsplit=1)[0].removeprefix("/"), 40)
    if (extension := switched_off.get(word.lower())) is not None:
        return f"/{word} is not available: {extension} is switched off"
    names = (name for row in commands for name in (row.name, *row.aliases))
    meant = " or ".join(f"/{name}" for name in alike(word.lower(), names, 3))
    return f"unknown command /{word}" + (
        f"; did you mean {meant}?" if meant else "; /help lists the commands"
    )


NOT_RUN = "Up brings it back"
"""Said of a command that was refused: it is the last entry of the history, and not in the
composer."""


def wrong_argument(row: Action, argument: str) -> str:
    """Return the message for arguments given to a command that takes none; empty if all is well."""
    if not argument or row.arguments:
        return ""
    return f"/{row.name}: takes no arguments, got '{one_line(argument, 40)}'"


def help_markdown(table: ActionTable = OWN) -> str:
    """Return the page of /help."""
    parts = ["# Commands"]
    for group in get_args(CommandGroup):
        rows = (row for row in table.commands if row.group == group)
        lines = [f"| `{_called(row)}` | {_about(row)} |" for row in rows]
        parts.append(
            "\n".join(
                [f"## {group.capitalize()}", "", "| command | does |", "| --- | --- |", *lines]
            )
        )
    return "\n\n".join(parts)


def _called(row: Action) -> str:
    return f"/{row.name} {row.arguments}".strip().replace("|", "\\|")


def _about(row: Action) -> str:
    also = f" (also {', '.join(f'`/{alias}`' for alias in row.aliases)})" if row.aliases else ""
    return row.about + also + ("" if row.while_running else "; waits until the agent is done")
