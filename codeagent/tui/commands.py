"""The slash commands, and how what a user typed becomes one of them; an unknown one is reported, never guessed."""

from dataclasses import dataclass
from typing import Literal

from codeagent.core.sanitize import one_line
from codeagent.tui.nearest import alike
from codeagent.tui.parts.submission import CommandRow, SaidSlash, SaidUnknown, understand

Group = Literal["conversation", "model and money", "screen", "about"]


@dataclass(frozen=True)
class SlashCommand(CommandRow):
    """One command as it is offered and explained."""

    arguments: str = ""
    """What may follow: `[text]`."""
    while_running: bool = True
    """It works while the agent does."""
    group: Group = "conversation"


@dataclass(frozen=True)
class Parsed:
    """A command that exists."""

    command: SlashCommand
    argument: str = ""
    """The rest of what was typed, without blanks around it."""


@dataclass(frozen=True)
class Unknown:
    """No such command, or one that takes no such argument."""

    typed: str
    """Made safe, one line."""
    nearest: tuple[str, ...] = ()
    """Names that are like it, the best first."""
    problem: str = ""
    """Where the command exists, what is wrong with how it was called."""

    def __str__(self) -> str:
        if self.problem:
            return f"/{self.typed}: {self.problem}"
        meant = " or ".join(f"/{name}" for name in self.nearest)
        return f"there is no /{self.typed}" + (f"; did you mean {meant}?" if meant else "; /help lists the commands")


COMMANDS = (
    SlashCommand("new", "begin a new conversation", ("clear",), while_running=False),
    SlashCommand("resume", "continue an earlier conversation", ("sessions",), "[session]", while_running=False),
    SlashCommand("diff", "what changed in this session; revert parts of it"),
    SlashCommand("undo", "undo what the last batch changed", (), "[batches]", while_running=False),
    SlashCommand("redo", "restore what was undone", while_running=False),
    SlashCommand("rewind", "go back to an earlier moment: files, conversation, or both", while_running=False),
    SlashCommand(
        "step", "pause before every batch; of a batch that waits: skip or edit", (), "[on|off|go|skip N|edit N]"
    ),
    SlashCommand("pause", "pause at the next boundary, between two batches of calls"),
    SlashCommand("plan", "plan before anything is changed; then start it", (), "[goal|start|edit]"),
    SlashCommand("stop", "stop what runs now, or a job", (), "[job]"),
    SlashCommand(
        "jobs", "what runs in the background; read it, stop it, send it text", ("ps",), "[job [output|send TEXT]]"
    ),
    SlashCommand("background", "move the running command to the background, as a job", ("bg",), "[number]"),
    SlashCommand("copy", "copy the last answer", (), "[all]"),
    SlashCommand("print", "leave the conversation in the terminal's own scrollback"),
    SlashCommand("find", "find in the conversation", (), "[text]"),
    SlashCommand("history", "search what you wrote before"),
    SlashCommand("editor", "write in the editor of $VISUAL or $EDITOR"),
    SlashCommand("queue", "edit, reorder or remove queued messages"),
    SlashCommand("mode", "what runs without asking", (), "[ask|accept-edits|plan|auto]"),
    SlashCommand("permissions", "rules in force, and what was allowed or denied"),
    SlashCommand("model", "choose the model", (), "[name]", while_running=False, group="model and money"),
    SlashCommand(
        "effort",
        "how much the model thinks",
        (),
        "[off|low|medium|high|tokens]",
        while_running=False,
        group="model and money",
    ),
    SlashCommand(
        "budget",
        "what may be spent before the run pauses",
        (),
        "[$2|200k tokens|30 min|10 batches|off]",
        group="model and money",
    ),
    SlashCommand("cost", "tokens and money of this conversation", ("usage",), group="model and money"),
    SlashCommand("context", "what fills the model's context", group="model and money"),
    SlashCommand("theme", "choose the colours", (), "[name]", group="screen"),
    SlashCommand("detail", "show more of what happens, or less", group="screen"),
    SlashCommand("redraw", "redraw the screen", group="screen"),
    SlashCommand("suspend", "back to the shell; fg returns", group="screen"),
    SlashCommand("keys", "what every key does", ("keymap",), group="screen"),
    SlashCommand("help", "commands and keys", group="about"),
    SlashCommand("status", "folder, model, mode, sandbox", group="about"),
    SlashCommand(
        "tools", "what the agent can do, and the tool files of the project", (), "[trust|distrust]", group="about"
    ),
    SlashCommand("skills", "how-tos of the project and of yours that the agent can read", group="about"),
    SlashCommand("config", "the settings in force", group="about"),
    SlashCommand("exit", "quit", ("quit", "q"), group="about"),
)
"""Every command, in the order of /help."""

_NAMES = tuple(name for row in COMMANDS for name in (row.name, *row.aliases))


def parse(text: str) -> Parsed | Unknown | None:
    """What the user typed, as a command; None if it is not one."""
    match understand(text, COMMANDS):
        case SaidSlash(name=name, arguments=argument):
            return call(name, argument)
        case SaidUnknown(text=typed):
            name = typed.split(maxsplit=1)[0].removeprefix("/")
            return Unknown(one_line(name, 40), alike(name.lower(), _NAMES, 3))
        case _:
            return None


def call(name: str, argument: str = "") -> Parsed | Unknown:
    """The command of that name, with an argument if it takes one. Raises KeyError."""
    command = next((row for row in COMMANDS if row.name == name), None)
    if command is None:
        raise KeyError(name)
    if argument and not command.arguments:
        return Unknown(name, problem=f"takes no arguments, got '{one_line(argument, 40)}'")
    return Parsed(command, argument)


def help_markdown() -> str:
    """The page of /help."""
    parts = ["# Commands"]
    for group in dict.fromkeys(row.group for row in COMMANDS):
        lines = [f"| `{_called(row)}` | {_about(row)} |" for row in COMMANDS if row.group == group]
        parts.append("\n".join([f"## {group.capitalize()}", "", "| command | does |", "| --- | --- |", *lines]))
    return "\n\n".join(parts)


def _called(row: SlashCommand) -> str:
    return f"/{row.name} {row.arguments}".strip().replace("|", "\\|")


def _about(row: SlashCommand) -> str:
    also = f" (also {', '.join(f'`/{alias}`' for alias in row.aliases)})" if row.aliases else ""
    return row.about + also + ("" if row.while_running else "; waits until the agent is done")
