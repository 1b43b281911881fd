"""The slash commands, and how what a user typed becomes one of them; an unknown one is reported, never guessed."""

from dataclasses import dataclass
from typing import Literal

from codeagent.core.sanitize import one_line
from codeagent.tui.nearest import alike
from codeagent.tui.parts.submission import CommandRow, SaidSlash, SaidUnknown, understand

Group = Literal["conversation", "model and money", "screen", "about"]


@dataclass(frozen=True)
class Command(CommandRow):
    """One command as it is offered and explained."""

    arguments: str = ""
    """What may follow: `[text]`."""
    while_running: bool = True
    """It works while the agent does."""
    group: Group = "conversation"


@dataclass(frozen=True)
class Parsed:
    """A command that exists."""

    command: Command
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
    Command("new", "begin a new conversation", ("clear",), while_running=False),
    Command("resume", "continue an earlier conversation", ("sessions",), "[session]", while_running=False),
    Command("diff", "what changed in this session; revert parts of it"),
    Command("undo", "undo what the last batch changed", (), "[batches]", while_running=False),
    Command("redo", "restore what was undone", while_running=False),
    Command("rewind", "go back to an earlier moment: files, conversation, or both", while_running=False),
    Command("step", "pause before every batch; of a batch that waits: skip or edit", (), "[on|off|go|skip N|edit N]"),
    Command("pause", "pause at the next boundary, between two batches of calls"),
    Command("plan", "plan before anything is changed; then start it", (), "[goal|start|edit]"),
    Command("stop", "stop what runs now, or a job", (), "[job]"),
    Command("jobs", "what runs in the background; read it, stop it, send it text", ("ps",), "[job [output|send TEXT]]"),
    Command("background", "move the running command to the background, as a job", ("bg",), "[number]"),
    Command("copy", "copy the last answer", (), "[all]"),
    Command("print", "leave the conversation in the terminal's own scrollback"),
    Command("find", "find in the conversation", (), "[text]"),
    Command("history", "search what you wrote before"),
    Command("editor", "write in the editor of $VISUAL or $EDITOR"),
    Command("queue", "edit, reorder or remove queued messages"),
    Command("mode", "what runs without asking", (), "[ask|accept-edits|plan|auto]"),
    Command("permissions", "rules in force, and what was allowed or denied"),
    Command("model", "choose the model", (), "[name]", while_running=False, group="model and money"),
    Command(
        "effort",
        "how much the model thinks",
        (),
        "[off|low|medium|high|tokens]",
        while_running=False,
        group="model and money",
    ),
    Command(
        "budget",
        "what may be spent before the run pauses",
        (),
        "[$2|200k tokens|30 min|10 batches|off]",
        group="model and money",
    ),
    Command("cost", "tokens and money of this conversation", ("usage",), group="model and money"),
    Command("context", "what fills the model's context", group="model and money"),
    Command("theme", "choose the colours", (), "[name]", group="screen"),
    Command("detail", "show more of what happens, or less", group="screen"),
    Command("redraw", "redraw the screen", group="screen"),
    Command("suspend", "back to the shell; fg returns", group="screen"),
    Command("keys", "what every key does", ("keymap",), group="screen"),
    Command("help", "commands and keys", group="about"),
    Command("status", "folder, model, mode, sandbox", group="about"),
    Command("tools", "what the agent can do, and the tool files of the project", (), "[trust|distrust]", group="about"),
    Command("skills", "how-tos of the project and of yours that the agent can read", group="about"),
    Command("config", "the settings in force", group="about"),
    Command("exit", "quit", ("quit", "q"), group="about"),
)
"""Every command, in the order of /help."""

_NAMES = tuple(name for row in COMMANDS for name in (row.name, *row.aliases))


def parse(text: str) -> Parsed | Unknown | None:
    """What the user typed, as a command; None where it is none."""
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


def _called(row: Command) -> str:
    return f"/{row.name} {row.arguments}".strip().replace("|", "\\|")


def _about(row: Command) -> str:
    also = f" (also {', '.join(f'`/{alias}`' for alias in row.aliases)})" if row.aliases else ""
    return row.about + also + ("" if row.while_running else "; waits until the agent is done")
