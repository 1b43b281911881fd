"""`codeagent run`: works on one prompt until it is done, without a screen; tests can inject
acts."""

import argparse
import os
import re
import select
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from codeagent.commands.arguments import (
    add_flag,
    add_list,
    add_model_arguments,
    add_sandbox,
    amount,
    completed_by,
    count,
    duration,
    open_store,
    say,
    settings_of,
    workspace_of,
)
from codeagent.config.extensions import all_extensions
from codeagent.config.local_environment import LocalEnvironment, config_dir, user_config_file
from codeagent.config.sessions import Task
from codeagent.config.settings import Settings
from codeagent.core.acts import Act, Compact, FollowUp, Interrupt, RunGroup, RunRecipe, Steer, Stop
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.events import KnownEvent
from codeagent.core.extension import RunOption, resolved
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.redact import Redactor
from codeagent.core.runtime import AgentHandle, Session
from codeagent.core.sanitize import one_line, visible
from codeagent.headless import Headless, Output, Streams
from codeagent.session.fold import CHOICES, last_model

if TYPE_CHECKING:
    from codeagent.commands.ports import App

_FORM = lazy_regex(
    r"(?P<kind>steer|interrupt|follow-up|abort|compact)@(?P<point>tool|batch|turn):(?P<n>[1-9][0-9]{0,5})"
    r"(?:=(?P<text>.*))?",
    re.DOTALL,
)
_ACTS: dict[str, Callable[[str], Act]] = {
    "steer": Steer,
    "interrupt": Interrupt,
    "follow-up": FollowUp,
    "abort": Stop,
    "compact": Compact,
}
_WITHOUT_TEXT = {"abort": "interrupted", "compact": ""}
"""The text of acts for which none was given, if they do not need one."""
_EVENTS = {"tool": "tool.started", "batch": "batch.planned", "turn": "turn.started"}
_SILENCE = 3.0
"""Seconds after which a silent pipe is ignored, as in CI."""
_MOST_READ = 64 * 1024 * 1024
"""The most bytes of standard input."""
_HEAD, _TAIL = 32_000, 96_000
"""Characters kept of the beginning and the end of piped text; logs are most useful at the end."""


@dataclass(frozen=True)
class Injection:
    """One act of `--inject`, and the event that triggers it."""

    act: Act
    event: str
    """The type of the event it waits for."""
    number: int
    """The number of the event, from 1."""

    @classmethod
    def parse(cls, text: str) -> "Injection":
        """Raises ConfigError."""
        match = _FORM.fullmatch(text)
        if match is None or (match["kind"] not in ("abort", "compact") and not match["text"]):
            raise ConfigError(
                f"--inject {text!r}: write KIND@POINT:N=TEXT with steer, interrupt, follow-up, abort or compact "
                "and tool, batch or turn, as in steer@tool:1=look at the docs first"
            )
        act = _ACTS[match["kind"]](match["text"] or _WITHOUT_TEXT[match["kind"]])
        return cls(act, _EVENTS[match["point"]], int(match["n"]))


def injector(agent: AgentHandle, injections: Sequence[Injection]) -> Callable[[KnownEvent], None]:
    """Return an observer that acts while an event is being emitted, before anything else
    happens."""
    seen: Counter[str] = Counter()

    def observe(event: KnownEvent) -> None:
        seen[event.type] += 1
        for injection in injections:
            if (injection.event, injection.number) == (event.type, seen[event.type]):
                agent.do(injection.act)

    return observe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "prompt",
        metavar="PROMPT",
        nargs="?",
        help="what to do; piped text is added to it; - reads it from standard input; a scripted model needs no prompt",
    )
    limits = add_model_arguments(parser)
    for each in _options():
        repeated: dict[str, Any] = {"action": "append", "default": []} if each.many else {}
        option = add(f"--{each.name}", metavar=each.metavar, help=each.about, **repeated)
        if each.completes:
            completed_by(option, each.completes)
    add(
        "--output",
        choices=get_args(Output),
        default="text",
        help="text (default), json: one object at the end, jsonl: one event per line",
    )
    _add_session(parser)
    add(
        "--cwd",
        metavar="DIR",
        type=Path,
        help="the workspace (default: here, or the folder of a resumed session)",
    )
    add_list(
        parser,
        "--allow",
        "RULE",
        "never ask about these calls: tool or tool(pattern), as in 'bash(git status*)'; repeatable",
    )
    add_list(parser, "--deny", "RULE", "deny these calls; repeatable")
    add_flag(parser, "--yes", "approve everything; what is denied stays denied")
    add("--strategy", metavar="S", help="sequential, parallel (default) or batched:N")
    _add_limits(parser)
    add_sandbox(
        limits, "off runs commands on this machine and asks about each one (default: docker)"
    )
    add_flag(
        parser,
        "--trust-project",
        "for this run, use this project's tool files as they are now, Python tools on this machine, and its image",
    )
    add_flag(
        parser,
        "--wait-for-triggers",
        "end only once no trigger is left that the agent set, such as a timer; --max-seconds still ends the run",
    )
    add_flag(parser, "--step", "refused, because nobody could end a pause; use it with the screen")
    add_list(
        parser,
        "--inject",
        "KIND@POINT:N=TEXT",
        "for tests: steer, interrupt, follow-up, abort or compact at the Nth tool, batch or turn",
    )


