"""Writes the generated pages: `python docs/generate.py`; with `--check` it only lists those that
are out of date."""

import argparse
import inspect
import json
import os
import re
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import MISSING, Field, fields
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from unittest.mock import patch

from argparse_manpage.manpage import Manpage
from pydantic import BaseModel

from codeagent.agent.hooks.command import ANSWERS, TOLD, CallResult, ProgramAnswer, contract_schema
from codeagent.agent.loop import Loop
from codeagent.cli import build_parser, build_screen_parser, commands, load
from codeagent.config.checking import as_given
from codeagent.config.extensions import all_extensions
from codeagent.config.reference import field_words, own_words
from codeagent.config.settings import FileSettings, Section
from codeagent.core import host_programs as programs
from codeagent.core.approval_events import PlannedCall
from codeagent.core.display import (
    DiffBlock,
    FilesBlock,
    ImageBlock,
    MarkdownBlock,
    QuestionBlock,
    TerminalBlock,
    TextBlock,
    UnknownBlock,
)
from codeagent.core.events import EVENT_TYPES
from codeagent.core.extension import resolved
from codeagent.core.host_programs import HostProgram
from codeagent.core.json_types import BaseEvent
from codeagent.core.messages import (
    AssistantMessage,
    ErrorInfo,
    ImagePart,
    ProviderContent,
    TextPart,
    Thinking,
    ToolCall,
    Usage,
    UserMessage,
    WebSource,
)
from codeagent.core.notices import AnyNotice, TypedNotice
from codeagent.core.tool import Tool
from codeagent.extensions.recipes.model import recipe_schema
from codeagent.extensions.user_tools.yaml_model import file_schema
from codeagent.tools import builtin, jobs
from codeagent.tools.schema import arguments_schema
from codeagent.tui.commands import help_markdown, table_with
from codeagent.tui.keymap import Keymap

DOCS = Path(__file__).parent
_INCLUDED = re.compile(r"(<!-- include: Loop\.run -->\n```python\n).*?(```\n)", re.DOTALL)
_ROWS = re.compile(r"(<!-- include: HOST_PROGRAMS -->\n).*?(<!-- end -->\n)", re.DOTALL)
_VALUES: tuple[type, ...] = (
    UserMessage, AssistantMessage, ToolCall, Thinking, ProviderContent, WebSource, TextPart, ImagePart, Usage,
    PlannedCall, ErrorInfo,
    TextBlock, MarkdownBlock, DiffBlock, TerminalBlock, FilesBlock, ImageBlock, QuestionBlock,
)  # fmt: skip
_EXIT_CODES = (
    "0 done · 1 failed · 2 usage or configuration · 3 a limit was reached · 4 a call was denied and the model found no "
    "other way · 130 interrupted (143 by SIGTERM, 129 by SIGHUP) · 141 the reader of standard output went away."
)
_NOTE = "<!-- Written by docs/generate.py; `make docs` writes it again. -->"


def main() -> int:
    pages = {
        "reference/cli.md": command_line(),
        "man/codeagent.1": man_page(),
        "reference/events.md": events(),
        "reference/hooks.md": hooks(),
        "reference/hooks.schema.json": hooks_schema(),
        "reference/tool-file.schema.json": tool_file_schema(),
        "reference/recipe-file.schema.json": recipe_file_schema(),
        "reference/keys.md": keys(),
        "reference/settings.md": settings(),
        "explanation/loop.md": loop(),
        "explanation/host-programs.md": host_programs(),
        "../codeagent/tools/schemas.json": argument_schemas(),
        "../codeagent/core/names/commands.txt": command_names(),
        "../codeagent/core/names/slash_commands.txt": slash_commands(),
    }
    old = [name for name, text in pages.items() if _present(name) != text]
    if "--check" in sys.argv[1:]:
        print("\n".join(old))
        return 1 if old else 0
    for name in old:
        (DOCS / name).write_text(pages[name], encoding="utf-8")
        print(f"wrote {(DOCS / name).resolve().relative_to(DOCS.parent)}")
    return 0


