"""The command line: finds the command, runs it, and reports what goes wrong in one clear line."""

import argparse
import atexit
import codecs
import gc
import importlib
import io
import os
import sys
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol

from codeagent import __version__
from codeagent.app import LocalApp
from codeagent.core.errors import CodeagentError, ConfigError, SessionNotFound
from codeagent.core.sanitize import VisibleStream, json_escape

COMMANDS = {
    "run": "work on a prompt, without a screen",
    "demo": "watch an agent fix a bug in a throwaway repository; needs no key",
    "sessions": "list, show, export, copy and remove what was recorded",
    "stats": "calls, durations, tokens and cost of a session",
    "tools": "the tools a model can call",
    "prompt": "the system prompt as a model gets it",
    "sandbox": "the container that commands run in",
    "extensions": "which features there are beyond the conversation, which are on, what each brings",
    "config": "the settings in force, where they are written, and the allowed keys",
    "doctor": "what works here and what is missing",
    "completion": "the code with which bash, zsh or fish completes commands, options and values",
}
"""The kernel's commands → what each does. It is the module of that name in `codeagent.commands`,
imported when needed; those of extensions are in their manifests.

Without one the screen opens: `codeagent.commands.chat`.
"""
_EXAMPLES = """\
examples:
  codeagent --continue        return to the last session
  codeagent run "fix a test"  work without a screen
  codeagent run - < task.md   take the prompt from a file
"""
_SCREEN = "chat"
_SAFE = "--safe"
_COLOR = "--color"
_WISHES = ("auto", "always", "never")
USAGE_ERROR = 2
_COMPLETING = "_ARGCOMPLETE"
_ESCAPE = "codeagent.escape"
INTERRUPTED = 130


class FoundCommand(NamedTuple):
    """A command, of the kernel or of an extension."""

    name: str
    about: str
    module: str
    extension: str = ""