def _add_session(parser: argparse.ArgumentParser) -> None:
    again = parser.add_mutually_exclusive_group()
    resume = again.add_argument(
        "--resume",
        metavar="ID",
        help="continue a session in its own folder; the beginning of its ID is enough",
    )
    again.add_argument(
        "--continue",
        dest="go_on",
        action="store_true",
        help="continue the most recent session of this folder",
    )

    completed_by(resume, "sessions")


def _add_limits(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--max-turns",
        metavar="N",
        type=count,
        help="number of model answers after which the run stops",
    )
    add(
        "--max-calls",
        metavar="N",
        type=count,
        help="number of tool calls after which the run stops",
    )
    add(
        "--max-tokens",
        metavar="N",
        type=count,
        help="input and output tokens at which no more requests are made",
    )
    add(
        "--max-seconds",
        metavar="S",
        type=duration,
        help="seconds after which the run stops, whatever it is doing",
    )
    add(
        "--max-concurrency",
        metavar="N",
        type=count,
        help="tool calls that run at the same time (default: 8)",
    )
    add("--timeout-per-call", metavar="S", type=duration, help="seconds one call may take")
    add(
        "--model-timeout",
        metavar="S",
        type=duration,
        help="seconds to wait for a silent model (default: 300)",
    )
    add("--budget", metavar="USD", type=amount, help="cost at which no more requests are made")


def main(args: argparse.Namespace, app: "App") -> Coroutine[Any, Any, int]:
    """Do everything that may block or fail before the event loop starts. Raises ConfigError."""
    if args.step:
        raise ConfigError(
            "--step pauses before every batch, and without a screen nobody could end the pauses; nothing was run: "
            "codeagent --step opens the screen with it"
        )
    given = [each for each in _options() if getattr(args, each.name)]
    others = len(given) > 1 or args.resume is not None or args.go_on
    if others and (why := next((each.alone for each in given if each.alone), "")):
        raise ConfigError(why)
    workspace = workspace_of(args.cwd or Path())
    if args.resume is not None and args.cwd is None:
        workspace = _folder_of_session(args.resume, workspace)
    settings = replace(settings_of(args, workspace), wait_for_triggers=args.wait_for_triggers)
    if args.yes:  # nothing is asked about, so commands run where their changes stay
        settings = replace(settings, sandbox=replace(settings.sandbox, approval="text"))
    _refuse_if_off(given, settings)
    resume = open_store().last(str(workspace.resolve())) if args.go_on else args.resume
    if settings.model is None and resume is not None:
        settings = _as_recorded(settings, resume)
    image = ""
    if args.trust_project:
        image = app.accepted_image(settings, workspace, config_dir())
    local = LocalEnvironment.of_user(
        workspace, trust_project=args.trust_project, accepted_image=image
    )
    injections = [Injection.parse(text) for text in args.inject]
    prompt, settings = _what_to_do(args, settings, local, app, given=given)
    require_model(settings)
    app.prepare()
    task = Task(prompt, local, settings, resume=resume, approve=args.yes, lists_changes=False)
    return print_work(app, task, local.redactor, output=args.output, injections=injections)


def _what_to_do(
    args: argparse.Namespace,
    settings: Settings,
    local: LocalEnvironment,
    app: "App",
    *,
    given: Sequence[RunOption],
) -> tuple[str | RunRecipe | RunGroup, Settings]:
    """Return the prompt with what is piped in, or the work of the options that were given, and the
    settings for it. Raises ConfigError."""
    for each in given:
        if each.work:
            chosen: tuple[RunRecipe | RunGroup, Settings]
            chosen = resolved(each.work)(args, settings, local, app)
            return chosen
    if given:
        raise ConfigError(given[0].idle)
    if args.prompt is None:
        return _scripted(settings), settings
    prompt: str = args.prompt
    require_model(settings)
    return read_prompt(prompt) + (read_piped() if prompt != "-" else ""), settings


def _refuse_if_off(given: Sequence[RunOption], settings: Settings) -> None:
    """Raise ConfigError if an option belongs to an extension that is switched off."""
    for extension in all_extensions().without(settings.extensions.off).off:
        for option in extension.run_options:
            if option in given:
                raise ConfigError(
                    f"--{option.name}: the extension {extension.name} is switched off; nothing was run"
                )


def _options() -> list[RunOption]:
    return [option for each in all_extensions().on for option in each.run_options]


async def print_work(
    app: "App",
    task: Task,
    redactor: Redactor,
    *,
    output: Output,
    injections: Sequence[Injection] = (),
) -> int:
    """Work on a task, and print it; returns the exit code. Raises CodeagentError, also if a
    required sandbox is missing."""
    front = _Printing(redactor, output, injections, approve=task.approve)
    try:
        await app.work(task, front)
        return front.code
    finally:
        await front.close()