def keys() -> str:
    """Return the page of the screen's keys and slash commands, as the key sheet and /help show
    them."""
    parts = [f"# Keys and commands\n\n{_NOTE}\n\nF1 shows the keys in force, `/help` the commands."]
    table = table_with(all_extensions().on)
    rows = Keymap(table=table).rows()
    for group in dict.fromkeys(row.scope for row in rows):
        lines = [
            f"| {_cell(row.keys)} | {_cell(row.about)} | {f'`{row.id}`' if row.id else ''} |"
            for row in rows
            if row.scope == group
        ]
        head = ["| key | does | name in `keys.yaml` |", "| --- | --- | --- |"]
        parts.append("\n".join([f"## {table.scopes[group].heading}", "", *head, *lines]))
    return (
        "\n\n".join([*parts, help_markdown(table).replace("# Commands", "# Slash commands", 1)])
        + "\n"
    )


def command_names() -> str:
    """Return the names of all commands, with their actions and the options of `run`, one a line: no
    package can bring one of them."""
    found = [each.name for each in commands()]
    for name in tuple(found):
        found += [f"{name} {action}" for action in _subcommands(build_parser(name))]
    options = (one for action in build_parser("run")._actions for one in action.option_strings)
    found += [f"run {option}" for option in options if option.startswith("--")]
    return "\n".join(sorted(found)) + "\n"


def slash_commands() -> str:
    """Return the names of all slash commands, which no recipe may have: one a line."""
    rows = table_with(all_extensions().on).commands
    return "\n".join(sorted(name for row in rows for name in (row.name, *row.aliases))) + "\n"


def settings() -> str:
    """Return the page about every setting of a configuration file, the kernel's first."""
    hints = get_type_hints(FileSettings, include_extras=True)
    sections = {name: hint for name, hint in hints.items() if _section_of(hint) is not None}
    plain = [name for name in hints if name not in sections and not name.startswith("__")]
    parts = [
        "# Settings",
        _NOTE,
        "What `config.toml` may hold: yours (`codeagent config path` says where it is), and a project's "
        "`.codeagent/config.toml`, which [may only tighten](../how-to/rules.md). `codeagent config show` "
        "prints those in force. `[extensions] off` switches extensions off, and with them their sections.",
        _settings_table(FileSettings, plain),
    ]
    for name, hint in sections.items():
        parts += _section_page(name, hint, extension="")
    for extension in all_extensions().on:
        for name, reference in extension.settings.items():
            parts += _section_page(name, resolved(reference), extension=extension.name)
    return "\n\n".join(part for part in parts if part) + "\n"


def _section_page(name: str, hint: Any, *, extension: str) -> list[str]:
    """Return the heading, the words and the table of a section, then those of what is nested."""
    kind = _section_of(hint)
    if kind is None:
        values = f"Names of your own, each with a value: {_type(get_args(hint)[1])}."
        return [f"## `[{name}]`", f"{values} Of the extension `{extension}`."]
    title = {dict: f"[{name}.NAME]", tuple: f"[[{name}]]"}.get(get_origin(hint), f"[{name}]")
    of = f"Of the extension `{extension}`." if extension else ""
    inner = get_type_hints(kind, include_extras=True)
    nested = {each: hint for each, hint in inner.items() if _section_of(hint) is not None}
    own = [each.name for each in fields(kind) if each.name not in nested]
    parts = [f"## `{title}`", " ".join(filter(None, (_of_settings(_own_words(kind)), of)))]
    parts.append(_settings_table(kind, own))
    for each, below in nested.items():
        parts += _section_page(f"{name}.{each}", below, extension="")
    return parts


def _of_settings(words: str) -> str:
    """Return a docstring as the page has it: with links, and in the words of a file."""
    linked = re.sub(r"docs/how-to/([a-z-]+)\.md", r"[\1](../how-to/\1.md)", words)
    return " ".join(re.sub(r"\bNone\b", "unset", linked).split())