class CommandModule(Protocol):
    """What the module of a command offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def main(self, args: argparse.Namespace, app: LocalApp) -> int | Coroutine[Any, Any, int]:
        """Return the exit code, or the work that ends with it. Raises CodeagentError."""


class _Actions(argparse._SubParsersAction):  # type: ignore[type-arg]  # the class has none at run time
    """The actions of a command; the help of each begins with its line in the list."""

    def add_parser(self, name: str, **options: Any) -> Any:
        about = options.get("help")  # an action that only programs call has none
        return super().add_parser(name, description=about and _sentence(about), **options)


class _Help(argparse.HelpFormatter):
    """Lists the actions of a command like options, without a line that repeats their names."""

    def _format_action(self, action: argparse.Action) -> str:
        if not isinstance(action, _Actions):
            return super()._format_action(action)
        return "".join(map(super()._format_action, self._iter_indented_subactions(action)))


class _Parser(argparse.ArgumentParser):
    """Reports a usage error in one line, and shows its help in colours on a terminal."""

    def __init__(self, **options: Any) -> None:
        own = (
            {"color": False} if sys.version_info >= (3, 14) else {}
        )  # Python's own colours differ from ours
        super().__init__(**{"allow_abbrev": False, "formatter_class": _Help, **own, **options})
        self.register("action", "parsers", _Actions)

    def add_subparsers(self, **options: Any) -> Any:
        actions = super().add_subparsers(**{"title": "actions", **options})
        self._action_groups.insert(0, self._action_groups.pop())
        return actions

    def print_help(self, file: Any = None) -> None:
        from codeagent.console.colour import has_colours, with_help_colours, write_styled

        stream, text = file or sys.stdout, self.format_help()
        write_styled(stream, with_help_colours(text) if has_colours(stream) else text)

    def error(self, message: str) -> NoReturn:
        from codeagent.console.colour import print_line

        wrong = message.partition("unrecognized arguments: ")[2].partition(" ")[0]
        if wrong.startswith("-"):
            options = self._option_string_actions.items()
            known = [word for word, option in options if option.help != argparse.SUPPRESS]
            message += _meant(wrong.partition("=")[0], known)
        help_at = "" if message.endswith("?") else f"; see {self.prog} --help"
        print_line(f"{self.prog}: {message}{help_at}", sys.stderr)
        self.exit(USAGE_ERROR)


class _ScreenParser(_Parser):
    """Lists the commands in its help, in front of the options. Options of extensions are added only
    if one may have been given, because that reads the manifests."""

    _extended = False

    def add_options_of_extensions(self) -> None:
        """Idempotent."""
        if self._extended:
            return
        self._extended = True
        from codeagent.commands.chat import add_options, every_extension  # only for an option

        add_options(self, every_extension())

    def format_help(self) -> str:
        """Return the help with the commands in front of the options; argparse puts them behind."""
        self.add_options_of_extensions()
        whole = super().format_help()
        formatter = self._get_formatter()
        formatter.start_section("commands")
        for each in commands():
            formatter.add_argument(
                argparse.Action([], each.name, metavar=each.name, help=each.about)
            )
        formatter.end_section()
        before, positional, after = whole.partition("positional arguments:")
        end = f"{_EXAMPLES}\ncodeagent COMMAND --help says more about each command.\n"
        return f"{before}{formatter.format_help()}\n{positional}{after}\n{end}"


def program() -> NoReturn:
    """Run the command line as the whole program, then end the process without tearing down every
    module.

    That took 25 ms. Threads are still joined, and `atexit` still calls what is registered: the
    first registered comes last, which is this. A tracer, such as coverage, may have registered
    earlier, so with one the end is the usual one.
    """
    codes: list[int] = []
    if sys.gettrace() is None:
        atexit.register(_leave, codes)
    codes.append(main())
    sys.exit(codes[0])


def _leave(codes: Sequence[int]) -> None:
    """End the process, unless the interpreter still has an error to report."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            return
    if codes:
        os._exit(codes[0])


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line in this process, and return its exit code."""
    if _COMPLETING in os.environ:
        _complete()
    _prepare_streams()
    try:
        code = _dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _silence_stdout()
        return 141
    except OSError as error:
        if error.filename is not None:
            return _say_bug(error)
        _silence_stdout()  # only a stream fails without a file's name
        return _complain(
            f"could not write ({error.strerror}), so what was printed is not complete", 1
        )
    except Exception as error:
        return _say_bug(error)


def _complete() -> None:
    """Answer a shell that completes a command line, and end the process."""
    from codeagent.commands.completion import complete  # only for a shell

    names = {each.name: each.about for each in commands()}
    complete(lambda name: build_parser(name) if name else build_screen_parser(), names, LocalApp())


def _dispatch(arguments: list[str]) -> int:
    if arguments[:1] == [_SAFE] and arguments[1:] and found(arguments[1]) is not None:
        arguments = [arguments[1], _SAFE, *arguments[2:]]
    if os.environ.get("NO_COLOR") == "":
        del os.environ["NO_COLOR"]  # even an empty one would make Textual drop all colours
    try:
        arguments = _without_color(arguments)
        if arguments[:1] and not arguments[0].startswith("-"):
            if (command := _begun_with(arguments)) is not None:
                rest = arguments[len(command.name.split()) :]
                parsed = build_parser(command.name).parse_args(rest)
                return _run(load(command.name), parsed, command.name)
            _refuse_unless_folder(build_screen_parser(), arguments[0])
        parser = build_screen_parser()
        args, unknown = parser.parse_known_args(arguments)
        if unknown:
            parser.add_options_of_extensions()
            args = parser.parse_args(arguments)
        return _run(load(_SCREEN), args)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else USAGE_ERROR
    except KeyboardInterrupt:
        return INTERRUPTED
    except ConfigError as error:
        return _complain(error, USAGE_ERROR)


def _without_color(arguments: list[str]) -> list[str]:
    """Apply `--color`, wherever it is, and return the other arguments. Raises ConfigError."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for at, word in enumerate(arguments[:end]):
        name, equals, value = word.partition("=")
        if name != _COLOR:
            continue
        value = value if equals else "".join(arguments[at + 1 : end][:1])
        if value not in _WISHES:
            raise ConfigError(f"{_COLOR} takes {', '.join(_WISHES)}, not {value[:40]!r}")
        from codeagent.console.colour import wish

        wish(value)
        return _without_color([*arguments[:at], *arguments[at + 1 + (not equals) :]])
    return arguments


def commands() -> list[FoundCommand]:
    """Return every command, the kernel's first."""
    return [
        *map(_of_kernel, COMMANDS),
        *(each for each in _of_extensions() if " " not in each.name),
    ]


def _of_extensions() -> Iterator[FoundCommand]:
    """Yield the commands of extensions, and what they add to other commands, such as `mcp serve`."""
    from codeagent.config.extensions import (
        all_extensions,  # only for a list, or a command of an extension
    )

    for extension in all_extensions().on:
        for each in extension.subcommands:
            yield FoundCommand(each.words, each.about, each.module, extension.name)


def found(name: str) -> FoundCommand | None:
    """Return the command of that name, or the action of an extension."""
    if name in COMMANDS:
        return _of_kernel(name)
    return next((command for command in _of_extensions() if command.name == name), None)


def _of_kernel(name: str) -> FoundCommand:
    return FoundCommand(name, COMMANDS[name], f"codeagent.commands.{name}")


def _begun_with(words: Sequence[str]) -> FoundCommand | None:
    """Return the command that the words begin with; if its extension is off, the action that
    another extension adds to it. Raises ConfigError if the user switched off what is meant."""
    if " " in words[0]:
        return None  # the name of a folder, although an action may have the same words
    command = found(words[0])
    if command is not None and not command.extension:
        return command
    from codeagent.commands.arguments import is_off, refuse_if_off  # only for extensions

    action = found(" ".join(words[:2]))
    if action is not None and (command is None or is_off(command.extension)):
        command = action
    if command is not None:
        refuse_if_off(command.extension, command.name)
    return command