class _Printing(Headless):
    """Prints a run, into which acts are injected."""

    def __init__(
        self, redactor: Redactor, output: Output, injections: Sequence[Injection], *, approve: bool
    ) -> None:
        super().__init__(Streams.standard(), redactor, output=output, approve=approve)
        self._injections = injections
        self.code = 1

    async def run(self, session: Session, prompt: str | RunRecipe | RunGroup) -> int:
        session.agent.observe(injector(session.agent, self._injections))
        self.code = await super().run(session, prompt)
        return self.code


def require_model(settings: Settings) -> None:
    """Raise ConfigError if no model is set, with the ways to set one."""
    if settings.model is None:
        raise ConfigError(
            'no model is set: give --model NAME, set CODEAGENT_MODEL, or write model = "NAME" into '
            f"{user_config_file()} (a hosted model such as anthropic/claude-sonnet-4-5 with its API key, or a local "
            "one such as ollama/qwen3); codeagent demo needs none"
        )


def _scripted(settings: Settings) -> str:
    """Return a prompt for a scripted model, which ignores it. Raises ConfigError for any other
    model."""
    if settings.model is not None and (
        settings.model == "demo" or settings.model.startswith("script:")
    ):
        return "Play the script."
    raise ConfigError(
        'PROMPT is missing: codeagent run "what to do"; - reads it from standard input'
    )


def _folder_of_session(session: str, here: Path) -> Path:
    """Return the folder of the session whose id begins so; reports it on standard error if it is
    not `here`.

    Raises SessionError.
    """
    store = open_store()
    found = store.find(session)
    folder = store.folder_of(found, here)
    if folder != here:
        say(f"session {found} belongs to {visible(str(folder))}: working there")
    return folder


def _as_recorded(settings: Settings, session: str) -> Settings:
    """Use the last model of the session, and report it on standard error. Raises SessionError."""
    store = open_store()
    found = store.find(session)
    last = last_model(store.read_only(found, CHOICES))
    if last is None:
        return settings
    model, _ = last
    say(f"codeagent: no model is set: session {found} continues with {one_line(model.name, 120)}")
    api_base = settings.api_base or model.api_base
    return replace(
        settings, model=model.name, api_base=api_base, thinking=settings.thinking or model.effort
    )


def read_prompt(argument: str) -> str:
    """Return the prompt, read from standard input for `-`. Raises ConfigError if it is empty."""
    prompt = argument
    if argument == "-":
        if sys.stdin is None:
            raise ConfigError(
                "standard input, which should contain the prompt, is closed; nothing was run"
            )
        try:
            prompt = _read_to_the_end().decode("utf-8", "replace")
        except OSError as error:
            raise ConfigError(
                f"standard input cannot be read ({error.strerror}); nothing was run"
            ) from error
    if not prompt.strip():
        raise ConfigError("the prompt is empty; nothing was run")
    return prompt


def read_piped() -> str:
    """Return the text that standard input adds to the prompt; empty for a terminal, closed input or
    a silent pipe.

    Reports on standard error what was added. Raises ConfigError if it is too long or not text.
    """
    try:
        if os.isatty(0):
            return ""
        if not _readable(_SILENCE):
            say(
                f"codeagent: standard input is open and sent nothing for {_SILENCE:g} s, so it was not read; "
                "- in place of the prompt waits for it"
            )
            return ""
        data = _read_to_the_end()
    except OSError:
        return ""  # a directory, or open for writing only: nothing was piped in
    if b"\0" in data:
        raise ConfigError(
            "standard input is not text (it contains NUL bytes); nothing was run: use < /dev/null to ignore it"
        )
    text = data.decode("utf-8", "replace").strip("\n")
    if not text.strip():
        return ""
    lines, left_out = text.count("\n") + 1, len(text) - _HEAD - _TAIL
    cut = f", without {left_out:,} characters of its middle" if left_out > 0 else ""
    say(
        f"codeagent: standard input was added to the prompt: {lines:,} line{'s' * (lines != 1)}{cut}"
    )
    if left_out > 0:
        text = f"{text[:_HEAD]}\n[… {left_out} characters left out …]\n{text[-_TAIL:]}"
    return f"\n\nStandard input:\n\n{text}"


def _read_to_the_end() -> bytes:
    """Read standard input to its end. Raises OSError, or ConfigError if it is too long."""
    data, told = bytearray(), os.isatty(0)
    while True:
        if not told and not _readable(_SILENCE):
            told = True
            say("codeagent: reading standard input until it ends …")
        try:
            piece = os.read(0, 1 << 16)
        except BlockingIOError:
            _readable(None)
            continue
        data += piece
        if len(data) > _MOST_READ:
            raise ConfigError(
                f"standard input is longer than {_MOST_READ >> 20} MiB; nothing was run: pipe in part of it, as tail "
                "-c 100000 gives"
            )
        if not piece:
            return bytes(data)


def _readable(seconds: float | None) -> bool:
    """Return whether standard input can be read at once, or within `seconds`."""
    return bool(select.select([0], [], [], seconds)[0])