def _section_of(hint: Any) -> type[Section] | None:
    """Return the section that a value is, or that a list or table of values holds."""
    if isinstance(hint, type) and issubclass(hint, Section):
        return hint
    if get_origin(hint) in (dict, tuple, Union, UnionType):
        return next(filter(None, map(_section_of, get_args(hint))), None)
    return None


def _settings_table(kind: type, names: Iterable[str]) -> str:
    words = field_words(kind)
    hints = get_type_hints(kind, include_extras=True)
    found = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]  # a dataclass
    rows = [
        f"| `{name}` | {_type(hints[name])} | {_default(found[name])} | {_cell(_of_settings(words.get(name, '')))} |"
        for name in names
    ]
    head = ["| setting | type | default | |", "| --- | --- | --- | --- |"]
    return "\n".join([*head, *rows]) if rows else ""


def _default(field: Field[Any]) -> str:
    value = field.default if field.default_factory is MISSING else field.default_factory()
    if value is MISSING:
        return "needed"
    return "" if value in (None, (), {}) else f"`{json.dumps(as_given(value))}`"


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|")


def command_line() -> str:
    """Return the page about every command, its arguments and the exit codes."""
    screen = build_screen_parser()
    screen.add_options_of_extensions()
    parts = [
        "# Command line",
        _NOTE,
        _intro(),
        "## codeagent",
        screen.description or "",
        *_arguments(screen),
    ]
    for each in commands():
        name = each.name
        command = build_parser(name)
        parts += [f"## codeagent {name}", command.description or "", *_arguments(command)]
        for action, below in _subcommands(command).items():
            if summary := _summary(command, action):  # others are for codeagent itself
                parts += [f"### codeagent {name} {action}", summary, *_arguments(below)]
    return "\n\n".join(part for part in parts if part) + "\n"


def man_page() -> str:
    """Return the manual page of all commands, in the language of `man`."""
    with patch.dict(os.environ, COLUMNS="70"):
        parser = build_screen_parser()
        actions = parser.add_subparsers(metavar="COMMAND", prog="codeagent")
        for each in commands():
            load(each.name).add_arguments(actions.add_parser(each.name, help=each.about))
        about = {"description": "a terminal coding agent", "manual_title": "codeagent"}
        page = Manpage(parser, {**about, "date": "codeagent", "project_name": "codeagent"})
        page.synopsis = ["codeagent", "[PATH] [options]\n.br\n.B codeagent\nCOMMAND ..."]
        page.add_section("exit status", ">", _EXIT_CODES)
        # A quote at the beginning of a line would be the name of a macro.
        return re.sub(r"^'", r"\\(aq", str(page), flags=re.MULTILINE)


def events() -> str:
    """Return the page about every event."""
    parts = [
        "# Events",
        _NOTE,
        "A session log and `--output jsonl` contain one JSON object per line. Each has these fields and those of its "
        "`type`. A line of the log ends with two more: `prev`, the `crc` of the line before (`00000000` in the first; "
        "old logs have none), and `crc`, the CRC32 of the object without it, in hex.",
        _table(BaseEvent, inherited=True),
        "Events marked *passing* are not logged and may be merged: they show what a durable event will contain.",
    ]
    for name, kind in EVENT_TYPES.items():
        passing = "" if kind.durable else " *(passing)*"
        parts += [f"## {name}{passing}", _own_words(kind), _table(kind, inherited=False)]
    parts += [
        "# Notices with data",
        "A `notice` with one of these codes has these fields in `data`. All other notices are only meant to be read.",
    ]
    for kind in get_args(AnyNotice):
        code = kind.__dataclass_fields__["code"].default
        parts += [f"## notice `{code}`", _own_words(kind), _table(kind, inherited=False)]
    parts.append("# Values")
    for value in _VALUES:
        parts += [f"## {value.__name__}", _own_words(value), _table(value, inherited=True)]
    return "\n\n".join(part for part in parts if part) + "\n"