def build_parser(name: str) -> argparse.ArgumentParser:
    """Make the parser for what follows the name of a command."""
    command = found(name)
    assert command is not None, name
    parser = _Parser(prog=f"codeagent {name}", description=_sentence(command.about))
    load(command.name).add_arguments(parser)
    if " " in name:  # an action, which is in the parser of its command otherwise
        parser.set_defaults(action=name.partition(" ")[2])
    return parser


def _sentence(about: str) -> str:
    return f"{about[0].upper()}{about[1:]}."


def build_screen_parser() -> _ScreenParser:
    """Make the parser for a command line without a command, which opens the screen; its help lists
    the commands."""
    parser = _ScreenParser(
        prog="codeagent",
        usage="codeagent [PATH] [options]\n       codeagent COMMAND ...",
        description="A terminal coding agent. Without a command it opens the chat screen.",
    )
    parser.add_argument("--version", action="version", version=f"codeagent {__version__}")
    parser.add_argument(
        _COLOR,
        choices=_WISHES,
        help="when to print colours and tables (default: auto, on a terminal); works with any command",
    )
    load(_SCREEN).add_arguments(parser)
    return parser


def _refuse_unless_folder(parser: argparse.ArgumentParser, word: str) -> None:
    if os.path.isdir(word):  # noqa: PTH112  # pathlib would be imported for this alone
        return
    hint = _meant(word, [each.name for each in commands()])
    hint = hint or '; a prompt goes to codeagent run "what to do"'
    parser.error(f"{word[:80]!r} is neither a command nor a folder{hint}")


def _meant(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean x or y?` for the most similar known words, or an empty text."""
    import difflib  # only for a mistyped word

    near = difflib.get_close_matches(word, known, n=2, cutoff=0.75)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def load(name: str) -> CommandModule:
    """Import the module of a command, or of the screen, which is `chat`."""
    command = None if name == _SCREEN else found(name)
    path = f"codeagent.commands.{name}" if command is None else command.module
    gc.disable()  # modules live as long as the program: looking through them again and again is useless
    try:
        module: Any = importlib.import_module(path)
    finally:
        gc.freeze()
        gc.enable()
    loaded: CommandModule = module
    return loaded


def _run(command: CommandModule, args: argparse.Namespace, name: str = "") -> int:
    try:
        work = command.main(args, LocalApp())
        if isinstance(work, int):
            return work
        import asyncio  # keeps --version and --help fast

        return asyncio.run(work)
    except (ConfigError, SessionNotFound) as error:
        return _complain(error, USAGE_ERROR, name)
    except CodeagentError as error:
        return _complain(error, 1, name)


def _complain(error: object, code: int, name: str = "") -> int:
    """Print an error and, on a terminal, where to look, unless the error says what to run."""
    from codeagent.console.colour import for_eyes, print_line

    print_line(f"codeagent: {error}", sys.stderr)
    if for_eyes(sys.stderr) and "codeagent " not in str(error):
        print_line(f"– see {' '.join(filter(None, ('codeagent', name)))} --help", sys.stderr)
    return code


def _say_bug(error: Exception) -> int:
    """Report a bug in one line; the traceback goes into a file."""
    from codeagent.config.local_environment import state_dir  # all of this is for a failure only
    from codeagent.core.redact import Redactor
    from codeagent.tui.crash import record_crash

    print(
        record_crash(error, state_dir(), session=None, redact=Redactor(os.environ).clean),
        file=sys.stderr,
    )
    return 1


def _prepare_streams() -> None:
    """Open every standard descriptor, let a stream write every character, and let none of them act
    on a terminal.

    That holds for a pipe too, which mostly ends at a terminal. Only an answer of `codeagent run` is
    exact there: it is written to the descriptor itself.

    The number of a closed descriptor would be given to the next file opened, perhaps the session
    log.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    codecs.register_error(_ESCAPE, _escaped)
    for name in ("stdout", "stderr"):
        if (stream := getattr(sys, name)) is None:
            stream = open(os.devnull, "w", encoding="utf-8", errors=_ESCAPE)  # noqa: PTH123, SIM115  # for as long as it runs
            setattr(sys, name, stream)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ESCAPE)
        if not isinstance(stream, VisibleStream):
            setattr(sys, name, VisibleStream(stream))


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Escape what an encoding lacks as JSON does: so JSON stays JSON on a Latin-1 terminal."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json_escape(error.object[error.start : error.end]), error.end


def _silence_stdout() -> None:
    """Let the interpreter flush standard output into nothing at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    program()