def hooks() -> str:
    """Return the page about what hook programs read and may answer."""
    parts = [
        "# Hook programs",
        _NOTE,
        "What a [hook program](../how-to/hooks.md) reads on standard input, and what it may print: one JSON object "
        "each, with no other keys. The same as [a JSON Schema](hooks.schema.json).",
    ]
    for event, told in TOLD.items():
        answers = get_args(get_args(ANSWERS[event])[0]) if event in ANSWERS else ()
        decisions = " or ".join(f"`{_decision(answer)}`" for answer in answers)
        last = f"Answer: {decisions}." if answers else "Its output is ignored."
        parts += [f"## {event}", _table(told, inherited=True), last]
    parts += ["# Answers", "No output at all is the same as `allow`."]
    for answer in get_args(ProgramAnswer):
        own = inspect.cleandoc(answer.__doc__ or "") if answer.__doc__ else ""
        parts += [f"## {_decision(answer)}", own, _table(answer, inherited=True)]
    parts.append("# Values")
    for value in (ToolCall, CallResult, ErrorInfo, Usage):
        parts += [f"## {value.__name__}", _own_words(value), _table(value, inherited=True)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _decision(answer: type[BaseModel]) -> str:
    return str(get_args(answer.model_fields["decision"].annotation)[0])


def tool_file_schema() -> str:
    """The JSON Schema of a YAML tool file, for editors."""
    return json.dumps(file_schema(), indent=2, ensure_ascii=False) + "\n"


def recipe_file_schema() -> str:
    """The JSON Schema of a recipe with steps, for editors."""
    return json.dumps(recipe_schema(), indent=2, ensure_ascii=False) + "\n"


def hooks_schema() -> str:
    """Return the same for programs."""
    return json.dumps(_on_one_line(contract_schema()), indent=2) + "\n"


def _on_one_line(schema: object) -> object:
    """Return a schema whose descriptions do not keep the line breaks of the docstrings."""
    match schema:
        case dict():
            return {name: _on_one_line(value) for name, value in schema.items()}
        case list():
            return [_on_one_line(item) for item in schema]
        case str():
            return " ".join(schema.split())
        case _:
            return schema


def argument_schemas() -> str:
    """Return the schemas of the built-in tools' arguments by model, which a start reads and does
    not make."""
    modules = [
        jobs,
        import_module("codeagent.extensions.agents.agent"),
        import_module("codeagent.extensions.toolsets.toolset_list"),
        import_module("codeagent.extensions.toolsets.toolset_use"),
        *(
            import_module(f"{builtin.__name__}.{found.name}")
            for found in iter_modules(builtin.__path__)
        ),
    ]
    tools = (kind for module in modules for kind in vars(module).values() if isinstance(kind, type))
    models = {kind.Args for kind in tools if issubclass(kind, Tool) and hasattr(kind, "Args")}
    schemas = {
        f"{model.__module__}.{model.__qualname__}": arguments_schema(model) for model in models
    }
    return json.dumps(dict(sorted(schemas.items())), indent=1, ensure_ascii=False) + "\n"


def loop() -> str:
    """Return the page about the loop, with the loop's source in it."""
    source = textwrap.dedent(inspect.getsource(Loop.run))
    return _INCLUDED.sub(
        lambda match: match[1] + source + match[2], _present("explanation/loop.md")
    )


def host_programs() -> str:
    """Return the page about programs on the machine, its table with the limits and ends of the
    rows; the other columns are written there."""
    ends = {
        "ended": "ended with its children",
        "hung up": "its terminal hangs up",
        "left": "left running",
    }
    page = _present("explanation/host-programs.md")
    written = {
        line.split(" | ")[0]: line.strip("| ").split(" | ")
        for line in page.splitlines()
        if line.startswith("| **")
    }
    lines = [
        "| program | which it is | starts in | environment | memory | also limited | if codeagent is killed |"
    ]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for row in vars(programs).values():
        if isinstance(row, HostProgram):
            _, found, folder, environment, _, bounds, _ = written.get(f"| **{row.name}**", [""] * 7)
            memory = "no limit" if row.memory is None else f"{row.memory >> 30} GiB"
            cells = (f"**{row.name}**", found, folder, environment, memory, bounds, ends[row.ends])
            lines.append(f"| {' | '.join(cells)} |")
    table = "\n".join(lines)
    return _ROWS.sub(lambda match: f"{match[1]}\n{table}\n\n{match[2]}", page)


def _intro() -> str:
    return (
        f"Exit codes: {_EXIT_CODES}\n\n"
        "Standard output contains only results; everything else goes to standard error. "
        "Options may come before or after PROMPT; after `--`, a prompt may begin with a dash."
    )


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    actions = [
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    ]
    return dict(actions[0].choices) if actions else {}


def _summary(parser: argparse.ArgumentParser, name: str) -> str:
    choices: Any = next(
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    )
    text = next(
        (str(choice.help) for choice in choices._choices_actions if choice.dest == name), ""
    )
    return text and f"{text[:1].upper()}{text[1:]}."


def _arguments(parser: argparse.ArgumentParser) -> list[str]:
    rows = [
        f"| `{_spelled(action)}` | {(action.help or '').replace('|', chr(92) + '|')} |"
        for action in parser._actions
        if action.help != argparse.SUPPRESS
        and not isinstance(action, argparse._SubParsersAction | argparse._HelpAction)
    ]
    return ["\n".join(["| argument | |", "| --- | --- |", *rows])] if rows else []


def _spelled(action: argparse.Action) -> str:
    choices = "\\|".join(map(str, action.choices)) if action.choices else ""
    value = str(action.metavar) if action.metavar else choices
    takes_value = action.nargs != 0
    if not action.option_strings:
        return value or action.dest
    return (
        f"{action.option_strings[-1]} {value}".rstrip()
        if takes_value
        else action.option_strings[-1]
    )


def _own_words(kind: type) -> str:
    """Return its docstring; empty if it is only the one that `dataclass` generates."""
    words = inspect.cleandoc(kind.__doc__ or "")
    return "" if words.partition("(")[0] == kind.__name__ else words


def _table(kind: type, *, inherited: bool) -> str:
    words = own_words(kind)
    envelope = {
        field.name for field in fields(TypedNotice if issubclass(kind, TypedNotice) else BaseEvent)
    }
    rows = [
        f"| `{name}` | {_type(annotation)} | {words.get(name, '')} |"
        for name, annotation in _annotations(kind).items()
        if inherited or (name not in envelope and name != "type")
    ]
    return "\n".join(["| field | type | |", "| --- | --- | --- |", *rows]) if rows else ""


def _annotations(kind: type) -> dict[str, Any]:
    """Return what each field contains, by its name in JSON."""
    if issubclass(kind, BaseModel):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind)}


def _type(annotation: Any) -> str:
    """Return the name that a reader of JSON would use."""
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    if annotation is type(None):
        return "null"
    if origin is dict:
        return "object"
    if origin is tuple:
        return f"list of {_type(arguments[0])}"
    if arguments and all(isinstance(argument, str) for argument in arguments):
        return ", ".join(f"`{argument}`" for argument in arguments)
    if origin is not None and hasattr(annotation, "__metadata__"):
        return _type(arguments[0])
    if UnknownBlock in arguments:
        return "display block"
    if arguments:
        return " or ".join(dict.fromkeys(_type(argument) for argument in arguments))
    names = {"str": "text", "int": "integer", "float": "number", "bool": "true or false"}
    return names.get(annotation.__name__, annotation.__name__)


def _present(name: str) -> str:
    path = DOCS / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
